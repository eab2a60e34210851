"""Slices that were made elsewhere, of other rows, become part of these: how a cluster cuts rows where they are.

Only of windows by time: their edges are the same everywhere, so that two slices are of the same interval or of
different ones, and a slice behind the watermark is late as a whole or not at all.
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
    """Slices of some rows, those of a key in the order of time: column by column."""

    keys: Array
    low: Array
    high: Array
    count: Array
    """How many rows each has."""
    states: Sequence[Array]
    """The states of each group of aggregations that are run together."""

    def take(self, which: Array) -> Partials:
        """Return some of them."""
        states = [each[which] for each in self.states]
        return Partials(self.keys[which], self.low[which], self.high[which], self.count[which], states)


class Incoming(NamedTuple):
    """Slices that come in, but for their states."""

    keys: Ints
    lows: Ints
    highs: Ints
    counts: Ints


@kernel
def take_slices(incoming: Incoming, slices: Slices, blocks: Blocks, script: Script, cursor: Ints) -> int:
    """Find where slices go among those there are, from the cursor's on; return why it stopped."""
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
    """Carry a script out that `take_slices` wrote; leave it empty."""
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
"""What is made for each set of aggregations."""
