"""The windows by rows that are to be looked at, and what no window needs any more."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Ints, Outputs, Slots, combine, emit, hold, kernel, load
from muntin.streams.blocks import dropped, given_back, room_of
from muntin.streams.row_slices.late import first_ending_after, settled_rows, shift_of, shift_then
from muntin.streams.row_slices.rows import rows_until
from muntin.streams.slices.slicer import position
from muntin.streams.tree import query_tree, renew_tree


@kernel
def write_window(found: Any, count: int, window: Any, slices: Any, begin: int, stop: int, shift: int) -> None:
    """Write a window, if there is room for it: one that there is no room for is only counted.

    With a negative shift it has holes, and no slices.
    """
    keys, definitions, starts, ends, firsts, lasts, again = found
    key, d, start, end, revised = window
    low = slices[0]
    if count < len(keys):
        keys[count] = key
        definitions[count] = d
        starts[count] = start
        ends[count] = end
        firsts[count] = position(low, begin, stop, start + shift) - 1 if shift >= 0 else -1
        lasts[count] = position(low, firsts[count], stop, end + shift - 1) if shift >= 0 else -1
        again[count] = revised


@kernel
def windows_of_key(
    slices: Any,
    blocks: Any,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    key: int,
    until: int,
    total: int,
    everything: bool,
    partial: bool,
    found: Any,
    count: int,
) -> int:
    """Find the windows of a key that end by a row: those that did not before, and those whose rows have changed.

    With `everything` all that may still change, with `partial` also those that are not full yet.
    """
    _, _, _, told, _, moved, _ = keyed
    lengths, everys, _, _ = shapes
    apart, _, _, odd, least = numbers
    base, _, head, size, _ = blocks
    begin = base[key] + head[key]
    stop = begin + size[key]
    for d in range(len(lengths)):
        shift = shift_of(numbers, key, d)
        then = shift_then(numbers, key, d)
        length = lengths[d]
        every = everys[d]
        changed = least[apart[key], d] if apart[key] >= 0 else moved[key]
        window = first_ending_after(settled_rows(keyed, numbers, key, d), length, every)
        if not everything:
            window = max(window, first_ending_after(min(told[key] - then, changed), length, every))
        start = window * every
        while start + length <= until - shift:
            revised = start + length <= told[key] - then
            holes = apart[key] >= 0 and start < odd[apart[key], d]
            own = -1 if holes else shift
            write_window(found, count, (key, d, start, start + length, revised), slices, begin, stop, own)
            count += 1
            start += every
        if partial:
            while start < total - shift:
                write_window(found, count, (key, d, start, total - shift, False), slices, begin, stop, shift)
                count += 1
                start += every
    return count


@kernel
def find_windows(
    rows: Any,
    row_blocks: Any,
    slices: Any,
    blocks: Any,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    chosen: Ints,
    watermark: int,
    everything: bool,
    partial: bool,
    found: Any,
) -> int:
    """Find the windows of some keys that are due or have changed, or all that may still change; return how many."""
    gone, _, _, told, _, moved, _ = keyed
    count = 0
    for i in range(len(chosen)):
        key = chosen[i]
        until = rows_until(rows, row_blocks, gone, key, watermark)
        total = gone[key] + row_blocks[3][key]
        if everything or partial or until > told[key] or moved[key] < told[key]:
            count = windows_of_key(
                slices, blocks, keyed, shapes, numbers, key, until, total, everything, partial, found, count
            )
    return count


@kernel
def answer_slices(
    slices: Any, tree: Slots, blocks: Any, keys: Ints, firsts: Ints, lasts: Ints, outputs: Outputs
) -> None:
    """Answer windows from their slices: up to 16 are combined one by one, more by the tree of their key.

    Windows with holes are left out.
    """
    base, length, _, _, stale = blocks
    states = slices[8]
    for i in range(len(keys)):
        if firsts[i] < 0:
            continue
        if lasts[i] - firsts[i] <= 16:
            state = hold(load(states, firsts[i]))
            for slot in range(firsts[i] + 1, lasts[i]):
                state = combine(state, load(states, slot))
            emit(outputs, i, state)
        else:
            key = keys[i]
            leaves = room_of(length[key])
            if stale[key] < leaves:
                renew_tree(slices, tree, blocks, key)
            begin = base[key]
            emit(outputs, i, query_tree(states, tree, begin, leaves, firsts[i] - begin, lasts[i] - begin))


@kernel
def answer_rows(states: Slots, slots: Ints, outputs: Outputs, at: int) -> None:
    """Answer a window from its rows."""
    state = hold(load(states, slots[0]))
    for i in range(1, len(slots)):
        state = combine(state, load(states, slots[i]))
    emit(outputs, at, state)


@kernel
def first_needed(keyed: Any, shapes: Any, numbers: Any, key: int) -> int:
    """Return the first row of a window of a key that is not settled."""
    final = keyed[4]
    lengths, everys, _, _ = shapes
    needed = 1 << 62
    for d in range(len(lengths)):
        shift = shift_of(numbers, key, d)
        needed = min(needed, everys[d] * first_ending_after(final[key] - shift, lengths[d], everys[d]) + shift)
    return needed


@kernel
def settle(
    rows: Any,
    row_blocks: Any,
    row_marks: Ints,
    row_free: Ints,
    slices: Any,
    blocks: Any,
    marks: Ints,
    free: Ints,
    keyed: Any,
    shapes: Any,
    numbers: Any,
    chosen: Ints,
    watermark: int,
    limit: int,
    ordered: bool,
    closed: bool,
) -> None:
    """Note that all windows were looked at; let rows and slices go that no window needs which may still change.

    The row before the first that is needed stays: it tells which rows are too late. None does that come in order.
    """
    gone, made, _, told, final, moved, _ = keyed
    apart, _, fresh, odd, least = numbers
    for i in range(len(chosen)):
        key = chosen[i]
        told[key] = rows_until(rows, row_blocks, gone, key, watermark)
        if moved[key] < 1 << 62:
            moved[key] = 1 << 62
            if apart[key] >= 0:
                fresh[apart[key], :] = 0
                odd[apart[key], :] = 0
                least[apart[key], :] = 1 << 62
        settled = rows_until(rows, row_blocks, gone, key, limit)
        if settled == final[key] and not ordered and not closed:
            continue
        final[key] = settled
        total = gone[key] + row_blocks[3][key]
        needed = total if closed else first_needed(keyed, shapes, numbers, key)
        begin = blocks[0][key] + blocks[2][key]
        unneeded = position(slices[1], begin, begin + blocks[3][key], needed) - begin
        if unneeded > 0:
            dropped(slices, blocks, marks, free, key, unneeded)
        needed = max(needed, made[key]) if ordered else needed - 1
        if closed:
            needed = total
        if needed > gone[key]:
            row_blocks[2][key] += needed - gone[key]
            row_blocks[3][key] -= needed - gone[key]
            gone[key] = needed
            if row_blocks[3][key] == 0:
                given_back(rows, row_blocks, row_marks, row_free, key)


FIND = (write_window, windows_of_key, find_windows, first_needed, settle)
ANSWER = (answer_slices, answer_rows)
