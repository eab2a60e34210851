"""Restore points of large states: an occasional copy, and the calls since then.

Copying a whole state before each push would cost more than most pushes. So it is copied after as many rows as it is
long; to restore it, the copy is loaded and the calls since then are replayed. See `muntin.restoring`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from muntin.aggregations.failing import in_words
from muntin.restoring import RestorePoint
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array

_LEAST = 10_000


class Kept(Protocol):
    """A state that can be saved and loaded."""

    def save(self) -> dict[str, Array]:
        """Return the whole state."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


class Journal:
    """The calls that changed a state since its last copy; empty until the first restore point."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._saved: dict[str, Array] | None = None
        self._steps: list[Callable[[], Any]] = []
        self._rows = 0

    def note(self, rows: int, step: Callable[[], Any]) -> None:
        """Record a successful call, to be replayed, and how many rows it took."""
        if self._saved is not None:
            self._steps.append(step)
            self._rows += rows

    def restore_point(self, size: int) -> RestorePoint:
        """Return a callback that restores the current `size` slices. Amortised O(1) per row."""
        if self._saved is None or self._rows > max(_LEAST, size):
            self._saved, self._steps, self._rows = self._kept.save(), [], 0
        saved, count = self._saved, len(self._steps)

        def restore() -> None:
            assert saved is not None
            self._kept.load(saved)
            for step in self._steps[:count]:
                step()
            self._saved, self._steps = saved, self._steps[:count]

        return restore


class Replayed(Strategy):
    """A strategy restored by replaying its successful calls."""

    @abstractmethod
    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows; see `take`."""

    @abstractmethod
    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Answer windows; see `emit`."""

    @cached_property
    def _journal(self) -> Journal:
        return Journal(self)

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took."""
        with self._in_words():
            taken = self._take(batch, watermark)
        self._journal.note(len(batch.times), lambda: self._take(batch, watermark))
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        with self._in_words():
            answers = self._emit(watermark, horizon, early)
        self._journal.note(1, lambda: self._emit(watermark, horizon, early))
        return answers

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state. Amortised O(1) per row."""
        metrics = self.metrics()
        return self._journal.restore_point(metrics.get("slices", 0) + metrics["kept"])

    def _in_words(self) -> in_words:
        return in_words(self.plan.aggregates.values(), self.plan.types.values())
