"""Slices in row numbers: they lie between rows at which a window begins or ends, and hold rows in order.

A slice keeps its bounds in row numbers, the times of its first and last row, and its state. Its rows change only if a
row arrives before the last one in any slice: the rows after it then move by one, and each slice takes one from the
slice before it and gives one to the slice after it.

No kernel here sees a state: they write scripts, which those in `folding` execute.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.streams.blocks import SLICES as SLICE_COUNT
from muntin.streams.blocks import Blocks, Slices, has_room, open_slot
from muntin.streams.row_slices.late import FOLDS, ROW, SHIFTS, SPLITS, Numbers, RowWindows, note_row
from muntin.streams.row_slices.rows import NOWHERE, Arriving, Keyed, merge_key, room_for, rows_until
from muntin.streams.script import (
    AFTER,
    BEFORE,
    BEGIN,
    DONE,
    EXCHANGE,
    FOLD,
    LEAVING,
    NO_ROOM,
    OPEN,
    REFOLD,
    SHIFT,
    SHORT,
    STOP,
    STOPPED,
    Script,
    add_step,
    is_full,
)
from muntin.streams.slices.slicer import position

# ---------------------------------------------------------------- rows in order


@kernel
def mark_progression(cuts: Ints, low: int, high: int, step: int, phase: int) -> None:
    """Mark the numbers of a progression between `low` and `high`."""
    at = low + (phase - low) % step
    while at <= high:
        cuts[index(at - low)] = True
        at += step


@kernel
def mark_edges(shapes: RowWindows, numbers: Numbers, key: int, low: int, high: int, cuts: Ints) -> None:
    """Mark the edges of a key between `low` and `high`."""
    which = numbers.apart[key]
    if which < 0:
        for p in range(len(shapes.steps)):
            mark_progression(cuts, low, high, shapes.steps[p], shapes.phases[p])
        return
    for d in range(len(shapes.lengths)):
        shift = numbers.shifts[which, d]
        mark_progression(cuts, low, high, shapes.everys[d], shift)
        mark_progression(cuts, low, high, shapes.everys[d], shift + shapes.lengths[d])


@kernel
def edge_after(shapes: RowWindows, numbers: Numbers, key: int, row: int) -> int:
    """Return the first edge of a key after a row number."""
    nearest = NOWHERE
    which = numbers.apart[key]
    if which < 0:
        for p in range(len(shapes.steps)):
            nearest = min(nearest, row + shapes.steps[p] - (row - shapes.phases[p]) % shapes.steps[p])
        return nearest
    for d in range(len(shapes.lengths)):
        every = shapes.everys[d]
        own = row - numbers.shifts[which, d]
        nearest = min(nearest, row + every - own % every)
        nearest = min(nearest, row + every - (own - shapes.lengths[d]) % every)
    return nearest


@kernel
def make_slices(
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    cuts: Ints,
    key: int,
    until: int,
) -> int:
    """Put the rows of a key before row `until` into slices; return why it stopped. `cuts` is all False."""
    at = keyed.made[key]
    coming = origin = keyed.edge[key]
    if until > coming:
        mark_edges(shapes, numbers, key, origin, until, cuts)
    shift = row_blocks.base[key] + row_blocks.head[key] - keyed.gone[key]
    stopped = DONE
    while at < until:
        if is_full(script):
            stopped = STOPPED
            break
        action = FOLD
        slot = blocks.base[key] + blocks.head[key] + blocks.size[key] - 1
        if at == coming:
            if not has_room(slices, blocks, script, key):
                stopped = NO_ROOM
                break
            slot = open_slot(slices, blocks, script, key, blocks.size[key])
            coming = at + 1
            while coming <= until and not cuts[index(coming - origin)]:
                coming += 1
            if coming > until:
                coming = edge_after(shapes, numbers, key, until)
            slices.low[slot] = at
            slices.first[slot] = times[at + shift]
            action = OPEN
        stop = min(until, coming)
        add_step(script, action, slot, at + shift, stop + shift)
        at = stop
        slices.high[slot] = stop
        slices.last[slot] = times[stop - 1 + shift]
        blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    if until > origin:
        cuts[: until - origin + 1] = False
    keyed.made[key] = at
    keyed.edge[key] = coming
    return stopped


@kernel
def extend(
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    cuts: Ints,
    chosen: Ints,
    cursor: Ints,
    watermark: int,
) -> int:
    """Put all rows up to the watermark into slices, starting at the cursor's key; return why it stopped."""
    i = cursor[ROW]
    while i < len(chosen):
        key = chosen[i]
        until = rows_until(times, row_blocks, keyed.gone, key, watermark)
        if until > keyed.made[key]:
            stopped = make_slices(times, row_blocks, slices, blocks, script, keyed, shapes, numbers, cuts, key, until)
            if stopped != DONE:
                cursor[ROW] = i
                return stopped
        i += 1
    return DONE


# ---------------------------------------------------------------- rows out of order


@kernel
def add_exchange(
    script: Script,
    slot: int,
    low: int,
    high: int,
    shift: int,
    begin: int,
    before: int,
    after: int,
    stop: int,
    leaving: int,
) -> None:
    """Append an EXCHANGE of the rows of a slice."""
    at = script.length[0]
    add_step(script, EXCHANGE, slot, low + shift, high + shift)
    script.steps[at, SHIFT] = shift
    script.steps[at, BEGIN] = begin
    script.steps[at, BEFORE] = before
    script.steps[at, AFTER] = after
    script.steps[at, STOP] = stop
    script.steps[at, LEAVING] = leaving


@kernel
def shift_rows(
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    keyed: Keyed,
    key: int,
    spots: Ints,
    begin: int,
    stop: int,
    commutes: bool,
    cursor: Ints,
) -> None:
    """Pass rows on from slice to slice, after new rows of a key were inserted at `spots`.

    A slice exchanges as many rows as came before its end, or is refolded if that is less work. The last slice may grow
    up to its edge.
    """
    low, high = slices.low, slices.high
    shift = row_blocks.base[key] + row_blocks.head[key] - keyed.gone[key]
    end = blocks.base[key] + blocks.head[key] + blocks.size[key]
    slot = position(low, blocks.base[key] + blocks.head[key], end, spots[begin]) - 1
    blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    before = begin
    while slot < end:
        after = before
        while after < stop and spots[after] < high[slot]:
            after += 1
        grown = high[slot]
        if slot == end - 1:
            grown += min(keyed.edge[key] - grown, after - begin)
            while after < stop and spots[after] < grown:
                after += 1
        count = after - begin
        leaving = count - (grown - high[slot])
        cursor[SHIFTS] += leaving
        if commutes and 2 * count < grown - low[slot]:
            add_exchange(script, slot, low[slot], grown, shift, begin, before, after, stop, leaving)
        else:
            add_step(script, REFOLD, slot, low[slot] + shift, grown + shift)
            cursor[FOLDS] += 1
        high[slot] = grown
        slices.first[slot] = times[low[slot] + shift]
        slices.last[slot] = times[grown - 1 + shift]
        keyed.made[key] = grown
        before = after
        slot += 1


@kernel
def cut_again(slices: Slices, blocks: Blocks, keyed: Keyed, key: int, row: int, cursor: Ints) -> None:
    """Drop the slices of a key from that of `row` on: the edges after it have changed."""
    begin = blocks.base[key] + blocks.head[key]
    if row < keyed.made[key]:
        slot = position(slices.low, begin, begin + blocks.size[key], row) - 1
        keyed.made[key] = slices.low[slot]
        count = begin + blocks.size[key] - slot
        blocks.marks[SLICE_COUNT] -= count
        cursor[SPLITS] += count
        blocks.size[key] = slot - begin
        blocks.stale[key] = min(blocks.stale[key], slot - blocks.base[key])
    keyed.edge[key] = keyed.made[key]
    keyed.torn[key] = 0


@kernel
def merge_rows(
    batch: Arriving,
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    script: Script,
    keyed: Keyed,
    numbers: Numbers,
    cursor: Ints,
    limit: int,
    commutes: bool,
    spots: Ints,
) -> int:
    """Take rows, ordered by key and time; return why it stopped. Rows up to `limit` are already judged."""
    order = batch.order
    begin = cursor[ROW]
    while begin < len(order):
        key = batch.keys[index(order[index(begin)])]
        stop = begin + 1
        while stop < len(order) and batch.keys[index(order[index(stop)])] == key:
            stop += 1
        # New rows and old ones alternate at most as often as there are new ones; a slice takes one step.
        steps = 2 * (stop - begin) + 2 + blocks.size[key]
        if script.length[0] + steps > len(script.steps):
            cursor[ROW] = begin
            return STOPPED if script.length[0] > 0 else SHORT
        if not room_for(times, row_blocks, script, key, stop - begin):
            cursor[ROW] = begin
            return NO_ROOM
        merge_key(batch, times, row_blocks, script, key, keyed.gone[key], begin, stop, spots)
        if keyed.torn[key] != 0:
            cut_again(slices, blocks, keyed, key, spots[begin], cursor)
        elif spots[begin] < keyed.made[key]:
            shift_rows(times, row_blocks, slices, blocks, script, keyed, key, spots, begin, stop, commutes, cursor)
        punctual = begin
        while punctual < stop and batch.times[order[punctual]] <= limit:
            punctual += 1
        if punctual < stop:
            note_row(keyed, numbers, key, spots[punctual])
        begin = stop
    cursor[ROW] = begin
    return DONE


SLICES = (
    mark_progression,
    mark_edges,
    edge_after,
    make_slices,
    extend,
    add_exchange,
    shift_rows,
    cut_again,
    merge_rows,
)
