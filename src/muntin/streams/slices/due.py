"""The window manager: which windows end in a span of time, and which slices each of them is made of.

Windows without slices are skipped, however long the silence. A kernel writes as many windows as there is room for, and
counts the others too, so that it can be called again with enough.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.slices.slicer import position


@inlined
def next_end(time: int, length: int, every: int, offset: int) -> int:
    """Return the first end of a window after a time."""
    return time + every - (time - offset - length) % every


@inlined
def write_window(
    found: Any, count: int, key: int, definition: int, start: int, end: int, begin: int, stop: int
) -> None:
    """Write down a window, where there is room to write."""
    keys, definitions, starts, ends, firsts, lasts = found
    if count < len(keys):
        keys[count] = key
        definitions[count] = definition
        starts[count] = start
        ends[count] = end
        firsts[count] = begin
        lasts[count] = stop


@kernel
def due_own(
    low: Ints, key: int, d: int, begin: int, stop: int, windows: Any, after: int, until: int, found: Any, count: int
) -> int:
    """Find the windows of a user's own definition that end in (after, until], among those that are known."""
    starts, ends, at, last = windows
    at = position(ends, at, last, max(after, low[begin]))
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


@kernel
def due_by_time(
    arena: Any, key: int, begin: int, stop: int, shapes: Any, after: int, until: int, found: Any, count: int
) -> int:
    """Find the windows by time of a key that end in (after, until]; its slices are [begin, stop)."""
    low = arena[0]
    kinds, lengths, everys, offsets, sinces, floors, starts, ends, bounds = shapes
    for d in range(len(kinds)):
        if kinds[d] == 2:
            windows = (starts, ends, bounds[lengths[d]], bounds[lengths[d] + 1])
            count = due_own(low, key, d, begin, stop, windows, after, until, found, count)
            continue
        length, every, offset = lengths[d], everys[d], offsets[d]
        end = next_end(max(after, floors[d], low[begin]), length, every, offset)
        first = begin
        while end <= until:
            start = end - length if kinds[d] == 0 else end - 1 - (end - 1 - offset) % length
            if start < sinces[d]:  # a definition that came later: the slices before were not cut for it
                if kinds[d] == 0:
                    end = next_end(sinces[d] + length - 1, length, every, offset)
                else:
                    end = sinces[d] + (offset - sinces[d]) % length + every
                continue
            first = position(low, first, stop, start - 1)
            if first == stop:
                break
            if low[index(first)] >= end:
                end = next_end(low[index(first)], length, every, offset)
                continue
            last = position(low, first, stop, end - 1)
            write_window(found, count, key, d, start, end, first, last)
            count += 1
            end += every
    return count


@inlined
def session_end(arena: Any, at: int, stop: int, gap: int, bit: int) -> int:
    """Return the slot after the session that the slice at hand, which belongs to one, is in."""
    _, _, first, last, _, skip, _, _, _ = arena
    youngest = last[at]
    end = at + 1
    while end < stop:
        if skip[end] & bit == 0:
            if first[end] > youngest + gap:
                break
            youngest = last[end]
        end += 1
    while skip[end - 1] & bit != 0:
        end -= 1
    return end


@inlined
def session_begin(arena: Any, at: int, begin: int, gap: int, bit: int) -> int:
    """Return the first slot of the session that the slice at hand is in."""
    _, _, first, last, _, skip, _, _, _ = arena
    oldest = first[at]
    probe = at
    while probe > begin:
        probe -= 1
        if skip[probe] & bit == 0:
            if last[probe] + gap < oldest:
                break
            oldest = first[probe]
            at = probe
    return at


@inlined
def next_member(arena: Any, at: int, stop: int, bit: int) -> int:
    """Return the first slot from here on whose slice a session definition takes."""
    skip = arena[5]
    while at < stop and skip[at] & bit != 0:
        at += 1
    return at


@kernel
def due_sessions(
    arena: Any, key: int, begin: int, stop: int, gaps: Ints, shift: int, after: int, until: int, found: Any, count: int
) -> int:
    """Find the sessions of a key that end in (after, until]. Definitions are numbered from `shift` on."""
    _, _, first, last, _, _, _, _, _ = arena
    for d in range(len(gaps)):
        gap = gaps[d]
        bit = 1 << d
        # Those whose last row is early enough have ended before; a session that began earlier is walked back to.
        at = begin
        if after >= last[begin]:
            at = position(last, begin, stop, after - gap)
        at = next_member(arena, at, stop, bit)
        while at < stop:
            end = session_end(arena, at, stop, gap, bit)
            closes = last[end - 1] + gap
            if closes > until:
                break
            if closes > after:
                at = session_begin(arena, at, begin, gap, bit)
                write_window(found, count, key, shift + d, first[at], closes, at, end)
                count += 1
            at = next_member(arena, end, stop, bit)
    return count


@kernel
def due_windows(
    arena: Any, blocks: Any, chosen: Ints, shapes: Any, gaps: Ints, after: Ints, until: int, found: Any
) -> int:
    """Find all windows of some keys that end in (after, until]: `after` for windows by time, and for sessions."""
    base, _, head, size, _ = blocks
    count = 0
    for i in range(len(chosen)):
        key = chosen[i]
        if size[key] > 0:
            begin = base[key] + head[key]
            stop = begin + size[key]
            count = due_by_time(arena, key, begin, stop, shapes, after[0], until, found, count)
            if len(gaps) > 0:
                count = due_sessions(arena, key, begin, stop, gaps, len(shapes[0]), after[1], until, found, count)
    return count


@kernel
def count_rows(arena: Any, found: Any, shift: int, rows: Ints) -> None:
    """Count the rows of windows."""
    _, _, _, _, count, skip, _, _, _ = arena
    _, definitions, _, _, firsts, lasts = found
    for i in range(len(firsts)):
        bit = 1 << (definitions[i] - shift) if definitions[i] >= shift else 0
        total = 0
        for slot in range(firsts[i], lasts[i]):
            if bit == 0 or skip[slot] & bit == 0:
                total += count[slot]
        rows[i] = total


DUE = (
    next_end,
    write_window,
    due_own,
    due_by_time,
    session_end,
    session_begin,
    next_member,
    due_sessions,
    due_windows,
)
FOUND = (due_windows, count_rows)
"""Those that are called from outside."""
