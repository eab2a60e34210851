"""Bulk insertion: finds all sites first, then goes up level by level, each node taking all its events.

The work is a list of events, ordered by time, one list per level:

    target, time, child, kind      (four numbers for each event in `events`, its state in `fresh`)

An event of kind -1 inserts an entry, and a child after it, into the target. One of kind k >= 0 inserts nothing: it
recomputes the target, a node of level k (leaves are 0), and is carried along until that level is reached. Two lists
alternate in the two halves of the arrays; after them is room for the entries of a node that is split.
"""

from __future__ import annotations

from muntin.aggregators.fiba.arity import arity
from muntin.aggregators.fiba.folds import count_entries, refresh_spines, update_above
from muntin.aggregators.fiba.nodes import (
    COUNT,
    HEIGHT,
    INSIDE,
    ON_LEFT,
    ON_RIGHT,
    PATH,
    RIGHT,
    ROOT,
    SPINE,
    Arena,
    adopt_kid,
    copy_kid,
    count_of,
    entries_before,
    grow_root,
    kid_of,
    new_like,
    parent_of,
    row_of,
    span,
    spine_of,
)
from muntin.aggregators.fiba.single import belongs, is_late, push_last, put, refresh_or_note, seek_top
from muntin.kernels.vocabulary import Columns, Ints, Slots, combine, index, kernel, lift, load, store

NODE, BOUND, BOUNDED = PATH, PATH + 1, PATH + 2
"""The three marks of a step of the path."""
TARGET, TIME, CHILD, KIND = range(4)
"""The four numbers of an event."""


@kernel
def count_late(window: Arena, sorted_times: Ints) -> int:
    """Return how many of some sorted times are not after the last one of the window; -1 if they are not sorted."""
    links, marks = window.links, window.marks
    descents = 0
    for row in range(1, len(sorted_times)):  # to the end: compiled, several are compared at once
        descents += sorted_times[index(row)] < sorted_times[index(row - 1)]
    if descents > 0:
        return -1
    leaf = marks[RIGHT]
    count = count_of(links, leaf)
    if count == 0:
        return 0
    last = window.times[index(leaf * span() + count - 1)]
    low = 0
    high = len(sorted_times)
    while low < high and sorted_times[index(low)] <= last:
        middle = (low + high) // 2
        if sorted_times[index(middle)] <= last:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def most_new_nodes(window: Arena, rows: int) -> int:
    """Return the most nodes that a chunk of rows may need.

    A level gets one per entry that comes up to it, but at most one per node that it has, besides those cut off for
    every arity + 1 entries. Two nodes of a level are on the spines, and may be short.
    """
    levels = window.marks[HEIGHT] + 1
    inside = count_entries(window) // (arity() - 1)
    coming = rows
    most = levels
    above = rows
    while levels > 0 or above > 0:  # the tree may grow by a level for each bit of the number of rows
        coming = min(coming, inside + 2 + coming // (arity() + 1))
        inside = (inside + 2) // arity()
        most += coming
        if levels > 0:
            levels -= 1
        else:
            above >>= 1
    return most  # type: ignore[no-any-return]  # an integer


@kernel
def append_rows(window: Arena, columns: Columns, times: Ints, start: int, stop: int) -> None:
    """Insert rows one by one; those of equal time are combined first.

    If consecutive ones go into the same leaf, its dependents are recomputed after the last of them.
    """
    leaf = -1
    depth = 0
    more = 0
    row = start
    while row < stop:
        time = times[index(row)]
        state = lift(columns, times, row)
        row += 1
        while row < stop and times[index(row)] == time:
            state = combine(state, lift(columns, times, row))
            row += 1
        if leaf >= 0 and not belongs(window, leaf, time):
            update_above(window, leaf, depth, more)
            leaf = -1
        if leaf >= 0 or is_late(window, time):
            leaf, depth, more = put(window, time, state, leaf, depth, more)
        else:
            push_last(window, time, state)
    if leaf >= 0:
        update_above(window, leaf, depth, more)


@kernel
def insert_sorted(
    window: Arena, columns: Columns, times: Ints, start: int, stop: int, events: Ints, fresh: Slots
) -> None:
    """Insert rows, sorted by time, anywhere. Amortised O(log d + m (1 + log(d / m)))."""
    half = stop - start
    count = find_sites(window, columns, times, start, stop, events, fresh)
    left = -1
    right = -1
    level = 0
    read = 0
    while count > 0:
        count, left, right = raise_level(window, events, fresh, read, half, count, level, left, right)
        read = half - read
        level += 1
    refresh_spines(window, left, right)


# ---------------------------------------------------------------- sites


@kernel
def write_event(events: Ints, at: int, target: int, time: int, child: int, kind: int) -> None:
    """Write an event."""
    events[index(4 * at + TARGET)] = target
    events[index(4 * at + TIME)] = time
    events[index(4 * at + CHILD)] = child
    events[index(4 * at + KIND)] = kind


@kernel
def write_step(marks: Ints, level: int, node: int, bound: int, bounded: bool) -> None:
    """Write a step of the path: a node and, if it is bounded, the time before which everything below it lies."""
    marks[index(NODE + 3 * level)] = node
    marks[index(BOUND + 3 * level)] = bound
    marks[index(BOUNDED + 3 * level)] = bounded


@kernel
def write_spine_step(window: Arena, level: int, node: int) -> None:
    """Write a step on a spine: the left one is bounded by the first entry above it, the right one is not."""
    times, links, marks = window.times, window.links, window.marks
    bounded = spine_of(links, node) == ON_LEFT
    bound = 0
    if bounded:
        bound = times[index(parent_of(links, node) * span())]
    write_step(marks, level, node, bound, bounded)


@kernel
def climb(window: Arena, level: int, top: int, time: int) -> tuple[int, int]:
    """Return the first level of the path, from this one up, below which a time belongs; and the path's top."""
    links, marks = window.links, window.marks
    while marks[index(BOUNDED + 3 * level)] != 0 and time >= marks[index(BOUND + 3 * level)]:
        level += 1
        if level > top:
            top = level
            write_spine_step(window, level, parent_of(links, marks[index(NODE + 3 * (level - 1))]))
    return level, top


@kernel
def descend(window: Arena, level: int, time: int) -> tuple[int, int, bool]:
    """Go down the path towards a time; return the level and the place where it is or belongs, and whether it exists."""
    times, links, marks = window.times, window.links, window.marks
    while True:
        node = marks[index(NODE + 3 * level)]
        base = node * span()
        count = count_of(links, node)
        at = entries_before(times, base, count, time)
        if at < count and times[index(base + at)] == time:
            return level, at, True
        if level == 0:
            return level, at, False
        bound = marks[index(BOUND + 3 * level)]
        bounded = marks[index(BOUNDED + 3 * level)] != 0
        if at < count:
            bound = times[index(base + at)]
            bounded = True
        level -= 1
        write_step(marks, level, kid_of(window, node, at), bound, bounded)


@kernel
def find_sites(window: Arena, columns: Columns, times: Ints, start: int, stop: int, events: Ints, fresh: Slots) -> int:
    """Write an event for each time among the rows; return their number.

    A search begins where the last one ended, and climbs no higher than it must. The state of a time already in the
    window is combined at once.
    """
    slots, links, marks = window.slots, window.links, window.marks
    node = seek_top(window, times[index(start)])
    top = 0
    below = node
    while row_of(links, below) >= 0:
        below = kid_of(window, below, 0)
        top += 1
    write_spine_step(window, top, node)
    level = top
    count = 0
    row = start
    while row < stop:
        time = times[index(row)]
        state = lift(columns, times, row)
        row += 1
        while row < stop and times[index(row)] == time:
            state = combine(state, lift(columns, times, row))
            row += 1
        level, top = climb(window, level, top, time)
        level, at, found = descend(window, level, time)
        node = marks[index(NODE + 3 * level)]
        if found:
            here = node * span() + at
            store(slots, here, combine(load(slots, here), state))
            count = write_recompute(events, 0, count, node, time, level)
        else:
            write_event(events, count, node, time, -1, -1)
            store(fresh, count, state)
            count += 1
    return count


@kernel
def write_recompute(events: Ints, begin: int, count: int, node: int, time: int, level: int) -> int:
    """Append an event to recompute a node, unless the last one already targets it; return the number of events."""
    if count > 0 and events[index(4 * (begin + count - 1))] == node:
        return count
    write_event(events, begin + count, node, time, -1, level)
    return count + 1


# ---------------------------------------------------------------- one level


@kernel
def raise_level(
    window: Arena, events: Ints, fresh: Slots, read: int, half: int, count: int, level: int, left: int, right: int
) -> tuple[int, int, int]:
    """Execute the events of a level, and write those of the next; return their number, and the changed spine nodes."""
    links = window.links
    write = half - read
    written = 0
    i = read
    end = read + count
    while i < end:
        target = events[index(4 * i + TARGET)]
        kind = events[index(4 * i + KIND)]
        if kind > level:
            written = write_recompute(events, write, written, target, events[index(4 * i + TIME)], kind)
            i += 1
            continue
        begin = i
        added = 0
        while i < end and events[index(4 * i + TARGET)] == target:
            if events[index(4 * i + KIND)] < 0:
                added += 1
            i += 1
        if count_of(links, target) + added < span():
            if added > 0:
                interleave(window, events, fresh, begin, i, target, added)
            left, right = refresh_or_note(window, target, left, right)
            if spine_of(links, target) == INSIDE:
                time = events[index(4 * begin + TIME)]
                written = write_recompute(events, write, written, parent_of(links, target), time, level + 1)
        else:
            written, left, right = split_many(
                window, events, fresh, begin, i, target, added, write, written, 2 * half, left, right
            )
    return written, left, right


@kernel
def interleave(window: Arena, events: Ints, fresh: Slots, begin: int, end: int, target: int, added: int) -> None:
    """Insert entries into a node with room for them: a merge from the end, in place."""
    slots, times, links = window.slots, window.times, window.links
    base = target * span()
    own = count_of(links, target) - 1
    to = own + added
    first = row_of(links, target) * (span() + 1)
    links[index(4 * target + COUNT)] = to + 1
    i = end - 1
    while i >= begin:
        if events[index(4 * i + KIND)] >= 0:
            i -= 1
            continue
        time = events[index(4 * i + TIME)]
        if own >= 0 and times[index(base + own)] > time:
            slots[index(base + to)] = slots[index(base + own)]
            times[index(base + to)] = times[index(base + own)]
            if first >= 0:
                copy_kid(window, first + own + 1, first + to + 1)
            own -= 1
        else:
            slots[index(base + to)] = fresh[index(i)]
            times[index(base + to)] = time
            if first >= 0:
                adopt_kid(window, target, to + 1, events[index(4 * i + CHILD)])
            i -= 1
        to -= 1


@kernel
def piece(rest: int, full: int) -> int:
    """Return the arity of the next node, if a node of arity `rest` is split into pieces of `full`.

    With arity() + 1 for `full` there is always enough left for the last piece; with 2 * arity() the last two share.
    """
    if rest <= 2 * arity():
        return rest
    if rest - full >= arity():
        return full
    return rest // 2


@kernel
def set_aside(window: Arena, events: Ints, fresh: Slots, target: int, spare: int) -> None:
    """Copy the entries and the children of a node to the room after the events."""
    slots, times, links, kids = window.slots, window.times, window.links, window.kids
    base = target * span()
    count = count_of(links, target)
    for i in range(count):
        fresh[index(spare + i)] = slots[index(base + i)]
        events[index(4 * spare + i)] = times[index(base + i)]
    row = row_of(links, target)
    if row >= 0:
        for i in range(count + 1):
            events[index(4 * spare + span() + i)] = kids[index(row * (span() + 1) + i)]


@kernel
def part_spine(window: Arena, target: int) -> int:
    """Leave a node that will be split on the left spine at most; return the spine of its last piece."""
    links, marks = window.links, window.marks
    spine = spine_of(links, target)
    if target == marks[ROOT]:
        grow_root(window)
    links[index(4 * target + SPINE)] = spine & ON_LEFT
    return spine & ON_RIGHT


@kernel
def split_many(
    window: Arena,
    events: Ints,
    fresh: Slots,
    begin: int,
    end: int,
    target: int,
    added: int,
    write: int,
    written: int,
    spare: int,
    left: int,
    right: int,
) -> tuple[int, int, int]:
    """Interleave a node with more entries than it can hold, and cut the sequence into nodes on the way.

    The pieces have arity() + 1 children each, as far from too few as from too many; on the right spine, where rows
    mostly come in order, as many as possible. Between two pieces an entry goes up: an event of the next level.
    """
    slots, times, links, marks = window.slots, window.times, window.links, window.marks
    held = count_of(links, target)
    inner = row_of(links, target) >= 0
    set_aside(window, events, fresh, target, spare)
    spine = part_spine(window, target)
    parent = parent_of(links, target)
    full = arity() + 1
    if spine == ON_RIGHT:
        full = 2 * arity()
    rest = held + added + 1
    take = piece(rest, full)
    node = target
    put = 0
    own = 0
    i = begin
    for _ in range(held + added):
        while i < end and events[index(4 * i + KIND)] >= 0:
            i += 1
        if i < end and (own == held or events[index(4 * i + TIME)] < events[index(4 * spare + own)]):
            state = i
            time = events[index(4 * i + TIME)]
            kid = events[index(4 * i + CHILD)]
            i += 1
        else:
            state = spare + own
            time = events[index(4 * spare + own)]
            own += 1
            kid = events[index(4 * spare + span() + own)]
        if put == take - 1:
            links[index(4 * node + COUNT)] = put
            left, right = refresh_or_note(window, node, left, right)
            node = new_like(window, target)
            write_event(events, write + written, parent, time, node, -1)
            fresh[index(write + written)] = fresh[index(state)]
            written += 1
            rest -= take
            take = piece(rest, full)
            put = -1
        else:
            slots[index(node * span() + put)] = fresh[index(state)]
            times[index(node * span() + put)] = time
        put += 1
        if inner:
            adopt_kid(window, node, put, kid)
    links[index(4 * node + COUNT)] = put
    links[index(4 * node + SPINE)] = spine
    if marks[RIGHT] == target:
        marks[RIGHT] = node
    left, right = refresh_or_note(window, node, left, right)
    return written, left, right


INSERT_KERNELS = (
    count_late,
    most_new_nodes,
    append_rows,
    insert_sorted,
    write_event,
    write_step,
    write_spine_step,
    climb,
    descend,
    find_sites,
    write_recompute,
    raise_level,
    interleave,
    piece,
    set_aside,
    part_spine,
    split_many,
)
