"""Windows that trail each row by rows."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.types import Array
from muntin.windows.buffered import BufferedWindows, Late, Moment, Terms, Windows, zeros
from muntin.windows.found import Cut, Found, SortedRows
from muntin.windows.held_rows import HeldRows
from muntin.windows.kinds.numbered import BufferedFixedNumbers, NumberedWindow, from_row
from muntin.windows.shapes import Density


@dataclass(frozen=True, repr=False)
class TrailingRows(NumberedWindow):
    """One window for each row: the last `range` rows up to it, or as many as there are. Made by `trailing`."""

    each_row: ClassVar[bool] = True

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.trailing({self.range!r})"

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the window of each row. O(n)."""
        # A window ends with each row, so that no key need be searched for.
        last = np.arange(len(rows.times), dtype=np.int64) + 1
        begins = np.repeat(rows.begins, rows.ends - rows.begins)
        number = last - begins
        from_row = np.maximum(0, number - self.range.count)
        first = begins + from_row
        return Found(first, last, rows.times[first], rows.times, (from_row, number), keys=rows.keys)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows which were not final at the cut may hold. O(1)."""
        return max(0, cut.row - self.range.count + 1 - cut.offset)

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on: all. O(windows)."""
        return found.all

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        assert found.rows is not None
        return np.asarray(found.rows[1] > cut.row)

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from rows that are kept."""
        return BufferedTrailingRows(self, terms)

    def density(self, many: int) -> Density:
        """Return what is expected of its windows."""
        return Density(self.range.count, self.range.count, 1)


class BufferedTrailingRows(BufferedFixedNumbers):
    """The last `range` rows, at each row, over rows that are kept."""

    definition: TrailingRows

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(row: int) -> bool:
            t = int(new.times[row])
            done = gone + bisect_right(times, watermark - self.lateness)
            at, total = gone + bisect_right(times, t), gone + len(times)
            if at >= total or done >= total or at + self.definition.range.count - 1 < done:
                return False
            insort(times, t)
            return True

        return takes

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        found = self.definition.find(self.sorted_rows(rows))
        assert found.rows is not None
        gone = self.gone[rows.keys]
        to_row = found.rows[1] + gone
        bounds = (np.maximum(0, to_row - self.definition.range.count), to_row)
        found = Found(found.first, found.last, found.start, found.end, bounds)
        number = to_row - 1
        final = number < self.done[rows.keys]
        return Windows(found, rows.keys, found.end, final, (number, zeros(len(rows)), zeros(len(rows))))

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        return from_row(self.done[rows.present] - self.definition.range.count - self.gone[rows.present], rows)
