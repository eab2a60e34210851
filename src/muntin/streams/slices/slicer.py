"""The stream slicer: each row goes into the slice it belongs to, which is the newest one for nearly all.

Slices lie between edges, where some window by time begins or ends. Edges are the same for all keys, so the interval
between two of them is found once and used until a row leaves it: that is the cached next edge. Where there are
sessions, rows further apart than the smallest gap are in different slices too, so that a slice never has to be split:
a row can only bring slices closer together.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Columns, Ints, combine, index, inlined, kernel, lift, load, store
from muntin.streams.blocks import has_room, joined, opened

LOW, HIGH, ROW = 0, 1, 2
"""What is where in the cursor: the interval between edges at hand, and the next row."""


@kernel
def order_by_key(keys: Ints, places: Ints, order: Ints) -> None:
    """Write the rows in the order of their keys, those of a key as they came. There is a place for each key, all 0."""
    for row in range(len(keys)):
        places[index(keys[index(row)])] += 1
    total = 0
    for key in range(len(places)):
        count = places[index(key)]
        places[index(key)] = total
        total += count
    for row in range(len(keys)):
        key = keys[index(row)]
        order[index(places[index(key)])] = row
        places[index(key)] += 1


@inlined
def position(times: Ints, begin: int, end: int, time: int) -> int:
    """Return the first slot of [begin, end) whose time is after this one; times ascend."""
    while begin < end:
        middle = (begin + end) >> 1
        if times[index(middle)] > time:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def find_interval(time: int, edges: Any, cursor: Ints) -> None:
    """Find the edges around a time. Those of each progression are remembered: most are still the ones before."""
    steps, phases, coming, lows, highs, bounds = edges
    low = -(1 << 62) * 2
    high = (1 << 62) - 1 + (1 << 62)
    for p in range(len(steps)):
        edge = coming[p]
        if edge <= time or edge - steps[p] > time:
            edge = time - (time - phases[p]) % steps[p] + steps[p]
            coming[p] = edge
        high = min(high, edge)
        low = max(low, edge - steps[p])
    for d in range(len(bounds) - 1):  # a user's own: the interval is known
        at = position(lows, bounds[d], bounds[d + 1], time) - 1
        high = min(high, highs[at])
        low = max(low, lows[at])
    cursor[0] = low
    cursor[1] = high


@inlined
def holds(arena: Any, slot: int, time: int, gap: int, skip: int) -> bool:
    """Say whether a slice takes a row of this time: between its edges, and with sessions close to its rows."""
    low, high, first, last, _, skips, _, _, _ = arena
    if time < low[index(slot)] or time >= high[index(slot)]:
        return False
    if gap < 0:
        return True
    near = first[index(slot)] - gap <= time and time <= last[index(slot)] + gap
    return near and skips[index(slot)] == 0 and skip == 0


@inlined
def widen(arena: Any, slot: int, time: int) -> None:
    """Note that a slice has one more row."""
    _, _, first, last, count, _, _, _, _ = arena
    if len(count) > 0:
        count[index(slot)] += 1
    if len(first) > 0:
        first[index(slot)] = min(first[index(slot)], time)
        last[index(slot)] = max(last[index(slot)], time)


@inlined  # as what it calls: handing these arrays over takes longer than placing a row
def place_row(
    rows: Any,
    columns: Columns,
    row: int,
    arena: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    edges: Any,
    cursor: Ints,
    gap: int,
    skip: int,
) -> bool:
    """Put a row that is not for the newest slice where it belongs; say whether there was memory for it."""
    keys, times, tags, fresh = rows
    base, _, head, size, stale = blocks
    low, high, first, last, count, skips, tag, _, states = arena
    key = keys[row]
    time = times[row]
    if not has_room(arena, blocks, marks, free, key):
        return False
    begin = base[key] + head[key]
    # The first slice that begins after the row: with sessions by its rows, since several may lie between two edges.
    after = position(first if gap >= 0 else low, begin, begin + size[key], time)
    right = after < begin + size[key] and holds(arena, after, time, gap, skip)
    if after > begin and holds(arena, after - 1, time, gap, skip):
        slot = after - 1
        stale[key] = min(stale[key], slot - base[key])
        store(states, slot, combine(load(states, slot), lift(columns, times, row)))
        widen(arena, slot, time)
        if len(tags) > 0:
            tags[row] = tag[slot]
        if right:
            joined(arena, blocks, marks, key, slot - begin)
        return True
    if right:
        stale[key] = min(stale[key], after - base[key])
        store(states, after, combine(lift(columns, times, row), load(states, after)))
        widen(arena, after, time)
        if len(tags) > 0:
            tags[row] = tag[after]
        return True
    if time < cursor[0] or time >= cursor[1]:
        find_interval(time, edges, cursor)
    slot = opened(arena, blocks, marks, key, after - begin)
    low[slot] = cursor[0]
    high[slot] = cursor[1]
    if len(count) > 0:
        count[slot] = 1
    if len(skips) > 0:
        first[slot] = time
        # Rows that a session refused may lie between others: `last` must ascend all the same, to be searched.
        last[slot] = max(time, last[slot - 1]) if skip != 0 and slot > begin else time
        skips[slot] = skip
    if len(tags) > 0:
        tag[slot] = fresh[marks[5]]
        tags[row] = tag[slot]
        marks[5] += 1
    store(states, slot, lift(columns, times, row))
    return True


@kernel
def take_rows(
    rows: Any, columns: Columns, arena: Any, blocks: Any, marks: Ints, free: Ints, edges: Any, cursor: Ints, gap: int
) -> bool:
    """Put rows into slices, from the cursor's row on; say whether there was memory for all of them."""
    keys, times, tags, _ = rows
    base, _, head, size, stale = blocks
    low, high, first, last, count, _, tag, _, states = arena
    row = cursor[2]
    stop = len(times)
    while row < stop:
        key = keys[index(row)]
        slot = base[index(key)] + head[index(key)] + size[index(key)] - 1
        # A row before the newest slice's first one may also be close to the slice before: that is for `place_row`.
        newest = size[index(key)] > 0 and holds(arena, slot, times[index(row)], gap, 0)
        if newest and gap >= 0:
            newest = times[index(row)] >= first[index(slot)]
        if not newest:
            if not place_row(rows, columns, row, arena, blocks, marks, free, edges, cursor, gap, 0):
                cursor[2] = row
                return False
            row += 1
            continue
        # The newest slice takes it. So it does most of those after it: their state stays in registers.
        begin = row
        least = low[index(slot)]
        most = high[index(slot)]
        state = load(states, slot)
        if gap < 0:
            while row < stop and keys[index(row)] == key and times[index(row)] >= least and times[index(row)] < most:
                state = combine(state, lift(columns, times, row))
                row += 1
            if len(count) > 0:
                count[index(slot)] += row - begin
        else:
            least = first[index(slot)]
            youngest = last[index(slot)]
            while row < stop and keys[index(row)] == key:
                time = times[index(row)]
                if time < least or time >= most or time > youngest + gap:
                    break
                state = combine(state, lift(columns, times, row))
                youngest = max(youngest, time)
                row += 1
            last[index(slot)] = youngest
            count[index(slot)] += row - begin
        if len(tags) > 0:
            tags[begin:row] = tag[index(slot)]
        store(states, slot, state)
        stale[index(key)] = min(stale[index(key)], slot - base[index(key)])
    cursor[2] = row
    return True


SLICER = (order_by_key, position, find_interval, holds, widen, place_row, take_rows)
