"""Windows whose edges Python computes, as arrays for the kernels, which cannot call Python for the next edge.

Only the surroundings of rows are known: the intervals between edges that hold rows, and their windows. A row beyond
extends them edge by edge, or, if it is far away, starts at its own time: a slice may begin where no edge is, as long as
no edge lies within it. A known interval never changes, since slices were cut by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.types import Array
from muntin.windows.shapes import EdgeSource

_STEPS = 64
"""The most edges to walk from one interval with rows to the next."""
_FEW = 64
"""Fewer intervals, or windows, are not worth forgetting."""


class DefinitionEdges:
    """The known intervals and windows of one definition.

    >>> from muntin import window
    >>> class Fives(window.ContextFree):
    ...     def next_edge(self, t):
    ...         return t - t % 5 + 5
    ...     def ended(self, previous, watermark):
    ...         return [(end - 5, end) for end in range(self.next_edge(previous), watermark + 1, 5)]
    >>> known = DefinitionEdges(Fives())
    >>> known.cover(np.array([12, 17, 99]))
    True
    >>> known.lows.tolist(), known.highs.tolist(), known.starts.tolist()
    ([12, 15, 95], [15, 20, 100], [10, 15, 20, 95, 100])
    """

    def __init__(self, definition: EdgeSource) -> None:
        self.definition = definition
        self.lows, self.highs = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """The intervals, ascending: no edge lies within one."""
        self.starts, self.ends = np.zeros(0, np.int64), np.zeros(0, np.int64)
        """The windows, both bounds ascending: all that hold a time in an interval, and others."""
        self._walked: list[tuple[int, int, int]] = []
        """Spans (after, until, top): all windows that end in one are known, and the last of them begins at top."""
        self._coming = (END_OF_TIME, BEFORE_TIME, BEFORE_TIME)
        """The first window that ends after a time: that time, and the window's start and end."""

    def cover(self, times: Array) -> bool:
        """Find the intervals that hold `times`, and their windows; return whether some were new.

        O(log n) per time, and a few calls of the definition per new interval.
        """
        new = np.unique(times[~self._covered(times)]).tolist()
        if not new:
            return False
        lows: list[int] = []
        highs: list[int] = []
        while new:
            place = int(np.searchsorted(self.lows, new[0], "right"))
            before = max([*highs[-1:], *self.highs[max(0, place - 1) : place].tolist()], default=None)
            low, high = self._interval(new[0], before)
            lows.append(low)
            highs.append(min([high, *self.lows[place : place + 1].tolist()]))
            new = new[bisect_left(new, highs[-1]) :]
        self.lows = np.sort(np.concatenate((self.lows, np.array(lows, np.int64))))
        self.highs = np.sort(np.concatenate((self.highs, np.array(highs, np.int64))))
        self._know_windows(lows, highs)
        return True

    def _covered(self, times: Array) -> Array:
        if not len(self.lows):
            return np.zeros(len(times), np.bool_)
        place = np.searchsorted(self.lows, times, "right") - 1
        return (place >= 0) & (times < self.highs[place])

    def _interval(self, time: int, before: int | None) -> tuple[int, int]:
        """Return an interval around a time with no edge inside; `before` is the end of the previous one."""
        if before is not None:
            low = before
            for _ in range(_STEPS):
                high = self._next_edge(low)
                if high > time:
                    return low, high
                low = high
        return time, self._next_edge(time)

    def _next_edge(self, time: int) -> int:
        edge = self.definition.next_edge(time)
        return END_OF_TIME if edge is None else min(edge, END_OF_TIME)

    def _know_windows(self, lows: Sequence[int], highs: Sequence[int]) -> None:
        """Find the windows that hold a time in these intervals."""
        found: list[tuple[int, int]] = []
        for low, high in zip(lows, highs, strict=True):
            found += self._windows_of(low, high)
        if found:
            pairs = np.array([(min(end, END_OF_TIME), max(start, BEFORE_TIME)) for start, end in found], np.int64)
            known = np.stack((self.ends, self.starts), axis=1)
            both = np.unique(np.concatenate((known, pairs)), axis=0)
            self.ends, self.starts = np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])

    def _windows_of(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the unknown ones among the windows that end after `low` and begin before `high`."""
        found: list[tuple[int, int]] = []
        at, top = low, BEFORE_TIME
        while top < high and at < END_OF_TIME:
            number = bisect_left(self._walked, (at + 1,)) - 1
            if number >= 0 and at < self._walked[number][1]:
                _, at, top = self._walked[number]
                continue
            until = self._next_edge(at)
            ended = list(self.definition.ended(at, until))
            top = max([top, *(start for start, _ in ended)])
            if number >= 0 and self._walked[number][1] == at:
                since, _, before = self._walked[number]
                self._walked[number] = (since, until, max(before, top))
            else:
                self._walked.insert(number + 1, (at, until, top))
            found += ended
            at = until
        return found

    def holds(self, times: Array) -> Array:
        """Return which times, all covered, are in a window. O(log n) per time."""
        place = np.searchsorted(self.ends, times, "right")
        known = place < len(self.ends)
        known[known] = self.starts[place[known]] <= times[known]
        return known

    def first_needed(self, final_until: int) -> int:
        """Return the least time at which a window that ends after `final_until` begins."""
        since, start, end = self._coming
        if not since <= final_until < end:
            at = final_until
            ended: list[tuple[int, int]] = []
            while not ended and at < END_OF_TIME:
                until = self._next_edge(at)
                ended = list(self.definition.ended(at, until))
                at = until
            start, end = min(ended, default=(END_OF_TIME, END_OF_TIME))
            self._coming = (final_until, start, end)
        return max(BEFORE_TIME, min(start, END_OF_TIME))

    def forget(self, oldest: int, final_until: int) -> bool:
        """Forget intervals before the first slice, and final windows, if there are many; return whether it did."""
        gone = int(np.searchsorted(self.highs, min(oldest, final_until), "right"))
        over = int(np.searchsorted(self.ends, final_until, "right"))
        if max(gone, over) < _FEW or 2 * max(gone, over) < max(len(self.highs), len(self.ends)):
            return False
        self.lows, self.highs = self.lows[gone:], self.highs[gone:]
        self.starts, self.ends = self.starts[over:], self.ends[over:]
        self._walked = [span for span in self._walked if span[1] > final_until]
        return True

    def load(self, lows: Array, highs: Array) -> None:
        """Replace everything by these intervals and their windows."""
        self.__init__(self.definition)  # type: ignore[misc]
        self.lows, self.highs = lows, highs
        self._know_windows(lows.tolist(), highs.tolist())


class KnownEdges:
    """The known edges of all such definitions of a plan."""

    def __init__(self, definitions: Sequence[EdgeSource]) -> None:
        self.each = tuple(DefinitionEdges(definition) for definition in definitions)

    def of(self, definition: EdgeSource) -> DefinitionEdges | None:
        """Return the known edges of a definition, if it is one of these."""
        return next((each for each in self.each if each.definition is definition), None)

    def _changed(self) -> None:
        self.__dict__.pop("intervals", None)
        self.__dict__.pop("windows", None)

    def cover(self, times: Array) -> None:
        """Find all that kernels need for rows of these times."""
        new = [each.cover(times) for each in self.each]
        if any(new):
            self._changed()

    def forget(self, oldest: int, final_until: int) -> None:
        """Forget what neither slices, the first at `oldest`, nor windows need."""
        gone = [each.forget(oldest, final_until) for each in self.each]
        if any(gone):
            self._changed()

    def holds(self, times: Array) -> Array:
        """Return which times are in a window of any definition."""
        held = np.zeros(len(times), np.bool_)
        for each in self.each:
            held |= each.holds(times)
        return held

    @cached_property
    def intervals(self) -> tuple[Array, Array, Array]:
        """The intervals of all definitions, and the ends of each definition's, as kernels take them."""
        return _side_by_side([(each.lows, each.highs) for each in self.each])

    @cached_property
    def windows(self) -> tuple[Array, Array, Array]:
        """The windows of all definitions, and the ends of each definition's, as kernels take them."""
        return _side_by_side([(each.starts, each.ends) for each in self.each])

    def save(self) -> dict[str, Array]:
        """Return the intervals that slices were cut by; the windows follow from them."""
        lows = {f"{i}.lows": each.lows for i, each in enumerate(self.each)}
        return lows | {f"{i}.highs": each.highs for i, each in enumerate(self.each)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        for i, each in enumerate(self.each):
            each.load(state[f"{i}.lows"], state[f"{i}.highs"])
        self._changed()


def _side_by_side(pairs: Sequence[tuple[Array, Array]]) -> tuple[Array, Array, Array]:
    none = np.zeros(0, np.int64)
    bounds = np.cumsum([0, *(len(first) for first, _ in pairs)]).astype(np.int64)
    return np.concatenate([none, *(a for a, _ in pairs)]), np.concatenate([none, *(b for _, b in pairs)]), bounds
