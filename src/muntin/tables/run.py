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
from muntin.columns import NAT, Column, column_of, extent, select
from muntin.errors import InvalidArgumentError, OutOfOrderError
from muntin.keys.table import key_numbers
from muntin.query.plan import Plan, resolve, time_type
from muntin.query.query import Query
from muntin.tables.answers import Answers, AnswerTables, TakeKeys
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import Found, SortedRows


def run(query: Query, table: Any) -> pa.Table:
    """Return every window of the table that holds a row."""
    if query.time is None:
        raise InvalidArgumentError("the query has no time column, so that only a stream can tell when rows come")
    data = as_table(table)
    plan = resolve(query, data.schema, finite=True)
    time = time_column(data, query.time)
    if query.ordered:
        require_order(time.values.astype(np.int64), query.time, after=-(2**63))
    require_room(time, query.time, reach_of(plan.windows.values()))
    data = _with_one_zero(data, query.key)
    codes, keys = key_numbers([data[name] for name in query.key], data.num_rows)
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
    found = [answers(plan, i, each.find(rows), rows) for i, each in plan.windows.items()]
    return AnswerTables(plan).table(found, keys_of(query.key, sorted_data, rows))


def _with_one_zero(data: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with -0.0 in a key as 0.0: they are one key."""
    for name in names:
        column = column_of(data, name)
        if pa.types.is_floating(column.type):
            zero = pa.scalar(0.0).cast(column.type)
            data = data.set_column(data.column_names.index(name), name, pc.add(column, zero))
    return data


def as_table(table: Any) -> pa.Table:
    """Return rows of any kind (Arrow, pandas, a mapping of columns) as an Arrow table."""
    pandas = sys.modules.get("pandas")
    try:
        if isinstance(table, pa.Table):
            return table.combine_chunks()
        if isinstance(table, pa.RecordBatch):
            return pa.Table.from_batches([table])
        if pandas is not None and isinstance(table, pandas.DataFrame):
            return pa.Table.from_pandas(table, preserve_index=False).combine_chunks()
        if isinstance(table, Mapping):
            return pa.table(dict(table))
        if hasattr(table, "__arrow_c_stream__"):
            return pa.table(table).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidArgumentError(f"these columns make no table: {error}") from error
    raise InvalidArgumentError(f"a table is needed: Arrow, pandas or a dict of columns; got a {type(table).__name__}")


def reach_of(windows: Iterable[Window]) -> int:
    """Return how far from a row's time a window of it can begin or end, at most."""
    return max((each.reach for each in windows), default=0)


def require_room(time: Column, name: str, reach: int) -> None:
    """Refuse times so far out that a window of theirs would reach beyond what int64 can hold."""
    if len(time.values):
        low, high = extent(time.values)
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
    return as_times(select(table, (name,))[name], name)


def as_times(column: Column, name: str) -> Column:
    """Return a column as that of the times; refuse nulls and what is no time."""
    kind = time_type(column.type, name)
    missing = None if column.valid is None else int(np.argmin(column.valid))
    if len(column.values):
        low, high = extent(column.values)
        if missing is None and low == NAT and column.type.family == "temporal":
            missing = int(np.argmin(column.values))
        if missing is None and high >= 2**63:
            raise InvalidArgumentError(f"the time column {name!r} holds {high}, which does not fit int64")
    if missing is not None:
        raise InvalidArgumentError(f"the time column {name!r} is null in row {missing}; every row needs a time")
    return column if column.type is kind else Column(column.values, None, kind)


def answers(plan: Plan, window_id: int, found: Found, rows: SortedRows) -> Answers:
    """Return the windows of one definition that were found among rows, aggregated."""
    data = dict(rows.columns)
    times = rows.times
    if found.members is not None:
        data = {name: column.take(found.members) for name, column in data.items()}
        times = times[found.members]
    raw = windows_of_rows(data, times, rows.time_type, found.first, found.last, plan.aggregates)
    count = len(found.first)
    return Answers(
        keys=found.keys_among(rows),
        window_ids=np.full(count, window_id, np.int64),
        start=found.start,
        end=found.end,
        aggregates={name: to_arrow(each) for name, each in raw.items()},
        revision=np.zeros(count, np.int64),
        retracted=np.zeros(count, np.bool_),
        rows=found.rows,
        values=found.values,
        at=found.at if plan.windows[window_id].tells_at else None,
    )


def keys_of(names: Sequence[str], table: pa.Table, rows: SortedRows) -> TakeKeys:
    """Return what gives the key columns of key numbers; `table` holds the same rows as `rows`."""
    begins = rows.begins

    def take(numbers: Array) -> list[pa.ChunkedArray]:
        first = pa.array(begins[numbers])
        return [table[name].take(first) for name in names]

    return take


def _descends(times: Array) -> bool:
    return bool((times[1:] < times[:-1]).any())


def _is_range(order: Array) -> bool:
    return bool((order == np.arange(len(order))).all())
