"""Windows of one length over an array as differences of sums, for states that follow from sums over rows.

The rows are cut into blocks at least as long as a window, so that it lies in two of them, and blocks into lanes of 256
rows. A lane is summed from its first row on, and every partial sum is kept. The sum of a window is the difference of
two of these plus the totals of the lanes in between, which are summed with all rounding errors.

    block before                           this block
    lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |
                   ( ------------------- window ----------------- ]
                  lower                                         upper

If the definition asks for it, a term has two partial sums: high, of the term rounded to a step of 2^-42 of the largest
one or so, and low, of what is left. Additions of such multiples are exact as long as the sum has 53 bits, and low sums
are too small for their rounding errors to show. To round, a term is added to a number that is 2^10 times as large as
the largest (`coarse`), which is then subtracted again: what is exact of these sums does not depend on which number.

Four lanes grow side by side, because each sum waits for its last addition; answers are computed afterwards, without
waiting, over several rows at once. A mean takes 5 additions per row to sum, of which 2 wait for those of the previous
row, and 10 and a division to answer; combining states takes 27, one at a time.

Nothing is subtracted that was added before the previous block. Still a difference loses digits if what leaves a window
is larger than what stays, or if the centre of the terms is far from the values. So the error of each sum is bounded on
the way: a lane loses at most one rounding per row, of its largest partial sum. `lost` of a definition tells whether
that could show. Then another centre and another `coarse` are tried, and after that the block is run by combining. The
next attempt waits for twice as many blocks each time, so that hopeless values cost little more than without attempts.

Rejected: one lane per block, whose additions wait for each other: half as long again. Running sums that add and
subtract each row: as many additions as here, all of which wait, and they drift. Plain sums of floats inside a lane:
half the time, but then [1e16, 1.0, -1e16] has the sum 0. For variances that is what is done: squares around a number
near the mean do not cancel. The rounding error of every addition in a lane (Knuth's 6 additions, in a loop of their
own): a fifth more time. Sums of fixed-point numbers in two int64, which need no lanes, since they are exact even if
they wrap around: as fast, but every block needs to know the largest value of all beforehand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin import memory
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
    larger_terms,
    lift,
    lost_digits,
    low_count,
    no_terms,
    outgrown,
    put_low,
    put_terms,
    round_terms,
    scale_terms,
    subtract_terms,
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
    rows = 2 * (count + low) + count
    return memory.room(rows * (block + 24), np.dtype("f8")).reshape(rows, block + 24)


@kernel
def coarse_for(columns: Columns, around: Any, first: int, last: int) -> Any:
    """Return the numbers to which terms are added to be rounded.

    High sums are exact up to a quarter of them, so those of a lane are, until later terms are larger.
    """
    largest = no_terms()
    for row in range(first, last + 1):
        largest = larger_terms(largest, term_sizes(terms(columns, row, around)))
    return scale_terms(largest, 4.0 * LANE)


@kernel
def scan_plain(room: Any, columns: Columns, around: Any, row: int, at: int, high: int) -> None:
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


@kernel
def grow(
    room: Any, columns: Columns, around: Any, coarse: Any, row: int, at: int, high: int, low: int, sums: Any, rests: Any
) -> tuple[Any, Any]:
    """Add the terms of a row to the high and the low sums of its lane."""
    more = terms(columns, row, around)
    rounded = round_terms(more, coarse)
    sums = add_terms(sums, rounded)
    rests = add_terms(rests, subtract_terms(more, rounded))
    put_terms(room, high, at, sums)
    put_low(room, low, at, rests)
    return sums, rests


@kernel
def scan_group(room: Any, columns: Columns, around: Any, coarse: Any, row: int, at: int, high: int, low: int) -> None:
    """Sum the rows of four lanes from `row` on, each from its start, into the columns of the room from `at` on."""
    if low_count() == 0:
        scan_plain(room, columns, around, row, at, high)
        return
    one = no_terms()
    two = no_terms()
    three = no_terms()
    four = no_terms()
    low_one = no_terms()
    low_two = no_terms()
    low_three = no_terms()
    low_four = no_terms()
    for k in range(LANE):
        i = row + k
        j = at + k
        one, low_one = grow(room, columns, around, coarse, i, j, high, low, one, low_one)
        i += LANE
        j += LANE
        two, low_two = grow(room, columns, around, coarse, i, j, high, low, two, low_two)
        i += LANE
        j += LANE
        three, low_three = grow(room, columns, around, coarse, i, j, high, low, three, low_three)
        i += LANE
        j += LANE
        four, low_four = grow(room, columns, around, coarse, i, j, high, low, four, low_four)


@kernel
def note_peak(bits: Ints, row: int, at: int, peaks: int, lane: int) -> None:
    """Record the largest absolute value of a lane in a row of the room."""
    peak = 0
    for k in range(LANE):
        peak = max(peak, bits[index(row), index(at + k)] & SIZE)
    bits[index(peaks), index(lane)] = peak


@kernel
def scan_block(
    room: Any, bits: Ints, columns: Columns, around: Any, coarse: Any, row: int, block: int, half: int
) -> int:
    """Sum the rows of a block into one half of the room, and record the peaks; return how many lanes are not exact."""
    count = term_count()
    high = half * (count + low_count())
    low = high + count
    peaks = 2 * (count + low_count())
    inexact = 0
    for group in range(0, block, GROUP):
        scan_group(room, columns, around, coarse, row + group, group, high, low)
        for at in range(group, group + GROUP, LANE):
            lane = (half * block + at) // LANE
            for term in range(count):
                note_peak(bits, high + term, at, peaks + term, lane)
            inexact += 1 if outgrown(take_terms(room, peaks, lane), coarse) else 0
            for term in range(low_count()):  # these come first; only their low parts are rounded
                note_peak(bits, low + term, at, peaks + term, lane)
    return inexact


@kernel
def add_lane(room: Any, at: int, column: int, sign: float, high: Any, low: Any, limits: Any) -> tuple[Any, Any, Any]:
    """Add the total of the lane that ends in a column, or its negative, with all rounding errors, and bound them."""
    more = scale_terms(take_terms(room, at, column), sign)
    rest = scale_terms(take_low(room, at + term_count(), column), sign)
    grown = add_terms(high, more)
    rounding = add_terms(term_rounding(high, grown, more), rest)
    return grown, add_terms(low, rounding), add_terms(limits, scale_terms(term_sizes(rounding), 2.0**-50))


@kernel
def add_limit(room: Any, lane: int, limits: Any) -> Any:
    """Add what a lane may be off: one rounding per row, of its peak."""
    peaks = take_terms(room, 2 * (term_count() + low_count()), lane)
    return add_terms(limits, scale_terms(peaks, LANE * 2.0**-53))


@kernel
def answer_block(
    room: Any, around: Any, width: int, block: int, half: int, begin: int, row: int, outputs: Outputs
) -> int:
    """Answer the windows that end with the rows of a block from `begin` on; return how many may have lost digits.

    `row` is the output row of the first row of the block.
    """
    rows = term_count() + low_count()
    n = float(width)
    lost = 0
    limits = no_terms()
    high = no_terms()
    low = no_terms()
    upper = block + begin
    lower = upper - width
    lane = lower - lower % LANE  # `high` and `low` hold the totals of the lanes from here to that of `upper`
    while lane <= upper:
        here = half if lane >= block else 1 - half
        limits = add_limit(room, (here * block + lane % block) // LANE, limits)
        if lane + LANE > upper:
            break
        high, low, limits = add_lane(room, here * rows, lane % block + LANE - 1, 1.0, high, low, limits)
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
            limits = add_limit(room, (half * block + upper - block) // LANE, limits)
        for leaving in range(2):
            end = lower if leaving == 1 else upper
            if end % LANE == 0:
                at = (half if end > block else 1 - half) * rows
                sign = 1.0 - 2.0 * leaving
                high, low, limits = add_lane(room, at, (end - 1) % block, sign, high, low, limits)
    return lost


@kernel
def combine_prefixes(columns: Columns, times: Ints, stop: int, shift: int, outputs: Outputs) -> None:
    """Combine the windows that begin with row 0 and end before `stop`."""
    state = lift(columns, times, 0)
    if shift == 0:
        emit(outputs, 0, state)
    for row in range(1, stop):
        state = combine(state, lift(columns, times, row))
        if row >= shift:
            emit(outputs, row - shift, state)


@kernel
def answer_prefixes(room: Any, bits: Ints, columns: Columns, block: int, stop: int, outputs: Outputs) -> int:
    """Answer the windows that begin with row 0 and end after the first lane; return how many may have lost digits."""
    rows = term_count() + low_count()
    around = centre(columns, 0, block - 1)
    lost = scan_block(room, bits, columns, around, coarse_for(columns, around, 0, block - 1), 0, block, 0)
    if lost > 0:
        return lost
    for k in range(LANE):  # nothing leaves
        put_terms(room, rows, k, no_terms())
        put_low(room, rows + term_count(), k, no_terms())
    high, low, limits = add_lane(room, 0, LANE - 1, 1.0, no_terms(), no_terms(), add_limit(room, 0, no_terms()))
    for lane in range(LANE, stop, LANE):
        limits = add_limit(room, lane // LANE, limits)
        for k in range(min(LANE, stop - lane)):
            n = float(lane + k + 1)
            sums, rests = window_sums(room, 0, lane + k, rows, k, high, low)
            lost += 1 if lost_digits(n, sums, rests, limits) else 0
            emit_sums(outputs, lane + k, n, around, sums)
        high, low, limits = add_lane(room, 0, lane + LANE - 1, 1.0, high, low, limits)
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

    `bits` is the room as integers. The window that ends with row i is row i - shift of the output. Fewer rows
    than two blocks are run by combining, but for the first block.
    """
    if start < width:  # the windows that begin with row 0; over few rows, sums lose digits
        summed = shift == 0 and width > LANE and block <= stop
        combine_prefixes(columns, times, LANE if summed else min(width, stop), shift, outputs)
        if summed and answer_prefixes(room, bits, columns, block, width, outputs) > 0:
            combine_prefixes(columns, times, width, shift, outputs)
        start = min(width, stop)
    at = start - width
    begin = width  # the first block has only windows that begin in it
    half = 0
    earlier = 0  # 1 if windows reach back into the block before
    before = 0  # earlier blocks that must be summed first
    pause = 0
    wait = 0
    around = centre(columns, max(at, 0), min(at + 2 * block, stop) - 1)
    coarse = coarse_for(columns, around, max(at, 0), min(at + 2 * block, stop) - 1)
    while at + begin < stop:
        if at + block > stop and stop >= 2 * block:  # the last block: moved back, so that it is whole
            begin += at + block - stop
            at = stop - block
            earlier = 1
            before = 1
        lost = 1
        tries = 2 if wait == 0 and at + block <= stop else 0
        while lost > 0 and tries > 0:
            lost = 0
            for back in range(before, -1, -1):
                lost += scan_block(room, bits, columns, around, coarse, at - back * block, block, (half + back) & 1)
            if lost == 0:
                lost = answer_block(room, around, width, block, half, begin, at - shift, outputs)
            tries -= 1
            before = earlier
            if lost > 0 and tries > 0:
                around = centre(columns, at - before * block, at + block - 1)
                coarse = coarse_for(columns, around, at - before * block, at + block - 1)
        if lost > 0:
            slide_blocks(slots, columns, times, width, at + begin, min(at + block, stop), shift, outputs)
            pause = min(2 * pause + 1, MOST_BLOCKS) if wait == 0 else pause
            wait = pause if wait == 0 else wait - 1
            before = 1
        else:
            pause = 0
            before = 0
        begin = 0
        earlier = 1
        half = 1 - half
        at += block


KERNELS = (
    coarse_for,
    scan_plain,
    grow,
    scan_group,
    note_peak,
    scan_block,
    add_lane,
    add_limit,
    answer_block,
    combine_prefixes,
    answer_prefixes,
    slide_blocks,
    slide_sums,
)
