"""The slices of all keys in shared arrays; the slices of a key are contiguous, in time order.

    block of a key     base .......... base + head ........ head + size ........ base + room
    a slot             free            the oldest slice ... the newest one       free

A slice is a slot in each array of `Slices`, and in an array of states that no kernel here sees: operations on states go
into a script.

Blocks have 4, 6, 8, 12, 16, 24, ... slots, or powers of two if a tree is kept above them. A full block moves to the
next larger size, or down to its own beginning if a quarter of it is free again, so a slice moves O(1) times, amortised.
Free blocks are listed by length. Nothing here is a Python object: a million keys are a few long arrays.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.script import JOIN, MOVE, Script, add_step
from muntin.types import Array

TOP, SLICES, MERGES, USED, JOINS, NAMED, STEP = range(7)
"""Indices into the marks: the first never-used slot, the number of slices, of merges so far, of slots of blocks in use,
of entries in the list of joins, of fresh tags given out, and by how many lengths a block grows at once: 2 where only
powers of two, every second length, are used."""

MARKS = 7
LENGTHS = 96
"""The number of possible block lengths."""


class Slices(NamedTuple):
    """The arrays that hold a slice per slot. Arrays that a query does not need have length 0."""

    low: Ints
    high: Ints
    """The edges between which a slice lies."""
    first: Ints
    last: Ints
    """The times of its first and last row, if there are sessions."""
    count: Ints
    """Its number of rows, if windows are revised."""
    skip: Ints
    """A bit for each session definition that rejected its rows."""
    tag: Ints
    """Its name, for data that is kept elsewhere."""
    joins: Ints
    """Pairs of tags: the second was merged into the first, or dropped if the first is -1."""


class Blocks(NamedTuple):
    """Where the slices of each key are, and which memory is free."""

    base: Ints
    """The first slot of a key's block; -1 if it has none."""
    length: Ints
    """The number of the block's length: see `room_of`."""
    head: Ints
    size: Ints
    stale: Ints
    """The first slot of the block that the tree above the slices does not reflect yet."""
    marks: Ints
    free: Ints
    """For each block length, the head of its free list."""

    @classmethod
    def empty(cls, step: int) -> Blocks:
        """Return blocks for no keys, which grow by `step` lengths at once."""
        marks = np.zeros(MARKS, np.int64)
        marks[STEP] = step
        base, length, head, size, stale = (np.zeros(0, np.int64) for _ in range(5))
        return cls(base, length, head, size, stale, marks, np.full(LENGTHS, -1, np.int64))

    def for_keys(self, capacity: int) -> Blocks:
        """Return the same with room for `capacity` keys; the new ones have no block yet."""
        return self._replace(
            base=longer(self.base, capacity, -1),
            length=longer(self.length, capacity, 0),
            head=longer(self.head, capacity, 0),
            size=longer(self.size, capacity, 0),
            stale=longer(self.stale, capacity, 0),
        )


def longer(array: Array, length: int, fill: int | None = None) -> Array:
    """Return a longer array; pages beyond the copied part stay untouched unless there is a `fill`."""
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
    """Return the slots of a block of each length in use."""
    return np.array([room_of(length) for length in range(0, LENGTHS, int(marks[STEP]))])


def lay_out(blocks: Blocks, keys: Array, sizes: Array) -> int:
    """Give each key a block for `sizes` slices, side by side; return the number of slots used."""
    marks = blocks.marks
    lengths = np.searchsorted(rooms(marks), sizes)
    taken = np.where(sizes > 0, rooms(marks)[lengths], 0)
    blocks.base[keys] = np.where(sizes > 0, np.cumsum(taken) - taken, -1)
    blocks.length[keys], blocks.size[keys] = lengths * marks[STEP], sizes
    marks[TOP] = marks[USED] = int(taken.sum())
    marks[SLICES] = int(sizes.sum())
    return max(64, int(taken.sum()))


def move_together(blocks: Blocks, keys: Array) -> None:
    """Compact the blocks of all keys that have slices, in this order; each keeps its length, and has no head.

    Clears the free lists. The caller moves the slices.
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
        blocks.free[length] = links[block]  # a free block's first slot links to the next one
    else:
        block = marks[TOP]
        if block + room_of(length) > len(links):
            return -1
        marks[TOP] = block + room_of(length)
    marks[USED] += room_of(length)
    return block


@kernel
def give_back(links: Ints, blocks: Blocks, key: int) -> None:
    """Put the block of a key on the free list."""
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
    """Copy a slice from slot `at` to slot `to`."""
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
    """Move slices, and their states, to other slots; the two ranges may overlap."""
    if count > 0:
        add_step(script, MOVE, to, at, count)
    for i in range(count):
        from_end = i if to < at else count - 1 - i
        copy_slice(slices, to + from_end, at + from_end)


@kernel
def make_room(slices: Slices, blocks: Blocks, script: Script, key: int) -> bool:
    """Make room for one more slice at the end of a key's full block; return whether there was memory for it."""
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
    """Return whether there is room for one more slice at the end of a key's block, making it if needed."""
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
    """Return the tag of two merged slices; record that the data of the other tag moves."""
    at = blocks.marks[JOINS]
    slices.joins[at] = tag
    slices.joins[at + 1] = other
    blocks.marks[JOINS] = at + 2
    return tag


@kernel
def join_next(slices: Slices, blocks: Blocks, script: Script, key: int, at: int) -> None:
    """Merge the at-th slice of a key with the next one."""
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
    """Evict the oldest slices of a key."""
    begin = blocks.base[key] + blocks.head[key]
    if len(slices.tag) > 0:
        for slot in range(begin, begin + count):
            join_tags(slices, blocks, -1, slices.tag[slot])  # the data of this tag is dropped
    blocks.head[key] += count
    blocks.size[key] -= count
    blocks.marks[SLICES] -= count
    if blocks.size[key] == 0:
        give_back(slices.low, blocks, key)


MEMORY = (room_of, allot, give_back)
SLOTS = (copy_slice, move_slices, make_room, has_room, open_slot, join_tags, join_next, drop_oldest)
