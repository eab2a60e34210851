"""Recalculate: keeps every row's state and folds them all at each query. The oracle for all others.

Inserts and evictions cost nothing; a query is n - 1 combines. Below a few tens of rows it is the fastest of all.
"""

from __future__ import annotations

from typing import Any, ClassVar

from muntin.aggregators.ring import END, FRONT, RingAggregator, RingWindow
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    emit_empty,
    hold,
    inlined,
    kernel,
    lift,
    load,
    store,
)


@inlined
def push(window: RingWindow, time: int, state: State) -> None:
    """Append a state."""
    slots, times, marks = window.slots, window.times, window.marks
    at = marks[END] & (len(slots) - 1)
    store(slots, at, state)
    times[at] = time
    marks[END] += 1


@inlined
def pop(window: RingWindow) -> None:
    """Remove the oldest state."""
    window.marks[FRONT] += 1


@inlined
def fold(slots: Slots, begin: int, end: int) -> State:
    """Return the aggregate of the states at positions [begin, end), at least one."""
    last = len(slots) - 1
    state = hold(load(slots, begin & last))
    for at in range(begin + 1, end):
        state = combine(state, load(slots, at & last))
    return state


@inlined
def total(window: RingWindow) -> State:
    """Return the aggregate of the whole window."""
    return fold(window.slots, window.marks[FRONT], window.marks[END])


@kernel
def answer_range(window: Any, begin: int, end: int, outputs: Outputs) -> None:
    """Lower the aggregate of the positions [begin, end)."""
    emit(outputs, 0, fold(window.slots, begin, end))


@kernel
def slide_windows(
    slots: Slots, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs
) -> None:
    """Run the windows [first, last) of rows, each separately. Best if they do not overlap, or are short."""
    for i in range(start, stop):
        if last[i] > first[i]:
            state = lift(columns, times, first[i])
            for row in range(first[i] + 1, last[i]):
                state = combine(state, lift(columns, times, row))
            emit(outputs, i, state)
        else:
            emit_empty(outputs, i)


class Recalculate(RingAggregator):
    """In order; any associative aggregation; O(1) insert and evict, n - 1 combines per query, O(rows) per range query.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.Recalculate(agg.concat("v"))
    >>> window.bulk_insert([1, 2, 3], ["a", "b", "c"])
    >>> window.query(), window.range_query(2, 3)
    ('abc', 'bc')
    """

    structure: ClassVar[tuple[Any, ...]] = (push, pop, fold, total, answer_range)
    entries: ClassVar[tuple[str, ...]] = ("answer_range",)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        self._module.answer_range(self._window, begin, end, outputs)
