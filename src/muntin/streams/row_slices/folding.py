"""The states of rows and of slices in row numbers: the kernels compiled per set of aggregations."""

from __future__ import annotations

from typing import Any, NamedTuple

from muntin.kernels.vocabulary import Columns, Ints, Slots, combine, hold, index, kernel, lift, load, store
from muntin.streams.row_slices.late import FOLDS
from muntin.streams.row_slices.removal import try_remove, watch
from muntin.streams.row_slices.rows import Arriving
from muntin.streams.script import (
    ACTION,
    AFTER,
    BEFORE,
    BEGIN,
    EXCHANGE,
    FIRST,
    FOLD,
    LAST,
    LEAVING,
    OPEN,
    REFOLD,
    SHIFT,
    SLOT,
    STOP,
    Script,
    move_states,
)


class New(NamedTuple):
    """The row numbers of new rows of a key, and their place relative to a slice."""

    spots: Ints
    begin: int
    """The first new row of the key."""
    before: int
    """The first that falls into the slice, or after it."""
    after: int
    """The first that falls after the slice."""
    stop: int


@kernel
def refold(rows: Slots, first: int, last: int, states: Slots, peaks: Any, slot: int) -> None:
    """Refold the state of a slice from its rows."""
    state = hold(load(rows, first))
    for row in range(first + 1, last):
        state = combine(state, load(rows, row))
    store(states, slot, state)
    peaks[slot]["size"][:] = 0.0
    watch(peaks, slot, state)


@kernel
def after_new(spots: Ints, spot: int, stop: int, at: int) -> int:
    """Return the first row number from `at` on that no new row has; `spot` is the first new row from there on."""
    while spot < stop and spots[spot] == at:
        spot += 1
        at += 1
    return at


@kernel
def exchange(
    rows: Slots, shift: int, new: New, low: int, high: int, leaving: int, states: Slots, peaks: Any, slot: int
) -> bool:
    """Remove from a slice the rows that have left it and combine those that came; return whether that was possible.

    The slice lies between the numbers `low` and `high`. Each new row before it has moved a row into it from the
    previous slice. Rows of equal time stay in order.
    """
    spots = new.spots
    at = high
    spot = new.after
    for _ in range(leaving):
        free = after_new(spots, spot, new.stop, at)
        spot += free - at
        if not try_remove(states, peaks, slot, rows, free + shift):
            return False
        at = free + 1
    state = hold(load(states, slot))
    for spot in range(new.before, new.after):
        state = combine(state, load(rows, spots[spot] + shift))
    if new.before > new.begin:
        at = after_new(spots, new.before, new.stop, low)
        spot = new.before + at - low
        older = hold(load(rows, at + shift))
        for _ in range(new.before - new.begin - 1):
            free = after_new(spots, spot, new.stop, at + 1)
            spot += free - at - 1
            at = free
            older = combine(older, load(rows, at + shift))
        state = combine(older, state)
    store(states, slot, state)
    watch(peaks, slot, state)
    return True


@kernel
def lift_newest(script: Script, batch: Arriving, columns: Columns, rows: Slots) -> None:
    """Execute a script of `merge_rows` in which no slice changes: lift and move rows; leave the script empty.

    Separate, since rows that change slices are rare, and the kernel for those takes three times as long to compile.
    """
    steps = script.steps
    for at in range(script.length[0]):
        slot = steps[at, SLOT]
        first = steps[at, FIRST]
        last = steps[at, LAST]
        if steps[at, ACTION] == OPEN:
            for new in range(first, last):
                store(rows, slot + new - first, lift(columns, batch.times, batch.order[index(new)]))
        else:
            move_states(rows, slot, first, last)
    script.length[0] = 0


@kernel
def lift_rows(
    script: Script,
    batch: Arriving,
    columns: Columns,
    rows: Slots,
    states: Slots,
    peaks: Any,
    spots: Ints,
    cursor: Ints,
) -> None:
    """Execute a script of `merge_rows`: lift and move rows, exchange rows of slices; leave the script empty."""
    steps = script.steps
    times, order = batch.times, batch.order
    for at in range(script.length[0]):
        action = steps[at, ACTION]
        slot = steps[at, SLOT]
        first = steps[at, FIRST]
        last = steps[at, LAST]
        if action == OPEN:
            for new in range(first, last):
                store(rows, slot + new - first, lift(columns, times, order[index(new)]))
        elif action == EXCHANGE:
            shift = steps[at, SHIFT]
            new_rows = New(spots, steps[at, BEGIN], steps[at, BEFORE], steps[at, AFTER], steps[at, STOP])
            low, high, leaving = first - shift, last - shift, steps[at, LEAVING]
            if not exchange(rows, shift, new_rows, low, high, leaving, states, peaks, slot):
                refold(rows, first, last, states, peaks, slot)
                cursor[FOLDS] += 1
        elif action == REFOLD:
            refold(rows, first, last, states, peaks, slot)
        else:
            move_states(rows, slot, first, last)
    script.length[0] = 0


@kernel
def fold_rows(script: Script, rows: Slots, states: Slots, peaks: Any) -> None:
    """Execute a script of `extend`: fold rows into slices, and move slices; leave the script empty."""
    steps = script.steps
    for at in range(script.length[0]):
        action = steps[at, ACTION]
        slot = steps[at, SLOT]
        first = steps[at, FIRST]
        last = steps[at, LAST]
        if action == OPEN:
            refold(rows, first, last, states, peaks, slot)
        elif action == FOLD:
            state = hold(load(states, slot))
            for row in range(first, last):
                state = combine(state, load(rows, row))
            store(states, slot, state)
            watch(peaks, slot, state)
        else:
            move_states(states, slot, first, last)
            for i in range(last):
                from_end = i if slot < first else last - 1 - i
                peaks[slot + from_end] = peaks[first + from_end]
    script.length[0] = 0


FOLDING = (move_states, refold, after_new, exchange, lift_newest, lift_rows, fold_rows)
