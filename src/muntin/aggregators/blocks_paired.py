"""The two halves of `slide_blocks`, and what windows by time share with them, by pairs of rows.

Combining two rows first halves the steps on the chain from state to state, whose latency bounds the loop if a combine
is a single instruction, as for max. That is one more combine per row, and a third to half less time; unrolling by four,
or running several blocks side by side, gained nothing more. Larger combines do not gain: the processor already overlaps
the parts that are not on the chain.
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
    lift,
    load,
    store,
)


@inlined
def turn_block(slots: Slots, base: int, columns: Columns, times: Ints, block: int, width: int) -> None:
    """Write the suffixes of a block to the slots base + k: rows [block + k, block + width)."""
    suffix = lift(columns, times, block + width - 1)
    k = width - 1
    while k > 1:
        one = lift(columns, times, block + k - 1)
        two = lift(columns, times, block + k - 2)
        store(slots, base + k, suffix)
        store(slots, base + k - 1, combine(one, suffix))
        suffix = combine(combine(two, one), suffix)
        k -= 2
    if k == 1:
        store(slots, base + 1, suffix)
        suffix = combine(lift(columns, times, block), suffix)
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
        k = 1
        while k + 1 < ends:
            one = lift(columns, times, after + k)
            two = lift(columns, times, after + k + 1)
            emit(outputs, after + k - shift, combine(load(slots, base + k + 1), combine(prefix, one)))
            prefix = combine(prefix, combine(one, two))
            emit(outputs, after + k + 1 - shift, combine(load(slots, base + k + 2), prefix))
            k += 2
        if k < ends:
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
    at = begin
    while at + 1 < end:
        one = lift(columns, times, row + at)
        two = lift(columns, times, row + at + 1)
        emit(outputs, row + at - shift, combine(load(slots, begins[index(at)] - base), combine(prefix, one)))
        prefix = combine(prefix, combine(one, two))
        emit(outputs, row + at + 1 - shift, combine(load(slots, begins[index(at + 1)] - base), prefix))
        at += 2
    if at < end:
        prefix = combine(prefix, lift(columns, times, row + at))
        emit(outputs, row + at - shift, combine(load(slots, begins[index(at)] - base), prefix))
    return prefix
