"""Where windows between edges are among rows, and which emitted ones are near them. No kernel here sees a value."""

from __future__ import annotations

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.streams.rows.finding import first_from
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.tree import (
    FIRST,
    KEY,
    LO,
    NODE,
    NONE,
    ROOT,
    ROWS,
    Tree,
    after_time,
    as_start,
    at_of,
    at_rank,
    is_end,
    leaf_of,
    place_of,
    position,
    rank_of,
)


@kernel
def merge_spans(keys: Ints, low: Ints, high: Ints) -> int:
    """Merge spans, sorted by key and low end, that touch; return how many are left, the first ones of the arrays."""
    count = 0
    for i in range(len(keys)):
        if low[i] > high[i]:
            continue
        if count > 0 and keys[count - 1] == keys[i] and (low[i] <= high[count - 1] or low[i] - 1 == high[count - 1]):
            high[count - 1] = max(high[count - 1], high[i])
        else:
            keys[count] = keys[i]
            low[count] = low[i]
            high[count] = high[i]
            count += 1
    return count


@kernel
def has_rows(tree: Tree, key: int) -> bool:
    """Return whether a key has rows."""
    there: bool = key * KEY < len(tree.keys) and tree.keys[key * KEY + ROOT] != NONE
    return there


@kernel
def rows_before(tree: Tree, keys: Ints, at: Ints, counts: Ints) -> None:
    """Write how many rows of each key are before a time. O(log n) each."""
    for i in range(len(keys)):
        counts[i] = 0
        if has_rows(tree, keys[i]) and at[i] > BEFORE_TIME:
            counts[i] = rank_of(tree, after_time(tree, keys[i], at[i] - 1))


@kernel
def rows_within(tree: Tree, keys: Ints, start: Ints, end: Ints, first: Ints, last: Ints, counts: Ints) -> None:
    """Write between which positions the rows in [start, end) are, NONE if there are none, and how many. O(log n)."""
    for i in range(len(keys)):
        first[i] = last[i] = NONE
        counts[i] = 0
        if not has_rows(tree, keys[i]):
            continue
        front = first_from(tree, keys[i], max(start[i], BEFORE_TIME + 1))
        if not is_end(tree, front) and tree.times[place_of(tree, front)] < end[i]:
            first[i] = front
            last[i] = after_time(tree, keys[i], end[i] - 1)
            counts[i] = rank_of(tree, last[i]) - rank_of(tree, front)


@kernel
def entries_within(tree: Tree, keys: Ints, low: Ints, high: Ints, owners: Ints, places: Ints) -> int:
    """Write the places of the rows in [low, high], in order, and their keys; return how many, -1 if there is no room.

    O(log n) for each span, and O(1) for each row.
    """
    count = 0
    for i in range(len(keys)):
        if not has_rows(tree, keys[i]):
            continue
        where = first_from(tree, keys[i], max(low[i], BEFORE_TIME + 1))
        while not is_end(tree, where) and tree.times[index(place_of(tree, where))] <= high[i]:
            if count == len(places):
                return -1
            owners[index(count)] = keys[i]
            places[index(count)] = place_of(tree, where)
            count += 1
            where = as_start(tree, where + 1)
    return count


@kernel
def times_around(tree: Tree, keys: Ints, at: Ints, before: Ints, after: Ints) -> None:
    """Write the time of the last row not after a time, and of the first one after it; else NONE and END_OF_TIME.

    `before` keeps what it has where there is no such row. O(log n) each.
    """
    for i in range(len(keys)):
        after[i] = END_OF_TIME
        if not has_rows(tree, keys[i]):
            continue
        where = after_time(tree, keys[i], at[i])
        if at_of(where) > tree.nodes[leaf_of(where) * NODE + LO]:
            before[i] = tree.times[place_of(tree, where) - 1]
        start = as_start(tree, where)
        if not is_end(tree, start):
            after[i] = tree.times[place_of(tree, start)]


@kernel
def count_settled(tree: Tree, keys: Ints, final: Ints, limit: int, counts: Ints, wake: Ints) -> None:
    """Write how many of the first rows of each key are final by a limit, each at its own time, and when the next is.

    `final` holds these times by place. O(1) for each final row.
    """
    for i in range(len(keys)):
        counts[i] = 0
        wake[i] = END_OF_TIME
        if not has_rows(tree, keys[i]):
            continue
        first = tree.keys[keys[i] * KEY + FIRST]
        where = position(first, tree.nodes[first * NODE + LO])
        while not is_end(tree, where):
            if final[index(place_of(tree, where))] > limit:
                wake[i] = final[index(place_of(tree, where))]
                break
            counts[i] += 1
            where = as_start(tree, where + 1)


@kernel
def next_multiple(steps: Ints, time: int) -> int:
    """Return the first multiple after a time. `steps` are the step and the offset."""
    multiple: int = time - (time - steps[1]) % steps[0] + steps[0]
    return multiple


@kernel
def find_counted(
    tree: Tree, keys: Ints, ranks: Ints, steps: Ints, until: int, which: Ints, edges: Ints, counts: Ints
) -> int:
    """Write the multiples up to a time that rows from a rank on come before, and how many rows do.

    A multiple counts if a row has come since the one before. Returns how many, -1 if there is no room. O(log n) each.
    """
    count = 0
    for i in range(len(keys)):
        if not has_rows(tree, keys[i]):
            continue
        rank = max(0, ranks[i])
        total = tree.keys[keys[i] * KEY + ROWS]
        while rank < total:
            where = as_start(tree, at_rank(tree, keys[i], rank))
            edge = next_multiple(steps, tree.times[place_of(tree, where)])
            if edge > until:
                break
            if count == len(which):
                return -1
            rank = rank_of(tree, after_time(tree, keys[i], edge - 1))
            which[index(count)] = i
            edges[index(count)] = edge
            counts[index(count)] = rank
            count += 1
    return count


@kernel
def judge_counted(tree: Tree, keys: Ints, row_times: Ints, steps: Ints, limits: Ints, verdicts: Ints) -> None:
    """Write 2 for late rows, sorted by key and time, that a window not final counts, else 0.

    `limits` are the time up to which windows are final, and how many rows one holds. The first window that is not final
    has its last rows already if as many come after the late one. O(log n) each.
    """
    before, taken = NONE, 0
    for i in range(len(keys)):
        key = keys[i]
        if key != before:
            taken = 0
        before = key
        verdicts[i] = 0
        edge = next_multiple(steps, row_times[i])
        if edge <= limits[0]:
            if not has_rows(tree, key):
                continue
            where = first_from(tree, key, next_multiple(steps, limits[0]) - steps[0])
            if is_end(tree, where):
                continue
            edge = next_multiple(steps, tree.times[place_of(tree, where)])
        at, reached = taken, taken
        if has_rows(tree, key):
            at += rank_of(tree, after_time(tree, key, row_times[i]))
            reached += rank_of(tree, after_time(tree, key, edge - 1))
        if at > reached - limits[1]:
            verdicts[i] = 2
            taken += 1


@kernel
def count_ties(tree: Tree, keys: Ints, row_times: Ints, which: Ints, counts: Ints) -> None:
    """Write for some of the rows that were just inserted how many rows of the same time are before each. O(log n).

    The rows are sorted by key and time, and are the last ones of their times in the tree.
    """
    for i in range(len(which)):
        row = which[i]
        key, time = keys[row], row_times[row]
        behind = 0
        while row + behind + 1 < len(keys) and keys[row + behind + 1] == key and row_times[row + behind + 1] == time:
            behind += 1
        upto = rank_of(tree, after_time(tree, key, time))
        counts[i] = upto - rank_of(tree, after_time(tree, key, time - 1)) - 1 - behind


@kernel
def rank_of_mark(marks: Tree, rows: Tree, nth: Ints, key: int, where: int) -> int:
    """Return how many rows are before the row of a mark. O(log n)."""
    place = place_of(marks, as_start(marks, where))
    rank: int = rank_of(rows, after_time(rows, key, marks.times[place] - 1)) + nth[place]
    return rank


@kernel
def find_marked(
    marks: Tree, rows: Tree, nth: Ints, spans: Spans, tails: int, keys: Ints, first: Ints, last: Ints, ends: Ints
) -> int:
    """Write the ranks of the rows of windows that end with marks in some stretches of time, and the places of these.

    With `tails` also the rows after a key's last mark, if the stretch goes on to the end of time; its mark is NONE.
    Returns how many, -1 if there is no room. A mark is a time and how many rows of that time are before it:
    the marks (10, 0) and (20, 2) end the windows of the rows up to the first at 10, and up to the third at 20.
    """
    count = 0
    for i in range(len(spans.keys)):
        key = spans.keys[i]
        if not has_rows(rows, key):
            continue
        begin = 0
        if has_rows(marks, key):
            where = first_from(marks, key, max(spans.low[i], BEFORE_TIME + 1))
            before = rank_of(marks, where)
            if before > 0:
                begin = rank_of_mark(marks, rows, nth, key, at_rank(marks, key, before - 1)) + 1
            while not is_end(marks, where) and marks.times[index(place_of(marks, where))] <= spans.high[i]:
                if count == len(keys):
                    return -1
                end = rank_of_mark(marks, rows, nth, key, where) + 1
                keys[index(count)] = key
                first[index(count)] = begin
                last[index(count)] = end
                ends[index(count)] = place_of(marks, where)
                count += 1
                begin = end
                where = as_start(marks, where + 1)
        if tails > 0 and spans.high[i] == END_OF_TIME and begin < rows.keys[key * KEY + ROWS]:
            if count == len(keys):
                return -1
            keys[index(count)] = key
            first[index(count)] = begin
            last[index(count)] = rows.keys[key * KEY + ROWS]
            ends[index(count)] = NONE
            count += 1
    return count


_FOR_ALL = (merge_spans, rows_before, rows_within, entries_within, times_around, count_settled)
CUTTING = (*_FOR_ALL, find_counted, judge_counted, count_ties, find_marked)
WITHIN = (has_rows, next_multiple, rank_of_mark)
