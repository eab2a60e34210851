"""The windows of sorted rows: which rows each holds, and where rows are cut into pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from muntin.columns import Column, boxed, inverse
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.types import Array, ColumnType
from muntin.windows.kernels import FINDING, row_from


class Arrival:
    """The arrival numbers of sorted rows, computed when first read: few windows need them.

    >>> np.asarray(Arrival(np.array([2, 0, 1]))[1:])
    array([2, 0])
    """

    def __init__(self, places: Array) -> None:
        """Take the place of each row among the sorted ones."""
        self._numbers = cache(lambda: inverse(places))
        self._part = range(len(places))

    def __getitem__(self, part: slice) -> Arrival:
        """Return those of some of the rows. O(1)."""
        some = copy(self)
        some._part = self._part[part]
        return some

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return them as an array. O(n) for the first time."""
        return np.asarray(self._numbers()[self._part.start : self._part.stop], dtype=dtype)


@dataclass(frozen=True)
class SortedRows:
    """The rows of a table: contiguous per key, by time, ties by arrival."""

    times: Array
    ends: Array
    """The row after the last one of each key."""
    arrival: Array | range | Arrival
    """The arrival number of each row; a range if they arrived in this order."""
    columns: Mapping[str, Column]
    time_type: ColumnType
    partial: bool = False
    emit_empty: bool = False
    horizon: int | None = None
    """The end of windows without rows; None for the greatest time of these rows."""

    def after(self, skipped: int) -> SortedRows:
        """Return the rows without the first `skipped` of the first key. O(keys), copies only the ends of keys."""
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

    @property
    def keys(self) -> Array:
        """The number of each row's key."""
        return np.repeat(np.arange(len(self.ends)), self.ends - self.begins)

    @property
    def is_first(self) -> Array:
        """Which rows are the first of their key."""
        first = np.zeros(len(self.times), np.bool_)
        first[self.begins[self.begins < self.ends]] = True
        return first

    def between(self, key: Array, start: Array, end: Array) -> tuple[Array, Array]:
        """Return the first row of each window [start, end) of a key, and the row after its last. Keys ascend."""
        first, last = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64)
        for part, low, high in self.of_each_key(key):
            first[part] = low + np.searchsorted(self.times[low:high], start[part], "left")
            last[part] = low + np.searchsorted(self.times[low:high], end[part], "left")
        return first, last

    def of_each_key(self, key: Array) -> Iterator[tuple[slice, int, int]]:
        """Yield each key's windows, whose keys ascend, and its rows [low, high)."""
        stops = np.searchsorted(key, np.arange(len(self.ends)), "right")
        starts = np.concatenate(([0], stops[:-1])) if len(stops) else stops
        for start, stop, low, high in zip(starts, stops, self.begins, self.ends, strict=True):
            if start < stop:
                yield slice(int(start), int(stop)), int(low), int(high)

    def around(self, points: Points) -> tuple[Array, Array]:
        """Return for each point the first row not earlier, and the first later one. O(rows and points)."""
        first, last = np.zeros(len(points.times), np.int64), np.zeros(len(points.times), np.int64)
        bounds = (0, 1, 0, BEFORE_TIME, END_OF_TIME - 1)
        finding().framed_windows(self.times, self.ends, points.times, points.ends, *bounds, first, last)
        return first, last


@dataclass(frozen=True)
class Points:
    """Times to answer: contiguous per key and in order, keys numbered as those of rows."""

    times: Array
    ends: Array
    """The point after the last one of each key."""


@dataclass(frozen=True)
class Found:
    """All windows of one definition."""

    first: Array
    last: Array
    """The first row of each window, and the row after its last."""
    start: Array
    end: Array
    """Its start and end, in the unit of the time column."""
    rows: tuple[Array, Array] | None = None
    """from_row and to_row, for windows by rows."""
    values: tuple[Array, Array] | None = None
    """from_value and to_value, for windows by a growing column."""
    members: Array | None = None
    """The rows that `first` and `last` index, if a window's rows are not contiguous."""
    keys: Array | None = None
    """The number of each window's key, if windows may be empty, or it is known without a search."""
    at: Array | None = None
    """The time of each window's row, for frames."""

    @property
    def all(self) -> Array:
        """A mask of all windows."""
        return np.ones(len(self.first), np.bool_)

    @property
    def first_rows(self) -> Array:
        """The first row of each window, even if its rows are not contiguous."""
        return self.first if self.members is None else self.members[self.first]

    def keys_among(self, rows: SortedRows) -> Array:
        """Return the number of each window's key. O(log keys) per window, unless already known."""
        return self.keys if self.keys is not None else np.searchsorted(rows.ends, self.first_rows, "right")

    def take(self, chosen: slice | Array) -> Found:
        """Return some of the windows."""
        return Found(
            self.first[chosen],
            self.last[chosen],
            self.start[chosen],
            self.end[chosen],
            None if self.rows is None else (self.rows[0][chosen], self.rows[1][chosen]),
            None if self.values is None else (self.values[0][chosen], self.values[1][chosen]),
            self.members,
            None if self.keys is None else self.keys[chosen],
            None if self.at is None else self.at[chosen],
        )


@dataclass(frozen=True)
class Cut:
    """A place between two rows of a key."""

    time: int
    """No row before the cut is later than this, and none after it is earlier."""
    row: int
    """The number of rows of the key before it."""
    offset: int = 0
    """The number of rows of the key before the first one of this piece."""


@cache
def finding() -> Any:
    """Return the kernels that find windows, compiled once for all queries."""
    return kernel_cache.load(standalone(*FINDING, within=(row_from,), counted=False), compiled=True)


def filled(kernel: Callable[..., int], arguments: tuple[Any, ...], arrays: int, start: Any = np.int64) -> list[Array]:
    """Call a kernel to count windows, and again to write them; arrays from the third on have the type `start`."""
    kinds = [np.int64, np.int64, start, start][:arrays]
    count = int(kernel(*arguments, *(np.zeros(0, kind) for kind in kinds)))
    out = [np.zeros(count, kind) for kind in kinds]
    if count:
        kernel(*arguments, *out)
    return out


def between_rows(rows: SortedRows, first: Array, last: Array, *, numbered: bool) -> Found:
    """Return windows that begin and end with rows, not by time; `numbered` ones also have their row numbers."""
    key = np.searchsorted(rows.ends, first, "right")
    begins = rows.begins[key] if len(key) else key
    numbers = (first - begins, last - begins) if numbered else None
    return Found(first, last, rows.times[first], rows.times[last - 1], numbers)


def between_times(spans: list[tuple[int, int, int]], rows: SortedRows) -> Found:
    """Return the windows (key, start, end) that hold a row."""
    key, start, end = (np.array([span[i] for span in spans], np.int64) for i in range(3))
    first, last = rows.between(key, start, end)
    held = first < last
    return Found(first[held], last[held], start[held], end[held])


def python_values(columns: Mapping[str, Column], names: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the values of some columns, row by row, as a user's function gets them: None for null."""
    chosen = []
    for name in names:
        values = boxed(columns[name]).copy()
        valid = columns[name].valid
        if valid is not None:
            values[~valid] = None
        chosen.append(values)
    return list(zip(*chosen, strict=True)) if chosen else [()] * count
