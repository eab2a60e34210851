"""Merges slices built elsewhere from other rows: this is how a cluster slices rows where they are.

Only for windows by time: their edges are the same everywhere, so two slices have the same interval or disjoint ones,
and a slice behind the watermark is late as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muntin.kernels.vocabulary import Ints, Slots, combine, kernel, load, store
from muntin.streams.blocks import Blocks, Slices, has_room, open_slot
from muntin.streams.script import (
    ACTION,
    DONE,
    FIRST,
    FOLD,
    LAST,
    NO_ROOM,
    OPEN,
    SLOT,
    STOPPED,
    Script,
    add_step,
    change_states,
    is_full,
    move_states,
)
from muntin.streams.slices.slicer import ROW, position
from muntin.types import Array


@dataclass(frozen=True)
class Partials:
    """Slices of some rows as columns; those of a key in time order."""

    keys: Array
    low: Array
    high: Array
    count: Array
    """The number of rows of each."""
    states: Sequence[Array]
    """The states of each group of fused aggregations."""

    def take(self, which: Array) -> Partials:
        """Return some of the slices."""
        states = [each[which] for each in self.states]
        return Partials(self.keys[which], self.low[which], self.high[which], self.count[which], states)


class Incoming(NamedTuple):
    """Incoming slices without their states."""

    keys: Ints
    lows: Ints
    highs: Ints
    counts: Ints


@kernel
def take_slices(incoming: Incoming, slices: Slices, blocks: Blocks, script: Script, cursor: Ints) -> int:
    """Find the places of incoming slices among those held, starting at the cursor; return why it stopped."""
    low = slices.low
    at = cursor[ROW]
    while at < len(incoming.keys) and not is_full(script):
        key = incoming.keys[at]
        begin = blocks.base[key] + blocks.head[key]
        slot = position(low, begin, begin + blocks.size[key], incoming.lows[at]) - 1
        if blocks.size[key] > 0 and slot >= begin and incoming.lows[at] < slices.high[slot]:
            blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
            if len(slices.count) > 0:
                slices.count[slot] += incoming.counts[at]
            add_step(script, FOLD, slot, at, at + 1)
        else:
            if not has_room(slices, blocks, script, key):
                cursor[ROW] = at
                return NO_ROOM
            begin = blocks.base[key] + blocks.head[key]
            place = position(low, begin, begin + blocks.size[key], incoming.lows[at]) - begin
            slot = open_slot(slices, blocks, script, key, place)
            slices.low[slot] = incoming.lows[at]
            slices.high[slot] = incoming.highs[at]
            if len(slices.count) > 0:
                slices.count[slot] = incoming.counts[at]
            add_step(script, OPEN, slot, at, at + 1)
        at += 1
    cursor[ROW] = at
    return DONE if at == len(incoming.keys) else STOPPED


@kernel
def fold_slices(script: Script, incoming: Slots, states: Slots) -> None:
    """Execute a script of `take_slices`; leave it empty."""
    steps = script.steps
    for at in range(script.length[0]):
        action = steps[at, ACTION]
        slot = steps[at, SLOT]
        first = steps[at, FIRST]
        if action == FOLD:
            store(states, slot, combine(load(states, slot), load(incoming, first)))
        elif action == OPEN:
            store(states, slot, load(incoming, first))
        else:
            change_states(states, action, slot, first, steps[at, LAST])
    script.length[0] = 0


PARTIALS = (move_states, change_states, fold_slices)
"""The kernels compiled per set of aggregations."""
