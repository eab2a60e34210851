"""Windows of one length over an array as differences of sums, where a state follows from sums over its rows.

The rows are cut into blocks at least as long as a window, so that it lies in two of them, and blocks into lanes of 256
rows. A lane is summed from its first row on, and every partial sum is kept. The sum of a window is the difference of
two of these and the totals of the lanes between.

    block before                           this block
    lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |  lane   |
                   ( ------------------- window ----------------- ]
                  lower                                         upper

Where the definition asks for that, sums have two parts. A number is cut in two at a grid, the last place of a much
larger number: high, a multiple of the grid, so that sums and differences of high parts are exact, however they cancel;
and low, what is left, whose sums are so small that their roundings do not show. The grid is as fine as the largest term
of two blocks allows. Four lanes grow side by side, because each sum waits for its last addition; answers wait for
nothing, and are found several at once. A mean takes 5 additions a row to sum, of which 2 wait for those of the row
before, and 5 and a division to answer; combining states takes 27, one at a time.

Nothing is subtracted that was added before the block before this one. Still a difference loses digits if what leaves a
window is larger than what stays, or if the number that the terms are centred by is far from the values. So the error of
each sum is bounded on the way: a lane loses at most a rounding a row, of its largest partial sum. `lost` of a
definition says whether that could show. Then another centre is tried, and after that the block is run by combining. The
next attempt waits for twice as many blocks each time, so that hopeless values cost little more than without attempts.

Rejected: one lane for each block, whose additions wait for each other: half as long again. Running sums that add and
subtract each row: all additions wait, and they drift. Low parts found afterwards as what was rounded off each addition:
they are smaller, but 7 additions a row to sum and 14 to answer took 1.45 times as long. Sums of floats without low
parts: then [1e16, 1.0, -1e16] has the sum 0. For variances that is what is done: squares around a number near the mean
do not cancel.
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
    inlined,
    kernel,
    lift,
    lost_digits,
    low_count,
    no_terms,
    off_grid,
    on_grid,
    put_low,
    put_terms,
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
"""The rows of a lane. Loops that are shorter take longer to begin than to run; longer sums lose more."""
GROUP = 4 * LANE
"""The rows of four lanes that grow side by side."""
SIZE = 0x7FFF_FFFF_FFFF_FFFF
"""The bits of a float but for its sign: as integers they are in the order of the sizes, NaN above all."""
GRID = 2
"""Where the number that makes a grid stands in the rows of peaks, behind these; at 0 and 1 are the largest terms of
the two halves."""
SPARE = 4
"""By how many bits a grid may be too coarse."""
FEW = 11
"""The power of two of the largest terms that sums are allowed first. Sums of many rows that cancel are as small."""
WORTH_IT = 1 << 17
"""The rows from which on it is chosen: it takes three seconds more to compile, once a machine."""
MOST_BLOCKS = 64
"""The blocks between two attempts, at most."""


def block_length(width: int) -> int:
    """Return the rows of a block for windows of `width` rows.

    >>> block_length(16), block_length(4001)
    (1024, 4096)
    """
    return -(-width // GROUP) * GROUP


def room_for(count: int, low: int, block: int) -> Array:
    """Return room for the partial sums of `count` terms, `low` of which have low parts: two blocks, and their peaks.

    A row begins three cache lines after a page, the next one three lines later: rows a page apart would all have to fit
    into the same few places of the cache.
    """
    return np.zeros((2 * (count + low) + count, block + 24))


@kernel
def largest(bits: Ints, row: int, start: int, stop: int) -> int:
    """Return the largest size, as an integer, of the numbers [start, stop) of a row of the room."""
    peak = 0
    for k in range(start, stop):
        peak = max(peak, bits[index(row), index(k)] & SIZE)
    return peak


@kernel
def note_terms(
    room: Any, bits: Ints, columns: Columns, around: Any, row: int, at: int, high: int, block: int, half: int
) -> None:
    """Note the largest terms of four lanes, of those with low parts: written where their sums will be, to read bits."""
    for k in range(GROUP):
        put_low(room, high, at + k, terms(columns, row + k, around))
    peaks = 2 * (term_count() + low_count())
    for term in range(low_count()):
        most = largest(bits, high + term, at, at + GROUP)
        if at > 0:
            most = max(most, bits[index(peaks + term), index(block + half)])
        bits[index(peaks + term), index(block + half)] = most


@kernel
def fit_grid(bits: Ints, block: int, power: int) -> bool:
    """Choose grids on which 2**power of the largest terms can be summed; return whether one has changed.

    A grid is the last place of 1.5 * 2**k: what is added to that, and then subtracted, is rounded to it. Where terms
    are too large, or not finite, it is NaN, and so are all sums.
    """
    rows = term_count() + low_count()
    changed = False
    for term in range(low_count()):
        row = 2 * rows + term
        most = max(bits[index(row), index(block)], bits[index(row), index(block + 1)])
        needed = min((most >> 52) + 1 + power, 2047)
        held = bits[index(row), index(block + GRID)] >> 52
        if held < needed or held > needed + SPARE:
            bits[index(row), index(block + GRID)] = (needed << 52) | (1 << 51)
            changed = True
    return changed


@kernel
def scan_group(room: Any, columns: Columns, around: Any, grid: Any, row: int, at: int, high: int, low: int) -> None:
    """Sum the rows of four lanes from `row` on, each from its begin, into the columns of the room from `at` on."""
    one = no_terms()
    two = no_terms()
    three = no_terms()
    four = no_terms()
    if low_count() == 0:
        for k in range(LANE):
            one = add_terms(one, terms(columns, row + k, around))
            put_terms(room, high, at + k, one)
            two = add_terms(two, terms(columns, row + LANE + k, around))
            put_terms(room, high, at + LANE + k, two)
            three = add_terms(three, terms(columns, row + 2 * LANE + k, around))
            put_terms(room, high, at + 2 * LANE + k, three)
            four = add_terms(four, terms(columns, row + 3 * LANE + k, around))
            put_terms(room, high, at + 3 * LANE + k, four)
        return
    one_low = no_terms()
    two_low = no_terms()
    three_low = no_terms()
    four_low = no_terms()
    for k in range(LANE):
        one, one_low = sum_cut(one, one_low, terms(columns, row + k, around), grid)
        put_terms(room, high, at + k, one)
        put_low(room, low, at + k, one_low)
        two, two_low = sum_cut(two, two_low, terms(columns, row + LANE + k, around), grid)
        put_terms(room, high, at + LANE + k, two)
        put_low(room, low, at + LANE + k, two_low)
        three, three_low = sum_cut(three, three_low, terms(columns, row + 2 * LANE + k, around), grid)
        put_terms(room, high, at + 2 * LANE + k, three)
        put_low(room, low, at + 2 * LANE + k, three_low)
        four, four_low = sum_cut(four, four_low, terms(columns, row + 3 * LANE + k, around), grid)
        put_terms(room, high, at + 3 * LANE + k, four)
        put_low(room, low, at + 3 * LANE + k, four_low)


@inlined
def sum_cut(sums: Any, rests: Any, more: Any, grid: Any) -> Any:
    """Add terms, cut in two at the grid, to sums and to their low parts."""
    part = on_grid(more, grid)
    return add_terms(sums, part), add_terms(rests, subtract_terms(more, part))


@kernel
def scan_block(room: Any, bits: Ints, columns: Columns, around: Any, row: int, block: int, half: int) -> None:
    """Sum the rows of a block, lane by lane, into one half of the room, and note what bounds the errors."""
    count = term_count()
    high = half * (count + low_count())
    low = high + count
    peaks = 2 * (count + low_count())
    grid = take_terms(room, peaks, block + GRID)
    for at in range(0, block, GROUP):
        if low_count() > 0:
            note_terms(room, bits, columns, around, row + at, at, high, block, half)
        scan_group(room, columns, around, grid, row + at, at, high, low)
        for term in range(count):
            # Terms with low parts come first; of these only the low parts are rounded.
            rounded = low + term if term < low_count() else high + term
            for lane in range(at, at + GROUP, LANE):
                peak = largest(bits, rounded, lane, lane + LANE)
                bits[index(peaks + term), index((half * block + lane) // LANE)] = peak


@kernel
def sum_blocks(
    room: Any,
    bits: Ints,
    columns: Columns,
    around: Any,
    at: int,
    block: int,
    half: int,
    before: int,
    most: int,
    power: int,
) -> None:
    """Sum the block from row `at` on, and `before` blocks before it; `most` of these, where the grid must change."""
    for back in range(before, -1, -1):
        scan_block(room, bits, columns, around, at - back * block, block, (half + back) & 1)
    if fit_grid(bits, block, power):
        for back in range(most, -1, -1):
            scan_block(room, bits, columns, around, at - back * block, block, (half + back) & 1)


@kernel
def add_lane(room: Any, row: int, column: int, sign: float, high: Any, low: Any, limits: Any) -> Any:
    """Add the total of a lane, in a column of the room, to the sums of others, or take it out with the sign -1.

    Return the sums, what was rounded off them, and by how much that may be wrong.
    """
    more = scale_terms(take_terms(room, row, column), sign)
    grown = add_terms(high, more)
    rest = scale_terms(take_low(room, row + term_count(), column), sign)
    low = add_terms(low, add_terms(term_rounding(high, grown, more), rest))
    return grown, low, add_terms(limits, scale_terms(term_sizes(low), 2.0**-52))


@kernel
def answer_block(
    room: Any, around: Any, width: int, block: int, half: int, begin: int, row: int, guarded: bool, outputs: Outputs
) -> int:
    """Answer the windows that end with the rows of a block from `begin` on; return how many may have lost digits.

    `row` is that of the output for the first row of the block. `guarded` says that sums may become too large for the
    grid; -1 is returned where they have.
    """
    rows = term_count() + low_count()
    grid = take_terms(room, 2 * rows, block + GRID)
    n = float(width)
    lost = 0
    limits = no_terms()  # each lane is off by a rounding a row, of its peak, as a total and once more as a part
    high = no_terms()
    low = no_terms()
    upper = block + begin
    lower = upper - width
    lane = lower - lower % LANE  # the totals of the lanes from here to the one of `upper` are in `high` and `low`
    while lane <= upper:
        peaks = take_terms(room, 2 * rows, ((half if lane >= block else 1 - half) * block + lane % block) // LANE)
        limits = add_terms(limits, scale_terms(peaks, LANE * 2.0**-52))
        if lane + LANE > upper:
            break
        at = (half if lane >= block else 1 - half) * rows
        high, low, limits = add_lane(room, at, lane % block + LANE - 1, 1.0, high, low, limits)
        if guarded and off_grid(high, grid):
            return -1
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
                high, low, limits = add_lane(room, at, (end - 1) % block, 1.0 - 2.0 * leaving, high, low, limits)
        if guarded and off_grid(high, grid):
            return -1
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
    """Run the windows of `width` rows that end with the rows [start, stop), one for each row; start >= width, or shift.

    `bits` is the room as integers. The window that ends with row i is row i - shift of the output. The rows behind the
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
    begin = width  # in the first block there are only windows that begin in it
    half = 0
    before = 0  # the blocks before this one that must be summed first
    pause = 0
    wait = 0
    most = 1  # the power of two of the rows that a sum may hold
    while (1 << most) < 2 * block:
        most += 1
    power = min(most, FEW)
    around = centre(columns, max(at, 0), min(at + 2 * block, stop) - 1)
    while at + begin < stop:
        lost = 1
        tries = 2 if wait == 0 and at + block <= stop else 0
        while lost > 0 and tries > 0:
            sum_blocks(room, bits, columns, around, at, block, half, before, 1 if begin == 0 else 0, power)
            lost = answer_block(room, around, width, block, half, begin, at - shift, power < most, outputs)
            before = 0 if begin > 0 else 1
            if lost < 0:  # all values are of one sign, or nearly so: on a coarser grid their sums are large, too
                power = most
                lost = 1
                continue
            tries -= 1
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


KERNELS = (
    largest,
    note_terms,
    fit_grid,
    sum_cut,
    scan_group,
    scan_block,
    sum_blocks,
    add_lane,
    answer_block,
    slide_blocks,
    slide_sums,
)
