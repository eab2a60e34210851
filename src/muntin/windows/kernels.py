"""Kernels that find the windows of sorted rows, key by key: which rows each covers, and where it begins and ends.

The rows of key k are [ends[k - 1], ends[k]), in the order of their times. Each kernel is called twice: with empty
arrays it counts the windows, with arrays of that length it writes them. Windows come in ascending order, those of a key
together, so that they can be aggregated in one pass.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel


@kernel
def count_disorder(times: Ints) -> tuple[int, int]:
    """Return how many times are before the one above them, and how many are equal to it."""
    descents = 0
    ties = 0
    for row in range(1, len(times)):
        descents += times[index(row)] < times[index(row - 1)]
        ties += times[index(row)] == times[index(row - 1)]
    return descents, ties


@kernel
def hopping_windows(
    times: Ints, ends: Ints, length: int, every: int, offset: int, first: Ints, last: Ints, start: Ints
) -> int:
    """Find the windows [start, start + length) at the multiples of `every` that hold a row."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        end = ends[key]
        after = begin  # the row after the window at hand
        coming = 0  # the number of the first window that no row before this one was in
        for row in range(begin, end):
            time = times[row] - offset
            lowest = (time - length) // every + 1
            if row == begin or lowest > coming:
                coming = lowest
            while coming * every <= time:
                if len(first) > 0:
                    start[count] = coming * every + offset
                    while after < end and times[after] < start[count] + length:
                        after += 1
                    first[count] = row
                    last[count] = after
                count += 1
                coming += 1
        begin = end
    return count


@kernel
def growing_windows(
    times: Ints, ends: Ints, length: int, every: int, offset: int, first: Ints, last: Ints, start: Ints, stop: Ints
) -> int:
    """Find the windows that grow by `every` from each multiple of `length` on, from the first that holds a row on."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        end = ends[key]
        row = begin
        while row < end:
            origin = times[row] - (times[row] - offset) % length
            edge = times[row] - (times[row] - offset) % every + every
            after = row
            while edge <= origin + length:
                while after < end and times[after] < edge:
                    after += 1
                if len(first) > 0:
                    first[count] = row
                    last[count] = after
                    start[count] = origin
                    stop[count] = edge
                count += 1
                edge += every
            row = after
        begin = end
    return count


@kernel
def session_windows(times: Ints, ends: Ints, gap: int, first: Ints, last: Ints) -> int:
    """Find the runs of rows none of which comes more than a gap after the one before."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        row = begin
        while row < ends[key]:
            after = row + 1
            while after < ends[key] and times[after] <= times[after - 1] + gap:
                after += 1
            if len(first) > 0:
                first[count] = row
                last[count] = after
            count += 1
            row = after
        begin = ends[key]
    return count


@kernel
def framed_windows(
    times: Ints,
    ends: Ints,
    points: Ints,
    point_ends: Ints,
    since: int,
    until: int,
    tile: int,
    floor: int,
    ceiling: int,
    first: Ints,
    last: Ints,
) -> None:
    """Find for each point the rows of its key whose time is in [point + since, point + until).

    With a tile the frame begins at the last multiple of it at or before that. `floor` is the least point from which
    `since` can be taken, `ceiling` the greatest to which `until` can be added.
    """
    begin = 0
    point = 0
    for key in range(len(ends)):
        end = ends[key]
        oldest = begin
        after = begin
        while point < point_ends[key]:
            if points[point] >= floor:
                low = points[point] + since
                if tile > 0:
                    low -= low % tile
                while oldest < end and times[oldest] < low:
                    oldest += 1
            if points[point] <= ceiling:
                high = points[point] + until
                while after < end and times[after] < high:
                    after += 1
            else:
                after = end
            first[point] = oldest
            last[point] = max(oldest, after)
            point += 1
        begin = end


@kernel
def counted_windows(ends: Ints, length: int, every: int, partial: bool, first: Ints, last: Ints) -> int:
    """Find the windows of `length` rows, one at every `every`-th row of a key; with `partial` also those not full."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        row = begin
        while row + length <= ends[key] or (partial and row < ends[key]):
            if len(first) > 0:
                first[count] = row
                last[count] = min(row + length, ends[key])
            count += 1
            row += every
        begin = ends[key]
    return count


@kernel
def windows_of_last_rows(times: Ints, ends: Ints, length: int, every: int, offset: int, first: Ints, last: Ints) -> int:
    """Find the last `length` rows before each multiple of `every` before which a row has come since the last one."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        for row in range(begin, ends[key]):
            edge = times[row] - (times[row] - offset) % every + every
            if row + 1 == ends[key] or times[row + 1] >= edge:
                if len(first) > 0:
                    first[count] = max(begin, row + 1 - length)
                    last[count] = row + 1
                count += 1
        begin = ends[key]
    return count


@kernel
def marked_windows(marks: Ints, ends: Ints, first: Ints, last: Ints) -> int:
    """Find the rows after one marked row up to the next, and with it; what comes after the last is a window too."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        oldest = begin
        for row in range(begin, ends[key]):
            if marks[row] != 0 or row + 1 == ends[key]:
                if len(first) > 0:
                    first[count] = oldest
                    last[count] = row + 1
                count += 1
                oldest = row + 1
        begin = ends[key]
    return count


FINDING = (
    hopping_windows,
    growing_windows,
    session_windows,
    framed_windows,
    counted_windows,
    windows_of_last_rows,
    marked_windows,
)
