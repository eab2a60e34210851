"""FlatFit: a ring in which each slot records how far its aggregate reaches.

A query follows these pointers from the oldest row to the end, and on the way back stores in every visited slot the
aggregate from there to the end, and a pointer to the end. The next query then skips them all. Each row is visited a
bounded number of times before it leaves: at most three combines per slide, amortised; a single query may take n.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.aggregators.states import States
from muntin.errors import UnsupportedOperationError
from muntin.kernels.vocabulary import Ints, Outputs, Slots, State, combine, emit, hold, inlined, kernel, load, store
from muntin.types import Array


class FlatFitWindow(NamedTuple):
    """A ring whose slots hold aggregates of different reach."""

    slots: Slots
    times: Ints
    marks: Ints
    reach: Ints
    """The position up to which each slot's aggregate reaches."""
    stack: Ints
    """The positions that a query has visited."""


@inlined
def push(window: FlatFitWindow, time: int, state: State) -> None:
    """Append a state; it reaches to the position after it."""
    slots, times, marks, reach = window.slots, window.times, window.marks, window.reach
    at = marks[END] & (len(slots) - 1)
    store(slots, at, state)
    times[at] = time
    marks[END] += 1
    reach[at] = marks[END]


@inlined
def pop(window: FlatFitWindow) -> None:
    """Remove the oldest state."""
    window.marks[FRONT] += 1


@inlined
def aggregate_from(window: FlatFitWindow, position: int) -> State:
    """Return the aggregate from a position to the end, and extend every visited slot to the end."""
    slots, marks, reach, stack = window.slots, window.marks, window.reach, window.stack
    last = len(slots) - 1
    end = marks[END]
    depth = 0
    at = position
    while reach[at & last] < end:
        stack[depth] = at
        depth += 1
        at = reach[at & last]
    state = hold(load(slots, at & last))
    while depth > 0:
        depth -= 1
        at = stack[depth]
        state = combine(load(slots, at & last), state)
        store(slots, at & last, state)
        reach[at & last] = end
    return state


@inlined
def total(window: FlatFitWindow) -> State:
    """Return the aggregate of the whole window."""
    return aggregate_from(window, window.marks[FRONT])


@kernel
def answer_suffix(window: FlatFitWindow, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end."""
    emit(outputs, 0, aggregate_from(window, position))


class FlatFit(RingAggregator):
    """In order; any associative aggregation; amortised at most 3 combines for an insert, an eviction and a query.

    An insert and an eviction take none; a query processes what has arrived since the last one, n - 1 at worst.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.FlatFit(agg.concat("v"))
    >>> window.bulk_insert([1, 2, 3, 4], "abcd")
    >>> window.evict()
    >>> window.query()
    'bcd'
    """

    structure: ClassVar[tuple[Any, ...]] = (push, pop, aggregate_from, total, answer_suffix)
    entries: ClassVar[tuple[str, ...]] = ("answer_suffix",)
    layout: ClassVar[Any] = FlatFitWindow
    ring_fields: ClassVar[frozenset[str]] = frozenset({"slots", "times", "reach", "stack"})

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (np.zeros(capacity, np.int64), np.zeros(capacity, np.int64))

    def _evict_many(self, count: int) -> None:
        """O(1): only the front moves."""
        self._marks[FRONT] += count

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """As a query, for a range that reaches the end."""
        if end != self._marks[END]:
            raise UnsupportedOperationError(
                "FlatFit holds aggregates that reach further than this range; FlatFat and Fiba answer any range"
            )
        self._module.answer_suffix(self._window, begin, outputs)

    def _check_structure(self, states: States, require: Any) -> None:
        front, end = int(self._marks[FRONT]), int(self._marks[END])
        slots, reach = self._window.slots, self._window.reach
        for at in range(front, end):
            there = int(reach[at & (len(slots) - 1)])
            require(at < there <= end, f"the slot at {at} reaches to {there}, in a window of [{front}, {end})")
