"""`Query.run`: all windows of a finite table. Rows are sorted by key and time; each definition is then one pass."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays.results import to_arrow
from muntin.arrays.runner import windows_of_rows
from muntin.columns import NAT, Column, pick, select
from muntin.errors import ColumnTypeError, InvalidArgumentError, OutOfOrderError
from muntin.keys.table import key_numbers
from muntin.query.query import Query
from muntin.tables.finite import Found, SortedRows, find
from muntin.types import INT64, Array, ColumnType, logical_array
from muntin.windows.advancing import Delta
from muntin.windows.base import Measure, Window

_LENGTHS = ("range", "every", "gap")
"""What windows call their lengths in time."""


def run(query: Query, table: Any) -> pa.Table:
    """Return every window of the table that holds a row."""
    if query.time is None:
        raise InvalidArgumentError("the query has no time column, so that only a stream can tell when rows come")
    data = as_table(table)
    time = time_column(data, query.time)
    windows = [definition.resolve(time.type) for definition in query.windows]
    if query.ordered:
        require_order(time.values.astype(np.int64), query.time, after=-(2**63))
    require_room(time, query.time, reach_of(windows))
    for name in query.columns:
        pick(data, name, data.column_names)  # refused by name, before any work is done
    data = _with_one_zero(data, query.key)
    codes, keys = key_numbers([pick(data, name, data.column_names) for name in query.key], data.num_rows)
    order = np.lexsort((time.values, codes)) if keys > 1 or _descends(time.values) else np.arange(data.num_rows)
    sorted_data = data.take(pa.array(order)) if len(order) and not _is_range(order) else data
    rows = SortedRows(
        times=time.values[order].astype(np.int64),
        ends=np.searchsorted(codes[order], np.arange(keys), "right").astype(np.int64),
        arrival=order,
        columns=select(sorted_data, query.columns),
        time_type=time.type,
        partial=query.partial,
        emit_empty=query.emit_empty,
    )
    tables = [answers(query, i, find(each, rows), rows, sorted_data) for i, each in enumerate(windows)]
    return pa.concat_tables(tables, promote_options="default")  # of lists that are all null nobody knows the type


def _with_one_zero(data: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with -0.0 in a key as 0.0: they are one key."""
    for name in names:
        column = pick(data, name, data.column_names)
        if pa.types.is_floating(column.type):
            zero = pa.scalar(0.0).cast(column.type)
            data = data.set_column(data.column_names.index(name), name, pc.add(column, zero))
    return data


def as_table(table: Any) -> pa.Table:
    """Return rows of any kind (Arrow, pandas, a mapping of columns) as an Arrow table."""
    pandas = sys.modules.get("pandas")
    try:
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        if pandas is not None and isinstance(table, pandas.DataFrame):
            return pa.Table.from_pandas(table, preserve_index=False).combine_chunks()
        if isinstance(table, Mapping):
            return pa.table(dict(table))
        if isinstance(table, pa.Table) or hasattr(table, "__arrow_c_stream__"):
            return pa.table(table).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"these columns make no table: {error}") from error
    raise InvalidArgumentError(f"a table is needed: Arrow, pandas or a dict of columns; got a {type(table).__name__}")


def reach_of(windows: Iterable[Window]) -> int:
    """Return how far from a row's time a window of it can begin or end, at most."""
    lengths = [getattr(each, part, 0) for each in windows if each.measure is not Measure.DELTA for part in _LENGTHS]
    return 2 * max((length for length in lengths if isinstance(length, int)), default=0)


def require_room(time: Column, name: str, reach: int) -> None:
    """Refuse times so far out that a window of theirs would reach beyond what int64 can hold."""
    if len(time.values):
        low, high = int(time.values.min()), int(time.values.max())
        if low - reach < -(2**63) or high + reach >= 2**63:
            raise InvalidArgumentError(
                f"the time column {name!r} goes from {low} to {high}; windows there reach beyond what int64 can hold"
            )


def require_order(times: Array, name: str | None, after: int) -> None:
    """Refuse times that go back, where it was promised that they do not."""
    before = np.concatenate(([after], times[:-1]))
    back = np.flatnonzero(times < before)
    if len(back):
        row = int(back[0])
        raise OutOfOrderError(
            f"the time column {name!r} goes back in row {row}, from {before[row]} to {times[row]}; the query promises "
            "rows in order, with ordered=True: sort them, or leave that out"
        )


def time_column(table: pa.Table, name: str) -> Column:
    """Return the column of the times; refuse nulls and what is no time."""
    column = select(table, (name,))[name]
    if column.type.family not in ("integer", "temporal"):
        raise ColumnTypeError(
            f"the time column {name!r} holds {column.type}; it must hold integers, dates or timestamps"
        )
    missing = None if column.valid is None else int(np.argmin(column.valid))
    if missing is None and column.type.family == "temporal" and len(column.values) and column.values.min() == NAT:
        missing = int(np.argmin(column.values))
    if missing is not None:
        raise InvalidArgumentError(f"the time column {name!r} is null in row {missing}; every row needs a time")
    if column.values.dtype == np.uint64 and len(column.values) and column.values.max() >= 2**63:
        raise InvalidArgumentError(f"the time column {name!r} holds {column.values.max()}, which does not fit int64")
    return Column(column.values, None, INT64 if column.type.family == "integer" else column.type)


def answers(query: Query, window_id: int, found: Found, rows: SortedRows, table: pa.Table) -> pa.Table:
    """Return the windows of one definition that were found among rows; `table` holds the same rows."""
    data = dict(rows.columns)
    times = rows.times
    if found.members is not None:
        data = {name: column.take(found.members) for name, column in data.items()}
        times = times[found.members]
    raw = windows_of_rows(data, times, rows.time_type, found.first, found.last, query.aggregates)
    keys = found.keys if found.keys is not None else np.searchsorted(rows.ends, _first_rows(found), "right")
    columns = {name: table[name].take(pa.array(rows.begins[keys])) for name in query.key}
    count = len(found.first)
    columns["window"] = _window_struct(query, found, rows, count)
    columns["window_id"] = pa.array(np.full(count, window_id, np.int64))
    columns |= {name: to_arrow(each) for name, each in raw.items()}
    columns["revision"] = pa.array(np.zeros(count, np.int64))
    columns["retracted"] = pa.array(np.zeros(count, np.bool_))
    return pa.table(columns)


def _first_rows(found: Found) -> Array:
    return found.first if found.members is None else found.members[found.first]


def _window_struct(query: Query, found: Found, rows: SortedRows, count: int) -> pa.StructArray:
    """Return the windows: start and end, and what else the query's windows have."""
    fields = {"start": _times(found.start, rows.time_type), "end": _times(found.end, rows.time_type)}
    if any(each.measure in (Measure.ROWS, Measure.MULTI) for each in query.windows):
        fields |= _bounds(("from_row", "to_row"), found.rows, pa.int64(), count)
    if any(each.measure is Measure.DELTA for each in query.windows):
        fields |= _bounds(("from_value", "to_value"), found.values, _delta_type(query, rows), count)
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def _bounds(
    names: tuple[str, str], bounds: tuple[Array, Array] | None, kind: pa.DataType, count: int
) -> dict[str, Any]:
    if bounds is None:
        return {name: pa.nulls(count, kind) for name in names}
    return {name: pa.array(each).cast(kind) for name, each in zip(names, bounds, strict=True)}


def _delta_type(query: Query, rows: SortedRows) -> pa.DataType:
    """Return integers where all columns and steps are: floats otherwise."""
    whole = all(
        rows.columns[each.column].type.family == "integer"
        and all(isinstance(step, int) for step in (each.range, each.every, each.offset))
        for each in query.windows
        if isinstance(each, Delta)
    )
    return pa.int64() if whole else pa.float64()


def _times(values: Array, kind: ColumnType) -> pa.Array:
    return logical_array(values.astype(kind.physical), None, kind)


def _descends(times: Array) -> bool:
    return bool((times[1:] < times[:-1]).any())


def _is_range(order: Array) -> bool:
    return bool((order == np.arange(len(order))).all())
