"""Points of which a stream is asked, as strategies take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.errors import MuntinError
from muntin.types import Array
from muntin.windows.found import Points


@dataclass(frozen=True)
class AskedPoints:
    """Times of keys: those of a key together and in order."""

    keys: Array
    """The number of each point's key; -1 where it is not known."""
    times: Array
    refusal: Callable[[int, int, int | None], MuntinError]
    """Returns the error for a point, a window_id and the time from which on it can be answered; None if from none."""

    @cached_property
    def by_key(self) -> Points:
        """The times, and where the points of each key end."""
        changes = np.flatnonzero(np.diff(self.keys)) + 1
        ends = np.append(changes, len(self.keys)) if len(self.keys) else changes
        return Points(self.times, ends.astype(np.int64))

    @cached_property
    def asked_keys(self) -> Array:
        """The keys that are asked of, ascending."""
        keys: Array = self.keys[self.by_key.ends - 1]
        return keys

    @cached_property
    def first_times(self) -> Array:
        """The first time of each key."""
        begins = np.append(0, self.by_key.ends[:-1]) if len(self.keys) else self.by_key.ends
        times: Array = self.times[begins]
        return times

    @cached_property
    def last_times(self) -> Array:
        """The last time of each key."""
        times: Array = self.times[self.by_key.ends - 1]
        return times
