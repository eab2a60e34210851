"""The kernels of a tree with only the ends of its levels in memory. They stop when Python must help."""

from __future__ import annotations

from typing import Any

from muntin.aggregators.levels import DOUBT, SEARCH, last_spot, leaving, longest_cut, put_time, ready, spot
from muntin.aggregators.monoid_tree import ALGORITHM, TOP, MonoidTreeWindow, has_node, pop, push, total
from muntin.aggregators.ring import END, FRONT
from muntin.aggregators.stored.ends import (
    ALL,
    BITS,
    ENTER_LIMIT,
    FOUND,
    HEAD,
    HEAD_ENDS,
    HEADS,
    LEAVE_LIMIT,
    MISS_LEVEL,
    MISS_NODE,
    PENDING,
    PROBES,
    TAIL,
    TAILS,
    TARGET,
)
from muntin.kernels.vocabulary import Columns, Ints, combine, kernel, lift, load, must_leave, replaces, thorough


@replaces(spot)
@kernel
def spot_in_memory(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node in memory: in the tail, in the head, or read by a search."""
    bits = marks[BITS]
    base = (ALL * level) << bits
    if j >= marks[TAILS + level]:
        return base + (j & ((TAIL << bits) - 1))
    base += TAIL << bits
    if marks[HEADS + level] <= j < marks[HEAD_ENDS + level]:
        return base + (j & ((HEAD << bits) - 1))
    base += HEAD << bits
    for k in range(FOUND):
        first = marks[PROBES + FOUND * level + k]
        if first <= j < first + (1 << bits):
            return base + (k << bits) + j - first
    return base


@replaces(last_spot)
@kernel
def spot_in_tail(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node in the tail, where the last ones are."""
    bits = marks[BITS]
    return ((ALL * level) << bits) + (j & ((TAIL << bits) - 1))


@replaces(put_time)
@kernel
def put_time_in_tail(times: Ints, marks: Ints, position: int, time: int) -> None:
    """Store the time of a row."""
    times[last_spot(0, marks, 0, position)] = time


@replaces(ready)
@kernel
def ready_in_memory(window: MonoidTreeWindow, level: int, j: int) -> bool:
    """Return whether a node is in memory; record it if not."""
    marks = window.marks
    if j >= marks[TAILS + level] or marks[HEADS + level] <= j < marks[HEAD_ENDS + level]:
        return True
    for k in range(FOUND):
        first = marks[PROBES + FOUND * level + k]
        if first <= j < first + (1 << marks[BITS]):
            return True
    marks[MISS_LEVEL] = level
    marks[MISS_NODE] = j
    return False


@kernel
def range_ready(window: MonoidTreeWindow, begin: int, end: int) -> bool:
    """Return whether all nodes that `fold_rows` will read are in memory; record the first that is not."""
    if not ready(window, 0, begin):
        return False
    at = begin + 1
    level = 0
    while at < end:
        wide = 2 << level
        if at & (wide - 1) == 0 and at + wide <= end and has_node(window, level + 1, at >> (level + 1)):
            level += 1
        elif at + (1 << level) <= end and has_node(window, level, at >> level):
            if not ready(window, level, at >> level):
                return False
            at += 1 << level
        else:
            level -= 1
    return True


@kernel
def advance(window: MonoidTreeWindow) -> bool:
    """Move the front towards its target, by the stack; False if Python must help first."""
    marks = window.marks
    if marks[TARGET] - marks[FRONT] > marks[TOP] + 1:
        return False
    while marks[FRONT] < marks[TARGET]:
        if marks[FRONT] + 2 >= marks[LEAVE_LIMIT]:  # the policy will look at one more row
            return False
        pop(window)
    return True


@kernel
def set_target(window: MonoidTreeWindow) -> Any:
    """Ask the policy where the front must go; False if a node is missing."""
    cells, marks = window.slots, window.marks
    front = marks[FRONT]
    if thorough():
        marks[TARGET] = longest_cut(window)
        return marks[TARGET] >= 0
    marks[TARGET] = front
    whole = total(window)
    old = load(cells, spot(len(cells), marks, 0, front))
    if not must_leave(whole, old):
        if must_leave(whole, whole):
            marks[DOUBT] = 1
        return True
    if front + 1 < marks[END]:
        if not ready(window, 0, front + 1):
            return False
        if must_leave(whole, combine(old, load(cells, spot(len(cells), marks, 0, front + 1)))):
            marks[TARGET] = leaving(window)
            return marks[TARGET] >= 0
    marks[TARGET] = front + 1
    return True


@kernel
def enforce_some(window: MonoidTreeWindow) -> bool:
    """Enforce the policy; False if Python must help first. It may then be called again."""
    marks = window.marks
    while marks[FRONT] < marks[END]:
        if marks[TARGET] <= marks[FRONT]:
            if not set_target(window):
                return False
            if marks[TARGET] == marks[FRONT]:
                return True
        if not advance(window):
            return False
        if not thorough():
            return True
    return True


@kernel
def insert_some(window: MonoidTreeWindow, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows until a tail is full; return the next row."""
    marks = window.marks
    row = start
    while row < stop and marks[END] < marks[ENTER_LIMIT]:
        push(window, times[row], lift(columns, times, row))
        row += 1
    return row


@kernel
def insert_some_enforced(window: MonoidTreeWindow, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows, and enforce the policy after each, until Python must help; return the next row."""
    cells, marks = window.slots, window.marks
    row = start
    while row < stop and marks[END] < marks[ENTER_LIMIT]:
        push(window, times[row], lift(columns, times, row))
        row += 1
        front = marks[FRONT]
        if not thorough() and front + 2 < marks[LEAVE_LIMIT] and front + 1 < marks[END]:
            # Nearly always one row leaves, or none, and all that is needed is in memory.
            whole = total(window)
            old = load(cells, spot(0, marks, 0, front))
            if not must_leave(whole, old):
                if must_leave(whole, whole):
                    marks[DOUBT] = 1
                continue
            if not must_leave(whole, combine(old, load(cells, spot(0, marks, 0, front + 1)))):
                pop(window)
                continue
        if not enforce_some(window):
            marks[PENDING] = 1
            return row
    return row


STRUCTURE = (
    spot_in_memory,
    spot_in_tail,
    put_time_in_tail,
    ready_in_memory,
    *SEARCH,
    *ALGORITHM,
    range_ready,
    advance,
    set_target,
    enforce_some,
    insert_some,
    insert_some_enforced,
)
ENTRIES = (
    "answer_range",
    "move_front",
    "range_ready",
    "advance",
    "enforce_some",
    "insert_some",
    "insert_some_enforced",
)
