"""Windows that trail each row by time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from muntin.durations import in_unit_of
from muntin.types import Array, ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.buffered import (
    BufferedWindows,
    Late,
    Moment,
    Terms,
    Windows,
    newer,
    peers,
    when_older,
    zeros,
)
from muntin.windows.found import Cut, Found, SortedRows, finding
from muntin.windows.held_rows import HeldRows
from muntin.windows.lengths import positive
from muntin.windows.shapes import Lookback


@dataclass(frozen=True, repr=False)
class Trailing(Window):
    """One window for each row: (t - range, t], where t is the time of the row. Made by `trailing`."""

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the window of a later row may begin at any time before it
    measure: ClassVar[Measure] = Measure.TIME
    each_row: ClassVar[bool] = True
    ties_matter: ClassVar[bool] = False
    cuttable: ClassVar[bool] = True

    range: Any

    def __post_init__(self) -> None:
        """Refuse a duration that means nothing."""
        object.__setattr__(self, "range", positive(self.range, "window.trailing: range"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.range, time, "range"))

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return (self.range,)

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.trailing({self.range!r})"

    @property
    def reach(self) -> int:
        """How far from a row's time a window of it can begin or end, at most."""
        return 2 * cast("int", self.range)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the window of each row. O(n)."""
        first, last = np.zeros(len(rows.times), np.int64), np.zeros(len(rows.times), np.int64)
        least = -(2**63) + self.range
        finding().trailing_windows(rows.times, rows.ends, self.range, least, first, last)
        return Found(first, last, rows.times - self.range, rows.times, keys=rows.keys)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows which were not final at the cut may hold. O(log n)."""
        return int(np.searchsorted(rows.times, cut.time - self.range, "right"))

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on: a row of just their end would be in them. O(windows)."""
        return np.asarray(found.end < cut.time)

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        return np.asarray(found.end >= cut.time)

    @property
    def lookback(self) -> Lookback:
        """A window reaches back by its length."""
        return Lookback(time=self.range)

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from rows that are kept."""
        return BufferedTrailing(self, terms)

    def time_held(self, delay: int, lateness: int) -> int:
        """Return for how long a row may be needed."""
        return int(self.range) + delay + lateness


class BufferedTrailing(BufferedWindows):
    """Windows that trail each row, over rows that are kept."""

    definition: Trailing

    def __init__(self, definition: Trailing, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.slack = max(1, terms.lateness)
        self.memory = definition.range + self.slack

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        times = held.times

        def takes(row: int) -> bool:
            t = int(new.times[row])
            oldest = max(t, watermark - self.lateness + 1)
            at = int(np.searchsorted(times, oldest))
            return at < len(times) and bool(times[at] < t + self.definition.range)

        return takes

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        found = self.definition.find(self.sorted_rows(rows))
        name = (found.end, peers(rows), zeros(len(rows)))
        return Windows(found, rows.keys, found.end, self.final(found.end, moment.before), name)

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        return np.minimum(super().needed(rows, windows, final, watermark), newer(rows, watermark, self.memory))

    def wakes(self, rows: HeldRows, first: Array, watermark: int) -> Array:
        return when_older(rows, first, watermark, self.memory)
