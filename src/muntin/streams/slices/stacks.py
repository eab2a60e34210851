"""Two stacks over the slices of each key, for one sliding definition: O(1) combines per window, amortised.

    slots of a key     since ............ turn ............ until
    kept               a fold for each    one fold of all

Before the turn, the fold of a slot covers its slice and all after it up to the turn; from the turn on there is one fold
per key. So a window is one fold of the first kind combined with the other. When a window begins at or after the turn,
the turn moves to the window's end: the two stacks flip.

Slices may change, and windows before the last one may be requested again. The mark `stale` of a block is its first
changed slot, as for a tree: if that is before the turn, the turn moves to the end of the next window; if it is after
the turn, the fold of all is recomputed. A window that ends before `until`, or begins before `since`, is folded from its
slices.

A block that moves loses its folds. That costs up to three more folds per slice, as a block moves only if a quarter of
it is free; moving the folds would touch as much memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.runtime import prefetch
from muntin.kernels.vocabulary import (
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    hold,
    index,
    inlined,
    kernel,
    load,
    store,
)
from muntin.streams.blocks import longer
from muntin.streams.slices.slicer import AHEAD


class Stacks(NamedTuple):
    """The slots of its block that each key's folds cover. All are 0 before the first."""

    since: Ints
    turn: Ints
    until: Ints

    @classmethod
    def empty(cls) -> Stacks:
        """Return stacks for no keys."""
        return cls(*(np.zeros(0, np.int64) for _ in cls._fields))

    def for_keys(self, capacity: int) -> Stacks:
        """Return the same for `capacity` keys; the new ones have no folds yet."""
        return Stacks(*(longer(each, capacity, 0) for each in self))


@inlined
def fold_from_end(states: Slots, folds: Slots, first: int, last: int) -> None:
    """Fold each of the slots [first, last) with all that follow it."""
    state = hold(load(states, last - 1))
    store(folds, last - 1, state)
    for slot in range(last - 2, first - 1, -1):
        state = combine(load(states, slot), state)
        store(folds, slot, state)


@inlined
def fold_slots(states: Slots, first: int, last: int) -> State:
    """Return the state of the slots [first, last), at least one."""
    state = hold(load(states, first))
    for slot in range(first + 1, last):
        state = combine(state, load(states, slot))
    return state


@inlined
def fold_on(states: Slots, back: Slots, key: int, begin: int, first: int, last: int) -> None:
    """Fold the slots [first, last) into the fold from the turn, `begin`, on."""
    state = hold(load(states, begin) if first == begin else load(back, key))
    for slot in range(first + 1 if first == begin else first, last):
        state = combine(state, load(states, slot))
    store(back, key, state)


@kernel
def slide_windows(
    states: Slots,
    folds: Slots,
    back: Slots,
    stacks: Stacks,
    bases: Ints,
    stales: Ints,
    keys: Ints,
    firsts: Ints,
    lasts: Ints,
    outputs: Outputs,
) -> None:
    """Answer windows of one definition, ascending per key. `folds` is by slot, `back` by key.

    Takes only the arrays that it reads, not all of blocks and windows: passing a hundred from Python takes as long as
    answering some windows, and compiling that as long as the rest.
    """
    count = len(keys)
    for i in range(count):
        ahead = i + AHEAD if i + AHEAD < count else count - 1
        prefetch(folds, firsts[index(ahead)])
        prefetch(states, lasts[index(ahead)] - 1)
        key = keys[index(i)]
        first = firsts[index(i)]
        last = lasts[index(i)]
        base = bases[index(key)]
        turn = base + stacks.turn[index(key)]
        until = base + stacks.until[index(key)]
        stale = base + stales[index(key)]
        if stale < turn or first >= turn:
            fold_from_end(states, folds, first, last)
            stacks.since[index(key)] = first - base
            stacks.turn[index(key)] = stacks.until[index(key)] = last - base
            stales[index(key)] = last - base
            state = load(folds, first)
        elif last < until or first < base + stacks.since[index(key)]:
            state = fold_slots(states, first, last)
        elif last == turn:
            state = load(folds, first)
        else:
            if stale < last:
                fold_on(states, back, key, turn, until if stale >= until else turn, last)
                stacks.until[index(key)] = stales[index(key)] = last - base
            state = combine(load(folds, first), load(back, key))
        emit(outputs, i, state)


STACKS = (fold_from_end, fold_slots, fold_on, slide_windows)
