"""The points that a stream is asked about, as strategies take them, and the answers of frames there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.arrays.results import Raw
from muntin.durations import END_OF_TIME
from muntin.errors import MuntinError
from muntin.types import Array
from muntin.windows.found import Points

_FIRST, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
"""The start and end of a single point."""


@dataclass(frozen=True)
class AskedPoints:
    """Times of keys: those of a key contiguous and in order."""

    keys: Array
    """The number of each point's key; -1 if unknown."""
    times: Array
    refusal: Callable[[int, int, int | None], MuntinError]
    """Returns the error for a point, a window_id and the earliest time that can be answered, None if there is none."""

    @cached_property
    def begins(self) -> Array:
        """The first point of each key."""
        if len(self.keys) == 1:
            return _FIRST
        begins = np.flatnonzero(self.keys[1:] != self.keys[:-1]) + 1
        return np.concatenate(([0], begins)) if len(self.keys) else begins

    @cached_property
    def by_key(self) -> Points:
        """The times, and the ends of each key's points."""
        if len(self.keys) == 1:
            return Points(self.times, _ONE)
        return Points(
            self.times, np.concatenate((self.begins[1:], [len(self.keys)])) if len(self.keys) else self.begins
        )

    @cached_property
    def least(self) -> int:
        """The least time."""
        return int(self.times.min(initial=END_OF_TIME))

    @property
    def asked_keys(self) -> Array:
        """The keys of the points, ascending."""
        keys: Array = self.keys[self.begins]
        return keys

    @property
    def first_times(self) -> Array:
        """The first time of each key."""
        times: Array = self.times[self.begins]
        return times

    @property
    def last_times(self) -> Array:
        """The last time of each key."""
        times: Array = self.times[self.by_key.ends - 1]
        return times


@dataclass(frozen=True)
class FramesAtPoints:
    """The answers of the frames of some definitions at all points, definition by definition."""

    windows: Sequence[int]
    """The window_ids of the definitions."""
    aggregates: Mapping[str, Raw]
    ends: Array | None
    """The ends of the frames; None if no aggregate asks for them."""
    begins: Array
    """Since when the frames hold rows."""
