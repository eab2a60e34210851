"""Slices in row numbers: they lie between rows with which a window begins or ends, and are made of rows in order.

A slice keeps the numbers it lies between, the times of its first and last row, and its state. The rows of a slice
change only where one comes before the last that is in any: the rows after it then move on by one, and each slice takes
one from the slice before it and gives one to the slice after it.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Columns, Ints, Slots, combine, hold, index, kernel, load, store
from muntin.streams.blocks import has_room, opened
from muntin.streams.row_slices.late import note_row
from muntin.streams.row_slices.leave_anew import left, watch
from muntin.streams.row_slices.rows import merge_key, room_for, rows_until
from muntin.streams.slices.slicer import position

SHIFTS, FOLDS, SPLITS = 2, 3, 4
"""What is where in the cursor, after the row at hand and the keys apart: rows that left a slice, slices that were
folded anew, slices that were cut anew."""


@kernel
def mark_progression(cuts: Any, low: int, high: int, step: int, phase: int) -> None:
    """Mark the numbers of a progression from low to high."""
    at = low + (phase - low) % step
    while at <= high:
        cuts[index(at - low)] = True
        at += step


@kernel
def mark_edges(shapes: Any, numbers: Any, key: int, low: int, high: int, cuts: Any) -> None:
    """Mark the edges of a key from low to high."""
    lengths, everys, steps, phases = shapes
    apart, shifts, _, _, _ = numbers
    if apart[key] < 0:
        for p in range(len(steps)):
            mark_progression(cuts, low, high, steps[p], phases[p])
        return
    for d in range(len(lengths)):
        shift = shifts[apart[key], d]
        mark_progression(cuts, low, high, everys[d], shift)
        mark_progression(cuts, low, high, everys[d], shift + lengths[d])


@kernel
def edge_after(shapes: Any, numbers: Any, key: int, row: int) -> int:
    """Return the first edge of a key after a row number."""
    lengths, everys, steps, phases = shapes
    apart, shifts, _, _, _ = numbers
    nearest = 1 << 62
    if apart[key] < 0:
        for p in range(len(steps)):
            nearest = min(nearest, row + steps[p] - (row - phases[p]) % steps[p])
        return nearest
    for d in range(len(lengths)):
        own = row - shifts[apart[key], d]
        nearest = min(nearest, row + everys[d] - own % everys[d])
        nearest = min(nearest, row + everys[d] - (own - lengths[d]) % everys[d])
    return nearest


@kernel
def make_slices(
    rows: Any,
    row_blocks: Any,
    slices: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    cuts: Any,
    key: int,
    until: int,
) -> bool:
    """Put the rows of a key before a number into slices; say whether there was memory for them. `cuts` is all False."""
    gone, made, edge, _, _, _, _ = keyed
    times, row_states = rows
    low, high, first, last, _, peaks, _, _, states = slices
    base, _, head, size, stale = blocks
    at = made[key]
    coming = origin = edge[key]
    if until > coming:
        mark_edges(shapes, numbers, key, origin, until, cuts)
    shift = row_blocks[0][key] + row_blocks[2][key] - gone[key]
    enough = True
    while at < until:
        if at == coming:
            enough = has_room(slices, blocks, marks, free, key)
            if not enough:
                break
            slot = opened(slices, blocks, marks, key, size[key])
            coming = at + 1
            while coming <= until and not cuts[index(coming - origin)]:
                coming += 1
            if coming > until:
                coming = edge_after(shapes, numbers, key, until)
            low[slot] = at
            first[slot] = times[at + shift]
            peaks[slot]["size"][:] = 0.0
            state = hold(load(row_states, at + shift))
            at += 1
        else:
            slot = base[key] + head[key] + size[key] - 1
            state = hold(load(states, slot))
        stop = min(until, coming)
        while at < stop:
            state = combine(state, load(row_states, at + shift))
            at += 1
        store(states, slot, state)
        watch(peaks, slot, state)
        high[slot] = stop
        last[slot] = times[stop - 1 + shift]
        stale[key] = min(stale[key], slot - base[key])
    if until > origin:
        cuts[: until - origin + 1] = False
    made[key] = at
    edge[key] = coming
    return bool(enough)


@kernel
def extend(
    rows: Any,
    row_blocks: Any,
    slices: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    cuts: Any,
    chosen: Ints,
    watermark: int,
) -> bool:
    """Put all rows up to the watermark into slices; say whether there was memory for them."""
    for i in range(len(chosen)):
        key = chosen[i]
        until = rows_until(rows, row_blocks, keyed[0], key, watermark)
        if until > keyed[1][key] and not make_slices(
            rows, row_blocks, slices, blocks, marks, free, keyed, shapes, numbers, cuts, key, until
        ):
            return False
    return True


@kernel
def fold_anew(rows: Slots, first: int, last: int, states: Slots, peaks: Any, slot: int) -> None:
    """Make the state of a slice from its rows."""
    state = hold(load(rows, first))
    for row in range(first + 1, last):
        state = combine(state, load(rows, row))
    store(states, slot, state)
    peaks[slot]["size"][:] = 0.0
    watch(peaks, slot, state)


@kernel
def after_new(spots: Ints, spot: int, stop: int, at: int) -> int:
    """Return the first row number from here on that no new row has: `spot` is the first new one from here on."""
    while spot < stop and spots[spot] == at:
        spot += 1
        at += 1
    return at


@kernel
def exchange(rows: Slots, shift: int, new: Any, span: Any, leaving: int, states: Slots, peaks: Any, slot: int) -> bool:
    """Take out of a slice the rows that have left it and put in those that came; say whether that could be done.

    `span` are the numbers it lies between. Of the `new` rows, those before it have each moved a row into it from the
    slice before. Rows of equal time stay in their order.
    """
    spots, begin, before, after, stop = new
    low, high = span
    at = high
    spot = after
    for _ in range(leaving):
        free = after_new(spots, spot, stop, at)
        spot += free - at
        if not left(states, peaks, slot, rows, free + shift):
            return False
        at = free + 1
    state = hold(load(states, slot))
    for spot in range(before, after):
        state = combine(state, load(rows, spots[spot] + shift))
    if before > begin:
        at = after_new(spots, before, stop, low)
        spot = before + at - low
        older = hold(load(rows, at + shift))
        for _ in range(before - begin - 1):
            free = after_new(spots, spot, stop, at + 1)
            spot += free - at - 1
            at = free
            older = combine(older, load(rows, at + shift))
        state = combine(older, state)
    store(states, slot, state)
    watch(peaks, slot, state)
    return True


@kernel
def shift_rows(
    rows: Any,
    row_blocks: Any,
    slices: Any,
    blocks: Any,
    keyed: Any,
    key: int,
    spots: Ints,
    begin: int,
    stop: int,
    commutes: bool,
    cursor: Ints,
) -> None:
    """Pass rows on from slice to slice, after new rows of a key came to be at these spots.

    A slice exchanges as many rows as came before its end, or is folded anew where that is less work. The last one may
    grow up to its edge.
    """
    gone, made, edge, _, _, _, _ = keyed
    times, row_states = rows
    low, high, first, last, _, peaks, _, _, states = slices
    base, _, head, size, stale = blocks
    shift = row_blocks[0][key] + row_blocks[2][key] - gone[key]
    end = base[key] + head[key] + size[key]
    slot = position(low, base[key] + head[key], end, spots[begin]) - 1
    stale[key] = min(stale[key], slot - base[key])
    before = begin
    while slot < end:
        after = before
        while after < stop and spots[after] < high[slot]:
            after += 1
        grown = high[slot]
        if slot == end - 1:
            grown += min(edge[key] - grown, after - begin)
            while after < stop and spots[after] < grown:
                after += 1
        count = after - begin
        leaving = count - (grown - high[slot])
        cursor[2] += leaving
        new = (spots, begin, before, after, stop)
        span = (low[slot], grown)
        if not (
            commutes
            and 2 * count < grown - low[slot]
            and exchange(row_states, shift, new, span, leaving, states, peaks, slot)
        ):
            fold_anew(row_states, low[slot] + shift, grown + shift, states, peaks, slot)
            cursor[3] += 1
        high[slot] = grown
        first[slot] = times[low[slot] + shift]
        last[slot] = times[grown - 1 + shift]
        made[key] = grown
        before = after
        slot += 1


@kernel
def cut_anew(slices: Any, blocks: Any, marks: Ints, keyed: Any, key: int, row: int, cursor: Ints) -> None:
    """Let the slices of a key go from that of a row on: the edges after it are no longer the same ones."""
    made, edge = keyed[1], keyed[2]
    base, _, head, size, stale = blocks
    begin = base[key] + head[key]
    if row < made[key]:
        slot = position(slices[0], begin, begin + size[key], row) - 1
        made[key] = slices[0][slot]
        marks[1] -= begin + size[key] - slot
        cursor[4] += begin + size[key] - slot
        size[key] = slot - begin
        stale[key] = min(stale[key], slot - base[key])
    edge[key] = made[key]
    keyed[6][key] = 0


@kernel
def merge_rows(
    batch: Any,
    columns: Columns,
    rows: Any,
    row_blocks: Any,
    row_marks: Ints,
    row_free: Ints,
    slices: Any,
    blocks: Any,
    marks: Ints,
    keyed: Any,
    numbers: Any,
    cursor: Ints,
    limit: int,
    commutes: bool,
    spots: Ints,
) -> bool:
    """Take rows, in the order of key and time; say whether there was memory. Those up to `limit` were judged."""
    keys, times, order = batch
    begin = cursor[0]
    while begin < len(order):
        key = keys[index(order[index(begin)])]
        stop = begin + 1
        while stop < len(order) and keys[index(order[index(stop)])] == key:
            stop += 1
        if not room_for(rows, row_blocks, row_marks, row_free, key, stop - begin):
            cursor[0] = begin
            return False
        merge_key(batch, columns, rows, row_blocks, key, keyed[0][key], begin, stop, spots)
        if keyed[6][key] != 0:
            cut_anew(slices, blocks, marks, keyed, key, spots[begin], cursor)
        elif spots[begin] < keyed[1][key]:
            shift_rows(rows, row_blocks, slices, blocks, keyed, key, spots, begin, stop, commutes, cursor)
        punctual = begin
        while punctual < stop and times[order[punctual]] <= limit:
            punctual += 1
        if punctual < stop:
            note_row(keyed, numbers, key, spots[punctual])
        begin = stop
    cursor[0] = begin
    return True


SLICES = (
    mark_progression,
    mark_edges,
    edge_after,
    make_slices,
    extend,
    fold_anew,
    after_new,
    exchange,
    shift_rows,
    cut_anew,
    merge_rows,
)
