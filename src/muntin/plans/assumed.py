"""The types of a query's columns: as a schema has them, or as they are likely to be where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from muntin.aggregations.binding import bind
from muntin.batches import BatchSource
from muntin.errors import InvalidArgumentError, MuntinError
from muntin.query.computing import computed_schema
from muntin.query.plan import CLOCK_TYPE, Types
from muntin.query.query import Query
from muntin.query.timing import likely_time
from muntin.tabular import as_table, opened
from muntin.types import ColumnType, column_type

_LIKELY = (pa.float64(), pa.int64(), pa.bool_(), pa.string(), pa.timestamp("us"))
"""What a column that nothing is known of may hold, the likeliest first."""


def types_of(query: Query, schema: Any) -> tuple[Types, dict[str, str]]:
    """Return the types of the columns, and those that were assumed, by name.

    Of a schema, a table or a mapping of names to types; likely ones without it.
    """
    return _likely(query) if schema is None else (Types.of(query, computed_schema(query, _arrow_schema(schema))), {})


def _arrow_schema(schema: Any) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if isinstance(schema, Mapping) and all(isinstance(each, pa.DataType) for each in schema.values()):
        return pa.schema(dict(schema))
    try:
        found = opened(schema)
        return found.schema if isinstance(found, BatchSource) else as_table(found).schema
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"schema is a {type(schema).__name__}; give an Arrow schema, a mapping of names to Arrow types, or a table"
        ) from error


def _likely(query: Query) -> tuple[Types, dict[str, str]]:
    time = CLOCK_TYPE if query.time is None else likely_time(query)
    columns: dict[str, ColumnType] = {}
    for each in query.windows:
        columns |= {name: column_type(kind) for name, kind in each.likely_types().items()}
    for name, aggregation in query.aggregates.items():
        for kind in _LIKELY:
            tried = {column: columns.get(column, column_type(kind)) for column in aggregation.columns}
            tried |= {} if aggregation.where is None else {aggregation.where: column_type(pa.bool_())}
            try:
                bind({name: aggregation}, tried, time=time)
            except MuntinError:
                continue
            columns |= tried
            break
        else:
            raise InvalidArgumentError(f"what {aggregation} reads is not known: give schema=, the types of the columns")
    assumed = {} if query.time is None else {query.time: str(time)}
    # No strategy depends on the types of keys.
    types = Types(columns, dict.fromkeys(query.key, pa.string()), time)
    return types, assumed | {name: str(columns[name]) for name in query.reads}
