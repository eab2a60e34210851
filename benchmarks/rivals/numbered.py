"""Context-free windows, numbered in the order of their ends: the windows that hold a time are neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.sliding import Sliding


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
    def known(self) -> tuple[int, ...]:
        """From where the numbers count and between which times windows are known, where that depends on the rows."""
        return ()


def numbered(definition: ContextFree, known: tuple[int, ...] = ()) -> Numbered:
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
    return _Own(definition, known)


@dataclass(frozen=True)
class _Sliding(Numbered):
    """Number k begins at k * every + offset."""

    range: Any
    every: Any
    offset: Any

    def holding(self, times: Array) -> tuple[Array, Array]:
        since = times - self.offset
        return (since - self.range) // self.every + 1, since // self.every + 1

    def spans(self, numbers: Array) -> tuple[Array, Array]:
        start = numbers * self.every + self.offset
        return start, start + self.range

    def after(self, time: int) -> int:
        return int((time - self.offset - self.range) // self.every + 1)


@dataclass(frozen=True)
class _Growing(Numbered):
    """Number k ends at k * every + offset."""

    range: Any
    every: Any
    offset: Any

    def holding(self, times: Array) -> tuple[Array, Array]:
        since = times - self.offset
        return since // self.every + 1, (since // self.range + 1) * (self.range // self.every) + 1

    def spans(self, numbers: Array) -> tuple[Array, Array]:
        end = numbers * self.every + self.offset
        return end - 1 - (end - 1 - self.offset) % self.range, end

    def after(self, time: int) -> int:
        return int((time - self.offset) // self.every + 1)


class _Own(Numbered):
    """A user's windows, asked for as far as rows have come: number 0 is the first that ends after the anchor."""

    def __init__(self, definition: ContextFree, known: tuple[int, ...]) -> None:
        self._definition = definition
        self._anchor: int | None = None
        self._low = self._high = 0
        if known:
            self._anchor, self._low, self._high = known
        """All windows are known that end in (low, high]."""
        spans: list[Any] = list(definition.ended(self._low, self._high)) if known else []
        self._starts: list[int] = [start for start, _ in spans]
        self._ends: list[int] = [end for _, end in spans]
        self._before = bisect_right(self._ends, self._low if self._anchor is None else self._anchor)
        """How many of those known end by the anchor."""

    @property
    def known(self) -> tuple[int, ...]:
        return () if self._anchor is None else (self._anchor, self._low, self._high)

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

    def start_after(self, time: int) -> int:
        """Return where the first known window begins that ends after a time; a time after all others if none does."""
        place = bisect_right(self._ends, time)
        return self._starts[place] if place < len(self._starts) else 2**63 - 1

    def begin_after(self, time: int) -> int | None:
        """Return the first time after this one at which a window begins, or None."""
        self._know(time, time)
        place = bisect_right(self._starts, time)
        return self._starts[place] if place < len(self._starts) else None

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


# ---------------------------------------------------------------- many definitions at once


class Bank:
    """Definitions of one kind, asked together: each answer has one element for each of them."""

    def __init__(self, ids: Array, windows: Numbered, definition: ContextFree) -> None:
        self.ids = ids
        self.windows = windows
        self.definition = definition
        self.periodic = not isinstance(windows, _Own)

    def _each(self, time: Any) -> Array:
        return np.full(len(self.ids), time, np.int64)

    def first_after(self, time: Any) -> Array:
        """Return the first window of each that ends after a time, one for all or each its own.

        Of one's own windows only those count that are known by now.
        """
        if isinstance(self.windows, _Own):
            return np.array([self.windows.after(int(time))], np.int64)
        return self.windows.holding(self._each(time))[0]

    def last_of(self, time: int) -> Array:
        """Return for each the window after the last that begins by a time."""
        return self.windows.holding(self._each(time))[1]

    def begin_after(self, time: int) -> int | None:
        """Return the first time after this one at which a window begins."""
        if isinstance(self.windows, _Own):
            return self.windows.begin_after(time)
        step = self.windows.every if isinstance(self.windows, _Sliding) else self.windows.range  # type: ignore[attr-defined]
        return int((time + step - (time - self.windows.offset) % step).min())  # type: ignore[attr-defined]

    def start_after(self, time: int) -> int:
        """Return where the first window begins that ends after a time."""
        if isinstance(self.windows, _Own):
            return self.windows.start_after(time)
        return int(self.windows.spans(self.first_after(time))[0].min())

    def last_end(self, times: Array) -> Array:
        """Return for each time the end of the last window that holds it, or a time before all others."""
        ends = np.full(len(times), -(2**63))
        for i in range(len(self.ids)):
            windows = self._single(i)
            first, last = windows.holding(times)
            held = first < last
            ends[held] = np.maximum(ends[held], windows.spans(last[held] - 1)[1])
        return ends

    def first_ending_after(self, times: Array, limit: int) -> Array:
        """Return for each definition the first of ascending times that is in a window that ends after the limit."""
        found = np.full(len(self.ids), 2**63 - 1)
        for i in range(len(self.ids)):
            windows = self._single(i)
            _, last = windows.holding(times)
            held = times[windows.spans(last - 1)[1] > limit] if self.periodic else times[:0]
            if len(held):
                found[i] = held[0]
        return found

    def _single(self, i: int) -> Numbered:
        if isinstance(self.windows, _Sliding | _Growing):
            shape = (self.windows.range, self.windows.every, self.windows.offset)
            return type(self.windows)(*(int(np.asarray(each)[i]) for each in shape))
        return self.windows

    def between(self, first: Array, last: Array, times: Array | None) -> tuple[Array, Array, Array, Array, Array]:
        """Return (id, number, start, end, periodic) of the windows [first, last) of each definition.

        Given the ascending times of rows, stretches that are much longer than these lose the windows without rows.
        """
        sizes = np.maximum(last - first, 0)
        numbers = []
        for i in np.flatnonzero(sizes).tolist():
            if times is not None and sizes[i] > 16 * len(times) + 64:
                held = _ranges(*self._single(i).holding(times))
                numbers.append(held[(held >= first[i]) & (held < last[i])])
                sizes[i] = len(numbers[-1])
            else:
                numbers.append(np.arange(first[i], last[i]))
        which = np.repeat(np.arange(len(self.ids)), sizes)
        number = np.concatenate([np.zeros(0, np.int64), *numbers])
        if isinstance(self.windows, _Sliding | _Growing):
            shape = (self.windows.range, self.windows.every, self.windows.offset)
            start, end = type(self.windows)(*(np.asarray(each)[which] for each in shape)).spans(number)
        else:
            start, end = self.windows.spans(number)
        return self.ids[which], number, start, end, np.full(len(which), self.periodic)

    @property
    def known(self) -> tuple[int, ...]:
        """What `Numbered.known` says."""
        return self.windows.known

    def load(self, known: tuple[int, ...]) -> None:
        """Know what was known before."""
        if not self.periodic:
            self.windows = numbered(self.definition, known)


def _ranges(first: Array, last: Array) -> Array:
    """Return all numbers in the ranges [first, last), both bounds ascending, each once."""
    begin = np.maximum(first, np.concatenate((first[:1], last[:-1])))
    sizes = np.maximum(last - begin, 0)
    return np.repeat(begin - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())


def banks(windows: Mapping[int, ContextFree]) -> list[Bank]:
    """Return definitions by kind: those whose windows follow from three numbers are asked together."""
    found = []
    for kind, maker in ((Sliding, _Sliding), (Cumulative, _Growing)):
        mine = {i: each for i, each in windows.items() if isinstance(each, kind)}
        if mine:
            shape = np.array([(each.range, each.every, each.offset) for each in mine.values()], np.int64).T
            found.append(Bank(np.array(list(mine)), maker(*shape), next(iter(mine.values()))))
    own = {i: each for i, each in windows.items() if not isinstance(each, Sliding | Cumulative)}
    return found + [Bank(np.array([i]), numbered(each), each) for i, each in own.items()]
