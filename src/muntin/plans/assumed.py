"""The types of a query's columns: as a schema has them, or as they are likely to be where there is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.aggregations.binding import bind
from muntin.columns import pick, select
from muntin.errors import InvalidArgumentError, MuntinError
from muntin.query.query import ProcessingTime, Query
from muntin.tables.run import as_table, time_column
from muntin.types import INT64, ColumnType, column_type
from muntin.windows.base import Measure, Rows, sized, unitless
from muntin.windows.programmed import Programmed
from muntin.windows.punctuation import Punctuated

CLOCK_TYPE = column_type(pa.timestamp("us"))
"""The type of the times of rows that get the clock's."""
_LIKELY = (pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.timestamp("us"))
"""What a column that nothing is known of may hold, the likeliest first."""
_DURATIONS = ("range", "every", "gap", "offset")


@dataclass(frozen=True)
class Types:
    """The types of the columns that a query reads, and which of them nobody has said."""

    columns: Mapping[str, ColumnType]
    time: ColumnType
    assumed: Mapping[str, str]


def types_of(query: Query, schema: Any) -> Types:
    """Return the types of the columns: of a schema, a table or a mapping of names to types; likely ones without it."""
    if schema is None:
        return _likely(query)
    empty = _empty_table(schema)
    columns = {name: column.type for name, column in select(empty, query.columns).items()}
    for name in query.key:
        pick(empty, name, empty.column_names)
    time = CLOCK_TYPE if query.time is None else time_column(empty, query.time).type
    return Types(columns, time, {})


def _empty_table(schema: Any) -> pa.Table:
    if isinstance(schema, pa.Schema):
        return schema.empty_table()
    if isinstance(schema, Mapping) and all(isinstance(each, pa.DataType) for each in schema.values()):
        return pa.schema(dict(schema)).empty_table()
    try:
        return as_table(schema)[:0]
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"schema is a {type(schema).__name__}; give an Arrow schema, a mapping of names to Arrow types, or a table"
        ) from error


def _likely(query: Query) -> Types:
    time = CLOCK_TYPE if query.time is None else _likely_time(query)
    columns: dict[str, ColumnType] = {}
    for each in query.windows:
        kind = pa.bool_() if isinstance(each, Punctuated) else pa.float64()
        columns |= dict.fromkeys(each.columns, column_type(kind))
    for name, aggregation in query.aggregates.items():
        for kind in _LIKELY:
            tried = {column: columns.get(column, column_type(kind)) for column in aggregation.columns}
            try:
                bind({name: aggregation}, tried, time=time)
            except MuntinError:
                continue
            columns |= tried
            break
        else:
            raise InvalidArgumentError(f"what {aggregation} reads is not known: give schema=, the types of the columns")
    assumed = {} if query.time is None else {query.time: str(time)}
    return Types(columns, time, assumed | {name: str(columns[name]) for name in query.columns})


def _likely_time(query: Query) -> ColumnType:
    """Return integers where no duration has a unit; else timestamps, as fine as the durations need."""
    sizes = [sized(each, "a duration") for each in _durations(query) if _has_unit(each)]
    if not sizes:
        return INT64
    return CLOCK_TYPE if all(size % 1000 == 0 for size in sizes) else column_type(pa.timestamp("ns"))


def _durations(query: Query) -> Iterator[Any]:
    yield from (query.watermark, query.allowed_lateness, query.idle_timeout)
    early = query.emit_early
    yield early.duration if isinstance(early, ProcessingTime) else early
    for each in query.windows:
        if each.measure in (Measure.TIME, Measure.MULTI):
            yield from (getattr(each, name, None) for name in _DURATIONS)
        if isinstance(each, Programmed):
            yield from each.policy.spans.values()


def _has_unit(duration: Any) -> bool:
    """Say whether a duration is more than a number, so that times must be more than integers."""
    return duration is not None and not isinstance(duration, Rows) and not unitless(duration)
