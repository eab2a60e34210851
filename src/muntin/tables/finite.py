"""The windows of a finite table: for each definition, which of the sorted rows are in which window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from typing import Any

import numpy as np

from muntin.aggregations import count as agg_count
from muntin.aggregators import MonoidTree
from muntin.columns import Column, boxed
from muntin.errors import ColumnTypeError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.types import NULL, Array, ColumnType, logical_array
from muntin.windows.advancing import Delta
from muntin.windows.base import Window
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.kernels import FINDING
from muntin.windows.mixed import RowsEvery
from muntin.windows.own import ContextAware, ContextFree, Edges
from muntin.windows.programmed import Programmed
from muntin.windows.punctuation import Punctuated
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing


@dataclass(frozen=True)
class SortedRows:
    """The rows of a table: those of a key together, in the order of their times, and of arrival among equal ones."""

    times: Array
    ends: Array
    """The row after the last one of each key."""
    arrival: Array
    """The number of each row in the order of arrival."""
    columns: Mapping[str, Column]
    time_type: ColumnType
    partial: bool = False
    emit_empty: bool = False
    judged: Array | None = None
    """For each key how many of its first rows are what a policy has left, and is not asked about again."""
    horizon: int | None = None
    """Up to where windows without rows go; None for the greatest time of these rows."""

    def after(self, skipped: int) -> SortedRows:
        """Return the rows but for some of the first key's. O(keys), nothing is copied but where keys end."""
        if not skipped:
            return self
        return replace(
            self,
            times=self.times[skipped:],
            ends=self.ends - skipped,
            arrival=self.arrival[skipped:],
            columns={name: column.take(slice(skipped, None)) for name, column in self.columns.items()},
        )

    @property
    def begins(self) -> Array:
        """The first row of each key."""
        return np.concatenate(([0], self.ends)).astype(np.int64)[: len(self.ends)]


@dataclass(frozen=True)
class Found:
    """All windows of one definition."""

    first: Array
    last: Array
    """The first row of each window, and the row after its last."""
    start: Array
    end: Array
    """Its beginning and its end, in the unit of the time column."""
    rows: tuple[Array, Array] | None = None
    """from_row and to_row, for windows by rows."""
    values: tuple[Array, Array] | None = None
    """from_value and to_value, for windows by a column that advances."""
    members: Array | None = None
    """The rows that `first` and `last` count, where a window's rows are not neighbours."""
    keys: Array | None = None
    """The number of each window's key, where windows may be empty, or it is known without a search."""


@cache
def _kernels() -> Any:
    return kernel_cache.load(standalone(*FINDING), compiled=True)


def _filled(kernel: Callable[..., int], arguments: tuple[Any, ...], arrays: int, start: Any = np.int64) -> list[Array]:
    """Call a kernel to count windows, and again to write them; from the third array on they are of the type `start`."""
    kinds = [np.int64, np.int64, start, start][:arrays]
    count = int(kernel(*arguments, *(np.zeros(0, kind) for kind in kinds)))
    filled = [np.zeros(count, kind) for kind in kinds]
    if count:
        kernel(*arguments, *filled)
    return filled


def _by_rows(rows: SortedRows, first: Array, last: Array, *, numbered: bool) -> Found:
    """Return windows that are not by time: they begin and end with rows."""
    key = np.searchsorted(rows.ends, first, "right")
    begins = rows.begins[key] if len(key) else key
    numbers = (first - begins, last - begins) if numbered else None
    return Found(first, last, rows.times[first], rows.times[last - 1], numbers)


@singledispatch
def find(definition: Window, rows: SortedRows) -> Found:
    """Return the windows of a definition, whose durations are resolved."""
    raise AssertionError(f"{definition!r} was let through, though nothing finds its windows")


@find.register
def _(definition: Sliding, rows: SortedRows) -> Found:
    shape = (definition.range, definition.every, definition.offset)
    first, last, start = _filled(_kernels().hopping_windows, (rows.times, rows.ends, *shape), 3)
    found = Found(first, last, start, start + definition.range)
    return _with_empty(definition, found, rows) if rows.emit_empty else found


@find.register
def _(definition: Cumulative, rows: SortedRows) -> Found:
    shape = (definition.range, definition.every, definition.offset)
    first, last, start, end = _filled(_kernels().growing_windows, (rows.times, rows.ends, *shape), 4)
    found = Found(first, last, start, end)
    return _with_empty(definition, found, rows) if rows.emit_empty else found


@find.register
def _(definition: Session, rows: SortedRows) -> Found:
    first, last = _filled(_kernels().session_windows, (rows.times, rows.ends, definition.gap), 2)
    return Found(first, last, rows.times[first], rows.times[last - 1] + definition.gap)


@find.register
def _(definition: Trailing, rows: SortedRows) -> Found:
    first, last = np.zeros(len(rows.times), np.int64), np.zeros(len(rows.times), np.int64)
    least = -(2**63) + definition.range
    _kernels().trailing_windows(rows.times, rows.ends, definition.range, least, first, last)
    keys = np.repeat(np.arange(len(rows.ends)), rows.ends - rows.begins)
    return Found(first, last, rows.times - definition.range, rows.times, keys=keys)


@find.register
def _(definition: SlidingRows, rows: SortedRows) -> Found:
    shape = (definition.range.count, definition.every.count, rows.partial)
    first, last = _filled(_kernels().counted_windows, (rows.ends, *shape), 2)
    return _by_rows(rows, first, last, numbered=True)


@find.register
def _(definition: TrailingRows, rows: SortedRows) -> Found:
    # A window ends with each row, so that no key need be searched for.
    row = np.arange(len(rows.times), dtype=np.int64)
    sizes = rows.ends - rows.begins
    begins = np.repeat(rows.begins, sizes)
    last = row + 1
    number = last - begins
    from_row = np.maximum(0, number - definition.range.count)
    first = begins + from_row
    keys = np.repeat(np.arange(len(sizes)), sizes)
    return Found(first, last, rows.times[first], rows.times, (from_row, number), keys=keys)


@find.register
def _(definition: RowsEvery, rows: SortedRows) -> Found:
    shape = (definition.range.count, definition.every, definition.offset)
    first, last = _filled(_kernels().windows_of_last_rows, (rows.times, rows.ends, *shape), 2)
    return _by_rows(rows, first, last, numbered=True)


@find.register
def _(definition: Punctuated, rows: SortedRows) -> Found:
    column = rows.columns[definition.column]
    if column.type != NULL and column.type.family != "boolean":
        raise ColumnTypeError(
            f"column {definition.column!r} marks where windows end; it must be boolean, not {column.type}"
        )
    marks = column.values if column.valid is None else column.valid & (column.values != 0)
    first, last = _filled(_kernels().marked_windows, (marks.astype(np.int64), rows.ends), 2)
    return _by_rows(rows, first, last, numbered=False)


# ---------------------------------------------------------------- windows of a column that advances


@find.register
def _(definition: Delta, rows: SortedRows) -> Found:
    """Find the windows by value alone: where the column goes back, against the promise, rows are not neighbours."""
    values, held = numbers_of(definition.column, rows.columns)
    key = np.searchsorted(rows.ends, held, "right")
    order = held[np.lexsort((values[held], key))]
    ends = np.searchsorted(held, rows.ends).astype(np.int64)
    shape = (definition.range, definition.every, definition.offset)
    floats = values.dtype.kind == "f" or any(isinstance(each, float) for each in shape)
    kind = np.dtype(np.float64 if floats else np.int64)
    scalars = tuple(np.array(shape, kind))
    first, last, low = _filled(_kernels().hopping_windows, (values[order].astype(kind), ends, *scalars), 3, kind)
    bounds = (low, low + scalars[0])
    if np.array_equal(order, np.arange(len(rows.times))):
        return Found(first, last, rows.times[first], rows.times[last - 1], values=bounds)
    members = [np.sort(order[a:b]) for a, b in zip(first, last, strict=True)]
    chosen = np.concatenate([*members, np.zeros(0, np.int64)]).astype(np.int64)
    last = np.cumsum(last - first)
    first = np.concatenate(([0], last[:-1])).astype(np.int64) if len(last) else last
    return Found(first, last, rows.times[chosen[first]], rows.times[chosen[last - 1]], values=bounds, members=chosen)


def numbers_of(name: str, columns: Mapping[str, Column]) -> tuple[Array, Array]:
    """Return the values of a column that advances, and the rows that have one."""
    column = columns[name]
    if column.type != NULL and column.type.family not in ("integer", "floating"):
        raise ColumnTypeError(f"column {name!r} is to advance, so it must hold numbers, not {column.type}")
    held = np.ones(len(column.values), np.bool_) if column.valid is None else column.valid
    if column.values.dtype.kind == "f":
        held = held & ~np.isnan(column.values)
    return column.values, np.flatnonzero(held)


# ---------------------------------------------------------------- what is asked row by row


@find.register
def _(definition: Programmed, rows: SortedRows) -> Found:
    first, last = [], []
    values = python_values(rows.columns, definition.columns, len(rows.times))
    logical = logical_array(rows.times, None, rows.time_type).to_numpy(zero_copy_only=False)
    judged = np.zeros(len(rows.ends), np.int64) if rows.judged is None else rows.judged
    for begin, end, known in zip(rows.begins, rows.ends, judged, strict=True):
        tree = MonoidTree({"rows": agg_count()}, policy=definition.policy)
        for row in range(begin, end):
            insert = tree.insert_unasked if row < begin + known else tree.insert
            insert(logical[row], values[row] if len(definition.columns) != 1 else values[row][0])
            if len(tree) and row >= begin + known:
                first.append(row + 1 - len(tree))
                last.append(row + 1)
    return _by_rows(rows, np.array(first, np.int64), np.array(last, np.int64), numbered=False)


@find.register
def _(definition: ContextFree, rows: SortedRows) -> Found:
    spans = []
    for key, (begin, end) in enumerate(zip(rows.begins, rows.ends, strict=True)):
        spans += [(key, *span) for span in _own_spans(definition, int(rows.times[begin]), int(rows.times[end - 1]))]
    return _spanned(spans, rows)


def _own_spans(definition: ContextFree, oldest: int, youngest: int) -> list[tuple[int, int]]:
    """Return the windows that end after the oldest row and begin by the youngest."""
    spans: list[tuple[int, int]] = []
    previous, edge = oldest, definition.next_edge(oldest)
    while edge is not None:
        ended = list(definition.ended(previous, edge))
        if any(start > youngest for start, _ in ended):
            break
        spans += ended
        previous, edge = edge, definition.next_edge(edge)
    return spans


@find.register
def _(definition: ContextAware, rows: SortedRows) -> Found:
    spans = []
    values = python_values(rows.columns, definition.columns, len(rows.times))
    for key, (begin, end) in enumerate(zip(rows.begins, rows.ends, strict=True)):
        edges = Edges()
        for row in begin + np.argsort(rows.arrival[begin:end]):
            named = dict(zip(definition.columns, values[row], strict=True))
            definition.on_tuple(int(rows.times[row]), named, edges)
        oldest, youngest = int(rows.times[begin]), int(rows.times[end - 1])
        starts = [min(oldest, *edges) if len(edges) else oldest, *edges]
        spans += [
            (key, a, b) for a, b in zip(starts, [*edges, max(youngest + 1, starts[-1] + 1)], strict=True) if a < b
        ]
    return _spanned(spans, rows)


def _spanned(spans: list[tuple[int, int, int]], rows: SortedRows) -> Found:
    """Return the windows (key, start, end) that hold a row."""
    key, start, end = (np.array([span[i] for span in spans], np.int64) for i in range(3))
    first, last = _rows_between(key, start, end, rows)
    held = first < last
    return Found(first[held], last[held], start[held], end[held])


def _rows_between(key: Array, start: Array, end: Array, rows: SortedRows) -> tuple[Array, Array]:
    """Return the first row of each window [start, end) of a key, and the row after its last."""
    first, last = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
    for part, low, high in _of_each_key(key, rows):
        first[part] = low + np.searchsorted(rows.times[low:high], start[part], "left")
        last[part] = low + np.searchsorted(rows.times[low:high], end[part], "left")
    return first, last


def _of_each_key(key: Array, rows: SortedRows) -> Iterator[tuple[slice, int, int]]:
    """Yield for each key its windows, whose keys ascend, and its rows [low, high)."""
    stops = np.searchsorted(key, np.arange(len(rows.ends)), "right")
    starts = np.concatenate(([0], stops[:-1])) if len(stops) else stops
    for start, stop, low, high in zip(starts, stops, rows.begins, rows.ends, strict=True):
        if start < stop:
            yield slice(int(start), int(stop)), int(low), int(high)


def python_values(columns: Mapping[str, Column], names: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the values of some columns, row by row, as a user's function gets them: None where they are null."""
    chosen = []
    for name in names:
        values = boxed(columns[name]).copy()
        valid = columns[name].valid
        if valid is not None:
            values[~valid] = None
        chosen.append(values)
    return list(zip(*chosen, strict=True)) if chosen else [()] * count


# ---------------------------------------------------------------- windows without rows


def _with_empty(definition: Sliding | Cumulative, found: Found, rows: SortedRows) -> Found:
    """Add the windows without rows: of each key from its first on, and up to the greatest time of all."""
    youngest = int(rows.times.max()) if len(rows.times) else 0
    horizon = youngest if rows.horizon is None else rows.horizon
    keys = np.searchsorted(rows.ends, found.first, "right")
    ends = []
    for part, _, _ in _of_each_key(keys, rows):
        lowest, highest = int(found.end[part][0]), int(found.end[part][-1])
        ends.append(np.arange(lowest, max(highest, horizon) + 1, definition.every))
    key = np.repeat(np.unique(keys), [len(each) for each in ends])
    end = np.concatenate([*ends, np.zeros(0, np.int64)]).astype(np.int64)
    if isinstance(definition, Cumulative):
        start = end - 1 - (end - 1 - definition.offset) % definition.range
    else:
        start = end - definition.range
    first, last = _rows_between(key, start, end, rows)
    kept = (first < last) | (end <= horizon)
    return Found(first[kept], last[kept], start[kept], end[kept], keys=key[kept])
