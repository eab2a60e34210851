"""SlickDeque: two halves, each for the aggregations that suit it.

For selective ones, whose combine returns one of its arguments (max, min, first, last, arg_max): only the rows that can
still become the answer are kept, in a list from the best to the youngest. A new row drops those at the end of the list
that it beats, and the answer is the first. Each row is dropped once, so an insert takes fewer than two combines,
amortised; a query and an eviction take none. For invertible ones: a running aggregate, as in `SubtractOnEvict`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.ring import RingAggregator
from muntin.aggregators.states import States
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.errors import NotInvertibleError, UnsupportedOperationError
from muntin.kernels.vocabulary import Outputs, State, counts, emit, inlined, kernel, load, prefers_newer, store
from muntin.types import Array

FIRST, LAST, NONE = 2, 3, -1


@inlined
def push(window: Any, time: int, state: State) -> None:
    """Append a state, and forget those before it that can never be the answer again."""
    slots, times, marks, before, after = window
    last = len(slots) - 1
    at = marks[1]
    store(slots, at & last, state)
    times[at & last] = time
    marks[1] = at + 1
    if not counts(state):
        return
    node = marks[3]
    while node >= 0 and prefers_newer(load(slots, node & last), state):
        node = before[node & last]
    before[at & last] = node
    if node >= 0:
        after[node & last] = at
    else:
        marks[2] = at
    marks[3] = at


@inlined
def pop(window: Any) -> None:
    """Remove the oldest state; if it was the answer, the next in the list is."""
    _, times, marks, before, after = window
    last = len(times) - 1
    if marks[2] == marks[0]:
        if marks[2] == marks[3]:
            marks[2] = -1
            marks[3] = -1
        else:
            marks[2] = after[marks[0] & last]
            before[marks[2] & last] = -1
    marks[0] += 1


@inlined
def total(window: Any) -> State:
    """Return the first of the list; where only nulls are in the window, one of them."""
    slots, _, marks, _, _ = window
    if marks[2] >= 0:
        return load(slots, marks[2] & (len(slots) - 1))
    return load(slots, marks[0] & (len(slots) - 1))


@kernel
def answer_suffix(window: Any, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end: the first of the list that is not before it."""
    slots, _, marks, before, _ = window
    last = len(slots) - 1
    node = marks[3]
    while node >= position and before[node & last] >= position:
        node = before[node & last]
    if node >= position:
        emit(outputs, 0, load(slots, node & last))
    else:
        emit(outputs, 0, load(slots, position & last))


class SlickDeque(RingAggregator):
    """In order; selective or invertible aggregations; fewer than 2 combines a slide, amortised; one insert may take n.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.SlickDeque(agg.max("v"))
    >>> window.bulk_insert([1, 2, 3], [5, 3, 4])
    >>> window.evict()
    >>> window.query()
    4
    """

    title: ClassVar[str] = "SlickDeque"

    def __new__(cls, aggregation: Any = None, **_: Any) -> Self:
        """Choose the half that suits the aggregation."""
        half: Any = cls if cls is not SlickDeque else _half_for(aggregation)
        made: Self = object.__new__(half)
        return made


class _SelectiveDeque(SlickDeque):
    structure: ClassVar[tuple[Any, ...]] = (push, pop, total, answer_suffix)
    entries: ClassVar[tuple[str, ...]] = ("answer_suffix",)
    mark_count: ClassVar[int] = 4
    parallel: ClassVar[int] = 2

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (np.full(capacity, NONE, np.int64), np.full(capacity, NONE, np.int64))

    def _empty(self, capacity: int) -> tuple[Array, ...]:
        window = super()._empty(capacity)
        window[2][[FIRST, LAST]] = NONE
        return window

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(length of the list) for a range that reaches the end."""
        if end != self._marks[1]:
            raise UnsupportedOperationError(
                "SlickDeque has forgotten the rows that cannot be the answer of the whole window any more; "
                "FlatFat and Fiba answer any range, Recalculate too"
            )
        self._module.answer_suffix(self._window, begin, outputs)

    def _check_structure(self, states: States, require: Any) -> None:
        slots, _, marks, before, after = self._window
        last = len(slots) - 1
        front, end, first, node = (int(mark) for mark in marks)
        listed: list[int] = []
        while node != NONE:
            require(front <= node < end, f"the list holds position {node}, outside the window [{front}, {end})")
            require(not listed or node < listed[-1], "the list is not in the order of the rows")
            if listed:
                require(int(after[node & last]) == listed[-1], f"the list is torn after position {node}")
            listed.append(node)
            node = int(before[node & last])
        require(first == (listed[-1] if listed else NONE), f"the list begins at {first}, and leads to {listed[-1:]}")
        counted = [at for at in range(front, end) if states.counts(states.load(slots, at & last))]
        require(bool(listed) == bool(counted), "the list is empty, and the window is not, or the other way round")
        if counted:
            require(listed[0] == counted[-1], "the youngest row is not the last of the list")


class _InvertibleDeque(SlickDeque, SubtractOnEvict):
    structure: ClassVar[tuple[Any, ...]] = SubtractOnEvict.structure
    entries: ClassVar[tuple[str, ...]] = SubtractOnEvict.entries


def _half_for(aggregation: Aggregation | Mapping[str, Aggregation]) -> type[SlickDeque]:
    each = [aggregation] if not isinstance(aggregation, Mapping) else list(aggregation.values())
    if len(each) == 1 and getattr(each[0], "selective", False):
        return _SelectiveDeque
    if all(getattr(one, "invertible", True) for one in each):
        return _InvertibleDeque
    raise NotInvertibleError(
        f"SlickDeque takes one selective aggregation (max, first ...) or invertible ones, not {aggregation!r}; "
        "TwoStacks takes any"
    )
