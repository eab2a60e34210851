"""Shapes: what slices need to know of a window, as data. Kernels see shapes, never a kind of window.

A window by time has one of three shapes. `Periodic` edges are arithmetic progressions, `KnownEdges` are computed in
Python and looked up, and with a `Gap` rows determine the edges. Windows by rows have a `RowShape`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from muntin.durations import BEFORE_TIME

SLIDING, CUMULATIVE, KNOWN = 0, 1, 2
"""The branches of the kernels that find windows by time."""


@dataclass(frozen=True)
class Periodic:
    """Windows that end at `offset + length + k * every`, for all integers k."""

    branch: int
    """SLIDING: each is `length` long; CUMULATIVE: each begins at the last multiple of `length`, plus `offset`."""
    length: int
    every: int
    offset: int

    @property
    def progressions(self) -> tuple[tuple[int, int], ...]:
        """The times at which windows begin or end: phase + k * step, as pairs (step, phase)."""
        begins = (self.every, self.offset % self.every)
        if self.branch == CUMULATIVE:
            return (begins,)
        return begins, (self.every, (self.offset + self.length) % self.every)


class EdgeSource(Protocol):
    """Computes edges and windows, one by one."""

    def next_edge(self, t: int) -> int | None:
        """Return the first time after t at which a window begins or ends."""

    def ended(self, previous: int, watermark: int) -> Iterable[tuple[int, int]]:
        """Return the windows that end in (previous, watermark]."""


@dataclass(frozen=True)
class KnownEdges:
    """Windows whose edges a Python function computes."""

    source: EdgeSource


@dataclass(frozen=True)
class Gap:
    """Windows of rows that follow each other by at most `gap`, and end that long after their last row."""

    gap: int


TimeShape = Periodic | KnownEdges | Gap


@dataclass(frozen=True)
class RowShape:
    """Windows by rows: one for every `every`-th row of a key, the rows [since, until) counted from it."""

    since: int
    until: int
    every: int = 1
    fills: bool = False
    """Whether a window without all of its rows is none, unless a query wants partial ones."""


class EdgesFrom(Enum):
    """What tells where windows begin and end, if they are neither frames nor by the numbers of rows."""

    RULE = "a rule, for any time"
    MARKS = "rows that are marked"
    VALUES = "the values of a column"
    GAPS = "how long each row keeps its window open"
    ZONES = "the wall clock that each row names"
    COUNTS = "how many rows there are at multiples of a duration"
    STEPS = "how many rows have come"
    CODE = "code of the user, for each row"


@dataclass(frozen=True)
class Tiling:
    """Frames that begin at a multiple of `hop`, less than `back` before their row, and end `delay` before it."""

    hop: int
    """0 if all of them begin with the first row."""
    back: int
    delay: int


@dataclass(frozen=True)
class FrameShape:
    """Frames by time: each holds the rows at [since, until) after its row's time, and is due `ahead` after it."""

    since: int
    until: int
    tile: int
    """The step whose last multiple at or before `since` begins a frame; 0 if it begins there."""
    low: int
    high: int
    """The start and the end, relative to its row's time, as answers tell them."""
    ahead: int
    back: int
    """How long before its row's time a frame may begin."""
    waits_at_end: bool
    """Whether a row at the very time at which a frame is due may still be in it, or have a frame due then."""

    @property
    def is_endless(self) -> bool:
        """Whether frames begin with the first row: then `since` is BEFORE_TIME, and `low` and `back` say nothing."""
        return self.since == BEFORE_TIME


@dataclass(frozen=True)
class Lookback:
    """How far back from a time the windows open at that time may reach."""

    time: int = 0
    rows: int = 0
    """The number of rows before the time."""
    gap: int | None = None
    """No window reaches back across a longer silence than this."""
    ahead: int = 0
    """How much of that time lies after a row: its window may end that much later."""


@dataclass(frozen=True)
class Density:
    """The expected density of windows before any row, for the choice of an aggregator."""

    longest: int
    """The rows of the longest window."""
    overlap: float
    """The number of windows that a row may be in."""
    step: int | None = None
    """The rows from one window to the next; None if that depends on the rate of rows."""
