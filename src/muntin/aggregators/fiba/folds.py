"""The aggregates of nodes, and how many entries they cover: computed from a node, and updated along the spines."""

from __future__ import annotations

import numpy as np

from muntin.aggregators.fiba.nodes import (
    AT_ROOT,
    FRONT,
    INSIDE,
    LEFT,
    ON_LEFT,
    ON_RIGHT,
    PLACES,
    RIGHT,
    ROOT,
    SPINE,
    Arena,
    count_of,
    kid_of,
    parent_of,
    place_of,
    row_of,
    span,
    spine_of,
    width,
)
from muntin.kernels.vocabulary import State, combine, hold, index, kernel, load, store


@kernel
def fold_leaf(window: Arena, node: int) -> State:
    """Return the aggregate of the entries of a leaf.

    Rejected: combining them in pairs, as `fold_inner` does. Late rows took as long.
    """
    slots = window.slots
    base = node * span()
    state = hold(load(slots, base))
    for i in range(1, count_of(window.links, node)):
        state = combine(state, load(slots, base + i))
    return state


@kernel
def fold_inner(window: Arena, node: int) -> State:
    """Return the aggregate of the entries of an inner node, and of its children except those on a spine.

    Combines each entry with the child before it first, so that half as many combines wait for each other.
    """
    slots, links, folds = window.slots, window.links, window.folds
    base = node * span()
    count = count_of(links, node)
    spine = spine_of(links, node)
    first = row_of(links, node) * width()
    state = hold(load(slots, base))
    if spine & ON_LEFT == 0:
        state = combine(load(folds, first), state)
    for i in range(1, count):
        state = combine(state, combine(load(folds, first + i), load(slots, base + i)))
    if spine & ON_RIGHT == 0:
        state = combine(state, load(folds, first + count))
    return state


@kernel
def fold_node(window: Arena, node: int) -> State:
    """Return the fold of a node. O(arity)."""
    if row_of(window.links, node) < 0:
        return fold_leaf(window, node)
    return fold_inner(window, node)


@kernel
def refold(window: Arena, node: int) -> None:
    """Recompute the fold of a node. O(arity)."""
    slots, links, folds = window.slots, window.links, window.folds
    state = fold_node(window, node)
    store(slots, node * span() + span() - 1, state)
    if row_of(links, node) < 0 and spine_of(links, node) & ON_LEFT != 0:
        window.marks[FRONT] = 0
    parent = parent_of(links, node)
    if parent >= 0:
        store(folds, place_of(window, parent, node), state)


@kernel
def add_above(window: Arena, node: int) -> None:
    """Compute the aggregate of a node on the left or the right spine, from its fold and its parent's aggregate."""
    slots, links, folds = window.slots, window.links, window.folds
    parent = parent_of(links, node)
    here = node * span() + span() - 1
    above = parent * span() + span() - 1
    fold = row_of(links, parent) * width()
    if spine_of(links, node) == ON_RIGHT:
        fold += count_of(links, parent)
    if spine_of(links, parent) == AT_ROOT:
        slots[index(here)] = folds[index(fold)]
    elif spine_of(links, node) == ON_LEFT:
        store(slots, here, combine(load(folds, fold), load(slots, above)))
    else:
        store(slots, here, combine(load(slots, above), load(folds, fold)))


@kernel
def recount(window: Arena, node: int) -> None:
    """Count the entries that the aggregate of a node covers. O(arity)."""
    times, links, kids = window.times, window.links, window.kids
    count = count_of(links, node)
    spine = spine_of(links, node)
    total = span() - 1
    size = count
    row = row_of(links, node)
    if row >= 0:
        begin = 1 if spine & ON_LEFT != 0 else 0
        end = count if spine & ON_RIGHT != 0 else count + 1
        for i in range(begin, end):
            size += times[index(kids[index(row * width() + i)] * span() + total)]
    if spine == ON_LEFT or spine == ON_RIGHT:  # noqa: SIM109  # a test of membership would build a tuple
        parent = parent_of(links, node)
        if spine_of(links, parent) != AT_ROOT:
            size += times[index(parent * span() + total)]
    times[index(node * span() + total)] = size


@kernel
def count_entries(window: Arena) -> int:
    """Return the number of entries of the tree: those that the fingers and the root cover. O(1)."""
    times, links, marks = window.times, window.links, window.marks
    root = marks[ROOT]
    if row_of(links, root) < 0:
        return count_of(links, root)
    total = span() - 1
    left = times[index(marks[LEFT] * span() + total)]
    right = times[index(marks[RIGHT] * span() + total)]
    return left + times[index(root * span() + total)] + right  # type: ignore[no-any-return]  # an integer


@kernel
def refresh(window: Arena, node: int) -> None:
    """Recompute the aggregate of a node, of the kind for its position, and what it covers. O(arity)."""
    refold(window, node)
    spine = spine_of(window.links, node)
    if spine == ON_LEFT or spine == ON_RIGHT:  # noqa: SIM109  # a test of membership would build a tuple
        add_above(window, node)
    recount(window, node)


@kernel
def refresh_left(window: Arena, node: int) -> None:
    """Recompute the left spine from one of its nodes down to the finger: each needs its parent's aggregate."""
    links, marks = window.links, window.marks
    while True:
        links[index(4 * node + SPINE)] |= ON_LEFT
        refresh(window, node)
        if row_of(links, node) < 0:
            break
        node = kid_of(window, node, 0)
    marks[LEFT] = node


@kernel
def refresh_right(window: Arena, node: int) -> None:
    """Recompute the right spine from one of its nodes down to the finger."""
    links, marks = window.links, window.marks
    while True:
        links[index(4 * node + SPINE)] |= ON_RIGHT
        refresh(window, node)
        if row_of(links, node) < 0:
            break
        node = kid_of(window, node, count_of(links, node))
    marks[RIGHT] = node


@kernel
def update_left(window: Arena, node: int, more: int) -> None:
    """Recompute the left spine below one of its nodes, whose aggregate has changed and covers `more` entries more.

    The folds there are valid, except that of the leaf.
    """
    slots, times, links, kids, folds = window.slots, window.times, window.links, window.kids, window.folds
    state = hold(load(slots, node * span() + span() - 1))
    first = row_of(links, node) * width()
    node = np.int64(kids[index(first)])  # type: ignore[assignment]  # an integer
    while row_of(links, node) >= 0:
        state = combine(load(folds, first), state)
        store(slots, node * span() + span() - 1, state)
        times[index(node * span() + span() - 1)] += more
        first = row_of(links, node) * width()
        node = np.int64(kids[index(first)])  # type: ignore[assignment]  # an integer
    store(slots, node * span() + span() - 1, combine(fold_leaf(window, node), state))
    times[index(node * span() + span() - 1)] += more
    window.marks[FRONT] = 0


@kernel
def update_right(window: Arena, node: int, more: int) -> None:
    """Recompute the right spine below one of its nodes, as `update_left` does the left one."""
    slots, times, links, kids, folds = window.slots, window.times, window.links, window.kids, window.folds
    state = hold(load(slots, node * span() + span() - 1))
    last = row_of(links, node) * width() + count_of(links, node)
    node = np.int64(kids[index(last)])  # type: ignore[assignment]  # an integer
    while row_of(links, node) >= 0:
        state = combine(state, load(folds, last))
        store(slots, node * span() + span() - 1, state)
        times[index(node * span() + span() - 1)] += more
        last = row_of(links, node) * width() + count_of(links, node)
        node = np.int64(kids[index(last)])  # type: ignore[assignment]  # an integer
    store(slots, node * span() + span() - 1, combine(state, fold_leaf(window, node)))
    times[index(node * span() + span() - 1)] += more


@kernel
def update_above(window: Arena, node: int, depth: int, more: int) -> None:
    """Recompute the dependents of a node with a changed or new entry: `more` is 0 or 1 accordingly.

    Upwards to a spine, then down that spine to the finger. The node is at `depth` of the path of `seek`, and no node of
    a spine has been split since.
    """
    slots, times, links, folds, marks = window.slots, window.times, window.links, window.folds, window.marks
    while spine_of(links, node) == INSIDE:
        state = fold_node(window, node)
        store(slots, node * span() + span() - 1, state)
        times[index(node * span() + span() - 1)] += more
        depth -= 1
        node = parent_of(links, node)
        store(folds, row_of(links, node) * width() + marks[index(PLACES + depth)], state)
    refold(window, node)
    times[index(node * span() + span() - 1)] += more
    if spine_of(links, node) == AT_ROOT:
        return
    add_above(window, node)
    if row_of(links, node) >= 0:
        if spine_of(links, node) == ON_LEFT:
            update_left(window, node, more)
        else:
            update_right(window, node, more)


@kernel
def refresh_spines(window: Arena, left: int, right: int) -> None:
    """Pass down: recompute each spine from one of its nodes on; -1 leaves it unchanged."""
    if left >= 0:
        refresh_left(window, left)
    if right >= 0:
        refresh_right(window, right)


@kernel
def refresh_all_spines(window: Arena) -> None:
    """Recompute the root and both spines from top to bottom, after the root has changed."""
    links, marks = window.links, window.marks
    root = marks[ROOT]
    if row_of(links, root) < 0:
        marks[LEFT] = root
        marks[RIGHT] = root
        refresh(window, root)
    else:
        refresh_left(window, root)
        refresh_right(window, kid_of(window, root, count_of(links, root)))


FOLD_KERNELS = (
    fold_leaf,
    fold_inner,
    fold_node,
    refold,
    add_above,
    recount,
    count_entries,
    refresh,
    refresh_left,
    refresh_right,
    update_left,
    update_right,
    update_above,
    refresh_spines,
    refresh_all_spines,
)
