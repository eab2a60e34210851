"""The kernels of a tree of which only the ends of the levels are in memory. They stop where Python must help.

They find things in the marks at the places that `ends.py` names, and have these as literals.
"""

from __future__ import annotations

from typing import Any

from muntin.aggregators.levels import SEARCH, leaving, longest_cut
from muntin.aggregators.monoid_tree import ALGORITHM, has_node, pop, push, total
from muntin.kernels.vocabulary import Columns, Ints, combine, kernel, lift, load, must_leave, thorough


@kernel
def spot(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node that is in memory: in the tail, in the head, or read by a search."""
    bits = marks[11]
    base = (24 * level) << bits
    if j >= marks[16 + level]:
        return base + (j & ((4 << bits) - 1))
    base += 4 << bits
    if marks[64 + level] <= j < marks[112 + level]:
        return base + (j & ((16 << bits) - 1))
    base += 16 << bits
    for k in range(4):
        first = marks[160 + 4 * level + k]
        if first <= j < first + (1 << bits):
            return base + (k << bits) + j - first
    return base


@kernel
def last_spot(size: int, marks: Ints, level: int, j: int) -> Any:
    """Return the cell of a node in the tail, where the last ones are."""
    bits = marks[11]
    return ((24 * level) << bits) + (j & ((4 << bits) - 1))


@kernel
def put_time(times: Ints, marks: Ints, position: int, time: int) -> None:
    """Store the time of a row."""
    times[last_spot(0, marks, 0, position)] = time


@kernel
def ready(window: Any, level: int, j: int) -> bool:
    """Say whether a node is in memory; note it if not."""
    marks = window[2]
    if j >= marks[16 + level] or marks[64 + level] <= j < marks[112 + level]:
        return True
    for k in range(4):
        first = marks[160 + 4 * level + k]
        if first <= j < first + (1 << marks[11]):
            return True
    marks[9] = level
    marks[10] = j
    return False


@kernel
def range_ready(window: Any, begin: int, end: int) -> bool:
    """Say whether all nodes that `fold_rows` will ask for are in memory; note the first that is not."""
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
def advance(window: Any) -> bool:
    """Move the front towards its target, by the stack; False if Python must help first."""
    marks = window[2]
    if marks[8] - marks[0] > marks[3] + 1:
        return False
    while marks[0] < marks[8]:
        if marks[0] + 2 >= marks[7]:  # the policy will ask about one row more
            return False
        pop(window)
    return True


@kernel
def set_target(window: Any) -> Any:
    """Ask the policy where the front must go; False if a node is missing."""
    cells, marks = window[0], window[2]
    front = marks[0]
    if thorough():
        marks[8] = longest_cut(window)
        return marks[8] >= 0
    marks[8] = front
    whole = total(window)
    old = load(cells, spot(len(cells), marks, 0, front))
    if not must_leave(whole, old):
        if must_leave(whole, whole):
            marks[2] = 1
        return True
    if front + 1 < marks[1]:
        if not ready(window, 0, front + 1):
            return False
        if must_leave(whole, combine(old, load(cells, spot(len(cells), marks, 0, front + 1)))):
            marks[8] = leaving(window)
            return marks[8] >= 0
    marks[8] = front + 1
    return True


@kernel
def enforce_some(window: Any) -> bool:
    """Enforce the policy; False if Python must help first. It may then be called again."""
    marks = window[2]
    while marks[0] < marks[1]:
        if marks[8] <= marks[0]:
            if not set_target(window):
                return False
            if marks[8] == marks[0]:
                return True
        if not advance(window):
            return False
        if not thorough():
            return True
    return True


@kernel
def insert_some(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows until a tail is full; return the next row."""
    marks = window[2]
    row = start
    while row < stop and marks[1] < marks[6]:
        push(window, times[row], lift(columns, times, row))
        row += 1
    return row


@kernel
def insert_some_enforced(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> int:
    """Insert rows, and enforce the policy after each, until Python must help; return the next row."""
    cells, marks = window[0], window[2]
    row = start
    while row < stop and marks[1] < marks[6]:
        push(window, times[row], lift(columns, times, row))
        row += 1
        front = marks[0]
        if not thorough() and front + 2 < marks[7] and front + 1 < marks[1]:
            # Nearly always one row leaves, or none, and all that is needed is here.
            whole = total(window)
            old = load(cells, spot(0, marks, 0, front))
            if not must_leave(whole, old):
                if must_leave(whole, whole):
                    marks[2] = 1
                continue
            if not must_leave(whole, combine(old, load(cells, spot(0, marks, 0, front + 1)))):
                pop(window)
                continue
        if not enforce_some(window):
            marks[12] = 1
            return row
    return row


STRUCTURE = (
    spot,
    last_spot,
    put_time,
    ready,
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
