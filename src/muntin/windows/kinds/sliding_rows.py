"""Sliding windows by rows: the rows of each key are numbered from 0, by event time and then by arrival."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.errors import InvalidArgumentError
from muntin.types import Array
from muntin.windows.buffered import BufferedWindows, Late, Moment, Terms, Windows, begins_of, zeros
from muntin.windows.found import Cut, Found, SortedRows, between_rows, filled, finding
from muntin.windows.held_rows import HeldRows
from muntin.windows.kinds.numbered import BufferedFixedNumbers, NumberedWindow, from_row
from muntin.windows.lengths import Rows
from muntin.windows.shapes import Density, RowShape


@dataclass(frozen=True, repr=False)
class SlidingRows(NumberedWindow):
    """Windows of the rows [k * every, k * every + range), for k from 0 on. Created by `tumbling` and `sliding`."""

    every: Rows

    def __post_init__(self) -> None:
        """Reject a step that skips rows."""
        if self.every.count > self.range.count:
            raise InvalidArgumentError(
                f"window.sliding: every is {self.every!r}, longer than the range {self.range!r}, so that rows between "
                f"would be in no window; give an every of at most {self.range!r}"
            )

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        if self.range == self.every:
            return f"window.tumbling({self.range!r})"
        return f"window.sliding({self.range!r}, every={self.every!r})"

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all full windows, and with `partial` the others. O(windows)."""
        shape = (self.range.count, self.every.count, rows.partial)
        first, last = filled(finding().counted_windows, (rows.ends, *shape), 2)
        return between_rows(rows, first, last, numbered=True)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(1)."""
        every = self.every.count
        return every * max(0, (cut.row - self.range.count) // every + 1) - cut.offset

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows are full. O(windows)."""
        return np.asarray(found.last - found.first == self.range.count)

    # ------------------------------------------------------------ streams

    @property
    def row_shape(self) -> RowShape:
        """Its length and step in rows."""
        return RowShape(0, self.range.count, self.every.count, fills=True)

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedSlidingRows(self, terms)

    def density(self, many: int) -> Density:
        """Return the expected density of its windows."""
        length, every = self.range.count, self.every.count
        return Density(length, -(-length // every), min(every, many))


class BufferedSlidingRows(BufferedFixedNumbers):
    """Windows of `range` rows, every `every` rows, over kept rows."""

    definition: SlidingRows

    def __init__(self, definition: SlidingRows, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.length, self.unit = definition.range.count, definition.every.count

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(row: int) -> bool:
            t = int(new.times[row])
            old = gone + bisect_right(times, watermark - self.lateness)
            done = max(0, (old - self.length) // self.unit + 1)
            at = gone + bisect_right(times, t)
            if at < done * self.unit or (self.length == 1 and at == gone + len(times)):
                return False
            insort(times, t)
            return True

        return takes

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        gone = self.gone[rows.present]
        begins = begins_of(rows)
        lowest = -(-gone // self.unit)
        total = gone + rows.ends - begins
        counts = np.maximum(0, -(-total // self.unit) - lowest)
        of = np.repeat(np.arange(len(counts)), counts)
        window = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + lowest[of]
        start = window * self.unit
        first = start - gone[of] + begins[of]
        last = np.minimum(first + self.length, rows.ends[of])
        full = last - first == self.length
        key = rows.present[of]
        bounds = (start, start + last - first)
        found = Found(first, last, rows.times[first], rows.times[last - 1], bounds)
        due = np.where(full, found.end, END_OF_TIME)
        return Windows(found, key, due, window < self.done[key], (start, zeros(len(key)), zeros(len(key))), full)

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        """Keep the row before the first window that is not final, to tell which rows are too late."""
        return from_row(self.done[rows.present] * self.unit - 1 - self.gone[rows.present], rows)
