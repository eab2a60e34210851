"""`Query.over`: the answers of frames at each row of a table, or at points, as columns beside them.

Rows and points are sorted by key and time, once for all windows; a frame is then a range of rows, found in one pass
over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays.results import Raw, finished, permuted, to_arrow
from muntin.arrays.runner import windows_of_rows
from muntin.columns import require_columns, row_count
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.tiers import working_on
from muntin.keys.order import by_key_and_time, placed
from muntin.keys.table import KeyTable
from muntin.notebooks import Progress
from muntin.query.computing import without_expressions
from muntin.query.plan import Plan, resolve
from muntin.query.query import Query
from muntin.tables.answers import cast
from muntin.tables.run import reach_of, read_rows, require_room, require_time, sorted_rows, stays_of, time_column
from muntin.tabular import kind_of, opened, whole
from muntin.types import Array, column_type, is_zoned
from muntin.windows.base import Window
from muntin.windows.found import Points, SortedRows


def over(query: Query, table: Any, at: Any = None) -> Any:
    """Return the rows of a table, or points, each with the answers of a query's frames there."""
    require_time(query)
    require_frames(query)
    table = opened(table, query.inputs) if at is not None else whole(table, query.inputs)
    at = None if at is None else whole(at, [*query.key, str(query.time)])
    rows = max(row_count(each) if hasattr(each, "__len__") else 1 for each in (table, at))
    with working_on(rows), Progress(f"{rows:,} rows, {len(query.windows)} kinds of frames"):
        return over_tables(query, table, at)


def over_tables(query: Query, table: Any, at: Any = None) -> Any:
    """Return rows or points with the answers of frames there, for a validated query."""
    asked, kind = table if at is None else at, kind_of(table if at is None else at)
    names = column_names(query, kind.names(asked))
    data, kept = read_rows(query, table)
    if at is None and kept is not None:
        asked = kind.take(asked, kept)
    query, stay = stays_of(without_expressions(query), data)
    if stay is not None:
        data = data.take(pa.array(stay))
        asked = kind.take(asked, stay) if at is None else asked
    plan = resolve(query, data.schema, finite=True)
    keys = KeyTable(list(plan.key_types.values()))
    codes = keys.numbers([data[name] for name in query.key], data.num_rows)
    if at is None:
        places, rows = sorted_rows(query, plan, data, codes, len(keys))
        points = Points(rows.times, rows.ends)
    else:
        types = {**plan.key_types, str(query.time): plan.time_type.logical}
        read = as_rows_have_it(kind.read(asked, list(types)), types)
        point_codes = keys.numbers([read[name] for name in query.key], read.num_rows)
        _, rows = sorted_rows(query, plan, data, codes, len(keys))
        places, points = _sorted_points(query, plan, read, point_codes, len(keys))
    columns = _columns(plan, rows, points, places, of_rows=at is None)
    return kind.beside(asked, dict(zip(names, columns, strict=True)))


def require_frames(query: Query) -> None:
    """Reject windows that are not frames: they have no answer at a single time."""
    for name, each in query.windows.by_name.items():
        if not each.is_frame:
            raise UnsupportedOperationError(
                f"over is for frames, and the window {name!r} is {each!r}; take window.trailing, window.leading or "
                "window.frame, or use run"
            )


def column_names(query: Query, taken: list[Any], windows: Sequence[str] | None = None) -> list[str]:
    """Return the names of the added columns; reject names already taken.

    `windows` are the names of the answered ones, if not all.

    >>> from muntin import agg, window
    >>> windows = {"hour": window.trailing("1 hour"), "day": window.trailing("1 day")}
    >>> column_names(Query(windows, {"n": agg.count(), "high": agg.max("v")}), ["ts", "v"])
    ['n_hour', 'high_hour', 'n_day', 'high_day']
    """
    one = len(query.windows) == 1
    answered = query.windows.names if windows is None else windows
    names = [each if one else f"{each}_{window}" for window in answered for each in query.aggregates]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidArgumentError(
                f"two columns of the answer are {name!r}; give a window or an aggregate another name"
            )
        if name in taken:
            raise InvalidArgumentError(
                f"the column {name!r} is there already, and an aggregate would overwrite it; give the aggregate "
                "another name"
            )
    for i, name in enumerate(taken):
        if name in taken[:i]:
            raise InvalidArgumentError(f"two columns of the table are {name!r}; give each its own name")
    return names


def as_rows_have_it(points: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the keys and times of points in the types of the rows; reject what does not fit."""
    require_columns(types, points.column_names)
    if points.column_names == list(types) and points.schema.types == list(types.values()):
        return points
    return pa.table({name: _as_type(points[name], kind, name) for name, kind in types.items()})


def _as_type(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not len(column):
        return pa.chunked_array([], kind)
    if column.type == wanted or pa.types.is_null(column.type):
        return column.cast(kind)
    mine, other = column_type(column.type), column_type(wanted)
    try:
        if mine.family == other.family and is_zoned(column.type) == is_zoned(wanted):
            return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ColumnTypeError(
            f"the column {name!r} of the points does not fit {wanted}, as the rows have it: {error}"
        ) from error
    raise ColumnTypeError(
        f"the column {name!r} holds {wanted} in the rows, and {column.type} in the points; cast one of them"
    )


def _sorted_points(query: Query, plan: Plan, points: pa.Table, codes: Array, keys: int) -> tuple[Array | None, Points]:
    name = str(query.time)
    time = time_column(points, name)
    require_room(time, name, reach_of(plan.windows.values()))
    places, ends = by_key_and_time(codes, keys, time.values)
    if places is not None:
        time = placed(time, places, 1)
    return places, Points(time.values.astype(np.int64, copy=places is None), ends)


def _columns(
    plan: Plan, rows: SortedRows, points: Points, places: Array | None, *, of_rows: bool
) -> Iterator[pa.Array]:
    """Yield the aggregates of each window, in the input order of the points."""
    for each in plan.windows.values():
        first, last, ends = _bounds(each, rows, points, of_rows=of_rows)
        raw = windows_of_rows(rows.columns, rows.times, rows.time_type, first, last, plan.aggregates)
        for name, result in raw.items():
            yield as_column(result, ends, places, plan.answer_schema.field(name).type)


def as_column(raw: Raw, ends: Array | None, places: Array | None, kind: pa.DataType) -> pa.Array:
    """Return the results of frames that end at `ends` as a column, in the order of places. O(n)."""
    array = to_arrow(permuted(finished(raw, ends), places))
    return array if pa.types.is_null(kind) else cast(array, kind)


def _bounds(window: Window, rows: SortedRows, points: Points, *, of_rows: bool) -> tuple[Array, Array, Array]:
    """Return for each frame its first row, the row after its last, and where it ends in time."""
    if not of_rows:
        first, last = window.find_at(rows, points)
        return first, last, window.ends_at(rows, points, last)
    found = window.find(rows)
    return found.first, found.last, found.end
