"""Rows behind the watermark: each definition judges them, and a row is taken if any of them takes it."""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.vocabulary import Ints, inlined, kernel
from muntin.streams.blocks import Blocks, Slices
from muntin.streams.script import DONE, NO_ROOM, STOPPED, Script, is_full
from muntin.streams.slices.due import TimeShapes, session_end
from muntin.streams.slices.slicer import ROW, Edges, Rows, place_row, position
from muntin.windows.shapes import CUMULATIVE, SLIDING


class Deadline(NamedTuple):
    """The times until which windows may change."""

    lateness: int
    watermark: int


@kernel
def taken_by_time(time: int, shapes: TimeShapes, deadline: Deadline) -> bool:
    """Return whether any window by time that holds `time` may still change."""
    for d in range(len(shapes.kinds)):
        length = shapes.lengths[d]
        if shapes.kinds[d] == SLIDING:
            end = time - (time - shapes.offsets[d]) % shapes.everys[d] + length
        elif shapes.kinds[d] == CUMULATIVE:
            end = time - (time - shapes.offsets[d]) % length + length
        else:
            begin = shapes.bounds[length]
            last = position(shapes.starts, begin, shapes.bounds[length + 1], time) - 1
            if last < begin or shapes.ends[last] <= time:
                continue
            end = shapes.ends[last]
        if end + deadline.lateness > deadline.watermark:
            return True
    return False


@inlined
def is_final(end: int, deadline: Deadline) -> bool:
    """Return whether a session that ends at `end` is final: a row may come at its very end, so one tick later."""
    return end + max(deadline.lateness, 1) <= deadline.watermark


@kernel
def taken_by_sessions(slices: Slices, begin: int, stop: int, time: int, gap: int, bit: int, deadline: Deadline) -> bool:
    """Return whether the session of a row may still change, without changing a final one."""
    first, last, skip = slices.first, slices.last, slices.skip
    end = time + gap
    after = position(first, begin, stop, time)
    left = after - 1
    while left >= begin and skip[left] & bit != 0:
        left -= 1
    if left >= begin and last[left] + gap >= time:
        closes = last[session_end(slices, left, stop, gap, bit) - 1] + gap
        if is_final(closes, deadline):
            return False
        end = max(end, closes)
    while after < stop and skip[after] & bit != 0:
        after += 1
    if after < stop and first[after] <= time + gap:
        closes = last[session_end(slices, after, stop, gap, bit) - 1] + gap
        if is_final(closes, deadline):
            return False
        end = max(end, closes)
    return end + deadline.lateness > deadline.watermark


@kernel
def refusing_sessions(slices: Slices, blocks: Blocks, key: int, time: int, gaps: Ints, deadline: Deadline) -> int:
    """Return a bit mask of the session definitions that a row is too late for."""
    begin = blocks.base[key] + blocks.head[key]
    stop = begin + blocks.size[key]
    refusing = 0
    for d in range(len(gaps)):
        if not taken_by_sessions(slices, begin, stop, time, gaps[d], 1 << d, deadline):
            refusing |= 1 << d
    return refusing


@kernel
def take_late_rows(
    rows: Rows,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    edges: Edges,
    cursor: Ints,
    gap: int,
    shapes: TimeShapes,
    gaps: Ints,
    deadline: Deadline,
    taken: Ints,
) -> int:
    """Put rows that some window takes into slices, and mark them; return why it stopped."""
    row = cursor[ROW]
    stop = len(rows.times)
    while row < stop and not is_full(script):
        time = rows.times[row]
        refusing = refusing_sessions(slices, blocks, rows.keys[row], time, gaps, deadline)
        if refusing != (1 << len(gaps)) - 1 or taken_by_time(time, shapes, deadline):
            if not place_row(rows, row, slices, blocks, script, edges, cursor, gap, refusing):
                cursor[ROW] = row
                return NO_ROOM
            taken[row] = True
        row += 1
    cursor[ROW] = row
    return DONE if row == stop else STOPPED


LATE = (taken_by_time, is_final, taken_by_sessions, refusing_sessions, take_late_rows)
