"""Eviction: slices that no window needs are dropped, and merged if only a session still needs them."""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.streams.blocks import MERGES, SLICES, Blocks, Slices, drop_oldest, join_tags, move_slices
from muntin.streams.script import DONE, JOIN, STOPPED, Script, add_step, is_full
from muntin.streams.slices.due import fetch_ends, next_member, position_from_begin, session_begin
from muntin.streams.slices.late import Deadline
from muntin.streams.slices.slicer import AHEAD, ROW, position


@kernel
def final_slices(slices: Slices, begin: int, stop: int, most: int, gap: int, bit: int, deadline: Deadline) -> int:
    """Return how many of the oldest slices, at most `most`, are in final sessions that no row can reach.

    A row of a session must not touch a final one. So the last final session before one that stays, stays too; if none
    stays, it stays until a row that could reach it would itself be too late.
    """
    last, skip = slices.last, slices.skip
    end = position(last, begin, stop, deadline.watermark - 2 * gap - max(deadline.lateness, 1))
    member = next_member(slices, end, stop, bit)
    if member == stop:
        for slot in range(begin, stop):  # dropped for this definition, even if others still need them
            skip[slot] |= bit
        return most
    if most == 0:
        return 0
    end = min(end, session_begin(slices, member, begin, gap, bit))
    while end > begin and skip[end - 1] & bit != 0:
        end -= 1
    if end > begin:
        end = session_begin(slices, end - 1, begin, gap, bit)
    return min(most, end - begin)


@kernel
def absorb_oldest(slices: Slices, blocks: Blocks, script: Script, key: int, at: int) -> None:
    """Merge the at-th slice of a key into the next one. Those before it move up."""
    begin = blocks.base[key] + blocks.head[key]
    slot = begin + at
    if len(slices.tag) > 0:
        slices.tag[slot + 1] = join_tags(slices, blocks, slices.tag[slot + 1], slices.tag[slot])
    slices.low[slot + 1] = slices.low[slot]
    slices.first[slot + 1] = slices.first[slot]
    slices.count[slot + 1] += slices.count[slot]
    add_step(script, JOIN, slot + 1, slot, slot + 1)
    move_slices(slices, script, begin + 1, begin, at)
    blocks.head[key] += 1
    blocks.size[key] -= 1
    blocks.stale[key] = min(blocks.stale[key], blocks.head[key])
    blocks.marks[SLICES] -= 1
    blocks.marks[MERGES] += 1


@kernel
def join_sessions(slices: Slices, blocks: Blocks, script: Script, key: int, count: int, gap: int) -> bool:
    """Merge slices of one session among the first `count`, needed by no window by time; False if the script is full."""
    at = 0
    while at + 1 < count:
        if is_full(script):
            return False
        slot = blocks.base[key] + blocks.head[key] + at
        within = slices.skip[slot] == 0 and slices.skip[slot + 1] == 0
        if within and slices.first[slot + 1] <= slices.last[slot] + gap:
            absorb_oldest(slices, blocks, script, key, at)
            count -= 1
        else:
            at += 1
    return True


@kernel
def purge(
    slices: Slices,
    blocks: Blocks,
    script: Script,
    cursor: Ints,
    chosen: Ints,
    needed: int,
    gap: int,
    gaps: Ints,
    deadline: Deadline,
) -> int:
    """Evict slices before `needed`, for windows by time, or in final sessions, of the keys from the cursor on.

    Return why it stopped. A key whose slices were not all merged is examined again.
    """
    i = cursor[ROW]
    while i < len(chosen):
        fetch_ends(slices.low, blocks, chosen[index(min(i + AHEAD, len(chosen) - 1))])
        key = chosen[index(i)]
        begin = blocks.base[index(key)] + blocks.head[index(key)]
        stop = begin + blocks.size[index(key)]
        unneeded = position_from_begin(slices.low, begin, stop, needed - 1) - begin
        final = unneeded
        for d in range(len(gaps)):
            final = final_slices(slices, begin, stop, final, gaps[d], 1 << d, deadline)
        if final > 0:
            drop_oldest(slices, blocks, key, final)
        if (
            len(gaps) > 0
            and unneeded - final > 1
            and not join_sessions(slices, blocks, script, key, unneeded - final, gap)
        ):
            cursor[ROW] = i
            return STOPPED
        i += 1
    return DONE


PURGE = (final_slices, absorb_oldest, join_sessions, purge)
