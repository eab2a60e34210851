"""The boundary aggregator over arrays, on one thread, for windows that slide by more than one row.

Rows are first aggregated into slices, from the start of one window to that of the next; only slices are merged. So each
row takes one combine, and each window three: one for the suffix of its chunk (lcs), one for the prefix of the next
(csa), one to combine both; and one more if a window ends inside a slice. `TwoStacks` takes two per row.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    emit_empty,
    hold,
    inlined,
    kernel,
    lift,
    load,
    store,
)


@inlined
def fold_rows(state: State, some: bool, columns: Columns, times: Ints, row: int, edge: int) -> State:
    """Return a state extended by the rows [row, edge); `some` tells whether it holds any yet."""
    if row < edge and not some:
        state = lift(columns, times, row)
        row += 1
    while row < edge:
        state = combine(state, lift(columns, times, row))
        row += 1
    return state


@inlined
def next_edge(first: Ints, slice_: int, stop: int, end: int) -> int:
    """Return the end of the slice, or `end` if that comes before."""
    return min(first[slice_ + 1], end) if slice_ + 1 < stop else end


@inlined
def turn_slices(slots: Slots, base: int, first: Ints, begin: int, last_slice: int, suffix: State) -> State:
    """Flip the slices of a chunk, the last of which is `suffix`, into suffixes; return the longest."""
    store(slots, base + last_slice - begin, suffix)
    suffix = hold(suffix)
    for k in range(last_slice - 1, begin - 1, -1):
        if first[k] < first[k + 1]:
            suffix = combine(load(slots, base + k - begin), suffix)
        store(slots, base + k - begin, suffix)
    return suffix


@inlined
def joined(suffix: State, behind: bool, prefix: State, some: bool, piece: State) -> State:
    """Return the state of a window: a suffix, the slices after it if `behind`, and part of a slice if `some`."""
    if behind:
        suffix = combine(suffix, prefix)
    if some:
        suffix = combine(suffix, piece)
    return suffix


@kernel
def slide_slices(  # noqa: C901  # one pass, whose parts share too much state to be separated
    slots: Slots, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs
) -> None:
    """Run the windows [first, last) of rows, both ascending. Half of the slots hold suffixes, half the next slices."""
    base, other = 0, len(slots) // 2
    piece = lift(columns, times, 0)  # the rows of the current slice read so far
    prefix = piece
    some = False
    begin = slice_ = start
    row = first[start]
    while begin < stop:
        if slice_ < begin:  # rows between two chunks, which no slice needs
            slice_ = begin
            row = first[begin]
            some = False
        if last[begin] == first[begin]:
            emit_empty(outputs, begin)
            begin += 1
            continue
        # The slices of this chunk, up to the end of its first window.
        boundary = last[begin]
        while row < boundary:
            edge = next_edge(first, slice_, stop, boundary)
            piece = fold_rows(piece, some, columns, times, row, edge)
            some = some or edge > row
            row = edge
            if row < boundary:
                if some:
                    store(slots, base + slice_ - begin, piece)
                slice_ += 1
                some = False
        if not some:  # they were built before, up to the boundary, perhaps with empty ones after it
            while first[slice_] >= boundary:
                slice_ -= 1
            piece = hold(load(slots, base + slice_ - begin))
        end = slice_ + 1
        emit(outputs, begin, turn_slices(slots, base, first, begin, slice_, piece))
        # The other windows of this chunk, while the slices of the next one are built.
        some = behind = False
        for window in range(begin + 1, end):
            while row < last[window]:
                edge = next_edge(first, slice_, stop, last[window])
                piece = fold_rows(piece, some, columns, times, row, edge)
                some = some or edge > row
                row = edge
                while slice_ + 1 < stop and first[slice_ + 1] <= row:
                    if some and slice_ >= end:
                        store(slots, other + slice_ - end, piece)
                    if some:
                        prefix = combine(prefix, piece) if behind else hold(piece)
                        behind = True
                    some = False
                    slice_ += 1
            emit(outputs, window, joined(load(slots, base + window - begin), behind, prefix, some, piece))
        begin = end
        base, other = other, base


SLICES = (fold_rows, next_edge, turn_slices, joined, slide_slices)
