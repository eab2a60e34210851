"""Sliding windows by rows: the rows of each key are numbered from 0, by event time and then by arrival."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.errors import InvalidArgumentError
from muntin.types import Array
from muntin.windows.found import Cut, Found, SortedRows, between_rows, filled, finding
from muntin.windows.kinds.numbered import NumberedWindow
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

    def density(self, many: int) -> Density:
        """Return the expected density of its windows."""
        length, every = self.range.count, self.every.count
        return Density(length, -(-length // every), min(every, many))
