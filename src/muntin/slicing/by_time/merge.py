"""Final aggregation: the slices of each window become one answer, lazily or by a tree that is kept up.

Lazily every slice of a window is combined anew. The tree is a FlatFat over the block of each key: a node is as good as
the leaves below it that are there, so that only nodes whose leaves are all there are kept up and read. Before windows
are answered it is made anew from the first slice on that has changed; a window then takes O(log n) combines.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Outputs, Slots, State, combine, emit, hold, inlined, kernel, load, store


@kernel
def fold_windows(arena: Any, found: Any, shift: int, outputs: Outputs) -> None:
    """Answer windows from all their slices. Definitions from `shift` on are sessions, which may skip slices."""
    _, _, _, _, _, skip, _, _, states = arena
    _, definitions, _, _, firsts, lasts = found
    for i in range(len(firsts)):
        state = hold(load(states, firsts[i]))
        bit = 1 << (definitions[i] - shift) if definitions[i] >= shift and len(skip) > 0 else 0
        for slot in range(firsts[i] + 1, lasts[i]):
            if bit == 0 or skip[slot] & bit == 0:
                state = combine(state, load(states, slot))
        emit(outputs, i, state)


@inlined
def node(states: Slots, tree: Slots, base: int, leaves: int, at: int) -> State:
    """Return the state of a node: the at-th of a heap whose last level are the slices."""
    if at >= leaves:
        return load(states, base + at - leaves)
    return load(tree, base + at)


@kernel
def renew_tree(arena: Any, tree: Slots, blocks: Any, key: int) -> None:
    """Make the nodes anew above the slices that have changed."""
    base, length, head, size, stale = blocks
    states = arena[8]
    begin = base[key]
    leaves = 1 << length[key]
    least = leaves + head[key]
    most = leaves + head[key] + size[key] - 1
    low = leaves + max(stale[key], head[key])
    high = most
    while low > 1:
        low >>= 1
        high >>= 1
        least = (least + 1) >> 1  # both children must be there
        most = (most - 1) >> 1
        for at in range(max(low, least), min(high, most) + 1):
            older = node(states, tree, begin, leaves, 2 * at)
            store(tree, begin + at, combine(older, node(states, tree, begin, leaves, 2 * at + 1)))
    stale[key] = leaves


@kernel
def query_tree(states: Slots, tree: Slots, base: int, leaves: int, low: int, high: int) -> State:
    """Return the state of the slices [low, high) of a block, of which there is at least one."""
    low += leaves
    high += leaves
    left = right = hold(node(states, tree, base, leaves, low))
    some_left = some_right = False
    while low < high:
        if low & 1 == 1:
            older = node(states, tree, base, leaves, low)
            left = combine(left, older) if some_left else hold(older)
            some_left = True
            low += 1
        if high & 1 == 1:
            high -= 1
            newer = node(states, tree, base, leaves, high)
            right = combine(newer, right) if some_right else hold(newer)
            some_right = True
        low >>= 1
        high >>= 1
    if some_left and some_right:
        return combine(left, right)
    return left if some_left else right


@kernel
def query_windows(arena: Any, tree: Slots, blocks: Any, found: Any, outputs: Outputs) -> None:
    """Answer windows from the trees of their keys."""
    base, length, _, _, stale = blocks
    states = arena[8]
    keys, _, _, _, firsts, lasts = found
    for i in range(len(keys)):
        key = keys[i]
        leaves = 1 << length[key]
        if stale[key] < leaves:
            renew_tree(arena, tree, blocks, key)
        begin = base[key]
        emit(outputs, i, query_tree(states, tree, begin, leaves, firsts[i] - begin, lasts[i] - begin))


LAZY = (fold_windows,)
TREE = (node, renew_tree, query_tree, query_windows)
