"""Windows of one length over an array as differences of sums, for states that follow from sums over rows.

The rows are cut into blocks at least as long as a window, so that it lies in two of them, and blocks into lanes of 256
rows. A lane is summed from its first row on, and every partial sum is kept: high, the rounded sum, and, if the
definition asks for it, low, the rounding error so far. The sum of a window is the difference of two of these plus the
totals of the lanes in between, which are summed with all rounding errors.

    block before                           this block
    lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |
                   ( ------------------- window ----------------- ]
                  lower                                         upper

Four lanes grow side by side, because each sum waits for its last addition; rounding errors and answers are computed
afterwards, without waiting: both loops run over several rows at once. A mean takes 7 additions per row to sum, of which
2 wait for those of the previous row, and 14 and a division to answer, four rows at a time; combining states takes 27,
one at a time.

Nothing is subtracted that was added before the previous block. Still a difference loses digits if what leaves a window
is larger than what stays, or if the centre of the terms is far from the values. So the error of each sum is bounded on
the way: a lane loses at most one rounding per row, of its largest partial sum. `lost` of a definition tells whether
that could show. Then another centre is tried, and after that the block is run by combining. The next attempt waits for
twice as many blocks each time, so that hopeless values cost little more than without attempts.

Rejected: one lane per block, whose additions wait for each other: half as long again. Running sums that add and
subtract each row: as many additions as here, all of which wait, and they drift. Plain sums of floats inside a lane:
half the time, but then [1e16, 1.0, -1e16] has the sum 0. For variances that is what is done: squares around a number
near the mean do not cancel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.aggregators.blocks import slide_blocks
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    add_terms,
    centre,
    combine,
    emit,
    emit_sums,
    index,
    kernel,
    lift,
    lost_digits,
    low_count,
    no_terms,
    put_low,
    put_terms,
    scale_terms,
    take_low,
    take_terms,
    term_count,
    term_rounding,
    term_sizes,
    terms,
    window_sums,
)
from muntin.types import Array

LANE = 256
"""The rows of a lane. Shorter loops take longer to start than to run; longer sums lose more."""
GROUP = 4 * LANE
"""The rows of four lanes that grow side by side."""
SIZE = 0x7FFF_FFFF_FFFF_FFFF
"""The bits of a float without its sign: as integers they order by absolute value, NaN above all."""
WORTH_IT = 1 << 17
"""The least rows for which it is chosen: it takes three seconds more to compile, once per machine."""
MOST_BLOCKS = 64
"""The most blocks between two attempts."""


def block_length(width: int) -> int:
    """Return the rows of a block for windows of `width` rows.

    >>> block_length(16), block_length(4001)
    (1024, 4096)
    """
    return -(-width // GROUP) * GROUP


def room_for(count: int, low: int, block: int) -> Array:
    """Return room for the partial sums of `count` terms, `low` of which have low parts: two blocks, and their peaks.

    A row begins three cache lines after a page, the next one three lines later: rows a page apart would all compete for
    the same few cache sets.
    """
    return np.zeros((2 * (count + low) + count, block + 24))


@kernel
def scan_group(room: Any, columns: Columns, around: Any, row: int, at: int, high: int, low: int) -> None:
    """Sum the rows of four lanes from `row` on, each from its start, into the columns of the room from `at` on."""
    one = no_terms()
    two = no_terms()
    three = no_terms()
    four = no_terms()
    for k in range(LANE):
        one = add_terms(one, terms(columns, row + k, around))
        put_terms(room, high, at + k, one)
        two = add_terms(two, terms(columns, row + LANE + k, around))
        put_terms(room, high, at + LANE + k, two)
        three = add_terms(three, terms(columns, row + 2 * LANE + k, around))
        put_terms(room, high, at + 2 * LANE + k, three)
        four = add_terms(four, terms(columns, row + 3 * LANE + k, around))
        put_terms(room, high, at + 3 * LANE + k, four)
    if low_count() == 0:
        return
    for k in range(1, GROUP):
        more = terms(columns, row + k, around)
        put_low(
            room, low, at + k, term_rounding(take_terms(room, high, at + k - 1), take_terms(room, high, at + k), more)
        )
    one = no_terms()
    two = no_terms()
    three = no_terms()
    four = no_terms()
    for lane in range(4):
        put_low(room, low, at + lane * LANE, no_terms())
    for k in range(LANE):
        one = add_terms(one, take_low(room, low, at + k))
        put_low(room, low, at + k, one)
        two = add_terms(two, take_low(room, low, at + LANE + k))
        put_low(room, low, at + LANE + k, two)
        three = add_terms(three, take_low(room, low, at + 2 * LANE + k))
        put_low(room, low, at + 2 * LANE + k, three)
        four = add_terms(four, take_low(room, low, at + 3 * LANE + k))
        put_low(room, low, at + 3 * LANE + k, four)


@kernel
def note_peak(bits: Ints, row: int, at: int, peaks: int, lane: int) -> None:
    """Record the largest absolute value of a lane in a row of the room."""
    peak = 0
    for k in range(LANE):
        peak = max(peak, bits[index(row), index(at + k)] & SIZE)
    bits[index(peaks), index(lane)] = peak


@kernel
def scan_block(room: Any, bits: Ints, columns: Columns, around: Any, row: int, block: int, half: int) -> None:
    """Sum the rows of a block, lane by lane, into one half of the room, and record the error bounds."""
    count = term_count()
    high = half * (count + low_count())
    low = high + count
    for at in range(0, block, GROUP):
        scan_group(room, columns, around, row + at, at, high, low)
    peaks = 2 * (count + low_count())
    for term in range(count):
        # Terms with low parts come first; only their low parts are rounded.
        row = low + term if term < low_count() else high + term
        for at in range(0, block, LANE):
            note_peak(bits, row, at, peaks + term, (half * block + at) // LANE)


@kernel
def answer_block(
    room: Any, around: Any, width: int, block: int, half: int, begin: int, row: int, outputs: Outputs
) -> int:
    """Answer the windows that end with the rows of a block from `begin` on; return how many may have lost digits.

    `row` is the output row of the first row of the block.
    """
    count = term_count()
    rows = count + low_count()
    n = float(width)
    lost = 0
    limits = no_terms()  # each lane is off by one rounding per row, of its peak, as a total and once more as a part
    high = no_terms()
    low = no_terms()
    upper = block + begin
    lower = upper - width
    lane = lower - lower % LANE  # `high` and `low` hold the totals of the lanes from here to that of `upper`
    while lane <= upper:
        peaks = take_terms(room, 2 * rows, ((half if lane >= block else 1 - half) * block + lane % block) // LANE)
        limits = add_terms(limits, scale_terms(peaks, LANE * 2.0**-52))
        if lane + LANE > upper:
            break
        at = (half if lane >= block else 1 - half) * rows
        column = lane % block + LANE - 1
        more = take_terms(room, at, column)
        grown = add_terms(high, more)
        rounding = add_terms(term_rounding(high, grown, more), take_low(room, at + count, column))
        limits = add_terms(limits, scale_terms(term_sizes(rounding), 2.0**-50))
        low = add_terms(low, rounding)
        high = grown
        lane += LANE
    while upper < 2 * block:
        stop = upper + min(LANE - upper % LANE, LANE - lower % LANE)
        upper_row = half * rows
        lower_row = (half if lower >= block else 1 - half) * rows
        i = upper - block
        j = lower % block
        first = row + i
        for k in range(stop - upper):
            sums, rests = window_sums(room, upper_row, i + k, lower_row, j + k, high, low)
            lost += 1 if lost_digits(n, sums, rests, limits) else 0
            emit_sums(outputs, first + k, n, around, sums)
        lower += stop - upper
        upper = stop
        if upper % LANE == 0 and upper < 2 * block:
            peaks = take_terms(room, 2 * rows, (half * block + upper - block) // LANE)
            limits = add_terms(limits, scale_terms(peaks, LANE * 2.0**-52))
        for leaving in range(2):
            end = lower if leaving == 1 else upper
            if end % LANE == 0:
                at = (half if end > block else 1 - half) * rows
                column = (end - 1) % block
                more = scale_terms(take_terms(room, at, column), 1.0 - 2.0 * leaving)
                rest = scale_terms(take_low(room, at + count, column), 1.0 - 2.0 * leaving)
                grown = add_terms(high, more)
                rounding = add_terms(term_rounding(high, grown, more), rest)
                limits = add_terms(limits, scale_terms(term_sizes(rounding), 2.0**-50))
                low = add_terms(low, rounding)
                high = grown
    return lost


@kernel
def slide_sums(
    slots: Slots,
    room: Any,
    bits: Ints,
    columns: Columns,
    times: Ints,
    width: int,
    block: int,
    start: int,
    stop: int,
    shift: int,
    outputs: Outputs,
) -> None:
    """Run the windows of `width` rows that end with the rows [start, stop), one per row; start >= width, or shift.

    `bits` is the room as integers. The window that ends with row i is row i - shift of the output. The rows after the
    last whole block are run by combining.
    """
    if start < width:  # the windows that begin with row 0
        state = lift(columns, times, 0)
        if shift == 0:
            emit(outputs, 0, state)
        for row in range(1, min(width, stop)):
            state = combine(state, lift(columns, times, row))
            if row >= shift:
                emit(outputs, row - shift, state)
        start = min(width, stop)
    at = start - width
    begin = width  # the first block has only windows that begin in it
    half = 0
    before = 0  # earlier blocks that must be summed first
    pause = 0
    wait = 0
    around = centre(columns, max(at, 0), min(at + 2 * block, stop) - 1)
    while at + begin < stop:
        lost = 1
        tries = 2 if wait == 0 and at + block <= stop else 0
        while lost > 0 and tries > 0:
            for back in range(before, -1, -1):
                scan_block(room, bits, columns, around, at - back * block, block, (half + back) & 1)
            lost = answer_block(room, around, width, block, half, begin, at - shift, outputs)
            tries -= 1
            before = 0 if begin > 0 else 1
            if lost > 0 and tries > 0:
                around = centre(columns, at - before * block, at + block - 1)
        if lost > 0:
            slide_blocks(slots, columns, times, width, at + begin, min(at + block, stop), shift, outputs)
            pause = min(2 * pause + 1, MOST_BLOCKS) if wait == 0 else pause
            wait = pause if wait == 0 else wait - 1
            before = 1
        else:
            pause = 0
            before = 0
        begin = 0
        half = 1 - half
        at += block


KERNELS = (scan_group, note_peak, scan_block, answer_block, slide_blocks, slide_sums)
