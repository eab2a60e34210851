"""When each key had its last row, for streams that forget keys which have been silent for long."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.durations import BEFORE_TIME
from muntin.restoring import RestorePoint
from muntin.types import Array

_STEPS = 16
"""How often keys are looked at within the time after which they are forgotten."""


class Silence:
    """The time of the last row of each key, by its number.

    Keys are looked at when the watermark has passed a multiple of a sixteenth of that time, so that which are forgotten
    depends on the watermark alone. O(1) a row, and O(keys) then.

    >>> silence = Silence(forget_after=16, lateness=0)
    >>> silence.note(np.array([0, 1, 0]), np.array([5, 9, 7]))
    >>> silence.silent(22).tolist(), silence.silent(24).tolist(), silence.silent(24).tolist()
    ([], [0], [])
    """

    def __init__(self, forget_after: int, lateness: int) -> None:
        self._span, self._lateness = forget_after, lateness
        self._step = max(1, forget_after // _STEPS)
        self._last = np.zeros(0, np.int64)
        self._looked = BEFORE_TIME
        self._before: list[tuple[Array, Array]] = []

    def note(self, keys: Array, times: Array) -> None:
        """Note rows."""
        if not len(keys):
            return
        top = int(keys.max()) + 1
        if top > len(self._last):
            more = np.full(max(top, 2 * len(self._last)) - len(self._last), BEFORE_TIME)
            self._last = np.concatenate((self._last, more))
        touched = np.unique(keys)
        self._before.append((touched, self._last[touched]))
        np.maximum.at(self._last, keys, times)

    def silent(self, watermark: int) -> Array:
        """Return the keys that have been silent for long by now, each once; they are known no more."""
        until = watermark - self._lateness
        if until - self._step < self._looked:
            return np.zeros(0, np.int64)
        self._looked = until - until % self._step
        held = (self._last > BEFORE_TIME) & (self._last < self._looked - self._span)
        keys = np.flatnonzero(held)
        self._before.append((keys, self._last[keys]))
        self._last[keys] = BEFORE_TIME
        return keys

    def release(self, keys: Array) -> None:
        """Forget keys whose numbers are given to others."""
        self._last[keys[keys < len(self._last)]] = BEFORE_TIME

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current times. O(1), then O(rows since)."""
        self._before.clear()
        looked = self._looked

        def restore() -> None:
            while self._before:
                keys, times = self._before.pop()
                self._last[keys] = times
            self._looked = looked

        return restore

    def save(self) -> dict[str, Array]:
        """Return the times as arrays by name."""
        return {"last": self._last.copy(), "looked": np.array([self._looked])}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over what `save` returned."""
        self._last, self._looked = state["last"].copy(), int(state["looked"][0])
