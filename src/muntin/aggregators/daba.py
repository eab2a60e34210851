"""Daba: the de-amortised banker's aggregator, in its "lite" form. No operation takes more than three combines.

It is `TwoStacks` with the flip done a step at a time, in place, before it is needed:

    positions   front ..... left ..... right ..... across ..... back ..... end
    a slot      aggregate   aggregate  the row's   aggregate    the row's
    holds       up to back  up to      own state   up to back   own state
                            right
    and beside the ring: the aggregate of [right, back), and that of [back, end)

Each insert or eviction takes one step: it finishes one slot from the left side (combining it with [right, back)) and
one from the right side (combining it with its neighbour). The two sides meet in the middle just when the stretch is
done, and the distance from `left` to `back` is always one less than the excess of the front over the back, so a new
stretch begins exactly when the back is as long as the front.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from muntin.aggregators.growing import GrowingRing, put
from muntin.aggregators.recalculate import answer_range, fold
from muntin.aggregators.ring import END, FRONT
from muntin.aggregators.states import States
from muntin.errors import UnsupportedOperationError
from muntin.kernels.vocabulary import Ints, Outputs, Slots, State, combine, emit, hold, inlined, kernel, load, store
from muntin.types import Array

LEFT, RIGHT, ACROSS, BACK = 2, 3, 4, 5
"""Marks: the positions of the drawing."""
BACK_SUM, MIDDLE_SUM = 0, 1
"""The places in `sums` of the aggregates of [back, end) and of [right, back)."""


class DabaWindow(NamedTuple):
    """A ring, and two aggregates beside it."""

    slots: Slots
    times: Ints
    marks: Ints
    sums: Slots
    """At `BACK_SUM` and `MIDDLE_SUM`."""
    ahead: Slots
    """The slots of the next ring, while it is filled (see growing)."""


@inlined
def step(window: DabaWindow) -> None:
    """Restore the invariants after an insert or an eviction: at most two combines."""
    slots, marks, sums = window.slots, window.marks, window.sums
    last = len(slots) - 1
    if marks[FRONT] == marks[BACK]:  # empty front: the back, at most a row, becomes the front
        marks[LEFT] = marks[END]
        marks[RIGHT] = marks[END]
        marks[ACROSS] = marks[END]
        marks[BACK] = marks[END]
        return
    if marks[LEFT] == marks[BACK]:  # the back is as long as the front: begin a new stretch
        marks[LEFT] = marks[FRONT]
        marks[RIGHT] = marks[BACK]
        marks[ACROSS] = marks[END]
        marks[BACK] = marks[END]
        store(sums, MIDDLE_SUM, load(sums, BACK_SUM))
    if marks[LEFT] == marks[RIGHT]:  # the stretch is done
        marks[LEFT] += 1
        marks[RIGHT] += 1
        marks[ACROSS] += 1
    else:
        # The right side first, and written only when both are known: a combine that fails changes nothing.
        left = marks[LEFT] & last
        across = (marks[ACROSS] - 1) & last
        if marks[ACROSS] < marks[BACK]:
            right = hold(combine(load(slots, across), load(slots, marks[ACROSS] & last)))
            put(window, marks[LEFT], combine(load(slots, left), load(sums, MIDDLE_SUM)))
            put(window, marks[ACROSS] - 1, right)
        else:
            put(window, marks[LEFT], combine(load(slots, left), load(sums, MIDDLE_SUM)))
        marks[LEFT] += 1
        marks[ACROSS] -= 1


@inlined
def push(window: DabaWindow, time: int, state: State) -> None:
    """Append a state."""
    slots, times, marks, sums = window.slots, window.times, window.marks, window.sums
    put(window, marks[END], state)
    times[marks[END] & (len(slots) - 1)] = time
    if marks[END] > marks[BACK]:
        state = combine(load(sums, BACK_SUM), state)
    store(sums, BACK_SUM, state)
    marks[END] += 1
    step(window)


@inlined
def pop(window: DabaWindow) -> None:
    """Remove the oldest state."""
    window.marks[FRONT] += 1
    step(window)


@inlined
def total(window: DabaWindow) -> State:
    """Return the aggregate of the whole window."""
    slots, marks, sums = window.slots, window.marks, window.sums
    front = load(slots, marks[FRONT] & (len(slots) - 1))
    if marks[BACK] == marks[END]:
        return front
    return combine(front, load(sums, BACK_SUM))


@kernel
def answer_suffix(window: DabaWindow, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end."""
    slots, marks, sums = window.slots, window.marks, window.sums
    last = len(slots) - 1
    state = hold(load(slots, position & last))
    at = position + 1
    if marks[LEFT] <= position < marks[RIGHT]:
        state = combine(state, load(sums, MIDDLE_SUM))
        at = marks[BACK]
    elif position < marks[LEFT] or marks[ACROSS] <= position < marks[BACK]:
        at = marks[BACK]
    while at < marks[END]:
        if at == marks[ACROSS] and at < marks[BACK]:
            state = combine(state, load(slots, at & last))
            at = marks[BACK]
        elif at == marks[BACK]:
            state = combine(state, load(sums, BACK_SUM))
            at = marks[END]
        else:
            state = combine(state, load(slots, at & last))
            at += 1
    emit(outputs, 0, state)


class Daba(GrowingRing):
    """In order; any associative aggregation; at most 3 combines per insert, 2 per eviction, 1 per query, worst case.

    Nor does a call copy more than O(1) rows for each row that it inserts: the ring grows in steps. With `capacity=`
    there is room for as many rows from the start; it is no limit.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.Daba(agg.concat("v"))
    >>> window.bulk_insert([1, 2, 3, 4], "abcd")
    >>> window.evict()
    >>> window.query()
    'bcd'
    """

    structure: ClassVar[tuple[Any, ...]] = (put, step, push, pop, total, fold, answer_range, answer_suffix)
    entries: ClassVar[tuple[str, ...]] = ("answer_suffix", "answer_range")
    layout: ClassVar[Any] = DabaWindow
    mark_count: ClassVar[int] = 6

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (self._binding.slots(2), self._binding.slots(1))

    def _changed_by_evict(self, count: int) -> tuple[int, int]:
        return (int(self._marks[FRONT]), int(self._marks[END])) if count > 1 else (0, 0)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(rows) at worst for a range that reaches the end, and inside the back."""
        if end == self._marks[END]:
            self._module.answer_suffix(self._window, begin, outputs)
        elif begin >= self._marks[BACK]:
            self._module.answer_range(self._window, begin, end, outputs)
        else:
            raise UnsupportedOperationError(
                "Daba holds aggregates that reach further than this range; FlatFat and Fiba answer any range"
            )

    def _check_structure(self, states: States, require: Any) -> None:
        front, end, left, right, across, back = (int(mark) for mark in self._marks)
        order = f"front {front}, left {left}, right {right}, across {across}, back {back}, end {end}"
        require(front <= left <= right <= across <= back <= end, f"marks out of order: {order}")
        ahead = (back - front) - (end - back) - (1 if front < end else 0)
        require(back - left == ahead, f"the stretch has lost step with the window: {order}")
        require(right - left == across - right, f"the two sides of the stretch differ in length: {order}")
        slots, sums = self._window.slots, self._window.sums
        if back < end:
            behind = states.fold(slots, back, end)
            require(states.close(states.load(sums, BACK_SUM), behind), "the sum of the back is not that of its rows")
        if right < across:
            middle = states.fold(slots, right, across)
            if across < back:
                middle = states.combine(middle, states.load(slots, across & (len(slots) - 1)))
            require(
                states.close(states.load(sums, MIDDLE_SUM), middle),
                "the sum from right to back is not that of its rows",
            )
