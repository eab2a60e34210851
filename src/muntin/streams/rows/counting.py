"""Which windows by rows are to be emitted, and which rows they hold. No kernel here sees a value or a state.

Every row has a frame, or every `EVERY`-th one a window, which is told in the same way. A window is known by the number
of its row, so that a late row gives all later numbers to other rows. The words, which are those of the numbers, move on
before the windows are looked at: after a late row F before A and B, with the words of three rows

    before   A 5   B 3   C new            numbers 0, 1, 2
    after    F 5   A 3   B new   C new    numbers 0 to 3, and 0 and 1 hold other rows than before

Where no window changes after it was emitted there are no words, and `words` is empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.rows.finding import CHANGED, FRAMELESS, NEW, SKIPPED, Fresh, revision_of
from muntin.streams.rows.tree import (
    HI,
    KEY,
    NODE,
    NONE,
    ROOT,
    ROWS,
    Tree,
    after_time,
    as_start,
    at_of,
    at_rank,
    leaf_of,
    longer,
    place_of,
    rank_of,
)

GONE, DONE, SEEN, EMITTED = range(4)
"""The numbers of a key: rows evicted; frames that are final, that have been due, and whose words are not NEW."""
NUMBERS = 4
SINCE, UNTIL, AHEAD, BACK, EVERY, FILLS, TELLS_AT = range(7)
"""A definition: the window of row i, a multiple of EVERY, holds the rows [i + SINCE, i + UNTIL), and needs as many rows
AHEAD and BACK. FILLS: without them it is none. TELLS_AT: its answer tells the time of row i."""
WATERMARK, SETTLED, EARLIER, EARLY = range(4)
"""The moment: the watermark, that less the lateness, and that less one; whether frames are emitted early."""
KEY_AT, RANK, COUNT_OUT, DUE_RANK, STOP = range(5)
"""The cursor: the key, the row to go on from (NONE: from the start), and how many frames were found; then the first row
whose frame is not due, and the first that is not looked at."""


class Numbered(NamedTuple):
    """Frames to be emitted."""

    keys: Ints
    places: Ints
    """Of their rows."""
    first: Ints
    last: Ints
    """The positions between which their rows are; NONE where they hold none."""
    revisions: Ints
    from_row: Ints
    to_row: Ints
    start: Ints
    end: Ints
    """The places of their first and last rows."""

    @classmethod
    def empty(cls, room: int) -> Numbered:
        """Return room for frames."""
        return cls(*(np.empty(room, np.int64) for _ in cls._fields))

    def longer(self) -> Numbered:
        """Return the same with more room."""
        return Numbered(*(longer(each, 4 * len(each)) for each in self))

    def first_rows(self, count: int) -> Numbered:
        """Return a copy of the first frames."""
        return Numbered(*(each[:count].copy() for each in self))


@inlined
def next_window(frame: Ints, number: int) -> int:
    """Return the number of the first row, from a number on, that has a window."""
    return int(-(-number // frame[EVERY]) * frame[EVERY])


@kernel
def rows_up_to(tree: Tree, key: int, time: int) -> int:
    """Return how many rows of a key are not later than a time. O(log n)."""
    if tree.keys[key * KEY + ROOT] == NONE:
        return 0
    return rank_of(tree, after_time(tree, key, time))


@kernel
def mark_changed(tree: Tree, words: Ints, frame: Ints, key: int, gone: int, lowest: int, emitted: int) -> int:
    """Give the words of numbers back to these, new rows having come from row `lowest` on; return the first changed one.

    Marks the frames that hold other rows than before, or whose row has another time. O(d) for d later rows.
    """
    first: int = max(0, min(lowest, lowest - frame[UNTIL] + 1))
    total = tree.keys[key * KEY + ROWS]
    rank = first
    writer = at_rank(tree, key, first)
    reader = at_rank(tree, key, lowest)
    while rank < emitted:
        writer = as_start(tree, writer)
        place = place_of(tree, writer)
        moved = False
        if rank >= lowest:
            reader = as_start(tree, reader)
            while words[place_of(tree, reader)] == NEW:
                reader = as_start(tree, reader + 1)
            source = place_of(tree, reader)
            word = words[source]
            words[source] = NEW
            words[place] = word
            moved = tree.times[source] != tree.times[place]
            reader += 1
        low, high = max(rank + frame[SINCE] + gone, 0) - gone, min(rank + frame[UNTIL], total)
        # Without rows only its own row's time can tell it from what it was, and not every definition tells that.
        has_changed = high > lowest if low < high else False
        if words[place] >= 0 and (has_changed or (moved and (low < high or frame[TELLS_AT] > 0))):
            words[place] = CHANGED - words[place]
        writer += 1
        rank += 1
    return first


@kernel
def next_of_key(tree: Tree, words: Ints, numbers: Ints, frame: Ints, moment: Ints, fresh: Fresh, cursor: Ints) -> None:
    """Set the cursor to the frames of the next key that are to be looked at, and their changed words."""
    k = cursor[KEY_AT]
    key = fresh.keys[k]
    at, total = key * NUMBERS, tree.keys[key * KEY + ROWS]
    gone = numbers[at + GONE]
    at_end = total - frame[AHEAD] if frame[FILLS] > 0 else total
    all_due = moment[WATERMARK] == END_OF_TIME
    cursor[DUE_RANK] = at_end if all_due else min(total, rows_up_to(tree, key, moment[WATERMARK]) - frame[AHEAD])
    cursor[STOP] = at_end if moment[EARLY] > 0 else cursor[DUE_RANK]
    if cursor[RANK] == NONE:
        begin = fresh.ends[k - 1] if k > 0 else 0
        changed = numbers[at + SEEN] - gone  # the first frame that may have changed
        if begin < fresh.ends[k] and len(words) > 0:
            lowest = rows_up_to(tree, key, fresh.times[begin])
            for i in range(begin, fresh.ends[k]):
                if fresh.times[i] == fresh.times[begin]:
                    lowest -= 1
            changed = min(changed, mark_changed(tree, words, frame, key, gone, lowest, numbers[at + EMITTED] - gone))
        cursor[RANK] = max(0, numbers[at + DONE] - gone, changed)
    numbers[at + SEEN] = max(numbers[at + SEEN], cursor[DUE_RANK] + gone)
    numbers[at + EMITTED] = max(numbers[at + EMITTED], cursor[STOP] + gone)


@kernel
def find_numbered(
    tree: Tree,
    words: Ints,
    numbers: Ints,
    frame: Ints,
    moment: Ints,
    fresh: Fresh,
    cursor: Ints,
    out: Numbered,
) -> bool:
    """Find the frames of some keys that are to be emitted, in order; return whether there was room for all.

    Walks through the rows whose frames are due now, or hold other rows than before: O(1) amortised for each.
    """
    while cursor[KEY_AT] < len(fresh.keys):
        next_of_key(tree, words, numbers, frame, moment, fresh, cursor)
        key = fresh.keys[cursor[KEY_AT]]
        gone = numbers[key * NUMBERS + GONE]
        if cursor[RANK] < cursor[STOP] and not find_of_number(tree, words, key, gone, frame, cursor, out):
            return False
        cursor[KEY_AT], cursor[RANK] = cursor[KEY_AT] + 1, NONE
    return True


@kernel
def find_of_number(tree: Tree, words: Ints, key: int, gone: int, frame: Ints, cursor: Ints, out: Numbered) -> bool:
    """Find the windows of a key; return whether there was room."""
    total = tree.keys[key * KEY + ROWS]
    remembers = len(words) > 0
    if not remembers:
        cursor[RANK] = next_window(frame, cursor[RANK] + gone) - gone
    where = at_rank(tree, key, cursor[RANK]) if cursor[RANK] < total else NONE
    step = 1 if remembers else frame[EVERY]
    first = last = front = tail = NONE  # of the frame before: the numbers of its rows, and its first and last row
    while cursor[RANK] < cursor[STOP]:
        rank = cursor[RANK]
        if remembers and frame[EVERY] > 1 and (rank + gone) % frame[EVERY] > 0:
            words[index(place_of(tree, where))] = FRAMELESS
            cursor[RANK] = rank + 1
            where = as_start(tree, where + 1)
            continue
        low = min(max(rank + gone + frame[SINCE], 0), total + gone)
        high = min(max(rank + gone + frame[UNTIL], low), total + gone)
        is_empty = low == high
        if not is_empty:
            front = moved(tree, key, front, low - first, low - gone)
            tail = moved(tree, key, tail, high - last, high - 1 - gone)
            first, last = low, high
        place = place_of(tree, where)
        revision = revision_of(words[index(place)], False) if remembers else 0
        if revision != NONE and (rank < cursor[DUE_RANK] or not is_empty):
            count = cursor[COUNT_OUT]
            if count == len(out.keys):
                return False
            out.keys[index(count)] = key
            out.places[index(count)] = place
            out.first[index(count)] = NONE if is_empty else front
            out.last[index(count)] = NONE if is_empty else tail + 1
            out.revisions[index(count)] = revision
            out.from_row[index(count)] = low
            out.to_row[index(count)] = high
            out.start[index(count)] = place if is_empty else place_of(tree, front)
            out.end[index(count)] = place if is_empty else place_of(tree, tail)
            cursor[COUNT_OUT] = count + 1
            if remembers:
                words[index(place)] = revision
        elif remembers and words[index(place)] == NEW:
            words[index(place)] = SKIPPED
        cursor[RANK] = rank + step
        if cursor[RANK] < cursor[STOP]:
            where = moved(tree, key, where, step, cursor[RANK])
    return True


@inlined
def moved(tree: Tree, key: int, where: int, by: int, rank: int) -> int:
    """Return a row that is `by` rows after another, of a rank: O(1) in the same leaf, or to the next one."""
    if where != NONE and by >= 0 and at_of(where) + by < tree.nodes[index(leaf_of(where) * NODE + HI)]:
        return where + by
    return as_start(tree, where + 1) if where != NONE and by == 1 else at_rank(tree, key, rank)


@kernel
def numbers_need(
    tree: Tree, keys: Ints, numbers: Ints, frame: Ints, moment: Ints, lateness: int, needed: Ints, wake: Ints
) -> None:
    """Lower how many first rows of each key nobody needs, and the watermark at which it is to be looked at again.

    Needed are the rows of frames that are not final, and one more, which tells which rows are too late. O(log n) each.
    """
    for i in range(len(keys)):
        key = keys[i]
        if tree.keys[key * KEY + ROOT] == NONE:
            continue
        at = key * NUMBERS
        total = tree.keys[key * KEY + ROWS]
        is_over = moment[WATERMARK] == END_OF_TIME
        settled = total if is_over else rows_up_to(tree, key, moment[SETTLED])
        final = numbers[at + GONE] + (total if is_over else settled - frame[AHEAD])
        numbers[at + DONE] = max(numbers[at + DONE], next_window(frame, final))
        # A point at the watermark may lie before rows of that very time, which are final.
        earlier = rows_up_to(tree, key, moment[EARLIER])
        oldest = min(numbers[at + DONE], numbers[at + GONE] + earlier) - frame[BACK] - 1
        needed[i] = min(needed[i], max(0, oldest - numbers[at + GONE]))
        reached = rows_up_to(tree, key, moment[WATERMARK])
        if reached < total:
            wake[i] = min(wake[i], tree.times[place_of(tree, at_rank(tree, key, reached))])
        if settled < total:
            wake[i] = min(wake[i], tree.times[place_of(tree, at_rank(tree, key, settled))] + lateness)


@kernel
def judge_rows(
    tree: Tree, keys: Ints, row_times: Ints, numbers: Ints, frame: Ints, moment: Ints, verdicts: Ints
) -> None:
    """Write the verdicts on late rows, sorted by key and time: 2 with a frame of its own, 1 in those of others, else 0.

    Each is judged as if those taken before it were in. O(log n) each.
    """
    before, taken = NONE, 0
    for i in range(len(keys)):
        key = keys[i]
        if key != before:
            taken = 0
        before = key
        known = key * KEY < len(tree.keys)
        gone = numbers[key * NUMBERS + GONE] if known else 0
        at = gone + taken + (rows_up_to(tree, key, row_times[i]) if known else 0)
        total = gone + taken + (tree.keys[key * KEY + ROWS] if known else 0)
        reached = gone + taken + (rows_up_to(tree, key, moment[SETTLED]) if known else 0)
        done = max(0, next_window(frame, reached - frame[AHEAD]))
        # This row adds a frame; its last row must not be reached yet either.
        newest = total if frame[AHEAD] > 0 or (at < total and reached < total) else total - 1
        verdicts[i] = 0
        if done <= at <= newest:
            verdicts[i] = 2
        elif max(done, at - frame[UNTIL] + 1) <= min(newest, at - frame[SINCE]):
            verdicts[i] = 1
        if verdicts[i] > 0:
            taken += 1


@kernel
def ranks_at(tree: Tree, keys: Ints, at: Ints, before: Ints, upto: Ints, total: Ints) -> None:
    """Write for points how many rows of their key are earlier, not later, and in all. O(log n) each."""
    for i in range(len(keys)):
        before[i] = upto[i] = total[i] = 0
        if keys[i] != NONE and keys[i] * KEY < len(tree.keys) and tree.keys[keys[i] * KEY + ROOT] != NONE:
            before[i] = rows_up_to(tree, keys[i], at[i] - 1)
            upto[i] = rows_up_to(tree, keys[i], at[i])
            total[i] = tree.keys[keys[i] * KEY + ROWS]


@kernel
def at_ranks(tree: Tree, keys: Ints, first: Ints, last: Ints) -> None:
    """Replace the ranks between which rows are by positions, by NONE where there are none. O(log n) each."""
    for i in range(len(keys)):
        if first[i] >= last[i]:
            first[i] = last[i] = NONE
        else:
            first[i] = as_start(tree, at_rank(tree, keys[i], first[i]))
            last[i] = at_rank(tree, keys[i], last[i] - 1) + 1


COUNTING = (find_numbered, numbers_need, judge_rows, ranks_at, at_ranks)
WITHIN = (next_window, rows_up_to, mark_changed, next_of_key, moved, find_of_number)
