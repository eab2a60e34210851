"""Which frames by time are to be emitted, and which rows they hold. No kernel here sees a value or a state.

A row has a *word* for each definition: the revision with which its frame was last emitted, or one of the codes below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.rows.tree import (
    BASE,
    FIRST,
    HI,
    KEY,
    LO,
    NEXT,
    NODE,
    NONE,
    ROOT,
    ROWS,
    Tree,
    after_time,
    as_start,
    at_of,
    evict_first,
    is_end,
    leaf_of,
    longer,
    place_of,
    position,
    rank_of,
    times_first,
)

NEW, FRAMELESS, SKIPPED, CHANGED = range(-1, -5, -1)
"""A frame that was never emitted; a row that is in frames of others, but came too late for its own; a frame without
rows that was not emitted early, when others were; a frame that was emitted before it was due, with the revision
CHANGED - word, and has changed since."""
SINCE, UNTIL, AHEAD, TILE = range(4)
"""A definition: a frame holds the rows from time + SINCE, or the multiple of TILE before that, to before time + UNTIL;
it is due AHEAD after its row. If SINCE is BEFORE_TIME it holds all rows before its end."""
FINAL, FROM, TO, DUE, EARLY = range(5)
"""The moment, as times of rows: frames up to FINAL never change again; those in (FROM, TO] are looked at, whatever
came; those up to DUE are due. EARLY: others that hold rows are emitted, too."""
KEY_AT, WHERE, COUNT_OUT, REACHED, OWN, INSIDE = range(6)
"""The cursor: the key, the position to go on from (NONE: from the start), and how many frames were found; then new rows
of the key: the first whose frames are not all behind, the first not behind itself, and the first not before a frame."""


class Fresh(NamedTuple):
    """The times of rows since windows were last emitted, by key."""

    keys: Ints
    """The keys to look at, ascending."""
    times: Ints
    ends: Ints
    """The row after the last of each key."""


class Found(NamedTuple):
    """Frames to be emitted."""

    keys: Ints
    places: Ints
    """Of their rows."""
    first: Ints
    last: Ints
    """The positions between which their rows are; NONE where they hold none."""
    revisions: Ints

    @classmethod
    def empty(cls, room: int) -> Found:
        """Return room for frames."""
        return cls(*(np.empty(room, np.int64) for _ in cls._fields))

    def longer(self) -> Found:
        """Return the same with more room."""
        return Found(*(longer(each, 4 * len(each)) for each in self))

    def first_rows(self, count: int) -> Found:
        """Return a copy of the first frames."""
        return Found(*(each[:count].copy() for each in self))


@inlined
def start_of(frame: Ints, time: int) -> int:
    """Return the first time that belongs to the frame of a time."""
    if frame[SINCE] == BEFORE_TIME:
        return BEFORE_TIME + 1
    start: int = time + frame[SINCE]
    return start - start % frame[TILE] if frame[TILE] > 0 else start


@inlined
def last_with(frame: Ints, time: int) -> int:
    """Return the last time whose frame begins at or before a time."""
    if frame[SINCE] == BEFORE_TIME:
        return END_OF_TIME - 1
    last: int = (time - time % frame[TILE] + frame[TILE] - 1 if frame[TILE] > 0 else time) - frame[SINCE]
    return last


@kernel
def next_end(tree: Tree, key: int, where: int, time: int) -> int:
    """Return the end of the rows before a time, not before `where`. O(LEAF + log n), O(1) amortised."""
    leaf, at = leaf_of(where), at_of(where)
    base, high = tree.nodes[leaf * NODE + BASE], tree.nodes[leaf * NODE + HI]
    while at < high and tree.times[index(base + at)] < time:
        at += 1
    after = tree.nodes[leaf * NODE + NEXT]
    if at < high or after == NONE or times_first(tree, after) >= time:
        return position(leaf, at)
    return after_time(tree, key, time - 1)


@inlined
def next_start(tree: Tree, key: int, where: int, time: int) -> int:
    """Return the first row at or after a time, as a start, not before `where`. O(LEAF + log n), O(1) amortised."""
    return as_start(tree, next_end(tree, key, where, time))


@kernel
def first_from(tree: Tree, key: int, time: int) -> int:
    """Return the first row at or after a time, as a start. O(log n)."""
    return as_start(tree, after_time(tree, key, time - 1))


@inlined
def revision_of(word: int, is_changed: bool) -> int:
    """Return the revision with which a frame is to be emitted, if it is due; NONE if there is nothing to emit."""
    if word in (NEW, SKIPPED):
        return 0
    if word <= CHANGED:
        return CHANGED - word + 1
    return word + 1 if word >= 0 and is_changed else NONE


@kernel
def next_wanted(frame: Ints, moment: Ints, fresh: Fresh, stop: int, cursor: Ints, at: int) -> int:
    """Return the least time, from that of a row on, whose frame is to be looked at. Amortised O(1)."""
    wanted = END_OF_TIME
    if moment[FROM] < moment[TO] and at <= moment[TO]:
        wanted = max(at, moment[FROM] + 1)
    while cursor[REACHED] < stop and last_with(frame, fresh.times[cursor[REACHED]]) < at:
        cursor[REACHED] += 1
    if cursor[REACHED] < stop:
        wanted = min(wanted, max(at, fresh.times[cursor[REACHED]] - frame[UNTIL] + 1))
    while cursor[OWN] < stop and fresh.times[cursor[OWN]] < at:
        cursor[OWN] += 1
    return min(wanted, fresh.times[cursor[OWN]]) if cursor[OWN] < stop else wanted


@kernel
def first_wanted(tree: Tree, frame: Ints, moment: Ints, fresh: Fresh, k: int, cursor: Ints, latest: int) -> int:
    """Return the first row of the k-th key whose frame may have to be looked at; sets the cursor to its new rows."""
    key, stop = fresh.keys[k], fresh.ends[k]
    begin = fresh.ends[k - 1] if k > 0 else 0
    cursor[REACHED] = cursor[OWN] = cursor[INSIDE] = begin
    time = moment[FROM] + 1 if moment[FROM] < moment[TO] else latest + 1
    if begin < stop:
        time = min(time, fresh.times[begin], fresh.times[begin] - frame[UNTIL] + 1)
    return first_from(tree, key, max(time, moment[FINAL] + 1))


@kernel
def find_frames(tree: Tree, words: Ints, frame: Ints, moment: Ints, fresh: Fresh, cursor: Ints, out: Found) -> bool:
    """Find the frames of some keys that are to be emitted, in order; return whether there was room for all.

    Walks through the rows whose frames are due now, or hold a new row, and no others: O(1) amortised for each, and
    O(LEAF + log n) where others are passed over.
    """
    latest = END_OF_TIME if moment[EARLY] > 0 else moment[DUE]
    while cursor[KEY_AT] < len(fresh.keys):
        k = cursor[KEY_AT]
        if tree.keys[fresh.keys[k] * KEY + ROOT] != NONE:
            if cursor[WHERE] == NONE:
                cursor[WHERE] = first_wanted(tree, frame, moment, fresh, k, cursor, latest)
            if not find_of_key(tree, words, frame, moment, fresh, k, cursor, latest, out):
                return False
        cursor[KEY_AT], cursor[WHERE] = k + 1, NONE
    return True


@kernel
def find_of_key(
    tree: Tree,
    words: Ints,
    frame: Ints,
    moment: Ints,
    fresh: Fresh,
    k: int,
    cursor: Ints,
    latest: int,
    out: Found,
) -> bool:
    """Find the frames of the k-th key; return whether there was room."""
    times, key, stop = tree.times, fresh.keys[k], fresh.ends[k]
    front = back = NONE
    where = cursor[WHERE]
    while not is_end(tree, where):
        at = times[index(place_of(tree, where))]
        wanted = next_wanted(frame, moment, fresh, stop, cursor, at)
        if wanted > latest:
            break
        if wanted > at:
            where = next_start(tree, key, where, wanted)
            continue
        start, until = start_of(frame, at), at + frame[UNTIL]
        while cursor[INSIDE] < stop and fresh.times[cursor[INSIDE]] < start:
            cursor[INSIDE] += 1
        is_changed = cursor[INSIDE] < stop and fresh.times[cursor[INSIDE]] < until
        front = first_from(tree, key, start) if front == NONE else next_start(tree, key, front, start)
        back = after_time(tree, key, until - 1) if back == NONE else next_end(tree, key, back, until)
        is_empty = is_end(tree, front) or times[index(place_of(tree, front))] >= until
        emits = at <= moment[DUE] or (moment[EARLY] > 1 and not is_empty)
        while not is_end(tree, where) and times[index(place_of(tree, where))] == at:
            place = place_of(tree, where)
            revision = revision_of(words[index(place)], is_changed)
            if revision != NONE and emits:
                count = cursor[COUNT_OUT]
                if count == len(out.keys):
                    cursor[WHERE] = where
                    return False
                out.keys[index(count)] = key
                out.places[index(count)] = place
                out.first[index(count)] = NONE if is_empty else front
                out.last[index(count)] = back
                out.revisions[index(count)] = revision
                cursor[COUNT_OUT] = count + 1
                words[index(place)] = revision
            elif revision > 0:
                words[index(place)] = CHANGED - (revision - 1)
            where = as_start(tree, where + 1)
    return True


@kernel
def find_at(tree: Tree, frame: Ints, keys: Ints, at: Ints, first: Ints, last: Ints) -> None:
    """Write where the frames of points are; those of a key contiguous and in order. O(LEAF + log n) each at worst."""
    before, front, back = NONE, NONE, NONE
    for i in range(len(keys)):
        key = keys[i]
        first[i] = last[i] = NONE
        if key == NONE or key * KEY >= len(tree.keys) or tree.keys[key * KEY + ROOT] == NONE:
            before = NONE
            continue
        start, until = start_of(frame, at[i]), at[i] + frame[UNTIL]
        if key == before:
            front = next_start(tree, key, front, start)
            back = next_end(tree, key, back, until)
        else:
            front = first_from(tree, key, start)
            back = after_time(tree, key, until - 1)
        before = key
        if not is_end(tree, front) and tree.times[place_of(tree, front)] < until:
            first[i] = front
            last[i] = back


@kernel
def rows_between(tree: Tree, keys: Ints, low: Ints, high: Ints, found: Ints) -> None:
    """Write 1 for each key that has a row from a time to another, inclusive. O(log n) each."""
    for i in range(len(keys)):
        found[i] = 0
        if keys[i] * KEY < len(tree.keys) and tree.keys[keys[i] * KEY + ROOT] != NONE:
            where = first_from(tree, keys[i], low[i])
            if not is_end(tree, where) and tree.times[place_of(tree, where)] <= high[i]:
                found[i] = 1


@kernel
def list_rows(tree: Tree, first: Ints, last: Ints, numbers: Ints, places: Ints, begins: Ints, ends: Ints) -> int:
    """Write the places of the rows of ranges, each once, and the bounds of the ranges among them; return how many.

    Ranges begin and end in order, those of a key together. `numbers` has room for each place: the number under which
    it was listed last. Returns -1 if `places` has no room. O(rows).
    """
    nodes = tree.nodes
    count = 0
    leaf = at = 0  # the position after the last row listed
    for i in range(len(first)):
        begins[i] = ends[i] = count
        if first[i] == NONE:
            continue
        begin = place_of(tree, first[i])
        number = numbers[begin]
        if not (0 <= number < count and places[number] == begin):
            leaf, at = leaf_of(first[i]), at_of(first[i])
            number = count
        begins[i] = number
        to, stop = leaf_of(last[i]), at_of(last[i])
        while leaf != to or at < stop:
            bound = stop if leaf == to else nodes[leaf * NODE + HI]
            base = nodes[leaf * NODE + BASE]
            if count + bound - at > len(places):
                return -1
            for place in range(base + at, base + bound):
                places[index(count)] = place
                numbers[index(place)] = count
                count += 1
            at = bound
            if leaf != to:
                leaf = nodes[leaf * NODE + NEXT]
                at = nodes[leaf * NODE + LO]
        ends[i] = count
    return count


@kernel
def list_all(tree: Tree, keys: Ints, owners: Ints, places: Ints) -> None:
    """Write the places of all rows of some keys, in order, and their keys."""
    count = 0
    for key in keys:
        leaf = tree.keys[key * KEY + FIRST]
        while leaf != NONE:
            base = tree.nodes[leaf * NODE + BASE]
            for place in range(base + tree.nodes[leaf * NODE + LO], base + tree.nodes[leaf * NODE + HI]):
                owners[count] = key
                places[count] = place
                count += 1
            leaf = tree.nodes[leaf * NODE + NEXT]


@kernel
def frames_need(tree: Tree, keys: Ints, moment: Ints, needed: Ints, wake: Ints) -> None:
    """Lower how many first rows of each key nobody needs, and the watermark at which it is to be looked at again.

    `moment` holds the time up to which rows are old, after how long they are (END_OF_TIME: never), the last time whose
    frames are due, and how long after their rows they are. O(log n) each.
    """
    for i in range(len(keys)):
        key = keys[i]
        if tree.keys[key * KEY + ROOT] == NONE:
            continue
        old = after_time(tree, key, moment[0])
        needed[i] = min(needed[i], rank_of(tree, old))
        oldest = as_start(tree, old)
        if is_end(tree, oldest):
            continue
        if moment[1] < END_OF_TIME:
            wake[i] = min(wake[i], tree.times[place_of(tree, oldest)] + moment[1])
        where = first_from(tree, key, moment[2] + 1)
        if not is_end(tree, where):
            wake[i] = min(wake[i], tree.times[place_of(tree, where)] + moment[3])


@kernel
def evict_all(tree: Tree, keys: Ints, counts: Ints, gone: Ints) -> int:
    """Evict the first rows of keys, at most all of them; write the last time gone of each, return the greatest."""
    latest = BEFORE_TIME
    for i in range(len(keys)):
        key = keys[i]
        gone[i] = BEFORE_TIME
        if key * KEY < len(tree.keys) and tree.keys[key * KEY + ROOT] != NONE:
            counts[i] = min(counts[i], tree.keys[key * KEY + ROWS])
            gone[i] = evict_first(tree, key, counts[i])
            latest = max(latest, gone[i])
        else:
            counts[i] = 0
    return latest


FINDING = (find_frames, find_at, rows_between, list_rows, list_all, frames_need, evict_all)
WITHIN = (start_of, last_with, next_end, next_start, first_from, revision_of, next_wanted, first_wanted, find_of_key)
