"""TwoStacks: a queue of states as two stacks in one ring, each with its running aggregate (the "lite" form).

    positions   front ........ middle ........ end
    a slot      the aggregate   the row's own
    holds       from it up to   state
                the middle                       back: the aggregate of [middle, end)

An insert extends the back. An eviction moves `front`; when it meets `middle` the whole back is flipped in place, from
its end, so that each slot holds the aggregate from there on. Each row is flipped once, so an insert, an eviction and a
query take at most three combines, amortised; a single eviction may take n. Memory is one state and one time per row, in
a ring that doubles, plus O(1).
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from muntin.aggregators.blocks import merge_rows, turn_block
from muntin.aggregators.recalculate import answer_range, fold
from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.errors import UnsupportedOperationError
from muntin.kernels.runtime import left_with_four
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
    """Flip the back: make every slot the aggregate from there to the end. It becomes the front."""
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
    """Move the front to a position. One inside the back flips only what stays."""
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

    The front holds one aggregate per future window that begins in it, not one per row. A row is combined at most twice,
    once in the flip and once in the back, and each window once.
    """
    middle = first[start]  # rows before it are in the front, those from it on in the back
    end = middle
    turned = start  # earlier windows have their front's aggregate in a slot
    base = start  # the window whose aggregate is in slot 0
    state = lift(columns, times, 0)
    for i in range(start, stop):
        if first[i] >= middle and last[i] > first[i]:
            # Flip: aggregate backwards from this window's end, leaving a state at the start of each future window.
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


THIRD = 1024
CHUNK = 3 * THIRD
"""The rows whose windows are found together, before they are run, so that their bounds stay in the CPU cache."""


@inlined
def four_begins(times: Ints, begin: int, row: int, back: int, begins: Ints, at: int) -> Any:
    """Find the starts of the windows [time - back, time] of four rows, none before `begin`; return the last one.

    As many rows leave as enter, on average: seldom more than eleven with four rows.
    """
    left = left_with_four(times, begin, row, back, begins, at)
    if left < 12:
        return begin + left
    for k in range(4):
        while times[index(begin)] < times[index(row + k)] - back:
            begin += 1
        begins[index(at + k)] = begin
    return begin


@kernel
def first_from(times: Ints, begin: int, after: int, limit: int) -> int:
    """Return the first of the rows [begin, after] whose time is at least `limit`; that of `after` is. O(log n)."""
    while begin < after:
        row = (begin + after) >> 1
        below = times[index(row)] < limit
        begin = row + 1 if below else begin
        after = after if below else row
    return begin


@kernel
def first_near(times: Ints, begin: int, after: int, limit: int) -> int:
    """Return the same as `first_from`, searching near `begin` first. O(log n)."""
    near = begin + 2 * THIRD
    if near < after and times[index(near)] >= limit:
        after = near
    return first_from(times, begin, after, limit)


@kernel
def find_begins(times: Ints, back: int, begin: int, row: int, begins: Ints) -> None:
    """Find the starts of the windows [time - back, time] that end with the rows of a chunk, none before `begin`.

    How many rows leave with each new one is random, so they are counted without a branch, for four rows at once. Each
    count waits for the previous one: so three parts of a chunk are walked side by side. It takes two thirds of the time
    of `slide_trailing`. Rejected: one row at a time, with four or eight old ones compared at once, in four parts (a
    third more); merging the rows with themselves, one step per row that enters or leaves (as much more).
    """
    one = begin
    two = first_near(times, one, row + THIRD, times[row + THIRD] - back)
    three = first_near(times, two, row + 2 * THIRD, times[row + 2 * THIRD] - back)
    for at in range(0, THIRD, 4):
        one = four_begins(times, one, row + at, back, begins, at)
        two = four_begins(times, two, row + THIRD + at, back, begins, THIRD + at)
        three = four_begins(times, three, row + 2 * THIRD + at, back, begins, 2 * THIRD + at)


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
    begins: Ints,
    outputs: Outputs,
) -> None:
    """Run the windows (time - width, time] that end with the rows [start, stop); rows of equal time are handled later.

    The window that ends with row i is row i - shift of the output; `floor` is the least time from which `width` can be
    subtracted, `begins` has room for a chunk. The starts of windows are found on the way, for a chunk of rows at a
    time. With both in one loop, two rows at a time, max took a quarter more and moments a twentieth less: starts can be
    found while waiting for a long combine. Four rows at a time were in between.

    The costs of a max by time, in nanoseconds per row on a shared machine: finding the starts 1.6, flipping and merging
    1.2, checking for disorder and for NaN 0.3 each, and the pages of the output 0.3.
    """
    begin = first_from(times, 0, start, times[start] - (width - 1)) if times[start] >= floor else 0
    base = begin
    middle = begin
    state = lift(columns, times, start)
    row = start
    while row < stop:
        count = CHUNK
        if row + CHUNK <= stop and row + CHUNK + 12 <= len(times) and times[row] >= floor:
            find_begins(times, width - 1, begin, row, begins)
        else:
            count = 1
            if times[row] >= floor:
                while times[index(begin)] <= times[index(row)] - width:
                    begin += 1
            begins[0] = begin
        begin = begins[count - 1]
        at = 0
        while at < count:
            if begins[at] >= middle:
                base = begins[at]
                middle = row + at + 1
                turn_block(slots, 0, columns, times, base, middle - base)
                emit(outputs, row + at - shift, load(slots, 0))
                at += 1
                continue
            turn = count if begin < middle else first_from(begins, at, count - 1, middle)
            if row + at == middle:
                state = lift(columns, times, row + at)
                emit(outputs, row + at - shift, combine(load(slots, begins[at] - base), state))
                at += 1
            state = merge_rows(slots, base, columns, times, state, row, begins, at, turn, shift, outputs)
            at = turn
        row += count


TRAILING = (four_begins, first_from, first_near, find_begins, slide_trailing)


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
        """Amortised O(1) per flipped row; O(1) if all evicted rows are in the front."""
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
