"""Undoing what failed: a state that was saved once in a while, and what has happened since.

Saving a whole state before each push would cost more than most pushes. So it is saved when as many rows have come as
it is long; to go back, it is loaded and the pushes since then are taken once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from muntin.types import Array

_LEAST = 10_000


class Kept(Protocol):
    """What can be saved and loaded."""

    def save(self) -> dict[str, Array]:
        """Return the whole state."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


class Journal:
    """What was done to something since its state was last saved; nothing at all unless `keeping`."""

    def __init__(self, kept: Kept, *, keeping: bool) -> None:
        self._kept = kept
        self._keeping = keeping
        self._saved: dict[str, Array] | None = None
        self._steps: list[Callable[[], Any]] = []
        self._rows = 0

    def note(self, rows: int, step: Callable[[], Any]) -> None:
        """Note what was done, so that it can be done again, and how many rows it took."""
        if self._saved is not None:
            self._steps.append(step)
            self._rows += rows

    def undo(self, size: int) -> Callable[[], None]:
        """Return what brings back the state of now, which is so many slices long."""
        if self._keeping and (self._saved is None or self._rows > max(_LEAST, size)):
            self._saved, self._steps, self._rows = self._kept.save(), [], 0
        saved, count = self._saved, len(self._steps)

        def back() -> None:
            if saved is not None:
                self._kept.load(saved)
                for step in self._steps[:count]:
                    step()
                self._saved, self._steps = saved, self._steps[:count]

        return back
