"""The time of each key's last row, for streams that forget silent keys."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.durations import BEFORE_TIME
from muntin.restoring import RestorePoint
from muntin.types import Array

_STEPS = 16
"""How often keys are checked within `forget_after`."""


class Silence:
    """The time of the last row of each key, by its number.

    Keys are checked when the watermark passes a multiple of a sixteenth of `forget_after`, so which ones are forgotten
    depends on the watermark alone. O(1) per row, O(keys) per check.

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
        """Record the times of rows."""
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
        """Return the keys silent for `forget_after`, each once, and stop tracking them."""
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
        """Forget keys whose numbers are reassigned."""
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
        """Return the state as arrays by name."""
        return {"last": self._last.copy(), "looked": np.array([self._looked])}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        self._last, self._looked = state["last"].copy(), int(state["looked"][0])
