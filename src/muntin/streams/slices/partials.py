"""Slices that were made elsewhere, of other rows, become part of these: how a cluster cuts rows where they are.

Only of windows by time: their edges are the same everywhere, so that two slices are of the same interval or of
different ones, and a slice behind the watermark is late as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muntin.kernels.vocabulary import Ints, combine, kernel, load, store
from muntin.streams.blocks import ARENA, has_room, opened
from muntin.streams.slices.slicer import position
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


@kernel
def take_slices(slices: Any, incoming: Any, arena: Any, blocks: Any, marks: Ints, free: Ints, cursor: Ints) -> bool:
    """Combine slices into those there are, from the cursor's on; say whether there was memory for all of them."""
    keys, lows, highs, counts = slices
    base, _, head, size, stale = blocks
    low, high, _, _, count, _, _, _, states = arena
    row = cursor[2]
    while row < len(keys):
        key = keys[row]
        begin = base[key] + head[key]
        slot = position(low, begin, begin + size[key], lows[row]) - 1
        if size[key] > 0 and slot >= begin and lows[row] < high[slot]:
            stale[key] = min(stale[key], slot - base[key])
            store(states, slot, combine(load(states, slot), load(incoming, row)))
            if len(count) > 0:
                count[slot] += counts[row]
        else:
            if not has_room(arena, blocks, marks, free, key):
                cursor[2] = row
                return False
            begin = base[key] + head[key]
            slot = opened(arena, blocks, marks, key, position(low, begin, begin + size[key], lows[row]) - begin)
            low[slot] = lows[row]
            high[slot] = highs[row]
            if len(count) > 0:
                count[slot] = counts[row]
            store(states, slot, load(incoming, row))
        row += 1
    cursor[2] = row
    return True


PARTIALS = (*ARENA, position, take_slices)
