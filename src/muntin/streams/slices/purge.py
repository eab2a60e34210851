"""What no window needs any more: slices are let go, or become one where only a session still asks for them."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Ints, combine, kernel, load, store
from muntin.streams.blocks import copy_slice, dropped, one_tag
from muntin.streams.slices.due import next_member, session_begin
from muntin.streams.slices.slicer import position


@kernel
def settled_slices(
    arena: Any, begin: int, stop: int, most: int, gap: int, bit: int, watermark: int, lateness: int
) -> int:
    """Return how many of the oldest slices, of at most so many, are in settled sessions that no row can reach.

    A row that comes for a session must not touch a settled one. So the last one before a session that stays, stays
    too; where none does, until a row that could reach it would itself be too late.
    """
    last = arena[3]
    skip = arena[5]
    end = position(last, begin, stop, watermark - 2 * gap - max(lateness, 1))
    member = next_member(arena, end, stop, bit)
    if member == stop:
        for slot in range(begin, stop):  # forgotten here, even if others still need them
            skip[slot] |= bit
        return most
    if most == 0:
        return 0
    end = min(end, session_begin(arena, member, begin, gap, bit))
    while end > begin and skip[end - 1] & bit != 0:
        end -= 1
    if end > begin:
        end = session_begin(arena, end - 1, begin, gap, bit)
    return min(most, end - begin)


@kernel
def absorb_oldest(arena: Any, blocks: Any, marks: Ints, key: int, at: int) -> None:
    """Make the at-th slice of a key part of the one after it. Those before it move up."""
    base, _, head, size, stale = blocks
    low, _, first, _, count, _, tag, joins, states = arena
    slot = base[key] + head[key] + at
    if len(tag) > 0:
        tag[slot + 1] = one_tag(joins, marks, tag[slot + 1], tag[slot])
    low[slot + 1] = low[slot]
    first[slot + 1] = first[slot]
    count[slot + 1] += count[slot]
    store(states, slot + 1, combine(load(states, slot), load(states, slot + 1)))
    for i in range(slot, base[key] + head[key], -1):
        copy_slice(arena, i, i - 1)
    head[key] += 1
    size[key] -= 1
    stale[key] = min(stale[key], head[key])
    marks[1] -= 1
    marks[2] += 1


@kernel
def shrink(arena: Any, blocks: Any, marks: Ints, key: int, count: int, gap: int) -> None:
    """Join slices of one session among the first `count`, which no window by time needs any more."""
    base, _, head, _, _ = blocks
    _, _, first, last, _, skip, _, _, _ = arena
    at = 0
    while at + 1 < count:
        slot = base[key] + head[key] + at
        if skip[slot] == 0 and skip[slot + 1] == 0 and first[slot + 1] <= last[slot] + gap:
            absorb_oldest(arena, blocks, marks, key, at)
            count -= 1
        else:
            at += 1


@kernel
def purge(
    arena: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    chosen: Ints,
    needed: int,
    gap: int,
    gaps: Ints,
    watermark: int,
    lateness: int,
) -> None:
    """Let the slices of some keys go that lie before `needed`, for windows by time, and in settled sessions."""
    base, _, head, size, _ = blocks
    low = arena[0]
    for i in range(len(chosen)):
        key = chosen[i]
        begin = base[key] + head[key]
        stop = begin + size[key]
        unneeded = position(low, begin, stop, needed - 1) - begin
        settled = unneeded
        for d in range(len(gaps)):
            settled = settled_slices(arena, begin, stop, settled, gaps[d], 1 << d, watermark, lateness)
        if settled > 0:
            dropped(arena, blocks, marks, free, key, settled)
        if len(gaps) > 0 and unneeded - settled > 1:
            shrink(arena, blocks, marks, key, unneeded - settled, gap)


PURGE = (settled_slices, absorb_oldest, shrink, purge)
