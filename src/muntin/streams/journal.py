"""Undoing what failed: a state that was saved once in a while, and what has happened since.

Saving a whole state before each push would cost more than most pushes. So it is saved when as many rows have come as
it is long; to go back, it is loaded and the pushes since then are taken once more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

from muntin.errors import AggregationOverflowError
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array

_LEAST = 10_000


class Kept(Protocol):
    """What can be saved and loaded."""

    def save(self) -> dict[str, Array]:
        """Return the whole state."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


class Journal:
    """What was done to something since its state was last saved; nothing until it is first asked to undo."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
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
        if self._saved is None or self._rows > max(_LEAST, size):
            self._saved, self._steps, self._rows = self._kept.save(), [], 0
        saved, count = self._saved, len(self._steps)

        def back() -> None:
            assert saved is not None
            self._kept.load(saved)
            for step in self._steps[:count]:
                step()
            self._saved, self._steps = saved, self._steps[:count]

        return back


class Replayed(Strategy):
    """A strategy that undoes what failed by doing once more what did not."""

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

    def undo(self) -> Callable[[], None]:
        """Return what brings back the state of now. Amortised O(1) a row."""
        metrics = self.metrics()
        return self._journal.undo(metrics["slices"] + metrics["kept"])

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say which aggregations overflowed."""
        try:
            yield
        except OverflowError as error:
            raise AggregationOverflowError(f"{', '.join(map(str, self.plan.aggregates.values()))}: {error}") from error
