"""The aggregate store: the slices of all keys in shared arrays, those of a key side by side in the order of time.

    block of a key     base .......... base + head ........ head + size ........ base + room
    a slot             free            the oldest slice ... the newest one       free

A slice is a slot in each of the arrays: `low` and `high`, the edges between which it lies; its state; where windows are
revised, the `count` of its rows; where there are sessions, the times of its `first` and `last` row, and `skip`, a bit
for each session definition that refused its rows. `tag` names a slice for whoever keeps more of it elsewhere; `joins`
are pairs of tags of which the second went to the first. What is not asked for is an array of length 0.

Blocks are 4, 6, 8, 12, 16, 24, ... slots long, or with a tree above them powers of two. One that is full moves into the
next longer one, or down to its own beginning where a quarter of it is free again, so that a slice is moved O(1) times,
amortised. A block that is given back is found again by its length. Nothing here is an object of Python: a million keys
are a few long arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.vocabulary import combine, index, inlined, kernel, load, store
from muntin.types import Array

TOP, SLICES, MERGES, USED, JOINS, NAMED, STEP = 0, 1, 2, 3, 4, 5, 6
"""What is where in the marks: the first slot that was never used, slices there are, slices that became one with
another so far, slots of blocks in use, entries in the list of joins, fresh tags that were given, and how many lengths a
block grows by at once: 2 where only every second one, a power of two, is used."""

MARKS = 7
LENGTHS = 96
"""How many lengths of blocks there can be."""


@inlined
def room_of(length: int) -> int:
    """Return the slots of a block: 4, 6, 8, 12, ..."""
    return (4 + 2 * (length & 1)) << (length >> 1)


def rooms(marks: Array) -> Array:
    """Return the slots of blocks of all lengths that are used."""
    return np.array([room_of(length) for length in range(0, LENGTHS, int(marks[STEP]))])


def lay_out(blocks: tuple[Array, ...], marks: Array, keys: Array, sizes: Array) -> int:
    """Give keys blocks for so many slices each, side by side; return how many slots that takes."""
    base, length, _, size, _ = blocks
    lengths = np.searchsorted(rooms(marks), sizes)
    taken = np.where(sizes > 0, rooms(marks)[lengths], 0)
    base[keys] = np.where(sizes > 0, np.cumsum(taken) - taken, -1)
    length[keys], size[keys] = lengths * marks[STEP], sizes
    marks[TOP] = marks[USED] = int(taken.sum())
    marks[SLICES] = int(sizes.sum())
    return max(64, int(taken.sum()))


@inlined
def copy_slice(arena: Any, to: int, at: int) -> None:
    """Copy a slice from one slot to another."""
    low, high, first, last, count, skip, tag, _, states = arena
    low[index(to)] = low[index(at)]
    high[index(to)] = high[index(at)]
    if len(count) > 0:
        count[index(to)] = count[index(at)]
    if len(skip) > 0:
        first[index(to)] = first[index(at)]
        last[index(to)] = last[index(at)]
        skip[index(to)] = skip[index(at)]
    if len(tag) > 0:
        tag[index(to)] = tag[index(at)]
    store(states, to, load(states, at))


@kernel
def allotted(arena: Any, marks: Any, free: Any, length: int) -> int:
    """Return the first slot of a free block of this length; -1 if there is none."""
    low = arena[0]
    block: int = free[length]
    if block >= 0:
        free[length] = low[block]  # a free block's first slot names the next one
    else:
        block = marks[0]
        if block + room_of(length) > len(low):
            return -1
        marks[0] = block + room_of(length)
    marks[3] += room_of(length)
    return block


@kernel
def given_back(arena: Any, blocks: Any, marks: Any, free: Any, key: int) -> None:
    """Give the block of a key back."""
    base, length, head, size, stale = blocks
    stale[key] = 0
    if base[key] >= 0:
        marks[3] -= room_of(length[key])
        arena[0][base[key]] = free[length[key]]
        free[length[key]] = base[key]
    base[key] = -1
    head[key] = 0
    size[key] = 0


@inlined
def has_room(arena: Any, blocks: Any, marks: Any, free: Any, key: int) -> bool:
    """Make room for one more slice at the end of a key's block; say whether there was memory for it."""
    base, length, head, size, stale = blocks
    if base[key] >= 0 and head[key] + size[key] < room_of(length[key]):
        return True
    if base[key] >= 0 and 4 * head[key] >= room_of(length[key]):
        stale[key] = 0
        begin = base[key]
        for i in range(size[key]):
            copy_slice(arena, begin + i, begin + head[key] + i)
        head[key] = 0
        return True
    longer = length[key] + marks[6] if base[key] >= 0 else 0
    begin = allotted(arena, marks, free, longer)
    if begin < 0:
        return False
    count = size[key]
    old = base[key] + head[key]
    for i in range(count):
        copy_slice(arena, begin + i, old + i)
    given_back(arena, blocks, marks, free, key)
    base[key] = begin
    length[key] = longer
    size[key] = count
    return True


@inlined
def opened(arena: Any, blocks: Any, marks: Any, key: int, at: int) -> int:
    """Open a slot for a new slice before the at-th of a key, whose block has room; return it."""
    base, _, head, size, stale = blocks
    slot: int = base[key] + head[key] + at
    stale[key] = min(stale[key], head[key] + at)
    for i in range(base[key] + head[key] + size[key], slot, -1):
        copy_slice(arena, i, i - 1)
    size[key] += 1
    marks[1] += 1
    return slot


@inlined
def one_tag(joins: Any, marks: Any, tag: int, other: int) -> int:
    """Return the tag of two slices that become one; note that what is kept under the other one moves."""
    joins[marks[4]] = tag
    joins[marks[4] + 1] = other
    marks[4] += 2
    return tag


@kernel
def joined(arena: Any, blocks: Any, marks: Any, key: int, at: int) -> None:
    """Make the at-th slice of a key and the one after it one slice."""
    base, _, head, size, stale = blocks
    _, _, _, last, count, _, tag, joins, states = arena
    slot = base[key] + head[key] + at
    stale[key] = min(stale[key], head[key] + at)
    if len(tag) > 0:
        tag[slot] = one_tag(joins, marks, tag[slot], tag[slot + 1])
    last[slot] = last[slot + 1]
    count[slot] += count[slot + 1]
    store(states, slot, combine(load(states, slot), load(states, slot + 1)))
    for i in range(slot + 1, base[key] + head[key] + size[key] - 1):
        copy_slice(arena, i, i + 1)
    size[key] -= 1
    marks[1] -= 1
    marks[2] += 1


@kernel
def dropped(arena: Any, blocks: Any, marks: Any, free: Any, key: int, count: int) -> None:
    """Let the oldest slices of a key go."""
    base, _, head, size, _ = blocks
    _, _, _, _, _, _, tag, joins, _ = arena
    if len(tag) > 0:
        for slot in range(base[key] + head[key], base[key] + head[key] + count):
            joins[marks[4]] = -1  # what is kept under this tag moves nowhere
            joins[marks[4] + 1] = tag[slot]
            marks[4] += 2
    head[key] += count
    size[key] -= count
    marks[1] -= count
    if size[key] == 0:
        given_back(arena, blocks, marks, free, key)


ARENA = (room_of, copy_slice, allotted, given_back, has_room, opened, one_tag, joined, dropped)
