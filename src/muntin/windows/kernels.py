"""Kernels that find the windows of sorted rows, key by key: the rows of each, its start and its end.

The rows of key k are [ends[k - 1], ends[k]), in the order of their times. Each kernel is called twice: with empty
arrays it counts the windows, with arrays of that length it writes them. Windows ascend, contiguous per key, so that
they can be aggregated in one pass.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel


@kernel
def count_disorder(times: Ints) -> tuple[int, int]:
    """Return how many times are less than the previous one, and how many are equal to it."""
    descents = 0
    ties = 0
    for row in range(1, len(times)):
        descents += times[index(row)] < times[index(row - 1)]
        ties += times[index(row)] == times[index(row - 1)]
    return descents, ties


@kernel
def span_facts(first: Ints, last: Ints) -> tuple[int, int, int]:
    """Return the rows of the shortest and the longest window [first, last), and the most windows that share a row.

    Both bounds ascend. Windows share a row if the last of them begins before the first one ends. Searches only for runs
    of such windows longer than the longest so far: finding the run of each took six times as long, in unpredictable
    branches.
    """
    shortest = last[0] - first[0]
    longest = shortest
    overlap = 0
    count = len(first)
    for i in range(count):
        length = last[index(i)] - first[index(i)]
        shortest = min(shortest, length)
        longest = max(longest, length)
        while i + overlap < count and first[index(i + overlap)] < last[index(i)]:
            overlap += 1
    return shortest, longest, overlap


@kernel
def row_from(times: Ints, offset: int, row: int, end: int, bound: int) -> int:
    """Return the first of the rows [row, end) whose time less `offset` is at least `bound`, or `end`.

    O(log d) for one that is d rows away: by doubling steps, then bisection.
    """
    low = row
    step = 1
    while row < end and times[row] - offset < bound:
        low = row + 1
        row += step
        step *= 2
    high = min(row, end)
    while low < high:
        middle = (low + high) // 2
        if times[middle] - offset < bound:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def hopping_windows(
    times: Ints, ends: Ints, length: int, every: int, offset: int, first: Ints, last: Ints, start: Ints
) -> int:
    """Find the windows [start, start + length) at multiples of `every` that hold a row.

    O(log r) per window with r rows from one to the next: skips rows that begin no window.
    """
    count = 0
    begin = 0
    for key in range(len(ends)):
        end = ends[key]
        after = begin  # the row after the current window
        coming = 0  # the number of the first window that holds no earlier row
        row = begin
        while row < end:
            time = times[row] - offset
            lowest = (time - length) // every + 1
            if row == begin or lowest > coming:
                coming = lowest
            while coming * every <= time:
                if len(first) > 0:
                    start[count] = coming * every + offset
                    after = row_from(times, 0 * offset, after, end, start[count] + length)
                    first[count] = row
                    last[count] = after
                count += 1
                coming += 1
            row = row_from(times, offset, row + 1, end, coming * every)
        begin = end
    return count


@kernel
def growing_windows(
    times: Ints, ends: Ints, length: int, every: int, offset: int, first: Ints, last: Ints, start: Ints, stop: Ints
) -> int:
    """Find the windows that grow by `every` from each multiple of `length`, from the first one with a row on."""
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
    """Find the runs of rows in which none comes more than `gap` after the previous one."""
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
def spanned_windows(times: Ints, gaps: Ints, ends: Ints, first: Ints, last: Ints, stop: Ints) -> int:
    """Find the runs of rows in which none comes after all before it have ended: each lasts for a gap of its own."""
    count = 0
    begin = 0
    for key in range(len(ends)):
        row = begin
        while row < ends[key]:
            reached = times[row] + gaps[row]
            after = row + 1
            while after < ends[key] and times[after] <= reached:
                reached = max(reached, times[after] + gaps[after])
                after += 1
            if len(first) > 0:
                first[count] = row
                last[count] = after
                stop[count] = reached
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

    With a `tile` the frame begins at its last multiple at or before that. `floor` is the least point to which `since`
    can be added without overflow, `ceiling` the greatest for `until`.
    """
    begin = 0
    point = 0
    for key in range(len(ends)):
        end = ends[key]
        oldest = begin
        after = begin
        while point < point_ends[key]:
            at = points[index(point)]
            if at >= floor:
                low = at + since
                if tile > 0:
                    low -= low % tile
                while oldest < end and times[index(oldest)] < low:
                    oldest += 1
            if at <= ceiling:
                high = at + until
                while after < end and times[index(after)] < high:
                    after += 1
            else:
                after = end
            first[index(point)] = oldest
            last[index(point)] = max(oldest, after)
            point += 1
        begin = end


@kernel
def counted_windows(ends: Ints, length: int, every: int, partial: bool, first: Ints, last: Ints) -> int:
    """Find the windows of `length` rows, one every `every` rows of a key; with `partial` also those not full."""
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
    """Find the last `length` rows before each multiple of `every`, if a row has come since the previous multiple."""
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
    """Find the rows after one marked row up to and including the next; the rows after the last are a window too."""
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
    spanned_windows,
    framed_windows,
    counted_windows,
    windows_of_last_rows,
    marked_windows,
)
