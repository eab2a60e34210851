"""The base of frames by time: the rows of a key whose times lie between two bounds relative to a row's.

Rows of equal time are peers, as in SQL's `RANGE`: a frame holds all or none, and their frames are the same.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.memory import room
from muntin.types import Array
from muntin.windows.base import Context, Measure
from muntin.windows.found import Cut, Found, Points, SortedRows, finding
from muntin.windows.kinds.each_row import EachRow
from muntin.windows.shapes import FrameShape, Lookback, Tiling


class TimeFrame(EachRow):
    """One window per row: from `low` to `high` after its time, both of any sign."""

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the frame of a later row may begin at any time before it
    measure: ClassVar[Measure] = Measure.TIME
    ties_matter: ClassVar[bool] = False

    @property
    def tile(self) -> int:
        """The step whose last multiple at or before `low` begins a frame; 0 if it begins at `low`."""
        return 0

    @property
    def held(self) -> tuple[int, int]:
        """The bounds as [since, until): of a row's time, relative to that of the frame's row."""
        since, until = super().held
        return (self.low, until) if self.tile else (since, until)

    @property
    def ahead(self) -> int:
        """How long after its row's time a frame ends; 0 if it ends before or with it."""
        return max(0, self.high)

    @property
    def back(self) -> int:
        """How long before its row's time a frame may begin."""
        return max(0, -self.low) + self.tile

    @property
    def waits_at_end(self) -> bool:
        """Whether a row at the very time at which a frame is due may still be in it, or have a frame due then."""
        return not self.ahead or self.closed in ("right", "both")

    @property
    def tells_at(self) -> bool:
        """Whether its windows end at another time than that of their rows."""
        return self.high != 0

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return 2 * (abs(self.low) + abs(self.high) + self.tile)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the frame of each row. O(n)."""
        first, last = self.find_at(rows, Points(rows.times, rows.ends))
        return Found(first, last, self._start(rows.times), rows.times + self.high, keys=rows.keys, at=rows.times)

    def ends_at(self, rows: SortedRows, points: Points, last: Array) -> Array:
        """Return where the frames of points end: whatever they hold. O(points)."""
        return points.times + self.high

    def _start(self, at: Array) -> Array:
        start = at + self.low
        return start - start % self.tile if self.tile else start

    def find_at(self, rows: SortedRows, points: Points) -> tuple[Array, Array]:
        """Return for each point the first row of its frame, and the row after its last. O(rows and points)."""
        since, until = self.held
        first, last = (room(len(points.times), np.dtype(np.int64)) for _ in range(2))
        floor = BEFORE_TIME + max(0, -since) + self.tile
        ceiling = END_OF_TIME - max(0, until)
        bounds = (since, until, self.tile, floor, ceiling)
        finding().framed_windows(rows.times, rows.ends, points.times, points.ends, *bounds, first, last)
        return first, last

    def span_at(self, time: int) -> tuple[int, int]:
        """Return the times [since, until) whose rows the frame at a time holds. O(1)."""
        since, until = self.held
        return self._start_of_tile(time + since), time + until

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(log n)."""
        since = min(0, self.held[0])  # the rows of such windows are needed too
        return int(np.searchsorted(rows.times, self._start_of_tile(cut.time - self.ahead + since), "left"))

    def first_from(self, time: int) -> int:
        """Return the earliest time whose frame begins at `time` or later. O(1)."""
        return time + -time % self.tile - self.low if self.tile else time - self.held[0]

    def _start_of_tile(self, time: int) -> int:
        return time - time % self.tile if self.tile else time

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on. O(windows)."""
        return ~self.unanswered(found, rows, cut)

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        assert found.at is not None
        due = found.at + self.ahead
        return np.asarray(due >= cut.time if self.waits_at_end else due > cut.time)

    @property
    def lookback(self) -> Lookback | None:
        """A window reaches back by its length, from a row that was not final itself."""
        return Lookback(time=self.ahead + self.back, ahead=self.ahead)

    # ------------------------------------------------------------ streams

    @property
    def frame_shape(self) -> FrameShape:
        """Its shape."""
        since, until = self.held
        times = (since, until, self.tile, self.low, self.high)
        return FrameShape(*times, ahead=self.ahead, back=self.back, waits_at_end=self.waits_at_end)

    @property
    def tiling(self) -> Tiling | None:
        """Its tiles, if it has a hop."""
        return Tiling(self.tile, self.back, -self.high) if self.tile else None

    def time_held(self, delay: int, lateness: int) -> int | None:
        """Return how long a row may be needed."""
        return self.ahead + self.back + delay + lateness
