"""The base of frames by rows: some rows of a key before and after each row, by number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.types import Array, ColumnType
from muntin.windows.base import Context, Measure
from muntin.windows.found import Cut, Found, Points, SortedRows
from muntin.windows.kinds.each_row import EachRow
from muntin.windows.kinds.numbered import ROW_FIELDS
from muntin.windows.shapes import Density, Lookback, RowShape


class RowFrame(EachRow):
    """One window per row: from `low` to `high` rows after it, both of any sign, as far as rows exist."""

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.ROWS
    edges_known: ClassVar[bool] = True  # as row numbers

    @property
    def row_shape(self) -> RowShape:
        """The rows that it holds, counted from its own row."""
        return RowShape(*self.held)

    @property
    def ahead(self) -> int:
        """How many rows after its own a frame holds."""
        return max(0, self.held[1] - 1)

    @property
    def back(self) -> int:
        """How many rows before its own a frame needs."""
        return max(0, -self.held[0])

    @property
    def tells_at(self) -> bool:
        """Whether its windows end with another row than their own."""
        return self.held[1] != 1

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the frame of each row. O(n)."""
        sizes = rows.ends - rows.begins
        begins = np.repeat(rows.begins, sizes)
        number = np.arange(len(rows.times), dtype=np.int64) - begins
        numbers = self._clipped(number, np.repeat(sizes, sizes))
        return _framed(rows.times, begins, numbers, numbers, rows.keys)

    def _clipped(self, number: Array, total: Array) -> tuple[Array, Array]:
        """Return the bounds of the frames of these row numbers, clipped to `total` rows."""
        since, until = self.held
        first = np.clip(number + since, 0, total)
        return first, np.clip(number + until, first, total)

    def find_at(self, rows: SortedRows, points: Points) -> tuple[Array, Array]:
        """Return for each point the first row of its frame, and the row after its last. O(log n) per point."""
        before, upto = rows.around(points)
        sizes = points.ends - np.concatenate(([0], points.ends[:-1])) if len(points.ends) else points.ends
        begins, ends = np.repeat(rows.begins, sizes), np.repeat(rows.ends, sizes)
        first, last = self.bounds_at(before, upto)
        first = np.clip(first, begins, ends)
        return first, np.clip(last, first, ends)

    def ends_at(self, rows: SortedRows, points: Points, last: Array) -> Array:
        """Return where the frames of points end: there, or with their last rows, if these are later. O(points).

        A frame that is delayed ends before its point, with its last row.
        """
        if not len(rows.times):
            return points.times
        reached: Array = rows.times[np.maximum(last - 1, 0)]
        return reached if self.high < 0 else np.maximum(reached, points.times)

    @abstractmethod
    def bounds_at(self, before: Array, upto: Array) -> tuple[Array, Array]:
        """Return the frames of points, which lie between rows: `before` rows are earlier, `upto` not later."""

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(1)."""
        return max(0, cut.row - self.ahead - self.back - cut.offset)

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on; the last row here is the last one before it. O(n)."""
        count = len(found.first)
        return np.arange(cut.row - count, cut.row) + self.ahead < cut.row

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        first = max(cut.offset, cut.row - self.ahead - self.back)  # the number of the first needed row
        return np.arange(first, first + len(found.first)) + self.ahead >= cut.row

    @property
    def lookback(self) -> Lookback:
        """A window reaches back by its rows, from a row that was not final itself."""
        return Lookback(rows=self.ahead + self.back + 1)

    # ------------------------------------------------------------ streams

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return delay + lateness

    @property
    def rows_held(self) -> int:
        """How many of the last rows are needed, whatever their time."""
        return self.ahead + self.back + 1

    def density(self, many: int) -> Density:
        """Return the expected density of its windows."""
        since, until = self.held
        length = max(1, until - since)
        return Density(length, length, 1)

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        return ROW_FIELDS


def _framed(
    times: Array, begins: Array, places: tuple[Array, Array], numbers: tuple[Array, Array], keys: Array
) -> Found:
    """Return frames by the places and the numbers of their rows among the current rows of a key."""
    first, last = begins + places[0], begins + places[1]
    held = first < last
    # A frame without rows has no first and last row: its start and end are ignored, and null in answers.
    start = times[np.where(held, first, 0)] if len(times) else times
    end = times[np.where(held, last - 1, 0)] if len(times) else times
    return Found(first, last, start, end, numbers, keys=keys, at=times)
