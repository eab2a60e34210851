"""The slices of all keys in shared arrays, those of a key side by side in the order of time.

    block of a key     base .......... base + head ........ head + size ........ base + room
    a slot             free            the oldest slice ... the newest one       free

A slice is a slot in each of the arrays of `Slices`, and in an array of states, which no kernel here sees: what is to be
done to states goes into a script.

Blocks are 4, 6, 8, 12, 16, 24, ... slots long, or with a tree above them powers of two. One that is full moves into the
next longer one, or down to its own beginning where a quarter of it is free again, so that a slice is moved O(1) times,
amortised. A block that is given back is found again by its length. Nothing here is an object of Python: a million keys
are a few long arrays.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.script import JOIN, MOVE, Script, add_step
from muntin.types import Array

TOP, SLICES, MERGES, USED, JOINS, NAMED, STEP = range(7)
"""What is where in the marks: the first slot that was never used, slices there are, slices that became one with
another so far, slots of blocks in use, entries in the list of joins, fresh tags that were given, and how many lengths a
block grows by at once: 2 where only every second one, a power of two, is used."""

MARKS = 7
LENGTHS = 96
"""How many lengths of blocks there can be."""


class Slices(NamedTuple):
    """What is kept of each slot. Arrays that a query does not need have length 0."""

    low: Ints
    high: Ints
    """The edges between which a slice lies."""
    first: Ints
    last: Ints
    """The times of its first and its last row, where there are sessions."""
    count: Ints
    """How many rows it has, where windows are revised."""
    skip: Ints
    """A bit for each session definition that refused its rows."""
    tag: Ints
    """Its name, for whoever keeps more of it elsewhere."""
    joins: Ints
    """Pairs of tags, of which the second went to the first; or nowhere, where the first is -1."""


class Blocks(NamedTuple):
    """Where the slices of each key are, and what memory is free."""

    base: Ints
    """The first slot of a key's block; -1 where it has none."""
    length: Ints
    """The number of the block's length: see `room_of`."""
    head: Ints
    size: Ints
    stale: Ints
    """The first slot of the block from which on a tree above the slices is out of date."""
    marks: Ints
    free: Ints
    """For each length of blocks the first one that was given back."""

    @classmethod
    def empty(cls, step: int) -> Blocks:
        """Return the blocks of no keys, which grow by `step` lengths at once."""
        marks = np.zeros(MARKS, np.int64)
        marks[STEP] = step
        base, length, head, size, stale = (np.zeros(0, np.int64) for _ in range(5))
        return cls(base, length, head, size, stale, marks, np.full(LENGTHS, -1, np.int64))

    def for_keys(self, capacity: int) -> Blocks:
        """Return the same with room for more keys, which have no block yet."""
        return self._replace(
            base=longer(self.base, capacity, -1),
            length=longer(self.length, capacity, 0),
            head=longer(self.head, capacity, 0),
            size=longer(self.size, capacity, 0),
            stale=longer(self.stale, capacity, 0),
        )


def longer(array: Array, length: int, fill: int | None = None) -> Array:
    """Return a longer array; pages beyond what is copied stay untouched unless there is something to fill in."""
    result = np.empty(length, np.int64)
    result[: len(array)] = array
    if fill is not None:
        result[len(array) :] = fill
    return result


@inlined
def room_of(length: int) -> int:
    """Return the slots of a block: 4, 6, 8, 12, ..."""
    return (4 + 2 * (length & 1)) << (length >> 1)


def rooms(marks: Array) -> Array:
    """Return the slots of blocks of all lengths that are used."""
    return np.array([room_of(length) for length in range(0, LENGTHS, int(marks[STEP]))])


def lay_out(blocks: Blocks, keys: Array, sizes: Array) -> int:
    """Give keys blocks for as many slices as `sizes` says, side by side; return how many slots that takes."""
    marks = blocks.marks
    lengths = np.searchsorted(rooms(marks), sizes)
    taken = np.where(sizes > 0, rooms(marks)[lengths], 0)
    blocks.base[keys] = np.where(sizes > 0, np.cumsum(taken) - taken, -1)
    blocks.length[keys], blocks.size[keys] = lengths * marks[STEP], sizes
    marks[TOP] = marks[USED] = int(taken.sum())
    marks[SLICES] = int(sizes.sum())
    return max(64, int(taken.sum()))


def move_together(blocks: Blocks, keys: Array) -> None:
    """Put the blocks of all keys that have slices side by side, in this order; each keeps its length, and has no head.

    Blocks that were given back are forgotten. Who calls this moves the slices.
    """
    taken = _all_rooms()[blocks.length[keys]]
    blocks.base[keys] = np.cumsum(taken) - taken
    blocks.head[keys] = blocks.stale[keys] = 0
    blocks.free[:] = -1
    blocks.marks[TOP] = blocks.marks[USED] = int(taken.sum())


@cache
def _all_rooms() -> Array:
    return np.array([room_of(length) for length in range(LENGTHS)])


# ---------------------------------------------------------------- blocks


@kernel
def allot(links: Ints, blocks: Blocks, length: int) -> int:
    """Return the first slot of a free block of this length; -1 if there is none."""
    marks = blocks.marks
    block: int = blocks.free[length]
    if block >= 0:
        blocks.free[length] = links[block]  # a free block's first slot names the next one
    else:
        block = marks[TOP]
        if block + room_of(length) > len(links):
            return -1
        marks[TOP] = block + room_of(length)
    marks[USED] += room_of(length)
    return block


@kernel
def give_back(links: Ints, blocks: Blocks, key: int) -> None:
    """Give the block of a key back."""
    blocks.stale[key] = 0
    if blocks.base[key] >= 0:
        length = blocks.length[key]
        blocks.marks[USED] -= room_of(length)
        links[blocks.base[key]] = blocks.free[length]
        blocks.free[length] = blocks.base[key]
    blocks.base[key] = -1
    blocks.head[key] = 0
    blocks.size[key] = 0


# ---------------------------------------------------------------- slices


@inlined
def copy_slice(slices: Slices, to: int, at: int) -> None:
    """Copy what is kept of a slice from one slot to another."""
    slices.low[index(to)] = slices.low[index(at)]
    slices.high[index(to)] = slices.high[index(at)]
    if len(slices.first) > 0:
        slices.first[index(to)] = slices.first[index(at)]
        slices.last[index(to)] = slices.last[index(at)]
    if len(slices.count) > 0:
        slices.count[index(to)] = slices.count[index(at)]
    if len(slices.skip) > 0:
        slices.skip[index(to)] = slices.skip[index(at)]
    if len(slices.tag) > 0:
        slices.tag[index(to)] = slices.tag[index(at)]


@kernel
def move_slices(slices: Slices, script: Script, to: int, at: int, count: int) -> None:
    """Move slices, and their states, to other slots, which may overlap with theirs."""
    if count > 0:
        add_step(script, MOVE, to, at, count)
    for i in range(count):
        from_end = i if to < at else count - 1 - i
        copy_slice(slices, to + from_end, at + from_end)


@kernel
def make_room(slices: Slices, blocks: Blocks, script: Script, key: int) -> bool:
    """Make room for one more slice at the end of a key's block, which has none; say whether there was memory for it."""
    begin = blocks.base[key]
    head = blocks.head[key]
    if begin >= 0 and 4 * head >= room_of(blocks.length[key]):
        blocks.stale[key] = 0
        move_slices(slices, script, begin, begin + head, blocks.size[key])
        blocks.head[key] = 0
        return True
    longer_one = blocks.length[key] + blocks.marks[STEP] if begin >= 0 else 0
    to = allot(slices.low, blocks, longer_one)
    if to < 0:
        return False
    count = blocks.size[key]
    move_slices(slices, script, to, begin + head, count)
    give_back(slices.low, blocks, key)
    blocks.base[key] = to
    blocks.length[key] = longer_one
    blocks.size[key] = count
    return True


@inlined
def has_room(slices: Slices, blocks: Blocks, script: Script, key: int) -> bool:
    """Say whether there is memory for one more slice at the end of a key's block, once it is made."""
    if blocks.base[key] >= 0 and blocks.head[key] + blocks.size[key] < room_of(blocks.length[key]):
        return True
    return make_room(slices, blocks, script, key)


@inlined
def open_slot(slices: Slices, blocks: Blocks, script: Script, key: int, at: int) -> int:
    """Return an empty slot before the at-th slice of a key, whose block has room."""
    begin = blocks.base[key] + blocks.head[key]
    slot: int = begin + at
    blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    if at < blocks.size[key]:
        move_slices(slices, script, slot + 1, slot, blocks.size[key] - at)
    blocks.size[key] += 1
    blocks.marks[SLICES] += 1
    return slot


@inlined
def join_tags(slices: Slices, blocks: Blocks, tag: int, other: int) -> int:
    """Return the tag of two slices that become one; note that what is kept under the other one moves."""
    at = blocks.marks[JOINS]
    slices.joins[at] = tag
    slices.joins[at + 1] = other
    blocks.marks[JOINS] = at + 2
    return tag


@kernel
def join_next(slices: Slices, blocks: Blocks, script: Script, key: int, at: int) -> None:
    """Make the at-th slice of a key and the one after it one slice."""
    slot = blocks.base[key] + blocks.head[key] + at
    blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    if len(slices.tag) > 0:
        slices.tag[slot] = join_tags(slices, blocks, slices.tag[slot], slices.tag[slot + 1])
    slices.last[slot] = slices.last[slot + 1]
    slices.count[slot] += slices.count[slot + 1]
    add_step(script, JOIN, slot, slot, slot + 1)
    move_slices(slices, script, slot + 1, slot + 2, blocks.size[key] - at - 2)
    blocks.size[key] -= 1
    blocks.marks[SLICES] -= 1
    blocks.marks[MERGES] += 1


@kernel
def drop_oldest(slices: Slices, blocks: Blocks, key: int, count: int) -> None:
    """Let the oldest slices of a key go."""
    begin = blocks.base[key] + blocks.head[key]
    if len(slices.tag) > 0:
        for slot in range(begin, begin + count):
            join_tags(slices, blocks, -1, slices.tag[slot])  # what is kept under this tag moves nowhere
    blocks.head[key] += count
    blocks.size[key] -= count
    blocks.marks[SLICES] -= count
    if blocks.size[key] == 0:
        give_back(slices.low, blocks, key)


MEMORY = (room_of, allot, give_back)
SLOTS = (copy_slice, move_slices, make_room, has_room, open_slot, join_tags, join_next, drop_oldest)
