"""The boundary aggregator over arrays, on two threads: one flips chunks of windows, the other merges them.

All rows are in memory, so the second thread need not wait for them: it runs one chunk ahead. A chunk is all the windows
that begin before the first of them ends, `range / slide` of them: shorter chunks would save no waiting, and each window
is two parts, one combine. There are two buffers of suffixes (lcs): one is written, one read.
"""

from __future__ import annotations

from muntin.aggregators.blocks import merge_block, turn_block
from muntin.kernels.runtime import publish, published, step_aside
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    combine,
    emit,
    emit_empty,
    inlined,
    kernel,
    lift,
    load,
    store,
)

TURNED, MERGED, STOPPED, COUNTERS = 0, 8, 16, 24
"""The places of the counters: chunks flipped, chunks merged, and whether a thread has failed; a cache line apart."""


@inlined
def wait_for_buffer(counters: Ints, chunk: int) -> bool:
    """Wait until the buffer of this chunk has been read; return False if the other thread has failed."""
    spins = 0
    while published(counters, 8) + 1 < chunk:
        if published(counters, 16) != 0:
            return False
        spins += 1
        if spins > 1000:
            step_aside()
    return True


@inlined
def wait_for_suffixes(counters: Ints, chunk: int) -> bool:
    """Wait until this chunk is flipped; return False if the other thread has failed."""
    spins = 0
    while published(counters, 0) <= chunk:
        if published(counters, 16) != 0:
            return False
        spins += 1
        if spins > 1000:
            step_aside()
    return True


# ---------------------------------------------------------------- windows of one length, one per row


@kernel
def turn_blocks(slots: Slots, columns: Columns, times: Ints, width: int, start: int, stop: int, counters: Ints) -> None:
    """Flip every block, for the windows that end with the rows [start, stop)."""
    for block in range(start - width + 1, stop - width + 1, width):
        chunk = (block - start + width - 1) // width
        if not wait_for_buffer(counters, chunk):
            return
        turn_block(slots, (chunk & 1) * width, columns, times, block, width)
        publish(counters, 0, chunk + 1)


@kernel
def merge_blocks(
    slots: Slots,
    columns: Columns,
    times: Ints,
    width: int,
    start: int,
    stop: int,
    shift: int,
    outputs: Outputs,
    counters: Ints,
) -> None:
    """Run the windows of `slide_blocks`, with suffixes computed by another thread."""
    for block in range(start - width + 1, stop - width + 1, width):
        chunk = (block - start + width - 1) // width
        if not wait_for_suffixes(counters, chunk):
            return
        merge_block(slots, (chunk & 1) * width, columns, times, block, width, stop, shift, outputs)
        publish(counters, 8, chunk + 1)


# ---------------------------------------------------------------- windows of any kind, in order


@inlined
def chunk_end(first: Ints, last: Ints, begin: int, stop: int) -> int:
    """Return the window after the last that begins before window `begin` ends."""
    end = begin + 1
    while end < stop and first[end] < last[begin]:
        end += 1
    return end


@kernel
def turn_windows(
    slots: Slots, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, counters: Ints
) -> None:
    """Flip every chunk of the windows [first, last) of rows, both bounds ascending."""
    half = len(slots) // 2
    chunk = 0
    begin = start
    while begin < stop:
        end = chunk_end(first, last, begin, stop)
        if last[begin] > first[begin]:
            if not wait_for_buffer(counters, chunk):
                return
            base = (chunk & 1) * half
            row = last[begin] - 1
            suffix = lift(columns, times, row)
            for window in range(end - 1, begin - 1, -1):
                while row > first[window]:
                    row -= 1
                    suffix = combine(lift(columns, times, row), suffix)
                store(slots, base + window - begin, suffix)
            chunk += 1
            publish(counters, 0, chunk)
        begin = end


@kernel
def merge_windows(
    slots: Slots,
    columns: Columns,
    times: Ints,
    first: Ints,
    last: Ints,
    start: int,
    stop: int,
    outputs: Outputs,
    counters: Ints,
) -> None:
    """Run the windows [first, last) of rows, with suffixes computed by another thread."""
    half = len(slots) // 2
    chunk = 0
    begin = start
    while begin < stop:
        end = chunk_end(first, last, begin, stop)
        if last[begin] > first[begin]:
            if not wait_for_suffixes(counters, chunk):
                return
            base = (chunk & 1) * half
            boundary = last[begin]
            row = boundary
            prefix = load(slots, base)
            for window in range(begin, end):
                while row < last[window]:
                    if row == boundary:
                        prefix = lift(columns, times, row)
                    else:
                        prefix = combine(prefix, lift(columns, times, row))
                    row += 1
                if row == boundary:
                    emit(outputs, window, load(slots, base + window - begin))
                else:
                    emit(outputs, window, combine(load(slots, base + window - begin), prefix))
            chunk += 1
            publish(counters, 8, chunk)
        else:
            emit_empty(outputs, begin)
        begin = end


AHEAD = (wait_for_buffer, wait_for_suffixes)
BLOCKS = (*AHEAD, turn_blocks, merge_blocks)
WINDOWS = (*AHEAD, chunk_end, turn_windows, merge_windows)
