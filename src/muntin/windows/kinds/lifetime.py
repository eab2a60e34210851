"""Frames of all rows up to each row: the lifetime of its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.memory import room
from muntin.types import Array
from muntin.windows.found import Cut, Found, Points, SortedRows, finding
from muntin.windows.frames import closed_word, shown_options
from muntin.windows.kinds.time_frames import TimeFrame
from muntin.windows.shapes import Tiling
from muntin.windows.words import word

_NAME = "window.lifetime"


@dataclass(frozen=True, repr=False)
class Lifetime(TimeFrame):
    """One window for each row: all rows of its key up to its time. Created by `lifetime`.

    It starts with the time of the key's first row, which a late row may move.
    """

    start_moves: ClassVar[bool] = True

    closed: str = "right"

    def __post_init__(self) -> None:
        """Reject an unknown bound."""
        closed_word(self.closed, _NAME, ("right", "left"))

    @property
    def low(self) -> int:
        """Before all times."""
        return BEFORE_TIME

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row's time."""
        return 0

    @property
    def held(self) -> tuple[int, int]:
        """The bounds as [since, until), of which the first is before all times."""
        return BEFORE_TIME, int(self.closed == "right")

    @property
    def back(self) -> int:
        """0: no time before its row's tells where a frame begins."""
        return 0

    @property
    def reach(self) -> int:
        """0: a window begins and ends at the times of rows."""
        return 0

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the frame of each row. O(n)."""
        first, last = self.find_at(rows, Points(rows.times, rows.ends))
        return Found(first, last, rows.times[first], rows.times, keys=rows.keys, at=rows.times)

    def find_at(self, rows: SortedRows, points: Points) -> tuple[Array, Array]:
        """Return for each point the first row of its key, and the row after its frame's last. O(rows and points)."""
        first, last = (room(len(points.times), np.dtype(np.int64)) for _ in range(2))
        until = self.held[1]
        bounds = (0, until, 0, END_OF_TIME, END_OF_TIME - until)  # no point is so late that its frame begins later
        finding().framed_windows(rows.times, rows.ends, points.times, points.ends, *bounds, first, last)
        return first, last

    def span_at(self, time: int) -> tuple[int, int]:
        """Return the times [since, until) whose rows the frame at a time holds. O(1)."""
        return BEFORE_TIME, time + self.held[1]

    def first_from(self, time: int) -> int:
        """Return the earliest time, since frames begin with the first row that there is. O(1)."""
        return BEFORE_TIME

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first row: later frames hold all of them. O(1)."""
        return 0

    @property
    def lookback(self) -> None:
        """None: a frame reaches back to the first row, wherever that is."""
        return

    # ------------------------------------------------------------ streams

    @property
    def tiling(self) -> Tiling:
        """A single tile of all rows that are old enough."""
        return Tiling(hop=0, back=0, delay=0)

    def time_held(self, delay: int, lateness: int) -> None:
        """Return None: a row is needed as long as its key lives."""
        return

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({shown_options(self.closed, 'right').removeprefix(', ')})"


@word(takes_first=False, plain=("closed",))
def lifetime(*, closed: str = "right") -> Lifetime:
    """Return one window for each row that holds all rows of its key up to its time: running totals, of all time.

    With `closed="left"` it leaves out the rows of the row's own time. It starts with the time of the key's first row
    and ends with that of its own. A stream keeps one state for all rows of a key that can no longer be revised, if the
    states have a fixed size and take rows in any order, else the rows; `forget_after` of the query ends the lifetime of
    a silent key.

    >>> from muntin import Query, agg, window
    >>> rows = {"card": ["a", "b", "a"], "t": [1, 2, 9], "v": [5, 6, 7]}
    >>> spent = Query(window.lifetime(), {"spent": agg.sum("v")}, key="card", time="t")
    >>> spent.over(rows)["spent"].to_pylist()
    [5, 6, 12]
    """
    return Lifetime(closed)
