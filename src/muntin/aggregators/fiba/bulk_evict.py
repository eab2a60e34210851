"""Bulk eviction: cuts the tree along the boundary between what goes and what stays, without reading what goes.

The boundary is a path. At each level it has a node, the number of its entries that go, its right neighbour, and the
level of the ancestor that holds the entry between the two (-1: the node above the path). The path is in the marks, four
per level from the top down.
"""

from __future__ import annotations

import numpy as np

from muntin.aggregators.fiba.arity import arity
from muntin.aggregators.fiba.folds import refresh_all_spines
from muntin.aggregators.fiba.nodes import (
    COUNT,
    FRONT,
    HEIGHT,
    LEFT,
    ON_LEFT,
    PATH,
    RIGHT,
    ROOT,
    Arena,
    count_of,
    crown,
    entries_before,
    entries_until,
    fits_one,
    kid_of,
    merge_right,
    move_left,
    new_leaf,
    parent_of,
    release,
    release_alone,
    row_of,
    shift,
    span,
    spine_of,
    width,
)
from muntin.aggregators.fiba.single import mend_front, pop_front, refresh_or_note
from muntin.kernels.runtime import prefetch
from muntin.kernels.vocabulary import index, kernel

NODE, PLACE, NEIGHBOUR, ANCESTOR = PATH, PATH + 1, PATH + 2, PATH + 3
"""The four marks of a step of the path."""


@kernel
def evict_until(window: Arena, time: int) -> None:
    """Remove all entries up to and including a time. Amortised O(log m), O(log n) at worst."""
    times, links, marks = window.times, window.links, window.marks
    first = marks[LEFT]
    count = count_of(links, first)
    gone = entries_until(times, first * span(), count, time)
    if gone < count or count == 0:
        if gone > 0:
            pop_front(window, first, gone)
        return
    last = marks[RIGHT]
    if times[index(last * span() + count_of(links, last) - 1)] <= time:
        clear(window)
        return
    top = seek_boundary(window, time)
    depth = trace_boundary(window, top, time)
    cut_boundary(window, top, depth)


@kernel
def clear(window: Arena) -> None:
    """Remove everything. O(1)."""
    marks = window.marks
    release(window, marks[ROOT])
    leaf = new_leaf(window)
    crown(window, leaf)
    marks[LEFT] = leaf
    marks[RIGHT] = leaf
    marks[HEIGHT] = 1
    marks[FRONT] = 0


@kernel
def seek_boundary(window: Arena, time: int) -> int:
    """Return the lowest node of a spine with the whole boundary below it: climbs both spines at once."""
    times, links, marks = window.times, window.links, window.marks
    left = marks[LEFT]
    right = marks[RIGHT]
    while left != right:
        above = parent_of(links, left)
        if time < times[index(above * span())]:
            return left  # type: ignore[no-any-return]  # an integer
        left = above
        above = parent_of(links, right)
        if time >= times[index(above * span() + count_of(links, above) - 1)]:
            return right  # type: ignore[no-any-return]  # an integer
        right = above
    return left  # type: ignore[no-any-return]  # an integer


@kernel
def trace_boundary(window: Arena, top: int, time: int) -> int:
    """Write the path from the top down to the end of the boundary; return its last level."""
    times, links, marks = window.times, window.links, window.marks
    node = top
    neighbour = -1
    if spine_of(links, top) == ON_LEFT:
        neighbour = kid_of(window, parent_of(links, top), 1)
    ancestor = -1
    level = 0
    while True:
        count = count_of(links, node)
        at = entries_before(times, node * span(), count, time)
        ends = False
        if at < count and times[index(node * span() + at)] == time:
            at += 1
            ends = True  # everything below the next child stays
        marks[index(NODE + 4 * level)] = node
        marks[index(PLACE + 4 * level)] = at
        marks[index(NEIGHBOUR + 4 * level)] = neighbour
        marks[index(ANCESTOR + 4 * level)] = ancestor
        prefetch_rest(window, node, at)
        if ends or row_of(links, node) < 0:
            return level
        if at < count:
            neighbour = kid_of(window, node, at + 1)
            ancestor = level
        elif neighbour >= 0:
            neighbour = kid_of(window, neighbour, 0)
        node = kid_of(window, node, at)
        level += 1


@kernel
def prefetch_rest(window: Arena, node: int, at: int) -> None:
    """Prefetch what the cut will read of a node: the memory then answers for all levels of the path at once."""
    slots, times, links, kids, folds = window.slots, window.times, window.links, window.kids, window.folds
    prefetch(slots, node * span() + at)
    row = row_of(links, node)
    if row >= 0:
        first = row * width()
        prefetch(folds, first + at)
        prefetch(folds, first + count_of(links, node))
        for i in range(at, count_of(links, node) + 1):
            prefetch(times, np.int64(kids[index(first + i)]) * span() + span() - 1)


@kernel
def drop_front(window: Arena, node: int, count: int, merged: bool) -> None:
    """Evict the first entries of a node, and the children before them.

    `merged`: the next entry has moved down in a merge, and the child before it is already free; they leave too.
    """
    if row_of(window.links, node) >= 0:
        for i in range(count - 1, -1, -1):
            release(window, kid_of(window, node, i))
    if merged:
        count += 1
    if count > 0:
        shift(window, node, -count)


@kernel
def cut_boundary(window: Arena, top: int, depth: int) -> None:
    """Pass up: evict at each level of the path, and repair nodes without entries from their neighbours."""
    links, marks = window.links, window.marks
    above = parent_of(links, top)
    right = -1
    merged = depth + 1  # the level whose entry moved down in the last merge; levels below it have no node any more
    changed = -1  # the neighbour on the level below, if it has changed and will not be on the left spine
    for level in range(depth, -1, -1):
        node = marks[index(NODE + 4 * level)]
        neighbour = marks[index(NEIGHBOUR + 4 * level)]
        at = marks[index(PLACE + 4 * level)]
        if changed >= 0 and parent_of(links, changed) != neighbour:
            changed = -1
        if level > merged:
            drop_front(window, node, at, False)
            release_alone(window, node)
            continue
        drop_front(window, node, at, level == merged)
        merged = depth + 1
        if level > 0 and count_of(links, node) == 0:
            ancestor = marks[index(ANCESTOR + 4 * level)]
            holder = above
            between = 0
            if ancestor >= 0:
                holder = marks[index(NODE + 4 * ancestor)]
                between = marks[index(PLACE + 4 * ancestor)]
            if fits_one(links, node, neighbour):
                merge_right(window, node, neighbour, holder, between)
                merged = ancestor
                changed = -1
                continue
            move_left(window, node, neighbour, holder, between, count_of(links, neighbour) + 1 - arity())
            changed = neighbour
        if changed >= 0:
            changed = neighbour
            _, right = refresh_or_note(window, neighbour, -1, right)
    finish_cut(window, top, above, merged < 0, right)


@kernel
def finish_cut(window: Arena, top: int, above: int, merged: bool, right: int) -> None:
    """Continue above the path: a tree cut at its right spine has a new root, another is repaired up its left spine."""
    links, marks = window.links, window.marks
    if merged or spine_of(links, top) == ON_LEFT:
        node = top
        if merged:
            node = above
            shift(window, node, -1)
        mend_front(window, node, right)
        return
    if above >= 0:
        # Everything above goes, with all children except this node, the last child.
        links[index(4 * above + COUNT)] -= 1
        release(window, marks[ROOT])
        crown(window, top)
    if count_of(links, top) == 0:
        kid = kid_of(window, top, 0)
        release_alone(window, top)
        crown(window, kid)
    refresh_all_spines(window)
    marks[HEIGHT] = height(window)


@kernel
def height(window: Arena) -> int:
    """Return the number of levels of the tree."""
    levels = 1
    node = window.marks[ROOT]
    while row_of(window.links, node) >= 0:
        node = kid_of(window, node, 0)
        levels += 1
    return levels


EVICT_KERNELS = (
    evict_until,
    clear,
    seek_boundary,
    trace_boundary,
    prefetch_rest,
    drop_front,
    cut_boundary,
    finish_cut,
    height,
)
