r"""Slide policies over the trees of rows: which rows a policy evicts after each row, and which windows that changes.

Rows are judged one after the other, from the first one that is new. The window of each is what the policy leaves of the
one before it and this row, so only its length is kept. Its state is that of two stacks over a single leaf, as in
`folding`. A single row is evicted from these; many at once by nodes of the tree, higher and higher ones, then lower:

    front                                             row
    [ . a b c ]   [ leaf ] [ leaf ]  [ inner node ]   [ x y . ]
      suffixes    \______________ rest ______________________/
        a goes, and b, and c: then the next leaf, the next inner node; what must stay is searched from there

So a row takes O(1) combines and questions, amortised, and O(LEAF + log n) for any number of rows that it evicts. After
a late row those behind it are judged again, until one has the window that it had before.

A policy that is not monotone tries the parts that end with a node of a binary tree over the row numbers of the key,
which are the same however the rows came: O((LEAF + log n) log n) for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.durations import END_OF_TIME
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Slots,
    State,
    combine,
    index,
    inlined,
    kernel,
    lift,
    load,
    must_leave,
    replaceable,
    replaces,
    store,
    thorough,
)
from muntin.streams.rows.counting import rows_up_to
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.folding import between, refold, state_at
from muntin.streams.rows.tree import (
    BASE,
    COUNT,
    HI,
    KEY,
    LEVEL,
    LO,
    NODE,
    NONE,
    PARENT,
    POSITIONS,
    ROOT,
    ROWS,
    SLOT,
    Tree,
    as_start,
    at_of,
    at_rank,
    leaf_of,
    longer,
    place_of,
    position,
)

NEW, EMPTY, CHANGED, RETRACTED = -1, -2, -3, -4
"""Words of rows: not judged yet; judged, without a window that was emitted. The word of one that was emitted with
revision r is r; CHANGED - 2 r if a new row is among its rows since; RETRACTED - 2 r if revision r took it back."""
GONE, JUDGED, EXAMINED, FRONT = range(4)
"""The numbers of a key: rows evicted; then of rows held: those whose windows are final, those judged, and those before
the window of the last final one."""
NUMBERS = 4
WATERMARK, BEFORE, SETTLED, EARLY = range(4)
"""The moment: the watermark, the one at which windows were emitted last, and the last time whose windows were final
then, or are now, when rows are evicted. EARLY is 0 if windows are never emitted before they are due, 1 if they may have
been, 2 if they are now."""
KEY_AT, RANK, COUNT_OUT, START, PASSED, LATEST, FRESH_AT, DUE_RANK = range(8)
"""The cursor: the key, the row to go on from (NONE: from the start), how many windows were found, and the first row of
the window before that row; how many rows before it were judged earlier, the last new one, the next new one, and the
first row whose window is not due."""
STACK, TOP, HAS_REST, EVICTED, DOUBT = range(5)
"""The window: the leaf whose suffixes are known, NONE if it begins with the rest; the place after the last of these;
whether there is a rest; how many rows left with the last row; whether the policy has contradicted itself."""
SCRATCH = 1
"""The states beside the suffixes: that of the rest."""


class Remembered(NamedTuple):
    """What is kept beside rows whose windows may change after they were emitted; else these are empty."""

    words: Ints
    lengths: Ints
    """The rows of the window that the policy left when it was asked last."""
    emitted: Ints
    """The rows of the window as it was emitted; the same array if windows are emitted as soon as they are judged."""
    starts: Ints
    """The time of the first row of the window as it was emitted."""


class Slid(NamedTuple):
    """Windows to be emitted or retracted."""

    keys: Ints
    places: Ints
    """Of their rows."""
    first: Ints
    """Where their rows begin; NONE if they are retracted."""
    last: Ints
    revisions: Ints
    starts: Ints
    """The times of their first rows."""

    @classmethod
    def empty(cls, room: int) -> Slid:
        """Return room for windows."""
        return cls(*(np.empty(room, np.int64) for _ in cls._fields))

    def longer(self) -> Slid:
        """Return the same with more room."""
        return Slid(*(longer(each, 4 * len(each)) for each in self))

    def take(self, which: object) -> Slid:
        """Return a copy of some of the windows."""
        return Slid(*(each[which].copy() for each in self))


# ---------------------------------------------------------------- the window of a monotone policy


@kernel
def flip(tree: Tree, states: Slots, columns: Columns, scratch: Slots, window: Ints, front: int, where: int) -> None:
    """Fold the rows from `front` to `where`: those of its leaf into suffixes, the others into the rest.

    O(LEAF + log n) combines.
    """
    leaf, at = leaf_of(front), at_of(front)
    to, end = leaf_of(where), at_of(where) + 1
    base = tree.nodes[leaf * NODE + BASE]
    top = end if leaf == to else tree.nodes[leaf * NODE + HI]
    store(scratch, top - 1, lift(columns, tree.times, base + top - 1))
    for k in range(top - 2, at - 1, -1):
        store(scratch, k, combine(lift(columns, tree.times, base + k), load(scratch, k + 1)))
    window[STACK], window[TOP], window[HAS_REST] = leaf, top, 0
    if leaf != to:
        store(scratch, len(scratch) - SCRATCH, between(tree, states, columns, leaf, to, end))
        window[HAS_REST] = 1


@kernel
def extend(tree: Tree, columns: Columns, scratch: Slots, window: Ints, place: int) -> None:
    """Append a row to the rest."""
    rest = len(scratch) - SCRATCH
    row = lift(columns, tree.times, place)
    if window[HAS_REST] > 0:
        store(scratch, rest, combine(load(scratch, rest), row))
    else:
        store(scratch, rest, row)
        window[HAS_REST] = 1


@kernel
def window_state(scratch: Slots, window: Ints, front: int) -> State:
    """Return the aggregate of the window, which has a rest."""
    rest = load(scratch, len(scratch) - SCRATCH)
    return rest if window[STACK] == NONE else combine(load(scratch, at_of(front)), rest)


@kernel
def enforce(tree: Tree, states: Slots, columns: Columns, scratch: Slots, window: Ints, front: int, where: int) -> int:
    """Evict by the policy after the row at `where`; return the front, NONE if no row stays.

    Nearly always that is one row, or none: two questions, and no search.
    """
    window[EVICTED] = 0
    whole = window_state(scratch, window, front)
    old = lift(columns, tree.times, place_of(tree, front))
    if not must_leave(whole, old):
        if must_leave(whole, whole):
            window[DOUBT] = 1
        return front
    if front == where:
        window[EVICTED], window[STACK], window[HAS_REST] = 1, NONE, 0
        return NONE
    after = as_start(tree, front + 1)
    if must_leave(whole, combine(old, lift(columns, tree.times, place_of(tree, after)))):
        after = leaving(tree, states, columns, window, whole, front, where)
    else:
        window[EVICTED] = 1
    if after == NONE:
        window[STACK], window[HAS_REST] = NONE, 0
    elif window[STACK] != leaf_of(after) or at_of(after) >= window[TOP]:
        if window[STACK] == leaf_of(front) and window[EVICTED] == window[TOP] - at_of(front):
            window[STACK] = NONE  # just the suffixes are used up: the rest is the window
        else:
            flip(tree, states, columns, scratch, window, after, where)
    return after


@kernel
def leaving(tree: Tree, states: Slots, columns: Columns, window: Ints, whole: State, front: int, where: int) -> int:
    """Return the first row that stays, NONE if none does, where the one at `front` must leave. O(LEAF + log n).

    Asks about longer and longer parts: those that end with rows of the leaf, then with nodes, as high up as they go.
    """
    nodes = tree.nodes
    node, at, to = leaf_of(front), at_of(front), leaf_of(where)
    old = lift(columns, tree.times, place_of(tree, front))
    at += 1
    window[EVICTED] = 1
    while True:
        high = at_of(where) + 1 if node == to else nodes[node * NODE + HI]
        while at < high:
            part = combine(old, lift(columns, tree.times, nodes[node * NODE + BASE] + at))
            if not must_leave(whole, part):
                return position(node, at)
            old = part
            at += 1
            window[EVICTED] += 1
        if node == to:
            return NONE
        node = following(tree, node)
        while True:
            if not covers(tree, node, to):
                part = combine(old, load(states, node))
                if must_leave(whole, part):
                    old = part
                    window[EVICTED] += nodes[node * NODE + COUNT]
                    node = following(tree, node)
                    continue
            if nodes[node * NODE + LEVEL] == 0:
                break
            node = tree.kids[nodes[node * NODE + BASE] + nodes[node * NODE + LO]]
        at = nodes[node * NODE + LO]


@kernel
def following(tree: Tree, node: int) -> int:
    """Return the highest node that begins where another one ends, which is not the last. O(log n)."""
    nodes = tree.nodes
    parent = nodes[node * NODE + PARENT]
    while nodes[node * NODE + SLOT] + 1 == nodes[parent * NODE + HI]:
        node = parent
        parent = nodes[node * NODE + PARENT]
    after: int = tree.kids[nodes[parent * NODE + BASE] + nodes[node * NODE + SLOT] + 1]
    return after


@kernel
def covers(tree: Tree, node: int, leaf: int) -> bool:
    """Return whether a leaf is at or below a node. O(log n)."""
    while tree.nodes[leaf * NODE + LEVEL] < tree.nodes[node * NODE + LEVEL]:
        leaf = tree.nodes[leaf * NODE + PARENT]
    return leaf == node


# ---------------------------------------------------------------- the window of a policy that is not monotone


@kernel
def fold_rows(tree: Tree, states: Slots, columns: Columns, key: int, first: int, last: int) -> State:
    """Return the aggregate of the rows of a key with the ranks [first, last), at least one. O(LEAF + log n)."""
    begin, end = at_rank(tree, key, first), at_rank(tree, key, last - 1)
    leaf, to = leaf_of(begin), leaf_of(end)
    base = tree.nodes[leaf * NODE + BASE]
    high = at_of(end) + 1 if leaf == to else tree.nodes[leaf * NODE + HI]
    state = lift(columns, tree.times, base + at_of(begin))
    for place in range(base + at_of(begin) + 1, base + high):
        state = combine(state, lift(columns, tree.times, place))
    return state if leaf == to else combine(state, between(tree, states, columns, leaf, to, at_of(end) + 1))


@inlined
def is_whole(level: int, j: int, end: int) -> bool:
    """Return whether node j of a level of the binary tree over `end` rows has all its rows."""
    return j < ((end + 1) >> level) - 1


@kernel
def longest_cut(tree: Tree, states: Slots, columns: Columns, key: int, gone: int, first: int, last: int) -> int:
    """Return the end of the longest part of [first, last) to evict, of those that end with a node.

    These are the parts that `MonoidTree` tries: nodes are those of all rows of the key, of which `gone` were evicted.
    """
    whole = fold_rows(tree, states, columns, key, first, last)
    old = fold_rows(tree, states, columns, key, first, first + 1)
    at, end = gone + first + 1, gone + last
    cut = at if must_leave(whole, old) else at - 1
    level = 0
    while at < end:
        if at & ((2 << level) - 1) == 0 and is_whole(level + 1, at >> (level + 1), end):
            level += 1
        elif is_whole(level, at >> level, end):
            part = fold_rows(tree, states, columns, key, at - gone, at - gone + (1 << level))
            old = combine(old, part)
            at += 1 << level
            if must_leave(whole, old):
                cut = at
        else:
            level -= 1
    return cut - gone


@replaceable
@kernel
def cut_down(tree: Tree, states: Slots, columns: Columns, key: int, gone: int, first: int, last: int) -> int:
    """Return the first row of [first, last) that stays; the policy is asked again about what it leaves."""
    while first < last:
        cut = longest_cut(tree, states, columns, key, gone, first, last)
        if cut == first:
            return first
        first = cut
    return last


@replaces(cut_down)
@kernel
def never_cut(  # as `cut_down`
    tree: Tree,  # noqa: ARG001
    states: Slots,  # noqa: ARG001
    columns: Columns,  # noqa: ARG001
    key: int,  # noqa: ARG001
    gone: int,  # noqa: ARG001
    first: int,
    last: int,  # noqa: ARG001
) -> int:
    """Take the place of `cut_down` if the policy is monotone: to compile that takes a fifth as long as the rest."""
    return first


# ---------------------------------------------------------------- rows, one after the other


@kernel
def rank_of_fresh(tree: Tree, key: int, fresh: Fresh, at: int, stop: int) -> int:
    """Return the rank of a new row, the first one of its time. O(log n)."""
    rank = rows_up_to(tree, key, fresh.times[at])
    same = at
    while same < stop and fresh.times[same] == fresh.times[at]:
        rank -= 1
        same += 1
    return rank


@kernel
def begin_key(tree: Tree, beside: Remembered, numbers: Ints, moment: Ints, fresh: Fresh, cursor: Ints) -> None:
    """Set the cursor to the first row of the next key about which the policy is to be asked. O(log n)."""
    k = cursor[KEY_AT]
    key = fresh.keys[k]
    at = key * NUMBERS
    begin, stop = fresh.ends[k - 1] if k > 0 else 0, fresh.ends[k]
    is_over = moment[WATERMARK] == END_OF_TIME
    cursor[DUE_RANK] = tree.keys[key * KEY + ROWS] if is_over else rows_up_to(tree, key, moment[WATERMARK])
    if cursor[RANK] != NONE:
        return
    judged = numbers[at + JUDGED]
    rank = numbers[at + EXAMINED]
    cursor[LATEST], cursor[FRESH_AT] = NONE, begin
    if len(beside.words) > 0:
        if begin < stop:
            lowest = rank_of_fresh(tree, key, fresh, begin, stop)
            while cursor[FRESH_AT] < stop and lowest < judged and is_settled(moment, fresh.times[cursor[FRESH_AT]]):
                cursor[LATEST] = rows_up_to(tree, key, fresh.times[cursor[FRESH_AT]]) - 1
                cursor[FRESH_AT] += 1
            rank = min(rank, lowest)
        if moment[EARLY] > 0:
            rank = min(rank, rows_up_to(tree, key, moment[BEFORE]))
        rank = max(rank, judged)
    cursor[RANK] = cursor[PASSED] = rank
    cursor[START] = window_start(tree, beside, key, rank, judged, numbers[at + FRONT])


@inlined
def is_settled(moment: Ints, time: int) -> bool:
    """Return whether a new row came too late for a window of its own."""
    before: bool = time < moment[BEFORE] and time <= moment[SETTLED]
    return before


@kernel
def window_start(tree: Tree, beside: Remembered, key: int, rank: int, judged: int, front: int) -> int:
    """Return the first row of the window before the one of a rank: it begins with that row if it is empty."""
    if rank <= judged:
        return front
    length: int = beside.lengths[place_of(tree, at_rank(tree, key, rank - 1))]
    return rank - length


@kernel
def find_slid(
    tree: Tree,
    states: Slots,
    columns: Columns,
    scratch: Slots,
    window: Ints,
    beside: Remembered,
    numbers: Ints,
    moment: Ints,
    fresh: Fresh,
    cursor: Ints,
    out: Slid,
) -> bool:
    """Find the windows of some keys that are to be emitted or retracted; return whether there was room for all."""
    while cursor[KEY_AT] < len(fresh.keys):
        key = fresh.keys[cursor[KEY_AT]]
        if tree.keys[key * KEY + ROOT] != NONE:
            begin_key(tree, beside, numbers, moment, fresh, cursor)
            if not slide(tree, states, columns, scratch, window, beside, numbers, moment, fresh, cursor, out):
                return False
            numbers[key * NUMBERS + EXAMINED] = cursor[RANK]
            if len(beside.words) == 0:  # what is due is final
                numbers[key * NUMBERS + JUDGED], numbers[key * NUMBERS + FRONT] = cursor[RANK], cursor[START]
        cursor[KEY_AT], cursor[RANK] = cursor[KEY_AT] + 1, NONE
    return True


@kernel
def slide(
    tree: Tree,
    states: Slots,
    columns: Columns,
    scratch: Slots,
    window: Ints,
    beside: Remembered,
    numbers: Ints,
    moment: Ints,
    fresh: Fresh,
    cursor: Ints,
    out: Slid,
) -> bool:
    """Judge the rows of a key from the cursor on; return whether there was room for their windows."""
    key = fresh.keys[cursor[KEY_AT]]
    gone, examined = numbers[key * NUMBERS + GONE], numbers[key * NUMBERS + EXAMINED]
    total = tree.keys[key * KEY + ROWS]
    stop = total if moment[EARLY] > 1 else cursor[DUE_RANK]
    rank, start = cursor[RANK], cursor[START]
    where = front = NONE  # the row and the first one of the window; NONE if they are to be found
    while rank < stop or cursor[PASSED] < examined:
        if cursor[COUNT_OUT] == len(out.keys):
            cursor[RANK], cursor[START] = rank, start
            return False
        where = at_rank(tree, key, rank) if where == NONE else as_start(tree, where + 1)
        place = place_of(tree, where)
        if thorough():
            start = cut_down(tree, states, columns, key, gone, start, rank + 1)
            front = NONE if start > rank else at_rank(tree, key, start)
        else:
            if front == NONE:
                window[STACK], window[HAS_REST] = NONE, 0
                front = at_rank(tree, key, start) if start < rank else where
                if start < rank:
                    flip(tree, states, columns, scratch, window, front, at_rank(tree, key, rank - 1))
            extend(tree, columns, scratch, window, place)
            front = enforce(tree, states, columns, scratch, window, front, where)
            start += window[EVICTED]
        agrees = note(tree, beside, moment, cursor, out, key, rank, start, place, front, where)
        rank += 1
        if agrees and not thorough():
            rank = next_unlike(tree, key, fresh, cursor, rank, examined)
            start = window_start(tree, beside, key, rank, numbers[key * NUMBERS + JUDGED], 0)
            where = front = NONE
    cursor[RANK], cursor[START] = rank, start
    return True


@kernel
def next_unlike(tree: Tree, key: int, fresh: Fresh, cursor: Ints, rank: int, examined: int) -> int:
    """Return the next row whose window may differ: the next new one, or the first that was not judged yet."""
    stop = fresh.ends[cursor[KEY_AT]]
    found: int = rank + examined - cursor[PASSED]
    if cursor[FRESH_AT] < stop:
        found = min(found, rank_of_fresh(tree, key, fresh, cursor[FRESH_AT], stop))
    cursor[PASSED] += found - rank
    return found


@kernel
def note(
    tree: Tree,
    beside: Remembered,
    moment: Ints,
    cursor: Ints,
    out: Slid,
    key: int,
    rank: int,
    start: int,
    place: int,
    front: int,
    where: int,
) -> bool:
    """Note the window of a row, and whether it is to be emitted or retracted; return whether it is what it was.

    What was emitted are the row's `emitted` latest rows of that time: it is gone if a new row is among them.
    """
    length = rank + 1 - start
    if len(beside.words) == 0:
        if length > 0:
            put(tree, out, cursor, key, place, front, where, 0)
        return False
    word, before = beside.words[index(place)], beside.lengths[index(place)]
    is_new = word == NEW
    if is_new:
        cursor[LATEST] = rank
        cursor[FRESH_AT] += 1
    else:
        cursor[PASSED] += 1
    since = rank - cursor[LATEST] if cursor[LATEST] != NONE else rank + 1
    is_broken = is_changed(word) or (word >= 0 and since < beside.emitted[index(place)])
    differs = is_broken or word < 0 or beside.emitted[index(place)] != length
    beside.lengths[index(place)] = length
    revision = revision_of_word(word)
    if length == 0:
        if word >= 0 or is_changed(word):
            retract(beside, out, cursor, key, place, revision + 1)
        elif is_new:
            beside.words[index(place)] = EMPTY
    elif differs and (rank < cursor[DUE_RANK] or moment[EARLY] > 1):
        beside.words[index(place)] = revision + 1
        beside.emitted[index(place)] = length
        put(tree, out, cursor, key, place, front, where, revision + 1)
        beside.starts[index(place)] = out.starts[cursor[COUNT_OUT] - 1]
    elif is_new:
        beside.words[index(place)] = EMPTY
    elif is_broken:
        beside.words[index(place)] = CHANGED - 2 * revision
    return not is_new and moment[EARLY] == 0 and before == length and since >= length


@inlined
def is_changed(word: int) -> bool:
    """Return whether a word is that of a window that has changed since it was emitted."""
    return word <= CHANGED and (CHANGED - word) & 1 == 0


@inlined
def revision_of_word(word: int) -> int:
    """Return the revision with which a window was emitted or retracted last; -1 if it never was."""
    if word >= 0:
        return word
    return -1 if word >= EMPTY else (CHANGED - word) >> 1


@kernel
def put(tree: Tree, out: Slid, cursor: Ints, key: int, place: int, front: int, where: int, revision: int) -> None:
    """Write a window to emit."""
    count = cursor[COUNT_OUT]
    out.keys[index(count)] = key
    out.places[index(count)] = place
    out.first[index(count)] = front
    out.last[index(count)] = where + 1
    out.revisions[index(count)] = revision
    out.starts[index(count)] = tree.times[index(place_of(tree, front))]
    cursor[COUNT_OUT] = count + 1


@kernel
def retract(beside: Remembered, out: Slid, cursor: Ints, key: int, place: int, revision: int) -> None:
    """Write a window to retract."""
    count = cursor[COUNT_OUT]
    out.keys[count] = key
    out.places[count] = place
    out.first[count] = NONE
    out.revisions[count] = revision
    out.starts[count] = beside.starts[place]
    beside.words[place] = RETRACTED - 2 * revision
    cursor[COUNT_OUT] = count + 1


# ---------------------------------------------------------------- which rows come too late, and which are needed


@kernel
def judge_late(
    tree: Tree,
    states: Slots,
    columns: Columns,
    late: Columns,
    keys: Ints,
    late_times: Ints,
    numbers: Ints,
    scratch: Slots,
    taken: Ints,
) -> None:
    """Write 1 for each late row, sorted by key and time, that the window of the first row not final would hold.

    No later one holds a row that this does not. Each is judged as if those taken before it were in, in O(LEAF + log n).
    """
    key, reached = NONE, 0
    has_old = False
    old = load(scratch, 0)  # the aggregate of the window up to rank `reached`, with the rows taken
    for i in range(len(keys)):
        taken[i] = 0
        if keys[i] != key:
            key, has_old = keys[i], False
            reached = numbers[key * NUMBERS + FRONT]
        front, judged = numbers[key * NUMBERS + FRONT], numbers[key * NUMBERS + JUDGED]
        at = rows_up_to(tree, key, late_times[i])
        if judged == tree.keys[key * KEY + ROWS] or at < front or (at == front and judged > front and not has_old):
            continue
        if at > reached:
            rows = fold_rows(tree, states, columns, key, reached, at)
            old = combine(old, rows) if has_old else rows
            has_old = True
            reached = at
        row = lift(late, late_times, i)
        part = combine(old, row) if has_old else row
        whole = combine(part, fold_rows(tree, states, columns, key, at, judged + 1))
        if not must_leave(whole, part):
            taken[i] = 1
            old = part
            has_old = True


@kernel
def windows_need(
    tree: Tree, lengths: Ints, keys: Ints, numbers: Ints, moment: Ints, lateness: int, needed: Ints, wake: Ints
) -> None:
    """Lower how many first rows of each key nobody needs, and the watermark at which it is to be looked at again.

    Needed are the rows of the last final window, and all later ones. O(log n) each.
    """
    for i in range(len(keys)):
        key = keys[i]
        if tree.keys[key * KEY + ROOT] == NONE:
            continue
        at = key * NUMBERS
        total = tree.keys[key * KEY + ROWS]
        is_over = moment[WATERMARK] == END_OF_TIME
        due = total if is_over else rows_up_to(tree, key, moment[WATERMARK])
        final = total if is_over else rows_up_to(tree, key, moment[SETTLED])
        if final > numbers[at + JUDGED]:
            last = place_of(tree, at_rank(tree, key, final - 1))
            numbers[at + JUDGED] = final
            numbers[at + FRONT] = final - lengths[last]
        needed[i] = min(needed[i], numbers[at + FRONT])
        if due < total:
            wake[i] = min(wake[i], tree.times[place_of(tree, at_rank(tree, key, due))])
        if final < total:
            wake[i] = min(wake[i], tree.times[place_of(tree, at_rank(tree, key, final))] + lateness)


JUDGING = (
    *POSITIONS,
    rows_up_to,
    state_at,
    refold,
    between,
    flip,
    extend,
    window_state,
    following,
    covers,
    leaving,
    enforce,
    fold_rows,
    is_whole,
    cut_down,
    rank_of_fresh,
    is_settled,
    window_start,
    begin_key,
    next_unlike,
    is_changed,
    revision_of_word,
    put,
    retract,
    note,
    slide,
    find_slid,
    judge_late,
    windows_need,
)


def kernels_for(binding: Binding) -> tuple[Any, ...]:
    """Return the kernels that run the policy of a binding, and the names of those called from Python."""
    assert binding.rule is not None
    entries = ("refold", "find_slid", "windows_need")
    if binding.rule.thorough:
        return ((longest_cut, *JUDGING), *entries, "cut_down")
    return ((*JUDGING, never_cut), *entries, "judge_late")


def kernels_of(binding: Binding) -> Any:
    """Return the module that runs the policy of a binding."""
    return binding.kernels(*kernels_for(binding))
