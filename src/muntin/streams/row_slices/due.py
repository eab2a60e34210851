"""Finds the windows by rows that are due or have changed, and evicts what no window needs any more."""

from __future__ import annotations

from typing import NamedTuple

from muntin.kernels.vocabulary import Ints, Outputs, Slots, combine, emit, hold, kernel, load
from muntin.streams.blocks import Blocks, Slices, drop_oldest, give_back
from muntin.streams.row_slices.late import Numbers, RowWindows, final_rows, first_ending_after, shift_of, shift_then
from muntin.streams.row_slices.rows import NOWHERE, Keyed, rows_until
from muntin.streams.slices.slicer import position
from muntin.streams.tree import query_slices

FEW = 16
"""Windows of up to this many slices combine them one by one."""


class Windows(NamedTuple):
    """Windows by their rows [start, end), and the slots [first, last) of their slices; -1 if a window has holes."""

    keys: Ints
    definitions: Ints
    starts: Ints
    ends: Ints
    firsts: Ints
    lasts: Ints
    again: Ints
    """1 for a window that was due before."""


class Asked(NamedTuple):
    """Which windows to find besides those that are due or have changed."""

    everything: bool
    """All that may still change."""
    partial: bool
    """Those that are not full yet."""


@kernel
def write_window(
    found: Windows, count: int, key: int, d: int, start: int, end: int, revised: int, low: Ints, span: Ints, shift: int
) -> None:
    """Write a window if there is room; otherwise it is only counted.

    `span` is the first and the last slot of the key's slices. A negative `shift` marks a window with holes.
    """
    begin, stop = span
    if count < len(found.keys):
        found.keys[count] = key
        found.definitions[count] = d
        found.starts[count] = start
        found.ends[count] = end
        found.firsts[count] = position(low, begin, stop, start + shift) - 1 if shift >= 0 else -1
        found.lasts[count] = position(low, found.firsts[count], stop, end + shift - 1) if shift >= 0 else -1
        found.again[count] = revised


@kernel
def windows_of_key(
    slices: Slices,
    blocks: Blocks,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    key: int,
    until: int,
    total: int,
    asked: Asked,
    found: Windows,
    count: int,
) -> int:
    """Find the windows of a key that end by row `until`: new ones, and those whose rows have changed."""
    emitted = keyed.emitted[key]
    which = numbers.apart[key]
    begin = blocks.base[key] + blocks.head[key]
    span = (begin, begin + blocks.size[key])
    for d in range(len(shapes.lengths)):
        shift = shift_of(numbers, key, d)
        then = shift_then(numbers, key, d)
        length = shapes.lengths[d]
        every = shapes.everys[d]
        changed = numbers.least[which, d] if which >= 0 else keyed.moved[key]
        window = first_ending_after(final_rows(keyed, numbers, key, d), length, every)
        if not asked.everything:
            window = max(window, first_ending_after(min(emitted - then, changed), length, every))
        start = window * every
        while start + length <= until - shift:
            end = start + length
            own = -1 if which >= 0 and start < numbers.odd[which, d] else shift
            write_window(found, count, key, d, start, end, int(end <= emitted - then), slices.low, span, own)
            count += 1
            start += every
        if asked.partial:
            while start < total - shift:
                write_window(found, count, key, d, start, total - shift, 0, slices.low, span, shift)
                count += 1
                start += every
    return count


@kernel
def find_windows(
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    chosen: Ints,
    watermark: int,
    asked: Asked,
    found: Windows,
) -> int:
    """Find the windows of some keys that are due, have changed or are asked for; return their number."""
    count = 0
    for i in range(len(chosen)):
        key = chosen[i]
        until = rows_until(times, row_blocks, keyed.gone, key, watermark)
        total = keyed.gone[key] + row_blocks.size[key]
        changed = until > keyed.emitted[key] or keyed.moved[key] < keyed.emitted[key]
        if asked.everything or asked.partial or changed:
            count = windows_of_key(slices, blocks, keyed, shapes, numbers, key, until, total, asked, found, count)
    return count


@kernel
def first_needed(keyed: Keyed, shapes: RowWindows, numbers: Numbers, key: int) -> int:
    """Return the first row of the key's windows that are not final."""
    needed = NOWHERE
    for d in range(len(shapes.lengths)):
        length, every = shapes.lengths[d], shapes.everys[d]
        shift = shift_of(numbers, key, d)
        needed = min(needed, every * first_ending_after(keyed.final[key] - shift, length, every) + shift)
    return needed


@kernel
def forget_changes(keyed: Keyed, numbers: Numbers, key: int) -> None:
    """Clear what has come for a key since windows were last examined."""
    if keyed.moved[key] < NOWHERE:
        keyed.moved[key] = NOWHERE
        which = numbers.apart[key]
        if which >= 0:
            numbers.fresh[which, :] = 0
            numbers.odd[which, :] = 0
            numbers.least[which, :] = NOWHERE


@kernel
def drop_rows(times: Ints, blocks: Blocks, keyed: Keyed, key: int, needed: int) -> None:
    """Evict the rows of a key before row `needed`."""
    count = needed - keyed.gone[key]
    if count > 0:
        blocks.head[key] += count
        blocks.size[key] -= count
        keyed.gone[key] = needed
        if blocks.size[key] == 0:
            give_back(times, blocks, key)


@kernel
def finalize(
    times: Ints,
    row_blocks: Blocks,
    slices: Slices,
    blocks: Blocks,
    keyed: Keyed,
    shapes: RowWindows,
    numbers: Numbers,
    chosen: Ints,
    watermark: int,
    limit: int,
    ordered: bool,
    closed: bool,
) -> None:
    """Record that all windows were examined; evict rows and slices that no window that may still change needs.

    The row before the first needed one stays, to tell which rows are too late; not if rows come in order.
    """
    for i in range(len(chosen)):
        key = chosen[i]
        keyed.emitted[key] = rows_until(times, row_blocks, keyed.gone, key, watermark)
        forget_changes(keyed, numbers, key)
        final = rows_until(times, row_blocks, keyed.gone, key, limit)
        if final == keyed.final[key] and not ordered and not closed:
            continue
        keyed.final[key] = final
        total = keyed.gone[key] + row_blocks.size[key]
        needed = total if closed else first_needed(keyed, shapes, numbers, key)
        begin = blocks.base[key] + blocks.head[key]
        unneeded = position(slices.high, begin, begin + blocks.size[key], needed) - begin
        if unneeded > 0:
            drop_oldest(slices, blocks, key, unneeded)
        if not closed:
            needed = max(needed, keyed.made[key]) if ordered else needed - 1
        drop_rows(times, row_blocks, keyed, key, needed)


FIND = (write_window, windows_of_key, find_windows, first_needed, forget_changes, drop_rows, finalize)


@kernel
def answer_few(states: Slots, firsts: Ints, lasts: Ints, outputs: Outputs) -> None:
    """Answer windows of a few slices each, one by one. Skips windows with holes."""
    for i in range(len(firsts)):
        if firsts[i] >= 0:
            state = hold(load(states, firsts[i]))
            for slot in range(firsts[i] + 1, lasts[i]):
                state = combine(state, load(states, slot))
            emit(outputs, i, state)


@kernel
def answer_slices(
    states: Slots, tree: Slots, blocks: Blocks, keys: Ints, firsts: Ints, lasts: Ints, outputs: Outputs
) -> None:
    """Answer windows from their slices: a few one by one, more by the tree of their key.

    Skips windows with holes.
    """
    for i in range(len(keys)):
        if firsts[i] < 0:
            continue
        if lasts[i] - firsts[i] <= FEW:
            state = hold(load(states, firsts[i]))
            for slot in range(firsts[i] + 1, lasts[i]):
                state = combine(state, load(states, slot))
            emit(outputs, i, state)
        else:
            emit(outputs, i, query_slices(states, tree, blocks, keys[i], firsts[i], lasts[i]))


@kernel
def answer_rows(states: Slots, slots: Ints, outputs: Outputs, at: int) -> None:
    """Answer a window from its rows."""
    state = hold(load(states, slots[0]))
    for i in range(1, len(slots)):
        state = combine(state, load(states, slots[i]))
    emit(outputs, at, state)


ANSWER = (answer_few, answer_slices, answer_rows)
"""The kernels compiled per set of aggregations."""
