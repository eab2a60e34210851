"""The stream slicer: puts each row into its slice, nearly always the newest one.

Slices lie between edges, where some window by time begins or ends. Edges are the same for all keys, so the interval
between two of them is found once and used until a row leaves it: the cached next edge. With sessions, rows further
apart than the smallest gap are in different slices too, so a slice never has to be split: a row can only bring slices
closer together.

`fold_rows`, the one kernel here compiled per set of aggregations, folds states by a script that the others write.
"""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.runtime import prefetch
from muntin.kernels.vocabulary import Columns, Ints, Slots, combine, index, inlined, kernel, lift, load, store
from muntin.streams.blocks import NAMED, Blocks, Slices, has_room, join_next, open_slot
from muntin.streams.script import (
    ACTION,
    DONE,
    FIRST,
    FOLD,
    LAST,
    MOST_STEPS,
    NO_ROOM,
    OPEN,
    PREPEND,
    ROWS_AT_ONCE,
    SLOT,
    STOPPED,
    Script,
    add_step,
    change_states,
    move_states,
    write_step,
)

LOW, HIGH, ROW = range(3)
"""Indices into the cursor: the current interval between edges, and the next row."""
NEWEST = 8
"""How many of a key's newest slices are compared with a row at once."""
AHEAD = 16
"""How many rows ahead a key's data or a state is prefetched, to cover the memory latency."""
AT_ONCE = 64
"""How many rows of a long run are compared at once."""
LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The bounds of time."""


class Rows(NamedTuple):
    """Arriving rows."""

    keys: Ints
    times: Ints
    tags: Ints
    """Receives the tag of each row's slice; empty if slices have none."""
    fresh: Ints
    """Tags for new slices."""


class Edges(NamedTuple):
    """The edges of all windows by time: progressions, and the known intervals of the others."""

    steps: Ints
    phases: Ints
    coming: Ints
    """The last edge found in each progression."""
    lows: Ints
    highs: Ints
    bounds: Ints
    """The start and end of each definition's intervals."""


@inlined
def position(times: Ints, begin: int, end: int, time: int) -> int:
    """Return the first slot of [begin, end) whose time is after `time`; times ascend."""
    while begin < end:
        middle = (begin + end) >> 1
        if times[index(middle)] > time:
            end = middle
        else:
            begin = middle + 1
    return begin


@inlined
def position_from_end(times: Ints, begin: int, end: int, time: int) -> int:
    """Return the same as `position`. Compares the last few slots without a branch: late rows are seldom older."""
    near = end - NEWEST
    if near < begin or times[index(near)] > time:
        return position(times, begin, end, time)
    after = near
    for i in range(NEWEST):
        after += int(times[index(near + i)] <= time)
    return after


@kernel
def find_interval(time: int, edges: Edges, cursor: Ints) -> None:
    """Find the edges around a time. Those of each progression are cached: most have not changed."""
    low = LEAST
    high = MOST
    for p in range(len(edges.steps)):
        step = edges.steps[p]
        edge = edges.coming[p]
        if edge <= time or edge - step > time:
            edge = time - (time - edges.phases[p]) % step + step
            edges.coming[p] = edge
        high = min(high, edge)
        low = max(low, edge - step)
    for d in range(len(edges.bounds) - 1):  # user-defined: the interval is known
        at = position(edges.lows, edges.bounds[d], edges.bounds[d + 1], time) - 1
        high = min(high, edges.highs[at])
        low = max(low, edges.lows[at])
    cursor[LOW] = low
    cursor[HIGH] = high


@inlined
def holds(slices: Slices, slot: int, time: int, gap: int, skip: int) -> bool:
    """Return whether a slice takes a row of this time: between its edges, and with sessions near its rows."""
    if time < slices.low[index(slot)] or time >= slices.high[index(slot)]:
        return False
    if gap < 0:
        return True
    near = slices.first[index(slot)] - gap <= time and time <= slices.last[index(slot)] + gap
    return bool(near and slices.skip[index(slot)] == 0 and skip == 0)


@inlined
def add_row(rows: Rows, row: int, slices: Slices, blocks: Blocks, script: Script, action: int, slot: int) -> None:
    """Add a row to an existing slice, before or after its rows."""
    key = rows.keys[row]
    time = rows.times[row]
    blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    if len(slices.count) > 0:
        slices.count[index(slot)] += 1
    if len(slices.first) > 0:
        slices.first[index(slot)] = min(slices.first[index(slot)], time)
        slices.last[index(slot)] = max(slices.last[index(slot)], time)
    if len(rows.tags) > 0:
        rows.tags[row] = slices.tag[slot]
    add_step(script, action, slot, row, row + 1)


@inlined
def bound_slice(slices: Slices, slot: int, first: int, end: int, time: int, cursor: Ints) -> None:
    """Write the edges around a row to its slice, and stay between the slices beside it.

    Edges are fewer once a definition was removed: slices that it has cut then lie within the current interval. With
    slices [12, 14) and [18, 20), and edges at 10 and 20, a row at 16 opens [14, 18).
    """
    low = cursor[LOW]
    high = cursor[HIGH]
    if slot > first:
        if slices.high[slot - 1] <= time:
            low = max(low, slices.high[slot - 1])
        else:  # with sessions several slices lie between two edges
            low = max(low, slices.low[slot - 1])
            high = min(high, slices.high[slot - 1])
    if slot + 1 < end:
        if slices.low[slot + 1] > time:
            high = min(high, slices.low[slot + 1])
        else:
            low = max(low, slices.low[slot + 1])
            high = min(high, slices.high[slot + 1])
    slices.low[slot] = low
    slices.high[slot] = high


@inlined
def open_slice(
    rows: Rows, row: int, slices: Slices, blocks: Blocks, script: Script, cursor: Ints, skip: int, at: int
) -> None:
    """Open a slice with a single row, between the current edges, as the at-th of its key."""
    time = rows.times[row]
    key = rows.keys[row]
    slot = open_slot(slices, blocks, script, key, at)
    first = blocks.base[key] + blocks.head[key]
    bound_slice(slices, slot, first, first + blocks.size[key], time, cursor)
    if len(slices.count) > 0:
        slices.count[slot] = 1
    if len(slices.skip) > 0:
        slices.first[slot] = time
        # Rows that a session rejected may lie between others: `last` must still ascend, to be searchable.
        slices.last[slot] = max(time, slices.last[slot - 1]) if skip != 0 and at > 0 else time
        slices.skip[slot] = skip
    if len(rows.tags) > 0:
        slices.tag[slot] = rows.fresh[blocks.marks[NAMED]]
        rows.tags[row] = slices.tag[slot]
        blocks.marks[NAMED] += 1
    add_step(script, OPEN, slot, row, row + 1)


@inlined  # passing these arrays takes longer than placing a row
def place_row(
    rows: Rows,
    row: int,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    edges: Edges,
    cursor: Ints,
    gap: int,
    skip: int,
) -> bool:
    """Place a row that is not for the newest slice; return whether there was memory for it."""
    key = rows.keys[row]
    time = rows.times[row]
    if not has_room(slices, blocks, script, key):
        return False
    begin = blocks.base[key] + blocks.head[key]
    end = begin + blocks.size[key]
    # The first slice that begins after the row; with sessions by its rows, since several may lie between two edges.
    begins = slices.first if gap >= 0 else slices.low
    after = end
    if begin < end and begins[index(end - 1)] > time:
        after = position_from_end(begins, begin, end, time)
    right = after < end and holds(slices, after, time, gap, skip)
    left = after > begin and holds(slices, after - 1, time, gap, skip)
    if left or right:
        add_row(rows, row, slices, blocks, script, FOLD if left else PREPEND, after - 1 if left else after)
        if left and right:
            join_next(slices, blocks, script, key, after - 1 - begin)
        return True
    if time < cursor[LOW] or time >= cursor[HIGH]:
        find_interval(time, edges, cursor)
    open_slice(rows, row, slices, blocks, script, cursor, skip, after - begin)
    return True


@inlined
def all_within(rows: Rows, row: int, key: int, least: int, most: int) -> bool:
    """Return whether the next few rows all have this key and times in [least, most). Branch-free: it vectorises."""
    outside = 0
    for i in range(row, row + AT_ONCE):
        time = rows.times[index(i)]
        outside += int(rows.keys[index(i)] != key) + int(time < least) + int(time >= most)
    return outside == 0


@inlined
def run_end(rows: Rows, row: int, stop: int, least: int, most: int) -> int:
    """Return the first row with another key, or with a time outside [least, most)."""
    key = rows.keys[index(row)]
    few = min(stop, row + AT_ONCE)  # most runs are short, or very long
    row += 1
    while row < few and rows.keys[index(row)] == key and least <= rows.times[index(row)] < most:
        row += 1
    if row == few:
        while row + AT_ONCE <= stop and all_within(rows, row, key, least, most):
            row += AT_ONCE
        while row < stop and rows.keys[index(row)] == key and least <= rows.times[index(row)] < most:
            row += 1
    return row


@inlined
def session_run_end(rows: Rows, row: int, stop: int, slices: Slices, slot: int, gap: int) -> int:
    """Return the first row that the newest slice of this row's key does not take; extend the slice by those before."""
    key = rows.keys[index(row)]
    least = slices.first[index(slot)]
    most = slices.high[index(slot)]
    youngest = slices.last[index(slot)]
    while row < stop and rows.keys[index(row)] == key:
        time = rows.times[index(row)]
        if time < least or time >= most or time > youngest + gap:
            break
        youngest = max(youngest, time)
        row += 1
    slices.last[index(slot)] = youngest
    return row


@inlined
def fetch_newest(slices: Slices, blocks: Blocks, key: int) -> None:
    """Prefetch the newest slice of a key."""
    slot = blocks.base[index(key)] + blocks.head[index(key)] + blocks.size[index(key)] - 1
    prefetch(slices.low, slot)
    prefetch(slices.high, slot)


@kernel
def take_rows(rows: Rows, slices: Slices, blocks: Blocks, script: Script, edges: Edges, cursor: Ints, gap: int) -> int:
    """Put rows into slices, starting at the cursor's row; return why it stopped."""
    row = cursor[ROW]
    stop = min(len(rows.times), row + ROWS_AT_ONCE)
    step = script.length[0]  # in a register: a row's step need not wait for that of the previous row
    most = len(script.steps) - MOST_STEPS
    opened = -1  # the row after the last one that opened a slice: a run from there on joins that step
    while row < stop and step <= most:
        fetch_newest(slices, blocks, rows.keys[index(min(row + AHEAD, stop - 1))])
        key = rows.keys[index(row)]
        time = rows.times[index(row)]
        slot = blocks.base[index(key)] + blocks.head[index(key)] + blocks.size[index(key)] - 1
        # A row before the newest slice's first one may also be near the previous slice: `place_row` decides.
        newest = blocks.size[index(key)] > 0 and holds(slices, slot, time, gap, 0)
        if newest and gap >= 0:
            newest = time >= slices.first[index(slot)]
        if not newest:
            script.length[0] = step
            if not place_row(rows, row, slices, blocks, script, edges, cursor, gap, 0):
                cursor[ROW] = row
                return NO_ROOM
            step = script.length[0]
            row += 1
            if script.steps[index(step - 1), ACTION] == OPEN:
                opened = row
            continue
        # The newest slice takes it, and most of the rows after it: they are one step.
        begin = row
        if gap < 0:
            row = run_end(rows, row, stop, slices.low[index(slot)], slices.high[index(slot)])
        else:
            row = session_run_end(rows, row, stop, slices, slot, gap)
        if len(slices.count) > 0:
            slices.count[index(slot)] += row - begin
        if len(rows.tags) > 0:
            rows.tags[begin:row] = slices.tag[index(slot)]
        if opened == begin and script.steps[index(step - 1), SLOT] == slot:
            script.steps[index(step - 1), LAST] = row
        else:
            write_step(script, step, FOLD, slot, begin, row)
            step += 1
        blocks.stale[index(key)] = min(blocks.stale[index(key)], slot - blocks.base[index(key)])
    script.length[0] = step
    cursor[ROW] = row
    return DONE if row == len(rows.times) else STOPPED


PLACING = (position, position_from_end, find_interval, holds, add_row, bound_slice, open_slice, place_row)
SLICER = (fetch_newest, all_within, run_end, session_run_end, take_rows)


@kernel
def fold_rows(script: Script, columns: Columns, times: Ints, states: Slots) -> None:
    """Execute a script: fold rows into states, merge and move states; leave the script empty."""
    steps = script.steps
    length = script.length[0]
    for at in range(length):
        prefetch(states, steps[index(at + AHEAD if at + AHEAD < length else length - 1), SLOT])
        action = steps[index(at), ACTION]
        slot = steps[index(at), SLOT]
        first = steps[index(at), FIRST]
        last = steps[index(at), LAST]
        if action <= OPEN:  # or FOLD
            if action == FOLD:
                state = load(states, slot)
            else:
                state = lift(columns, times, first)
                first += 1
            for row in range(first, last):
                state = combine(state, lift(columns, times, row))
            store(states, slot, state)
        elif action == PREPEND:
            store(states, slot, combine(lift(columns, times, first), load(states, slot)))
        else:
            change_states(states, action, slot, first, last)
    script.length[0] = 0


FOLDING = (move_states, change_states, fold_rows)
"""The kernels compiled per set of aggregations."""
