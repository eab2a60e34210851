"""Scripts of operations on states: kernels that see no state write them, and a small one executes them.

Which slice a row belongs to, and where slices are in memory, does not depend on the aggregations. So the kernels that
find this out are compiled once for all queries. They write actions into a script, a batch of rows at a time so that
rows and script stay in the CPU cache; the kernel that executes it loads, combines and stores states, and is all that is
compiled per set of aggregations.

    action     slot           first                 last
    FOLD       of a slice     the first row         the row after the last: all are combined after the state
    OPEN       of a slice     the first row         the same, from no state
    PREPEND    of a slice     a row, which is combined before the state
    JOIN       of the result  the slot of the older state, and that of the newer one
    MOVE       the first one  the first slot to move from, and how many
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.vocabulary import Ints, Slots, combine, index, inlined, kernel, load, store

FOLD, OPEN, PREPEND, JOIN, MOVE = range(5)
"""The actions."""
ACTION, SLOT, FIRST, LAST = range(4)
"""The columns of a step."""
DONE, STOPPED, NO_ROOM = range(3)
"""Why a kernel returned: done; the script is full or has enough rows; no slot is free for a slice."""
ROWS_AT_ONCE = 1 << 17
"""The number of rows after which a script is executed."""
MOST_STEPS = 4
"""The most steps a row can take: to move a block, to open or close a slot in it, and its own."""
CAPACITY = 1 << 14


class Script(NamedTuple):
    """Actions in order. A step is a run of rows, or moves slices."""

    steps: Ints
    """A line of four numbers for each step."""
    length: Ints
    """A single number: the number of steps."""

    @classmethod
    def empty(cls, capacity: int = CAPACITY) -> Script:
        """Return an empty script with room for `capacity` steps."""
        return cls(np.empty((capacity, LAST + 1), np.int64), np.zeros(1, np.int64))


@inlined
def write_step(script: Script, at: int, action: int, slot: int, first: int, last: int) -> None:
    """Write a step without increasing the length."""
    script.steps[index(at), ACTION] = action
    script.steps[index(at), SLOT] = slot
    script.steps[index(at), FIRST] = first
    script.steps[index(at), LAST] = last


@inlined
def add_step(script: Script, action: int, slot: int, first: int, last: int) -> None:
    """Append a step; there must be room."""
    write_step(script, script.length[0], action, slot, first, last)
    script.length[0] += 1


@inlined
def is_full(script: Script) -> bool:
    """Return whether there may be no room for the steps of one more row."""
    return bool(script.length[0] + MOST_STEPS > len(script.steps))


@kernel
def move_states(states: Slots, to: int, at: int, count: int) -> None:
    """Move states to other slots; the two ranges may overlap."""
    for i in range(count):
        from_end = i if to < at else count - 1 - i
        store(states, to + from_end, load(states, at + from_end))


@kernel
def change_states(states: Slots, action: int, slot: int, first: int, last: int) -> None:
    """Execute a step that reads no row."""
    if action == JOIN:
        store(states, slot, combine(load(states, first), load(states, last)))
    else:
        move_states(states, slot, first, last)


SCRIPT = (write_step, add_step, is_full)
