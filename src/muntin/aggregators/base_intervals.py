"""BaseIntervals: Arasu and Widom's B-Int. Levels of intervals that double in length, each aggregated once.

    level 2   [0 .......... 4) [4 .......... 8)
    level 1   [0 ... 2) [2 ... 4) [4 ... 6) ...
    level 0   0    1    2    3    4    5    ...      the rows

The interval j of level l covers the positions [j 2^l, (j + 1) 2^l). It is computed from its two halves when its last
row comes, so an insert takes fewer than one combine, amortised, and log2(n) at most; an eviction takes none. A query
cuts the window into the longest intervals that fit, 2 log2(n) at most. `FlatFat` does the same work in a tree addressed
by shifts alone; this is its baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.aggregators.states import States
from muntin.kernels.runtime import lowest_bit
from muntin.kernels.vocabulary import Ints, Outputs, Slots, State, combine, emit, hold, inlined, kernel, load, store
from muntin.types import Array


class IntervalWindow(NamedTuple):
    """The rings of all levels in `slots`, one after another."""

    slots: Slots
    times: Ints
    marks: Ints
    offsets: Ints
    """The start of each level's ring, and the end of the last one."""


@inlined
def place_of(offsets: Ints, level: int, interval: int) -> int:
    """Return the slot of an interval's aggregate: each level is its own ring, half as long as the one below."""
    at: int = offsets[level] + (interval & (offsets[level + 1] - offsets[level] - 1))
    return at


@inlined
def push(window: IntervalWindow, time: int, state: State) -> None:
    """Append a state, and compute the intervals that it completes."""
    slots, times, marks, offsets = window.slots, window.times, window.marks, window.offsets
    end = marks[END]
    times[end & (len(times) - 1)] = time
    store(slots, place_of(offsets, 0, end), state)
    level = 0
    first = end  # the interval of its level that ends with this row
    while first & 1 == 1 and (first - 1) << level >= marks[FRONT]:
        left = load(slots, place_of(offsets, level, first - 1))
        right = load(slots, place_of(offsets, level, first))
        level += 1
        first >>= 1
        store(slots, place_of(offsets, level, first), combine(left, right))
    marks[END] = end + 1


@inlined
def pop(window: IntervalWindow) -> None:
    """Remove the oldest state."""
    window.marks[FRONT] += 1


@inlined
def highest_level(begin: int, end: int) -> int:
    """Return the level of the longest interval that begins at `begin` and ends at `end` or before."""
    level = lowest_bit(begin | (1 << 62))
    while 1 << level > end - begin:
        level -= 1
    return level


@inlined
def between(window: IntervalWindow, begin: int, end: int) -> State:
    """Return the aggregate of the positions [begin, end), at least one, from the longest intervals that fit."""
    slots, offsets = window.slots, window.offsets
    level = highest_level(begin, end)
    state = hold(load(slots, place_of(offsets, level, begin >> level)))
    begin += 1 << level
    while begin < end:
        level = highest_level(begin, end)
        state = combine(state, load(slots, place_of(offsets, level, begin >> level)))
        begin += 1 << level
    return state


@inlined
def total(window: IntervalWindow) -> State:
    """Return the aggregate of the whole window."""
    return between(window, window.marks[FRONT], window.marks[END])


@kernel
def answer_between(window: IntervalWindow, begin: int, end: int, outputs: Outputs) -> None:
    """Lower the aggregate of the positions [begin, end)."""
    emit(outputs, 0, between(window, begin, end))


class BaseIntervals(RingAggregator):
    """In order; any associative aggregation; fewer than 1 combine per insert amortised, 2 log2(n) per query.

    An eviction, of one row or many, takes none.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.BaseIntervals(agg.concat("v"))
    >>> window.bulk_insert([1, 2, 3, 4, 5], "abcde")
    >>> window.evict()
    >>> window.query(), window.range_query(3, 4)
    ('bcde', 'cd')
    """

    structure: ClassVar[tuple[Any, ...]] = (place_of, push, pop, highest_level, between, total, answer_between)
    entries: ClassVar[tuple[str, ...]] = ("answer_between",)
    layout: ClassVar[Any] = IntervalWindow
    states_a_row: ClassVar[int] = 2

    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi: O(log n)."""
        return super().range_query(lo, hi)

    def _empty(self, capacity: int) -> IntervalWindow:
        lengths = [capacity >> level for level in range(capacity.bit_length())]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        marks = np.zeros(self.mark_count, np.int64)
        slots, times = self._binding.slots(2 * capacity), np.zeros(capacity, np.int64)
        return IntervalWindow(slots, times, marks, offsets.astype(np.int64))

    def _intervals(self) -> list[Array]:
        """Return the intervals of each level that lie in the window."""
        front, end = int(self._marks[FRONT]), int(self._marks[END])
        return [np.arange(-(-front >> level), end >> level) for level in range(len(self._window.offsets) - 1)]

    def _place(self, level: int, intervals: Any) -> Any:
        """Return the slots of some intervals of a level."""
        offsets = self._window.offsets
        return offsets[level] + (intervals & (offsets[level + 1] - offsets[level] - 1))

    def _places(self) -> Array:
        """Return the slots of all intervals in the window, level by level."""
        return np.concatenate([self._place(level, intervals) for level, intervals in enumerate(self._intervals())])

    def _reserve(self, rows: int) -> None:
        if rows > len(self._window.times):
            held, capacity = self._arrays(), len(self._window.times)
            while capacity < rows:
                capacity *= 2
            self._move_in(held, capacity)

    def _evict_many(self, count: int) -> None:
        self._marks[FRONT] += count

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        self._module.answer_between(self._window, begin, end, outputs)

    def _arrays(self) -> dict[str, Array]:
        at = np.arange(self._marks[FRONT], self._marks[END]) & (len(self._window.times) - 1)
        return {"slots": self._window.slots[self._places()], "times": self._window.times[at], "marks": self._marks}

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        self._move_in(arrays, max(16, 1 << (len(arrays["times"]) - 1).bit_length()))

    def _move_in(self, arrays: Mapping[str, Array], capacity: int) -> None:
        """Lay out the result of `_arrays` in new rings: a longer ring holds no new intervals."""
        self._window = self._empty(capacity)
        self._marks[:] = arrays["marks"]
        self._window.times[np.arange(self._marks[FRONT], self._marks[END]) & (capacity - 1)] = arrays["times"]
        self._window.slots[self._places()] = arrays["slots"]

    def _check_structure(self, states: States, require: Any) -> None:
        slots = self._window.slots
        for level, intervals in enumerate(self._intervals()):
            for interval in intervals if level else ():
                halves = [states.load(slots, self._place(level - 1, 2 * interval + side)) for side in (0, 1)]
                whole = states.load(slots, self._place(level, interval))
                same = states.close(whole, states.combine(*halves))
                require(same, f"interval {interval} of level {level} is not what its halves are")
