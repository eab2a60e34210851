"""The kernels of a `FlatFat` with holes: each node is marked as full or empty.

Beside the tree there are the marks of all nodes, 1 for full and 2 for waiting to be computed, and a list of the waiting
leaves. The marks replace a neutral element: a node with one empty child is a copy of the other. They also lead past any
number of holes in O(log n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.aggregators.base_intervals import highest_level
from muntin.aggregators.ring import END, FRONT
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
    kernel,
    lift,
    load,
    store,
)

HOLES, PENDING = 4, 5
"""Marks: the holes between the oldest and the youngest row, and the leaves that wait to be propagated."""
HOLDS, WAITS = 1, 2
"""The marks of a node, as bits."""
BACKWARD, FORWARD = 0, 1
"""Ways along the ring: the side of a node's children that is last on each."""


class MarkedWindow(NamedTuple):
    """The tree in `slots`, its leaves a ring beside `times`, and the marks of its nodes."""

    slots: Slots
    times: Ints
    marks: Ints
    holds: Any
    """For each node the bits `HOLDS` and `WAITS`."""
    work: Ints
    """The leaves that wait to be propagated."""


@kernel
def push(window: MarkedWindow, time: int, state: State) -> None:
    """Append a state: a leaf."""
    slots, times, marks = window.slots, window.times, window.marks
    at = marks[END] & (len(times) - 1)
    store(slots, len(times) + at, state)
    times[at] = time
    marks[END] += 1
    schedule(window, len(times) + at, HOLDS)


@kernel
def pop(window: MarkedWindow) -> None:
    """Remove the oldest state, and the holes behind it."""
    marks, capacity = window.marks, len(window.times)
    schedule(window, capacity + (marks[FRONT] & (capacity - 1)), 0)
    marks[FRONT] += 1
    if marks[FRONT] < marks[END]:
        front = held_from(window, marks[FRONT], FORWARD)
        marks[HOLES] -= front - marks[FRONT]
        marks[FRONT] = front


@kernel
def pop_until(window: MarkedWindow, position: int) -> None:
    """Remove all states before a position."""
    marks = window.marks
    while marks[FRONT] < position:
        pop(window)


@kernel
def remove(window: MarkedWindow, position: int) -> None:
    """Remove the state at a position, and the holes that are then at an end of the window."""
    marks, capacity = window.marks, len(window.times)
    if position == marks[FRONT]:
        pop(window)
        return
    schedule(window, capacity + (position & (capacity - 1)), 0)
    marks[HOLES] += 1
    if position == marks[END] - 1:
        end = held_from(window, position, BACKWARD) + 1
        marks[HOLES] -= marks[END] - end
        marks[END] = end


@kernel
def remove_rows(window: MarkedWindow, positions: Ints) -> None:
    """Remove the states at some positions, in ascending order."""
    for i in range(len(positions)):
        remove(window, positions[i])


@kernel
def replace(window: MarkedWindow, columns: Columns, times: Ints, position: int) -> None:
    """Put the first of some rows in the place of the one at a position."""
    leaf = len(window.times) + (position & (len(window.times) - 1))
    store(window.slots, leaf, lift(columns, times, 0))
    schedule(window, leaf, HOLDS)


@kernel
def schedule(window: MarkedWindow, leaf: int, held: int) -> None:
    """Mark a leaf as full or empty, and schedule the nodes above it for recomputation.

    Which of them hold something is marked at once, so that `held_from` need not wait for a query: one that holds
    something in spite of the change ends the way up.
    """
    marks, holds, work = window.marks, window.holds, window.work
    if holds[leaf] & WAITS == 0:
        work[marks[PENDING]] = leaf
        marks[PENDING] += 1
    holds[leaf] = held | WAITS
    node = leaf >> 1
    while node > 0 and holds[node] & HOLDS != (holds[2 * node] | holds[2 * node + 1]) & HOLDS:
        holds[node] ^= HOLDS
        node >>= 1


@kernel
def held_from(window: MarkedWindow, position: int, way: int) -> int:
    """Return a position if it holds a row, else the next one on the way that does; there must be one. O(log n)."""
    holds, capacity = window.holds, len(window.times)
    node = capacity + (position & (capacity - 1))
    if holds[node] & HOLDS == HOLDS:
        return position
    while node > 1 and (node & 1 == way or holds[node ^ 1] & HOLDS == 0):
        node >>= 1
    if node > 1:  # else the ring goes on at its other end, below the root
        node ^= 1
    while node < capacity:
        node = 2 * node + 1 - way
        if holds[node] & HOLDS == 0:
            node ^= 1
    if way == FORWARD:
        return position + ((node - capacity - position) & (capacity - 1))
    return position - ((position - node + capacity) & (capacity - 1))


@kernel
def narrow(window: MarkedWindow, begins: Ints, ends: Ints) -> None:
    """Let many spans of positions begin and end with a row, if there is one; the others are empty."""
    front, end = window.marks[FRONT], window.marks[END]
    for i in range(len(begins)):
        if front <= begins[i] < end:
            begins[i] = held_from(window, begins[i], FORWARD)
        if front < ends[i] <= end:
            ends[i] = held_from(window, ends[i] - 1, BACKWARD) + 1


@kernel
def pick_rows(window: MarkedWindow, times: Ints, positions: Ints) -> None:
    """Replace the first position of each of some sorted times by that of a row; equal times pick different rows."""
    for i in range(len(times)):
        if i > 0 and times[i] == times[i - 1]:
            positions[i] = positions[i - 1] + 1
        if positions[i] < window.marks[END]:
            positions[i] = held_from(window, positions[i], FORWARD)


@kernel
def renew(window: MarkedWindow) -> None:
    """Compute the nodes above the scheduled leaves, level by level, each once."""
    slots, marks, holds, work = window.slots, window.marks, window.holds, window.work
    count = marks[PENDING]
    marks[PENDING] = 0
    for i in range(count):
        holds[work[i]] &= HOLDS
    while count > 0 and work[0] > 1:
        parents = 0
        for i in range(count):
            node = work[i] >> 1
            if holds[node] & WAITS == 0:
                holds[node] |= WAITS
                work[parents] = node
                parents += 1
        count = parents
        for i in range(count):
            node = work[i]
            left, right = holds[2 * node] & HOLDS, holds[2 * node + 1] & HOLDS
            holds[node] = left | right
            if left & right == 1:
                store(slots, node, combine(load(slots, 2 * node), load(slots, 2 * node + 1)))
            elif left | right == 1:
                store(slots, node, load(slots, 2 * node + 1 - left))


@kernel
def join(state: State, slots: Slots, holds: Any, leaf: int, end: int) -> State:
    """Return a state extended by the leaves [leaf, end), from the largest full nodes that fit."""
    while leaf < end:
        height = highest_level(leaf, end)
        if holds[leaf >> height] == HOLDS:
            state = combine(state, load(slots, leaf >> height))
        leaf += 1 << height
    return state


@kernel
def between(window: MarkedWindow, begin: int, end: int) -> State:
    """Return the aggregate of the positions [begin, end); the first of them holds a row."""
    renew(window)
    slots, times, holds = window.slots, window.times, window.holds
    capacity = len(times)
    leaf = capacity + (begin & (capacity - 1))
    stop = leaf + end - begin
    state = hold(load(slots, leaf))
    state = join(state, slots, holds, leaf + 1, min(stop, 2 * capacity))
    return join(state, slots, holds, capacity, stop - capacity)


@kernel
def total(window: MarkedWindow) -> State:
    """Return the aggregate of the whole window: the root, or, if the ring is wrapped, a suffix and a prefix."""
    times, marks = window.times, window.marks
    if (marks[FRONT] & (len(times) - 1)) + marks[END] - marks[FRONT] <= len(times):
        renew(window)
        return hold(load(window.slots, 1))
    return between(window, marks[FRONT], marks[END])


@kernel
def answer_between(window: MarkedWindow, begin: int, end: int, outputs: Outputs) -> None:
    """Lower the aggregate of the positions [begin, end); the first of them holds a row."""
    emit(outputs, 0, between(window, begin, end))


@kernel
def answer_spans(window: MarkedWindow, begins: Ints, ends: Ints, outputs: Outputs) -> None:
    """Lower the aggregates of many spans of positions; non-empty ones begin and end with a row."""
    for i in range(len(begins)):
        if begins[i] < ends[i]:
            emit(outputs, i, between(window, begins[i], ends[i]))
        else:
            emit_empty(outputs, i)


STRUCTURE = (
    renew, schedule, held_from, push, pop, pop_until, remove, remove_rows, replace, narrow, pick_rows,
    highest_level, join, between, total, answer_between, answer_spans,
)  # fmt: skip
ENTRIES = (
    "schedule", "held_from", "pop_until", "remove_rows", "replace", "narrow", "pick_rows",
    "answer_between", "answer_spans",
)  # fmt: skip
