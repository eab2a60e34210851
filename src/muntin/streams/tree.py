"""A FlatFat over the block of each key, whose leaves are its slices.

Only nodes whose leaves are all present are maintained and read. Before windows are answered, the tree is rebuilt from
the first changed slice on; a window then takes O(log n) combines.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Slots, State, combine, hold, inlined, kernel, load, store
from muntin.streams.blocks import Blocks, room_of


@inlined
def node(states: Slots, tree: Slots, base: int, leaves: int, at: int) -> State:
    """Return the state of a node: the at-th of a heap whose last level are the slices."""
    if at >= leaves:
        return load(states, base + at - leaves)
    return load(tree, base + at)


@kernel
def rebuild_tree(states: Slots, tree: Slots, blocks: Blocks, key: int) -> None:
    """Rebuild the nodes above the slices of a key that have changed."""
    begin = blocks.base[key]
    head = blocks.head[key]
    leaves = room_of(blocks.length[key])
    least = leaves + head
    most = leaves + head + blocks.size[key] - 1
    low = leaves + max(blocks.stale[key], head)
    high = most
    while low > 1:
        low >>= 1
        high >>= 1
        least = (least + 1) >> 1  # both children must be present
        most = (most - 1) >> 1
        for at in range(max(low, least), min(high, most) + 1):
            older = node(states, tree, begin, leaves, 2 * at)
            store(tree, begin + at, combine(older, node(states, tree, begin, leaves, 2 * at + 1)))
    blocks.stale[key] = leaves


@kernel
def query_tree(states: Slots, tree: Slots, base: int, leaves: int, low: int, high: int) -> State:
    """Return the state of the slices [low, high) of a block, at least one."""
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
def query_slices(states: Slots, tree: Slots, blocks: Blocks, key: int, first: int, last: int) -> State:
    """Return the state of the slots [first, last) of a key, at least one."""
    leaves = room_of(blocks.length[key])
    if blocks.stale[key] < leaves:
        rebuild_tree(states, tree, blocks, key)
    base = blocks.base[key]
    return query_tree(states, tree, base, leaves, first - base, last - base)


TREE = (room_of, node, rebuild_tree, query_tree, query_slices)
