"""Rows behind the watermark: each window definition judges for itself, and a row goes where some of them take it."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Columns, Ints, inlined, kernel
from muntin.streams.slices.due import session_end
from muntin.streams.slices.slicer import place_row, position


@kernel
def taken_by_time(time: int, shapes: Any, lateness: int, watermark: int) -> bool:
    """Say whether some window by time that holds this time may still change."""
    kinds, lengths, everys, offsets, _, _, starts, ends, bounds = shapes
    for d in range(len(kinds)):
        if kinds[d] == 0:
            end = time - (time - offsets[d]) % everys[d] + lengths[d]
        elif kinds[d] == 1:
            end = time - (time - offsets[d]) % lengths[d] + lengths[d]
        else:
            begin = bounds[lengths[d]]
            last = position(starts, begin, bounds[lengths[d] + 1], time) - 1
            if last < begin or ends[last] <= time:
                continue
            end = ends[last]
        if end + lateness > watermark:
            return True
    return False


@inlined
def is_settled(end: int, lateness: int, watermark: int) -> bool:
    """Say whether a session that ends here never changes: a row may come at its very end, so one tick later."""
    return end + max(lateness, 1) <= watermark


@kernel
def taken_by_sessions(
    arena: Any, begin: int, stop: int, time: int, gap: int, bit: int, lateness: int, watermark: int
) -> bool:
    """Say whether the session that a row would be in may still change, and no settled one would have to."""
    _, _, first, last, _, skip, _, _, _ = arena
    end = time + gap
    after = position(first, begin, stop, time)
    left = after - 1
    while left >= begin and skip[left] & bit != 0:
        left -= 1
    if left >= begin and last[left] + gap >= time:
        closes = last[session_end(arena, left, stop, gap, bit) - 1] + gap
        if is_settled(closes, lateness, watermark):
            return False
        end = max(end, closes)
    while after < stop and skip[after] & bit != 0:
        after += 1
    if after < stop and first[after] <= time + gap:
        closes = last[session_end(arena, after, stop, gap, bit) - 1] + gap
        if is_settled(closes, lateness, watermark):
            return False
        end = max(end, closes)
    return end + lateness > watermark


@kernel
def refusing_sessions(arena: Any, blocks: Any, key: int, time: int, gaps: Ints, lateness: int, watermark: int) -> int:
    """Return a bit for each session definition that a row is too late for."""
    base, _, head, size, _ = blocks
    begin = base[key] + head[key]
    refusing = 0
    for d in range(len(gaps)):
        if not taken_by_sessions(arena, begin, begin + size[key], time, gaps[d], 1 << d, lateness, watermark):
            refusing |= 1 << d
    return refusing


@kernel
def take_late_rows(
    rows: Any,
    columns: Columns,
    arena: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    edges: Any,
    cursor: Ints,
    gap: int,
    shapes: Any,
    gaps: Ints,
    lateness: int,
    watermark: int,
    taken: Any,
) -> bool:
    """Put the rows into slices that some window takes, and note which; say whether there was memory for all."""
    keys, times, _, _ = rows
    row = cursor[2]
    while row < len(times):
        refusing = refusing_sessions(arena, blocks, keys[row], times[row], gaps, lateness, watermark)
        if refusing != (1 << len(gaps)) - 1 or taken_by_time(times[row], shapes, lateness, watermark):
            if not place_row(rows, columns, row, arena, blocks, marks, free, edges, cursor, gap, refusing):
                cursor[2] = row
                return False
            taken[row] = True
        row += 1
    cursor[2] = row
    return True


LATE = (taken_by_time, is_settled, taken_by_sessions, refusing_sessions, take_late_rows)
