"""Queries besides the total: ranges, ranks, single entries, and a compact copy of the tree."""

from __future__ import annotations

from typing import Any

from muntin.aggregators.fiba.nodes import (
    AT_ROOT,
    COUNT,
    HEIGHT,
    INSIDE,
    LEFT,
    PATH,
    RIGHT,
    ROOT,
    SPINE,
    Arena,
    adopt_kid,
    count_of,
    entries_before,
    entries_until,
    kid_of,
    new_inner,
    new_leaf,
    parent_of,
    row_of,
    span,
    spine_of,
    width,
)
from muntin.aggregators.fiba.single import seek
from muntin.kernels.vocabulary import Ints, Outputs, State, combine, emit, emit_empty, hold, index, kernel, load

NODE, COPY, DONE = PATH, PATH + 1, PATH + 2
"""The three marks of a step of the path, while a tree is copied."""


@kernel
def fold_between(window: Arena, node: int, begin: int, end: int) -> State:
    """Return the aggregate of some entries of a node, and of the children between them."""
    slots = window.slots
    base = node * span()
    row = row_of(window.links, node)
    state = hold(load(slots, base + begin))
    for i in range(begin + 1, end):
        if row >= 0:
            state = combine(state, load(window.folds, row * width() + i))
        state = combine(state, load(slots, base + i))
    return state


@kernel
def answer_range(window: Arena, low: int, high: int, outputs: Outputs, at: int) -> bool:
    """Lower the aggregate of the entries with low <= time <= high; return whether there are any. O(log n).

    Children taken as a whole are inside: only a node's first or last child can be on a spine.
    """
    times, links, marks = window.times, window.links, window.marks
    node = marks[ROOT]
    while True:
        base = node * span()
        count = count_of(links, node)
        begin = entries_before(times, base, count, low)
        end = entries_until(times, base, count, high)
        if begin < end:
            break
        if begin > end or row_of(links, node) < 0:
            emit_empty(outputs, at)
            return False
        node = kid_of(window, node, begin)
    state = fold_between(window, node, begin, end)
    if row_of(links, node) >= 0:
        state = prepend_from(window, kid_of(window, node, begin), low, state)
        state = append_until(window, kid_of(window, node, end), high, state)
    emit(outputs, at, state)
    return True


@kernel
def answer_ranges(window: Arena, lows: Ints, highs: Ints, outputs: Outputs, found: Any) -> None:
    """Lower the aggregates of many ranges, and note which of them hold an entry."""
    for i in range(len(lows)):
        found[index(i)] = answer_range(window, lows[index(i)], highs[index(i)], outputs, i)


@kernel
def prepend_from(window: Arena, node: int, low: int, state: State) -> State:
    """Return a state with all entries below a node from time `low` on prepended."""
    times, links, folds = window.times, window.links, window.folds
    while True:
        count = count_of(links, node)
        begin = entries_before(times, node * span(), count, low)
        inner = row_of(links, node) >= 0
        if begin < count:
            if inner:
                state = combine(load(folds, row_of(links, node) * width() + count), state)
            state = combine(fold_between(window, node, begin, count), state)
        if not inner:
            return state
        node = kid_of(window, node, begin)


@kernel
def append_until(window: Arena, node: int, high: int, state: State) -> State:
    """Return a state with all entries below a node up to time `high` appended."""
    times, links, folds = window.times, window.links, window.folds
    while True:
        end = entries_until(times, node * span(), count_of(links, node), high)
        inner = row_of(links, node) >= 0
        if end > 0:
            if inner:
                state = combine(state, load(folds, row_of(links, node) * width()))
            state = combine(state, fold_between(window, node, 0, end))
        if not inner:
            return state
        node = kid_of(window, node, end)


@kernel
def answer_entry(window: Arena, column: int, outputs: Outputs) -> None:
    """Lower the state of a single entry."""
    emit(outputs, 0, load(window.slots, column))


@kernel
def entry_at(window: Arena, time: int) -> int:
    """Return the column of the entry of a time; -1 if there is none."""
    node, at, _, found = seek(window, time)
    if found:
        return node * span() + at
    return -1


# ---------------------------------------------------------------- ranks


@kernel
def entries_below(window: Arena, node: int) -> int:
    """Return the number of entries in the subtree of a node that is not on the right spine. O(1)."""
    times, links, marks = window.times, window.links, window.marks
    last = span() - 1
    if spine_of(links, node) == INSIDE:
        return times[index(node * span() + last)]  # type: ignore[no-any-return]  # an integer
    below = times[index(marks[LEFT] * span() + last)]  # the whole left spine; the part above the node is known
    parent = parent_of(links, node)
    if spine_of(links, parent) != AT_ROOT:
        below -= times[index(parent * span() + last)]
    return below  # type: ignore[no-any-return]  # an integer


@kernel
def count_before(window: Arena, time: int) -> int:
    """Return the number of entries before a time. O(log n)."""
    times, links, marks = window.times, window.links, window.marks
    node = marks[ROOT]
    before = 0
    while True:
        at = entries_before(times, node * span(), count_of(links, node), time)
        before += at
        if row_of(links, node) < 0:
            return before
        for i in range(at):
            before += entries_below(window, kid_of(window, node, i))
        node = kid_of(window, node, at)


@kernel
def time_of_rank(window: Arena, rank: int) -> int:
    """Return the time with `rank` entries before it, which must exist. O(log n)."""
    times, links, marks = window.times, window.links, window.marks
    node = marks[ROOT]
    while row_of(links, node) >= 0:
        count = count_of(links, node)
        at = 0
        while at < count:
            below = entries_below(window, kid_of(window, node, at))
            if rank < below:
                break
            if rank == below:
                return times[index(node * span() + at)]  # type: ignore[no-any-return]  # an integer
            rank -= below + 1
            at += 1
        node = kid_of(window, node, at)
    return times[index(node * span() + rank)]  # type: ignore[no-any-return]  # an integer


# ---------------------------------------------------------------- copies


@kernel
def copy_node(window: Arena, node: int, other: Arena) -> int:
    """Copy a node without its children into another arena; return its number there."""
    slots, times, links = window.slots, window.times, window.links
    copy = new_leaf(other) if row_of(links, node) < 0 else new_inner(other)
    count = count_of(links, node)
    for i in range(span()):
        if i < count or i == span() - 1:
            other.slots[index(copy * span() + i)] = slots[index(node * span() + i)]
            other.times[index(copy * span() + i)] = times[index(node * span() + i)]
    other.links[index(4 * copy + COUNT)] = count
    other.links[index(4 * copy + SPINE)] = spine_of(links, node)
    return copy


@kernel
def copy_tree(window: Arena, other: Arena) -> None:
    """Copy the tree into an empty arena with room for it, nodes numbered from the root down, left to right."""
    links, marks = window.links, window.marks
    path = marks  # a node, its copy, and the number of its children done, for each level
    there = other.marks
    depth = 0
    path[NODE] = marks[ROOT]
    path[COPY] = copy_node(window, marks[ROOT], other)
    path[DONE] = 0
    there[ROOT] = path[COPY]
    there[HEIGHT] = marks[HEIGHT]
    while depth >= 0:
        node = path[index(NODE + 3 * depth)]
        done = path[index(DONE + 3 * depth)]
        if node == marks[LEFT]:
            there[LEFT] = path[index(COPY + 3 * depth)]
        if node == marks[RIGHT]:
            there[RIGHT] = path[index(COPY + 3 * depth)]
        if row_of(links, node) < 0 or done > count_of(links, node):
            depth -= 1
            continue
        kid = kid_of(window, node, done)
        copy = copy_node(window, kid, other)
        adopt_kid(other, path[index(COPY + 3 * depth)], done, copy)
        path[index(DONE + 3 * depth)] = done + 1
        depth += 1
        path[index(NODE + 3 * depth)] = kid
        path[index(COPY + 3 * depth)] = copy
        path[index(DONE + 3 * depth)] = 0


QUERY_KERNELS = (
    fold_between,
    answer_range,
    answer_ranges,
    prepend_from,
    append_until,
    answer_entry,
    entry_at,
    entries_below,
    count_before,
    time_of_rank,
    copy_node,
    copy_tree,
)
