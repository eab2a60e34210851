r"""States over the trees of rows: what is folded anew after an insertion, and the aggregates of ranges.

Ranges whose ends both go on are answered as by two stacks over a single leaf: `suffixes` holds the aggregates of the
rows from each place of the first leaf to its end, and `rest` that of all rows behind it, to which those that come are
combined. When the start leaves the leaf, the rest is asked from the tree: O(LEAF + log n) combines, shared by all
ranges that begin in one leaf. So nothing is kept between calls, and no call pays for turning over a long stack.

    leaf x                        leaves between           leaf y
    [ . . a b c d ]               closed nodes             [ e f . . ]
          suffixes: abcd bcd cd d   \______ rest: between, e, f _/
    the range that begins at b:  bcd + rest
"""

from __future__ import annotations

from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    emit_empty,
    hold,
    index,
    inlined,
    kernel,
    lift,
    load,
    replaceable,
    store,
)
from muntin.streams.rows.tree import (
    BASE,
    HI,
    LEVEL,
    LO,
    NEXT,
    NODE,
    NONE,
    PARENT,
    SLOT,
    Tree,
    at_of,
    leaf_of,
)


@replaceable
@inlined
def state_at(columns: Columns, times: Ints, place: int) -> State:
    """Return the state of the entry at a place: that of a row, which is lifted whenever it is read."""
    return lift(columns, times, place)


@kernel
def refold(tree: Tree, stale: Ints, count: int, columns: Columns, states: Slots) -> None:
    """Fold the states of stale nodes anew, lower ones first. O(LEAF) for each."""
    nodes = tree.nodes
    for i in range(count):
        node = stale[i]
        base, low, high = nodes[node * NODE + BASE], nodes[node * NODE + LO], nodes[node * NODE + HI]
        if nodes[node * NODE + LEVEL] == 0:
            state = hold(state_at(columns, tree.times, base + low))
            for place in range(base + low + 1, base + high):
                state = combine(state, state_at(columns, tree.times, place))
        else:
            state = hold(load(states, tree.kids[base + low]))
            for slot in range(base + low + 1, base + high):
                state = combine(state, load(states, tree.kids[slot]))
        store(states, node, state)


@inlined
def goes_on(tree: Tree, leaf: int, at: int, to: int, end: int) -> bool:
    """Return whether the rows from a place to another are at most those of two leaves."""
    return (to == leaf and end >= at) or (to != leaf and to == tree.nodes[index(leaf * NODE + NEXT)])


@kernel
def answer_ranges(
    tree: Tree, states: Slots, suffixes: Slots, columns: Columns, first: Ints, last: Ints, outputs: Outputs
) -> None:
    """Write the aggregate of each range, whose ends are positions; NONE where it holds no row.

    Amortised about five combines for a range that goes on from the one before, else O(LEAF + log n).
    """
    nodes, times = tree.nodes, tree.times
    stack = NONE  # the leaf whose suffixes are known
    top = 0  # the place after the last row of these
    leaf = at = 0  # where `rest` ends
    has_rest = False
    rest = load(suffixes, 0)
    for i in range(len(first)):
        if first[index(i)] == NONE:
            emit_empty(outputs, i)
            continue
        begin, start = leaf_of(first[index(i)]), at_of(first[index(i)])
        to, end = leaf_of(last[index(i)]), at_of(last[index(i)])
        if begin != stack or start >= top or not goes_on(tree, leaf, at, to, end):
            stack = begin
            base = nodes[index(begin * NODE + BASE)]
            top = end if begin == to else nodes[index(begin * NODE + HI)]
            store(suffixes, top - 1, state_at(columns, times, base + top - 1))
            for k in range(top - 2, start - 1, -1):
                store(suffixes, k, combine(state_at(columns, times, base + k), load(suffixes, k + 1)))
            has_rest = begin != to
            if has_rest:
                rest = hold(between(tree, states, columns, begin, to, end))
            leaf = to
            at = end
        while leaf != to or at < end:
            base = nodes[index(leaf * NODE + BASE)]
            stop = end if leaf == to else nodes[index(leaf * NODE + HI)]
            for place in range(base + at, base + stop):
                row = state_at(columns, times, place)
                rest = combine(rest, row) if has_rest else hold(row)
                has_rest = True
            at = stop
            if leaf != to:
                leaf = nodes[index(leaf * NODE + NEXT)]
                at = 0
        if has_rest:
            emit(outputs, i, combine(load(suffixes, start), rest))
        else:
            emit(outputs, i, load(suffixes, start))


@kernel
def between(tree: Tree, states: Slots, columns: Columns, begin: int, to: int, end: int) -> object:
    """Return the aggregate of the rows after a leaf, up to a place in a later one. O(LEAF + log n) combines.

    Climbs from both until they have one parent. All nodes between are closed, and none has lost a row.
    """
    nodes, kids, times = tree.nodes, tree.kids, tree.times
    base = nodes[to * NODE + BASE]
    newer = state_at(columns, times, base)
    for place in range(base + 1, base + end):
        newer = combine(newer, state_at(columns, times, place))
    older = newer
    has_older = False
    left, right = begin, to
    while nodes[left * NODE + PARENT] != nodes[right * NODE + PARENT]:
        parent = nodes[left * NODE + PARENT]
        base = nodes[parent * NODE + BASE]
        for slot in range(nodes[left * NODE + SLOT] + 1, nodes[parent * NODE + HI]):
            state = load(states, kids[base + slot])
            older = combine(older, state) if has_older else hold(state)
            has_older = True
        left = parent
        parent = nodes[right * NODE + PARENT]
        base = nodes[parent * NODE + BASE]
        for slot in range(nodes[right * NODE + SLOT] - 1, nodes[parent * NODE + LO] - 1, -1):
            newer = combine(load(states, kids[base + slot]), newer)
        right = parent
    base = nodes[nodes[left * NODE + PARENT] * NODE + BASE]
    for slot in range(nodes[left * NODE + SLOT] + 1, nodes[right * NODE + SLOT]):
        state = load(states, kids[base + slot])
        older = combine(older, state) if has_older else hold(state)
        has_older = True
    return combine(older, newer) if has_older else newer


FOLDING = (leaf_of, at_of, state_at, refold, goes_on, between, answer_ranges)
