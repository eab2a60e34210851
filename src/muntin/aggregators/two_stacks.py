"""TwoStacks: a queue of states as two stacks in one ring, each with its running aggregate (the "lite" form).

    positions   front ........ middle ........ end
    a slot      the aggregate   the row's own
    holds       from it up to   state
                the middle                       back: the aggregate of [middle, end)

An insert extends the back. An eviction moves `front`; when it meets `middle` the whole back is turned over in place,
from its end, so that each slot holds the aggregate from there on. Each row is turned over once, so an insert, an
eviction and a query take at most three combines, amortised; a single eviction may take n. Memory is one state and one
time for each row, in a ring that doubles, and O(1) more.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from muntin.aggregators.recalculate import answer_range, fold
from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.errors import UnsupportedOperationError
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
    index,
    inlined,
    kernel,
    lift,
    load,
    store,
)
from muntin.types import Array

MIDDLE = 2
"""The mark of the position where the back begins."""


class TwoStacksWindow(NamedTuple):
    """A ring, and the aggregate of the back."""

    slots: Slots
    times: Ints
    marks: Ints
    back: Slots
    """The aggregate of [middle, end), in its only slot."""


@inlined
def push(window: TwoStacksWindow, time: int, state: State) -> None:
    """Append a state."""
    slots, times, marks, back = window.slots, window.times, window.marks, window.back
    end = marks[END]
    at = end & (len(slots) - 1)
    store(slots, at, state)
    times[at] = time
    if end > marks[MIDDLE]:
        store(back, 0, combine(load(back, 0), state))
    else:
        store(back, 0, state)
    marks[END] = end + 1


@kernel
def turn_over(slots: Slots, marks: Ints) -> None:
    """Make every slot of the back the aggregate from there to the end: it becomes the front."""
    last = len(slots) - 1
    state = hold(load(slots, (marks[END] - 1) & last))
    for at in range(marks[END] - 2, marks[FRONT] - 1, -1):
        state = combine(load(slots, at & last), state)
        store(slots, at & last, state)
    marks[MIDDLE] = marks[END]


@inlined
def pop(window: TwoStacksWindow) -> None:
    """Remove the oldest state."""
    slots, marks = window.slots, window.marks
    if marks[FRONT] == marks[MIDDLE]:
        turn_over(slots, marks)
    marks[FRONT] += 1


@inlined
def total(window: TwoStacksWindow) -> State:
    """Return the aggregate of the whole window."""
    slots, marks, back = window.slots, window.marks, window.back
    if marks[FRONT] == marks[MIDDLE]:
        return load(back, 0)
    front = load(slots, marks[FRONT] & (len(slots) - 1))
    if marks[MIDDLE] == marks[END]:
        return front
    return combine(front, load(back, 0))


@kernel
def evict_until(window: TwoStacksWindow, position: int) -> None:
    """Move the front to a position. One inside the back turns over only what stays."""
    slots, marks = window.slots, window.marks
    marks[FRONT] = position
    if position > marks[MIDDLE]:
        marks[MIDDLE] = position
        if position < marks[END]:
            turn_over(slots, marks)


@kernel
def answer_suffix(window: TwoStacksWindow, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end."""
    slots, marks, back = window.slots, window.marks, window.back
    last = len(slots) - 1
    if position < marks[MIDDLE]:
        state = load(slots, position & last)
        if marks[MIDDLE] < marks[END]:
            state = combine(state, load(back, 0))
        emit(outputs, 0, state)
    else:
        answer_range(window, position, marks[END], outputs)


# ---------------------------------------------------------------- the same over arrays: rows need no ring


@kernel
def slide_windows(
    slots: Slots, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs
) -> None:
    """Run the windows [first, last) of rows, both bounds ascending, as two stacks over the rows themselves.

    The front holds one aggregate for each coming window that begins in it, not one for each row. A row is combined
    twice at most, once turned over and once in the back, and each window once.
    """
    middle = first[start]  # rows before it are in the front, those from it on in the back
    end = middle
    turned = start  # windows before it have their front's aggregate in a slot
    base = start  # the window whose aggregate is in slot 0
    state = lift(columns, times, 0)
    for i in range(start, stop):
        if first[i] >= middle and last[i] > first[i]:
            # Turn over: aggregate backwards from this window's end, leaving a state at each coming window's begin.
            middle = last[i]
            end = middle
            base = i
            turned = i
            while turned < stop and first[turned] < middle:
                turned += 1
            row = middle - 1
            back = lift(columns, times, row)
            for j in range(turned - 1, i - 1, -1):
                while row > first[j]:
                    row -= 1
                    back = combine(lift(columns, times, row), back)
                store(slots, j - i, back)
            emit(outputs, i, back)
        elif last[i] > first[i]:
            while end < last[i]:
                if end == middle:
                    state = lift(columns, times, end)
                else:
                    state = combine(state, lift(columns, times, end))
                end += 1
            if end == middle:
                emit(outputs, i, load(slots, i - base))
            else:
                emit(outputs, i, combine(load(slots, i - base), state))
        else:
            emit_empty(outputs, i)


@kernel
def leaving_of_four(times: Ints, begin: int, limit: int) -> Any:
    """Return how many of the four rows from `begin` on have a time of at most `limit`: four comparisons, no branch.

    Written out, because the compiler makes a loop into vectors here, whose sum comes later than four flags.
    """
    return (
        (times[index(begin)] <= limit) * 1
        + (times[index(begin + 1)] <= limit) * 1
        + (times[index(begin + 2)] <= limit) * 1
        + (times[index(begin + 3)] <= limit) * 1
    )


@kernel
def leaving_of_six(times: Ints, begin: int, limit: int) -> Any:
    """Return how many of the six rows from `begin` on have a time of at most `limit`."""
    return (
        leaving_of_four(times, begin, limit)
        + (times[index(begin + 4)] <= limit) * 1
        + (times[index(begin + 5)] <= limit) * 1
    )


@kernel
def first_after(times: Ints, begin: int, limit: int) -> int:
    """Return the first row from `begin` on whose time is above `limit`; there is one."""
    while times[index(begin)] <= limit:
        begin += 1
    return begin


@kernel
def slide_trailing(
    slots: Slots,
    columns: Columns,
    times: Ints,
    width: int,
    floor: int,
    start: int,
    stop: int,
    shift: int,
    outputs: Outputs,
) -> None:
    """Run the windows (time - width, time] that end with the rows [start, stop); rows of equal time come later.

    The window that ends with row i is row i - shift of the output; `floor` is the least time from which `width` can be
    taken. Where a window begins is found on the way; a pass of its own took half as long again. How many rows leave at
    each step is random, so it is counted without a branch, for two rows at once from the same place: the wait for one
    count is what bounds the loop. Three rows at once gained nothing more.
    """
    begin = 0
    after = start if times[start] >= floor else 0
    while begin < after:  # the first row inside the first window
        row = (begin + after) // 2
        if times[row] <= times[start] - width:
            begin = row + 1
        else:
            after = row
    base = begin
    middle = begin
    state = lift(columns, times, start)
    row = start
    while row < stop:
        if times[index(row)] >= floor:
            begin = first_after(times, begin, times[index(row)] - width)
        if begin >= middle:
            base = begin
            middle = row + 1
            back = lift(columns, times, row)
            store(slots, row - base, back)
            for at in range(row - 1, base - 1, -1):
                back = combine(lift(columns, times, at), back)
                store(slots, at - base, back)
            emit(outputs, row - shift, back)
            row += 1
            continue
        if row == middle:
            state = lift(columns, times, row)
        else:
            state = combine(state, lift(columns, times, row))
        emit(outputs, row - shift, combine(load(slots, begin - base), state))
        row += 1
        while row + 1 < stop and begin + 6 <= len(times) and times[index(row)] >= floor:
            # As many rows leave as come, on average: seldom more than four at one row, or six at two.
            before = times[index(row)] - width
            after = times[index(row + 1)] - width
            one = first_after(times, begin + leaving_of_four(times, begin, before), before)
            two = first_after(times, begin + leaving_of_six(times, begin, after), after)
            if two >= middle:
                break
            state = combine(state, lift(columns, times, row))
            emit(outputs, row - shift, combine(load(slots, one - base), state))
            state = combine(state, lift(columns, times, row + 1))
            emit(outputs, row + 1 - shift, combine(load(slots, two - base), state))
            begin = two
            row += 2


TRAILING = (leaving_of_four, leaving_of_six, first_after, slide_trailing)


@kernel
def slide_prefixes(columns: Columns, times: Ints, stop: int, outputs: Outputs) -> None:
    """Run the windows that begin with row 0 and end with each of the rows [0, stop)."""
    state = lift(columns, times, 0)
    emit(outputs, 0, state)
    for row in range(1, stop):
        state = combine(state, lift(columns, times, row))
        emit(outputs, row, state)


class TwoStacks(RingAggregator):
    """In order; any associative aggregation; amortised at most 3 combines for an insert, an eviction and a query.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.TwoStacks(agg.max("v"))
    >>> for time, value in [(1, 5), (2, 3), (3, 4)]:
    ...     window.insert(time, value)
    >>> window.query()
    5
    >>> window.evict()
    >>> window.query(), len(window), window.oldest
    (4, 2, 2)
    """

    structure: ClassVar[tuple[Any, ...]] = (
        push,
        turn_over,
        pop,
        total,
        evict_until,
        fold,
        answer_range,
        answer_suffix,
    )
    entries: ClassVar[tuple[str, ...]] = ("evict_until", "answer_range", "answer_suffix")
    layout: ClassVar[Any] = TwoStacksWindow
    mark_count: ClassVar[int] = 3

    def _changed_by_evict(self, count: int) -> tuple[int, int]:
        marks = self._marks
        return (int(marks[FRONT]), int(marks[END])) if marks[FRONT] + count > marks[MIDDLE] else (0, 0)

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (self._binding.slots(1),)

    def _evict_many(self, count: int) -> None:
        """Amortised O(1) a row that is turned over; O(1) where the rows to go are all in the front."""
        self._run("evict_until", self._window, int(self._marks[FRONT]) + count)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(1) for a range that begins in the front and reaches the end; O(rows) inside the back."""
        middle = int(self._marks[MIDDLE])
        if end == self._marks[END]:
            self._module.answer_suffix(self._window, begin, outputs)
        elif begin >= middle:
            self._module.answer_range(self._window, begin, end, outputs)
        else:
            raise UnsupportedOperationError(
                "TwoStacks has turned these rows into aggregates that reach further than the range; "
                "FlatFat and Fiba answer any range, Recalculate too"
            )

    def _check_structure(self, states: Any, require: Any) -> None:
        front, middle, end = (int(self._marks[m]) for m in (FRONT, MIDDLE, END))
        require(front <= middle <= end, f"marks out of order: front {front}, middle {middle}, end {end}")
        if middle < end:
            back = states.load(self._window.back, 0)
            require(
                states.close(back, states.fold(self._window.slots, middle, end)),
                "the back's aggregate is not that of the rows in the back",
            )
