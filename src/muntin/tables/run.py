"""`Query.run`: all windows of a finite table. Sorts rows by key and time; each definition is then one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.arrays.results import to_arrow
from muntin.arrays.runner import ArrayRun, alike, run_of_rows
from muntin.columns import NAT, Column, column_of, extent, select
from muntin.errors import InvalidArgumentError, OutOfOrderError, UnsupportedOperationError
from muntin.kernels.tiers import working_on
from muntin.keys.order import by_key_and_time, placed, row_of_each
from muntin.keys.table import key_numbers
from muntin.memory import room
from muntin.notebooks import Progress
from muntin.query.computing import computed_rows, without_expressions
from muntin.query.plan import Plan, require_time_column, resolve, time_type
from muntin.query.query import Query
from muntin.tables.answers import Answers, AnswerTables, TakeKeys
from muntin.tables.changelog import without_deletions
from muntin.tables.pieces import Piece, pieces_of, worth_it
from muntin.tabular import kind_of, opened
from muntin.threads import in_threads, require_threads, shares
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import Arrival, Found, SortedRows


def run(query: Query, table: Any, threads: int = 1) -> Any:
    """Return every window of an opened table that holds a row, as a table of the same kind."""
    require_threads(threads)
    kind = kind_of(table)
    data = read_needed(query, table)
    shown = Progress(f"{data.num_rows:,} rows, {len(query.windows)} kinds of windows", len(query.windows) + 1)
    with working_on(data.num_rows), shown as progress:
        query, stay = stays_of(without_expressions(query), data, threads)
        data = data if stay is None else data.take(pa.array(stay))
        return kind.write(_run(query, data, progress, worth_it(data.num_rows, threads)))


def _run(query: Query, data: pa.Table, progress: Progress, threads: int) -> pa.Table:
    plan = resolve(query, data.schema, finite=True)
    data = _with_one_zero(data, query.key)
    codes, keys = key_numbers([data[name] for name in query.key], data.num_rows, threads)
    places, rows = sorted_rows(query, plan, data, codes, keys, threads)
    first = rows.begins if places is None else row_of_each(codes, keys)
    found = []
    for i in plan.windows:
        progress.step()
        found += _answered(plan, i, rows, threads)
    return AnswerTables(plan).table(found, take_from(query.key, data, first), threads)


def _answered(plan: Plan, window_id: int, rows: SortedRows, threads: int) -> list[Answers]:
    """Return the windows of one definition in pieces, one per thread."""
    window = plan.windows[window_id]
    pieces = pieces_of(rows, window, threads)

    def find(piece: Piece) -> tuple[Found, SortedRows, ArrayRun]:
        found, mine = piece.find(window)
        prepared = run_of_found(found, mine)
        if len(pieces) > 1:
            prepared.look_for_nan(plan.aggregates)
        return found, mine, prepared

    # A kind that cannot be cut may call a user function, which must not run in two threads at once.
    finding = in_threads([partial(find, piece) for piece in pieces], threads if window.cuttable else 1)
    runs = alike([each for _, _, each in finding])

    def answer(piece: Piece, found: Found, mine: SortedRows, prepared: ArrayRun) -> Answers:
        return answers(plan, window_id, found, mine, prepared, piece.first_key)

    todo = zip(pieces, finding, runs, strict=True)
    tasks = [partial(answer, piece, found, mine, prepared) for piece, (found, mine, _), prepared in todo]
    return in_threads(tasks, threads)


def require_time(query: Query) -> None:
    """Reject a query whose rows get the clock's time."""
    if query.time is None:
        raise InvalidArgumentError("the query has no time column, so that only a stream can tell when rows come")


def opened_rows(query: Query, table: Any) -> Any:
    """Return a table to which a query is put, opened (see `tabular.opened`); no rows at all have the columns needed."""
    require_time(query)
    _require_local(table)
    return opened(table, query.inputs)


def read_needed(query: Query, table: Any) -> pa.Table:
    """Return the columns of an opened table that a query reads; reject a table that lacks some. O(rows)."""
    return read_rows(query, table)[0]


def read_rows(query: Query, table: Any) -> tuple[pa.Table, Array | None]:
    """Return the same, of the rows that the query's condition holds for; and their numbers, None for all. O(rows)."""
    kind = kind_of(table)
    if query.time not in query.expressions:
        require_time_column(query, kind.names(table))
    data, places = computed_rows(query, kind.read(table, query.inputs))
    untyped = not data.num_rows and pa.types.is_floating(data.schema.field(str(query.time)).type)
    return (_without_types(data) if untyped else data), places


def _without_types(data: pa.Table) -> pa.Table:
    """Return no rows with nulls for floats: NumPy and pandas take an empty list for these, even as times."""
    kinds = (pa.null() if pa.types.is_floating(field.type) else field.type for field in data.schema)
    return pa.table({name: pa.nulls(0, kind) for name, kind in zip(data.column_names, kinds, strict=True)})


def stays_of(query: Query, data: pa.Table, threads: int = 1) -> tuple[Query, Array | None]:
    """Return a query over the rows that no deletion takes back, and which these are, None for all. O(n log n)."""
    if query.changes is not None:
        time_column(data, str(query.time))  # a row without a time is rejected, taken back or not
    return without_deletions(query, data, threads)


def _require_local(table: Any) -> None:
    if hasattr(table, "sparkSession"):
        raise UnsupportedOperationError(
            "run takes finite tables of this process: Arrow, pandas, polars, a dict of columns or a list of rows; "
            "for a DataFrame of Spark use Query.spark(frame)"
        )


def sorted_rows(
    query: Query, plan: Plan, data: pa.Table, codes: Array, keys: int, threads: int = 1
) -> tuple[Array | None, SortedRows]:
    """Return the place of each row of a table among the sorted ones, None if already sorted; and these. O(n log n)."""
    name = str(query.time)
    time = time_column(data, name)
    if query.ordered:
        require_order(time.values.astype(np.int64), name, after=-(2**63))
    require_room(time, name, reach_of(plan.windows.values()))
    columns = select(data, query.reads)
    for each in plan.windows.values():
        each.require_values(columns)
    places, ends = by_key_and_time(codes, keys, time.values, threads)
    if places is not None:
        time = placed(time, places, threads)
        columns = {name: placed(column, places, threads) for name, column in columns.items()}
    rows = SortedRows(
        times=_own_times(time.values, threads) if places is None else time.values.astype(np.int64, copy=False),
        ends=ends,
        arrival=range(data.num_rows) if places is None else Arrival(places),
        columns=columns,
        time_type=plan.time_type,
        partial=query.partial,
        emit_empty=query.emit_empty,
    )
    return places, rows


def _own_times(times: Array, threads: int) -> Array:
    """Return a copy of times, for kernels compiled for writable arrays. O(n)."""
    copy = room(len(times), np.dtype(np.int64))
    in_threads([partial(np.copyto, copy[a:b], times[a:b]) for a, b in shares(0, len(times), threads)], threads)
    return copy


def _with_one_zero(data: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with -0.0 in a key replaced by 0.0: they are one key."""
    for name in names:
        column = column_of(data, name)
        if pa.types.is_floating(column.type):
            wide = column.cast(pa.float32()) if pa.types.is_float16(column.type) else column  # Arrow adds no halves
            one = pc.add(wide, pa.scalar(0.0).cast(wide.type)).cast(column.type)
            data = data.set_column(data.column_names.index(name), name, one)
    return data


def reach_of(windows: Iterable[Window]) -> int:
    """Return the maximum distance from a row's time to the start or end of a window that holds it."""
    return max((each.reach for each in windows), default=0)


def require_room(time: Column, name: str, reach: int) -> None:
    """Reject times so far out that one of their windows would overflow int64."""
    if len(time.values):
        low, high = extent(time.values)
        reach = max(reach, 1)  # the least and the greatest integer stand for before and after all times
        if low - reach < -(2**63) or high + reach >= 2**63:
            raise InvalidArgumentError(
                f"the time column {name!r} goes from {low} to {high}; windows there reach beyond what int64 can hold"
            )


def require_order(times: Array, name: str | None, after: int) -> None:
    """Reject times that go back although they are promised not to."""
    before = np.concatenate(([after], times[:-1]))
    back = np.flatnonzero(times < before)
    if len(back):
        row = int(back[0])
        raise OutOfOrderError(
            f"the time column {name!r} goes back in row {row}, from {before[row]} to {times[row]}; the query promises "
            "rows in order, with ordered=True: sort them, or leave that out"
        )


def time_column(table: pa.Table, name: str) -> Column:
    """Return the time column; reject nulls and values that are not times."""
    return as_times(select(table, (name,))[name], name)


def as_times(column: Column, name: str) -> Column:
    """Return a column as the time column; reject nulls and values that are not times."""
    if column.valid is not None and not column.valid.all():
        raise _no_time(name, column.valid)
    if not len(column.values) and column.type.family not in ("integer", "temporal"):
        return column  # without a row there need not be a type
    kind = time_type(column.type, name)
    if len(column.values):
        low, high = extent(column.values)
        if low == NAT and kind.family == "temporal":
            raise _no_time(name, column.values)
        if high >= 2**63:
            raise InvalidArgumentError(f"the time column {name!r} holds {high}, which does not fit int64")
    return column if column.type is kind else Column(column.values, None, kind)


def _no_time(name: str, values: Array) -> InvalidArgumentError:
    """Return the error for a null time, at the least value or mask entry."""
    row = int(np.argmin(values))
    return InvalidArgumentError(f"the time column {name!r} is null in row {row}; every row needs a time")


def run_of_found(found: Found, rows: SortedRows) -> ArrayRun:
    """Return how to run the windows found among rows. O(rows and windows)."""
    data, times = dict(rows.columns), rows.times
    if found.members is not None:
        data = {name: column.take(found.members) for name, column in data.items()}
        times = times[found.members]
    return run_of_rows(data, times, rows.time_type, found.first, found.last)


def answers(
    plan: Plan, window_id: int, found: Found, rows: SortedRows, prepared: ArrayRun | None = None, first_key: int = 0
) -> Answers:
    """Return the aggregated windows of one definition found among rows. Keys are numbered from `first_key` on."""
    raw = (prepared or run_of_found(found, rows)).all(plan.aggregates)
    count = len(found.first)
    return Answers(
        keys=found.keys_among(rows) + first_key,
        window_ids=np.full(count, window_id, np.int64),
        start=found.start,
        end=found.end,
        aggregates={name: to_arrow(each, found.end) for name, each in raw.items()},
        revision=np.zeros(count, np.int64),
        retracted=np.zeros(count, np.bool_),
        rows=found.rows,
        values=found.values,
        at=found.at if plan.windows[window_id].tells_at else None,
    )


def take_from(names: Sequence[str], table: pa.Table, first: Array) -> TakeKeys:
    """Return a function from key numbers to key columns; `first` is a row of each key."""

    def take(numbers: Array) -> list[pa.ChunkedArray]:
        rows = pa.array(first[numbers])
        return [table[name].take(rows) for name in names]

    return take
