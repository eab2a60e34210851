"""The window manager: which windows end in a span of time, and which slices make up each.

Windows without slices are skipped, however long the silence. A kernel writes as many windows as there is room for, and
counts all, so that it can be called again with enough room.
"""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.runtime import prefetch
from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.blocks import Blocks, Slices
from muntin.streams.slices.slicer import AHEAD, LEAST, position, position_from_end
from muntin.windows.shapes import KNOWN, SLIDING

BY_TIME, SESSIONS = range(2)
"""Indices into `after`: windows by time, and sessions."""


class TimeShapes(NamedTuple):
    """The definitions of windows by time."""

    kinds: Ints
    lengths: Ints
    everys: Ints
    offsets: Ints
    sinces: Ints
    floors: Ints
    starts: Ints
    ends: Ints
    """The known windows of user-defined definitions."""
    bounds: Ints
    """The start and end of each definition's windows among these."""


class Windows(NamedTuple):
    """Windows, and the slots [first, last) of their slices."""

    keys: Ints
    definitions: Ints
    starts: Ints
    ends: Ints
    firsts: Ints
    lasts: Ints


@inlined
def next_end(time: int, length: int, every: int, offset: int) -> int:
    """Return the first end of a window after `time`."""
    return time + every - (time - offset - length) % every


@inlined
def write_window(
    found: Windows, count: int, key: int, definition: int, start: int, end: int, begin: int, stop: int
) -> None:
    """Write a window, if there is room."""
    if count < len(found.keys):
        found.keys[count] = key
        found.definitions[count] = definition
        found.starts[count] = start
        found.ends[count] = end
        found.firsts[count] = begin
        found.lasts[count] = stop


@kernel
def due_own(
    low: Ints,
    key: int,
    d: int,
    begin: int,
    stop: int,
    shapes: TimeShapes,
    after: int,
    until: int,
    found: Windows,
    count: int,
) -> int:
    """Find the known windows of a user-defined definition that end in (after, until]."""
    starts, ends = shapes.starts, shapes.ends
    last = shapes.bounds[shapes.lengths[d] + 1]
    at = position(ends, shapes.bounds[shapes.lengths[d]], last, max(after, low[begin]))
    first = begin
    while at < last and ends[at] <= until:
        first = position(low, first, stop, starts[at] - 1)
        if first == stop:
            break
        if low[first] >= ends[at]:
            at = position(ends, at, last, low[first])
            continue
        write_window(found, count, key, d, starts[at], ends[at], first, position(low, first, stop, ends[at] - 1))
        count += 1
        at += 1
    return count


@inlined
def position_from_begin(times: Ints, begin: int, end: int, time: int) -> int:
    """Return the same as `position`. Tries the first two slots first: most windows begin with one of them."""
    if begin == end or times[index(begin)] > time:
        return begin
    if begin + 1 == end or times[index(begin + 1)] > time:
        return begin + 1
    return position(times, begin + 2, end, time)


@inlined
def position_before_newest(times: Ints, begin: int, end: int, time: int) -> int:
    """Return the same as `position`. Tries the last two slots first: most windows end with one of them."""
    if begin == end or times[index(end - 1)] <= time:
        return end
    if begin + 1 == end or times[index(end - 2)] <= time:
        return end - 1
    return position_from_end(times, begin, end - 2, time)


@inlined
def fetch_ends(low: Ints, blocks: Blocks, key: int) -> None:
    """Prefetch the oldest and the newest slice of a key."""
    begin = blocks.base[index(key)] + blocks.head[index(key)]
    prefetch(low, begin)
    prefetch(low, begin + blocks.size[index(key)] - 1)


@inlined
def first_ends(shapes: TimeShapes, after: int, soonest: Ints) -> None:
    """Write each periodic definition's first window end after a time: the same for nearly all keys.

    Without a watermark yet it is the least time; then the oldest slice of a key decides.
    """
    for d in range(len(shapes.kinds)):
        soonest[d] = LEAST
        least = max(after, shapes.floors[d])
        if shapes.kinds[d] != KNOWN and least > LEAST // 2:
            soonest[d] = next_end(least, shapes.lengths[d], shapes.everys[d], shapes.offsets[d])


@inlined  # passing these arrays takes longer than finding the windows of a key
def due_by_time(
    low: Ints,
    key: int,
    begin: int,
    stop: int,
    shapes: TimeShapes,
    soonest: Ints,
    after: int,
    until: int,
    found: Windows,
    count: int,
) -> int:
    """Find the windows by time of a key that end in (after, until]; its slices are [begin, stop)."""
    oldest = low[index(begin)]
    for d in range(len(shapes.kinds)):
        kind = shapes.kinds[d]
        if kind == KNOWN:
            count = due_own(low, key, d, begin, stop, shapes, after, until, found, count)
            continue
        end = soonest[d]
        if end > until:
            continue
        length, every, offset, since = shapes.lengths[d], shapes.everys[d], shapes.offsets[d], shapes.sinces[d]
        if oldest >= end:
            end = next_end(oldest, length, every, offset)
        first = begin
        while end <= until:
            start = end - length if kind == SLIDING else end - 1 - (end - 1 - offset) % length
            if start < since:  # a definition added later: earlier slices were not cut for it
                if kind == SLIDING:
                    end = next_end(since + length - 1, length, every, offset)
                else:
                    end = since + (offset - since) % length + every
                continue
            first = position_from_begin(low, first, stop, start - 1)
            if first == stop:
                break
            if low[index(first)] >= end:
                end = next_end(low[index(first)], length, every, offset)
                continue
            last = position_before_newest(low, first, stop, end - 1)
            write_window(found, count, key, d, start, end, first, last)
            count += 1
            end += every
    return count


@inlined
def session_end(slices: Slices, at: int, stop: int, gap: int, bit: int) -> int:
    """Return the slot after the session of the slice at `at`, which belongs to one."""
    youngest = slices.last[at]
    end = at + 1
    while end < stop:
        if slices.skip[end] & bit == 0:
            if slices.first[end] > youngest + gap:
                break
            youngest = slices.last[end]
        end += 1
    while slices.skip[end - 1] & bit != 0:
        end -= 1
    return end


@inlined
def session_begin(slices: Slices, at: int, begin: int, gap: int, bit: int) -> int:
    """Return the first slot of the session of the slice at `at`."""
    oldest = slices.first[at]
    probe = at
    while probe > begin:
        probe -= 1
        if slices.skip[probe] & bit == 0:
            if slices.last[probe] + gap < oldest:
                break
            oldest = slices.first[probe]
            at = probe
    return at


@inlined
def next_member(slices: Slices, at: int, stop: int, bit: int) -> int:
    """Return the first slot from `at` on whose slice a session definition takes."""
    while at < stop and slices.skip[at] & bit != 0:
        at += 1
    return at


@kernel
def due_sessions(
    slices: Slices,
    key: int,
    begin: int,
    stop: int,
    gaps: Ints,
    shift: int,
    after: int,
    until: int,
    found: Windows,
    count: int,
) -> int:
    """Find the sessions of a key that end in (after, until]. Definitions are numbered from `shift` on."""
    first, last = slices.first, slices.last
    for d in range(len(gaps)):
        gap = gaps[d]
        bit = 1 << d
        # Sessions whose last row is early enough have ended before; walk back to the start of the first other one.
        at = begin
        if after >= last[begin]:
            at = position(last, begin, stop, after - gap)
        at = next_member(slices, at, stop, bit)
        while at < stop:
            end = session_end(slices, at, stop, gap, bit)
            closes = last[end - 1] + gap
            if closes > until:
                break
            if closes > after:
                at = session_begin(slices, at, begin, gap, bit)
                write_window(found, count, key, shift + d, first[at], closes, at, end)
                count += 1
            at = next_member(slices, end, stop, bit)
    return count


@kernel
def due_windows(
    slices: Slices,
    blocks: Blocks,
    chosen: Ints,
    shapes: TimeShapes,
    gaps: Ints,
    after: Ints,
    until: int,
    soonest: Ints,
    found: Windows,
) -> int:
    """Find all windows of some keys that end in (after, until]: `after` for windows by time, and for sessions.

    `soonest` has room for a number per definition by time.
    """
    first_ends(shapes, after[BY_TIME], soonest)
    count = 0
    shift = len(shapes.kinds)
    for i in range(len(chosen)):
        fetch_ends(slices.low, blocks, chosen[index(min(i + AHEAD, len(chosen) - 1))])
        key = chosen[index(i)]
        if blocks.size[index(key)] > 0:
            begin = blocks.base[index(key)] + blocks.head[index(key)]
            stop = begin + blocks.size[index(key)]
            count = due_by_time(slices.low, key, begin, stop, shapes, soonest, after[BY_TIME], until, found, count)
            if len(gaps) > 0:
                count = due_sessions(slices, key, begin, stop, gaps, shift, after[SESSIONS], until, found, count)
    return count


@kernel
def count_rows(slices: Slices, found: Windows, shift: int, rows: Ints) -> None:
    """Count the rows of windows."""
    for i in range(len(found.firsts)):
        definition = found.definitions[i]
        bit = 1 << (definition - shift) if definition >= shift else 0
        total = 0
        for slot in range(found.firsts[i], found.lasts[i]):
            if bit == 0 or slices.skip[slot] & bit == 0:
                total += slices.count[slot]
        rows[i] = total


MEMBERS = (session_end, session_begin, next_member)
DUE = (
    *(next_end, write_window, due_own, position_from_begin, position_before_newest),
    *(fetch_ends, first_ends, due_by_time, due_sessions, due_windows, count_rows),
)
