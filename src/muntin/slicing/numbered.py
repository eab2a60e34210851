"""Context-free windows, numbered in the order of their ends: the windows that hold a time are neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.types import Array
from muntin.windows.own import ContextFree
from muntin.windows.times import Cumulative, Sliding


class Numbered(ABC):
    """The windows of one definition, each with a number. Of two the one that ends later does not begin earlier."""

    @abstractmethod
    def holding(self, times: Array) -> tuple[Array, Array]:
        """Return for each time the first window that holds it, and the one after the last."""

    @abstractmethod
    def spans(self, numbers: Array) -> tuple[Array, Array]:
        """Return where each window begins and ends."""

    @abstractmethod
    def after(self, time: int) -> int:
        """Return the first window that ends after a time."""

    @property
    def anchor(self) -> int | None:
        """From where the numbers count, where that depends on what was asked first."""
        return None


def numbered(definition: ContextFree, anchor: int | None = None) -> Numbered:
    """Return the numbers of a definition's windows.

    >>> from muntin import window
    >>> import numpy as np
    >>> windows = numbered(window.sliding(10, every=5))
    >>> [each.tolist() for each in windows.holding(np.array([12, 15]))], windows.after(15)
    ([[1, 2], [3, 4]], 2)
    """
    if isinstance(definition, Sliding):
        return _Sliding(definition.range, definition.every, definition.offset)
    if isinstance(definition, Cumulative):
        return _Growing(definition.range, definition.every, definition.offset)
    return _Own(definition, anchor)


@dataclass(frozen=True)
class _Sliding(Numbered):
    """Number k begins at k * every + offset."""

    range: int
    every: int
    offset: int

    def holding(self, times: Array) -> tuple[Array, Array]:
        since = times - self.offset
        return (since - self.range) // self.every + 1, since // self.every + 1

    def spans(self, numbers: Array) -> tuple[Array, Array]:
        start = numbers * self.every + self.offset
        return start, start + self.range

    def after(self, time: int) -> int:
        return (time - self.offset - self.range) // self.every + 1


@dataclass(frozen=True)
class _Growing(Numbered):
    """Number k ends at k * every + offset."""

    range: int
    every: int
    offset: int

    def holding(self, times: Array) -> tuple[Array, Array]:
        since = times - self.offset
        return since // self.every + 1, (since // self.range + 1) * (self.range // self.every) + 1

    def spans(self, numbers: Array) -> tuple[Array, Array]:
        end = numbers * self.every + self.offset
        return end - 1 - (end - 1 - self.offset) % self.range, end

    def after(self, time: int) -> int:
        return (time - self.offset) // self.every + 1


class _Own(Numbered):
    """A user's windows, asked for as far as rows have come: number 0 is the first that ends after the anchor."""

    def __init__(self, definition: ContextFree, anchor: int | None) -> None:
        self._definition = definition
        self._anchor = anchor
        self._low = self._high = 0 if anchor is None else anchor
        """All windows are known that end in (low, high]."""
        self._before = 0
        """How many of those known end by the anchor."""
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def anchor(self) -> int | None:
        return self._anchor

    def holding(self, times: Array) -> tuple[Array, Array]:
        if not len(times):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._know(int(times.min()), int(times.max()))
        first = np.searchsorted(np.array(self._ends, np.int64), times, "right")
        last = np.searchsorted(np.array(self._starts, np.int64), times, "right")
        return first - self._before, np.maximum(first, last) - self._before

    def spans(self, numbers: Array) -> tuple[Array, Array]:
        places = numbers + self._before
        return np.array(self._starts, np.int64)[places], np.array(self._ends, np.int64)[places]

    def after(self, time: int) -> int:
        """Return the first known window that ends after a time: of those unknown no row is in any."""
        return bisect_right(self._ends, time) - self._before

    def _know(self, oldest: int, youngest: int) -> None:
        """Ask for the windows that end after the oldest time and begin by the youngest."""
        if self._anchor is None:
            self._anchor = self._low = self._high = oldest
        if oldest < self._low:
            earlier: list[Any] = list(self._definition.ended(oldest, self._low))
            self._starts[:0] = [start for start, _ in earlier]
            self._ends[:0] = [end for _, end in earlier]
            self._before += len(earlier)
            self._low = oldest
        while not self._starts or self._starts[-1] <= youngest:
            edge = self._definition.next_edge(self._high)
            if edge is None:
                return
            for start, end in self._definition.ended(self._high, edge):
                self._starts.append(start)
                self._ends.append(end)
            self._high = edge
