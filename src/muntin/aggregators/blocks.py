"""Windows of one length over an array, one per row: cut into blocks of that length.

Each window is a suffix of one block and a prefix of the next. The suffixes are what `TwoStacks` would flip, at places
known in advance here, and what the boundary aggregator calls lcs; the prefixes are its csa.
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
    index,
    inlined,
    kernel,
    lift,
    load,
    store,
)


@inlined
def turn_block(slots: Slots, base: int, columns: Columns, times: Ints, block: int, width: int) -> None:
    """Write the suffixes of a block to the slots base + k: rows [block + k, block + width)."""
    suffix = lift(columns, times, block + width - 1)
    for k in range(width - 1, 0, -1):
        store(slots, base + k, suffix)
        suffix = combine(lift(columns, times, block + k - 1), suffix)
    store(slots, base, suffix)


@inlined
def merge_block(
    slots: Slots,
    base: int,
    columns: Columns,
    times: Ints,
    block: int,
    width: int,
    stop: int,
    shift: int,
    outputs: Outputs,
) -> None:
    """Run the windows that begin in a block and end before row `stop`: its suffixes with prefixes of the next one."""
    after = block + width
    emit(outputs, after - 1 - shift, load(slots, base))
    ends = min(width - 1, stop - after)
    if ends > 0:
        prefix = lift(columns, times, after)
        emit(outputs, after - shift, combine(load(slots, base + 1), prefix))
        for k in range(1, ends):
            prefix = combine(prefix, lift(columns, times, after + k))
            emit(outputs, after + k - shift, combine(load(slots, base + k + 1), prefix))


@inlined
def merge_rows(
    slots: Slots,
    base: int,
    columns: Columns,
    times: Ints,
    prefix: State,
    row: int,
    begins: Ints,
    begin: int,
    end: int,
    shift: int,
    outputs: Outputs,
) -> State:
    """Run the windows that end with the rows [row + begin, row + end); return the prefix extended by these rows.

    The window of row `row + i` is the suffix from row begins[i] on, in slot begins[i] - base, and the prefix.
    """
    for at in range(begin, end):
        prefix = combine(prefix, lift(columns, times, row + at))
        emit(outputs, row + at - shift, combine(load(slots, begins[index(at)] - base), prefix))
    return prefix


@kernel
def slide_blocks(
    slots: Slots, columns: Columns, times: Ints, width: int, start: int, stop: int, shift: int, outputs: Outputs
) -> None:
    """Run the windows of `width` rows that end with the rows [start, stop), one per row; start >= width - 1.

    The window that ends with row i is row i - shift of the output.
    """
    for block in range(start - width + 1, stop - width + 1, width):
        turn_block(slots, 0, columns, times, block, width)
        merge_block(slots, 0, columns, times, block, width, stop, shift, outputs)
