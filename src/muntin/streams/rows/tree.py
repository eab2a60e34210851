r"""A B+-tree of rows for each key, the nodes of all keys in one arena. No kernel here sees a value or a state.

    a key    root, first leaf, last leaf, rows
                                  root
                   [ low | kid ] [ low | kid ] [ low | kid ]
                    /             |                 \
             closed            closed              open          the right spine is open: it grows
            /   |   \         /  |  \             /    \
    ... [leaf] [leaf] ->  [leaf] -> [leaf] ->  [leaf] -> [leaf] <- rows in order
        LO ^  evicted rows before it                     HI ^

A leaf is a block of up to `LEAF` places. A place is a row: its time is in `times`, its columns are arrays of the owner
at the same place. Inner nodes have up to `FANOUT` kids, and the least time of each. The state of a *closed* node, the
aggregate of its rows, is kept by the owner under the number of the node; nobody reads that of an open one, nor of one
that has lost rows at the front, so that rows in order and eviction refold nothing.

Rows in order go to the last leaf: O(1). Late ones of a leaf are merged into it together, which moves at most its rows
and splits it if they no longer fit: O(log n + LEAF) each at worst, and O(log n) nodes become stale. Moves of rows are
written to a log, for the owner to repeat them on its columns. A key with few rows has one block of 4, 8, ... places.

A position is a leaf and a place in it, packed into one integer. Between two leaves there are two: the end of one
and the start of the next. Ranges begin with the latter and end with the former.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.durations import BEFORE_TIME
from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.types import OBJECT, Array

LEAF, FANOUT = 64, 16
NONE = -1
BASE, ROOM, LO, HI, PARENT, SLOT, NEXT, LEVEL, COUNT, STANDING = range(10)
"""The numbers of a node: the first place of a leaf, or the first of an inner node's kids; the places of a leaf; the
first live entry and the one after the last; the parent, and the place there; the next leaf, or the next free node; the
height; how many rows a closed node holds; whether its state is to be kept."""
NODE = 10
OPEN, CLOSED, STALE = range(3)
"""Standing: on the right spine; with a state; with one that must be folded anew."""
ROOT, FIRST, LAST, ROWS = range(4)
KEY = 4
"""The numbers of a key."""
LEAF_SIZE, KIDS_SIZE, USED, NODES, KID_ROWS, FREE_NODE, FREE_KIDS, MOVES, STALES, HELD, SPLITS, FREE_BLOCK = range(12)
"""The marks: how many rows a leaf and kids an inner node may have; places, nodes and rows of kids ever used; the first
free ones; the lengths of the log; the rows held; the leaves that were split; then the first free block of each size."""
MARKS = FREE_BLOCK + 8
LEAST_ROOM = 4
DONE, NO_ROOM, FULL = range(3)
"""Why `insert_rows` returned: all rows are in; the arrays must grow; the log must be carried out."""
AT_ONCE = 1024
"""The most rows that are merged into one leaf at once."""
SHIFT, AT = 7, 127
"""A position is leaf << SHIFT | place."""


class Tree(NamedTuple):
    """The arrays of all trees."""

    nodes: Ints
    kids: Ints
    lows: Ints
    """Beside each kid, the least time in it; that of a first kid means nothing."""
    times: Ints
    keys: Ints
    marks: Ints

    @classmethod
    def empty(cls, leaf: int = LEAF, fanout: int = FANOUT) -> Tree:
        """Return trees without rows."""
        marks = np.zeros(MARKS, np.int64)
        marks[FREE_NODE], marks[FREE_KIDS], marks[FREE_BLOCK:] = NONE, NONE, NONE
        marks[LEAF_SIZE], marks[KIDS_SIZE] = leaf, fanout
        nodes, kids, lows, times, keys = (np.zeros(0, np.int64) for _ in range(5))
        return cls(nodes, kids, lows, times, keys, marks)


class Log(NamedTuple):
    """What an insertion did, in order."""

    places: Ints
    """The place of each new row."""
    moves: Ints
    """Pairs of places: the row of the second is moved to the first."""
    stale: Ints
    """Nodes whose states must be folded anew, lower ones first."""
    order: Ints
    """Room to sort these."""
    made: Ints
    """The leaves that rows of one leaf went to."""

    @classmethod
    def empty(cls, length: int = 1 << 13) -> Log:
        """Return room for a log; insertion stops when it is full."""
        none = np.zeros(0, np.int64)
        moves, stale, order, made = (np.zeros(size, np.int64) for size in (2 * length, length, length, AT_ONCE))
        return cls(none, moves, stale, order, made)


def grown(held: Tree, rows: int, *, more: bool) -> Tree:
    """Return trees with room for more rows, the same if there is; `more` if there turned out to be too little."""
    marks = held.marks
    size, fanout = int(marks[LEAF_SIZE]), int(marks[KIDS_SIZE])
    leaves = (rows + AT_ONCE) // (size // 2) + 4
    inner = leaves + 64
    wanted = (
        (NODE * (int(marks[NODES]) + leaves + inner), held.nodes),
        (int(marks[KID_ROWS]) + inner * fanout, held.kids),
        (int(marks[USED]) + leaves * size, held.times),
    )
    if not more and all(least <= len(array) for least, array in wanted):
        return held
    nodes, kids, times = (max(least, len(array) + len(array) // 2) for least, array in wanted)
    return held._replace(
        nodes=longer(held.nodes, nodes - nodes % NODE + NODE),
        kids=longer(held.kids, kids),
        lows=longer(held.lows, kids),
        times=longer(held.times, times),
    )


def longer(array: Array, length: int) -> Array:
    """Return a longer array; what is behind the old part means nothing."""
    result = np.full(length, None) if array.dtype == OBJECT else np.empty(length, array.dtype)
    result[: len(array)] = array
    return result


def close(held: Tree, stale: Array) -> None:
    """Note that the states of nodes have been folded."""
    held.nodes[stale * NODE + STANDING] = CLOSED


# ---------------------------------------------------------------- the arena


@kernel
def block_class(room: int) -> int:
    """Return the mark of the free blocks of a size."""
    which = FREE_BLOCK
    while room > LEAST_ROOM:
        room >>= 1
        which += 1
    return which


@kernel
def allot(tree: Tree, room: int) -> int:
    """Return the first place of a block."""
    marks = tree.marks
    which = block_class(room)
    base: int = marks[which]
    if base != NONE:
        marks[which] = tree.times[base]  # a free block's first place links to the next one
        return base
    base = marks[USED]
    marks[USED] = base + room
    return base


@kernel
def give_back(tree: Tree, base: int, room: int) -> None:
    """Put a block on the free list."""
    which = block_class(room)
    tree.times[base] = tree.marks[which]
    tree.marks[which] = base


@kernel
def new_node(tree: Tree, level: int) -> int:
    """Return a new open node without entries; an inner one has kids already, a leaf gets a block by its maker."""
    nodes, marks = tree.nodes, tree.marks
    node: int = marks[FREE_NODE]
    if node != NONE:
        marks[FREE_NODE] = nodes[node * NODE + NEXT]
    else:
        node = marks[NODES]
        marks[NODES] = node + 1
    at = node * NODE
    nodes[at + LO] = nodes[at + HI] = nodes[at + COUNT] = nodes[at + SLOT] = 0
    nodes[at + PARENT] = nodes[at + NEXT] = NONE
    nodes[at + LEVEL] = level
    nodes[at + STANDING] = OPEN
    if level > 0:
        row = marks[FREE_KIDS]
        if row != NONE:
            marks[FREE_KIDS] = tree.kids[row]
        else:
            row = marks[KID_ROWS]
            marks[KID_ROWS] = row + marks[KIDS_SIZE]
        nodes[at + BASE] = row
    return node


@kernel
def free_node(tree: Tree, node: int) -> None:
    """Free a node, and its block or its kids."""
    nodes, marks = tree.nodes, tree.marks
    at = node * NODE
    if nodes[at + LEVEL] == 0:
        give_back(tree, nodes[at + BASE], nodes[at + ROOM])
    else:
        tree.kids[nodes[at + BASE]] = marks[FREE_KIDS]
        marks[FREE_KIDS] = nodes[at + BASE]
    nodes[at + STANDING] = OPEN
    nodes[at + NEXT] = marks[FREE_NODE]
    marks[FREE_NODE] = node


# ---------------------------------------------------------------- positions


@inlined
def position(leaf: int, at: int) -> int:
    """Return a position."""
    return leaf << SHIFT | at


@inlined
def leaf_of(place: int) -> int:
    """Return the leaf of a position."""
    return place >> SHIFT


@inlined
def at_of(place: int) -> int:
    """Return the place of a position in its leaf."""
    return place & AT


@inlined
def place_of(tree: Tree, where: int) -> int:
    """Return the place of the row at a position: where its time and its columns are."""
    place: int = tree.nodes[index(leaf_of(where) * NODE + BASE)] + at_of(where)
    return place


@inlined
def as_start(tree: Tree, where: int) -> int:
    """Return a position as the start of a range: not the end of a leaf that another one follows."""
    at = leaf_of(where) * NODE
    if at_of(where) == tree.nodes[index(at + HI)] and tree.nodes[index(at + NEXT)] != NONE:
        after = tree.nodes[index(at + NEXT)]
        return position(after, tree.nodes[index(after * NODE + LO)])
    return where


@inlined
def is_end(tree: Tree, where: int) -> bool:
    """Return whether no row follows a start position."""
    high: int = tree.nodes[index(leaf_of(where) * NODE + HI)]
    return at_of(where) == high


@kernel
def leaf_at(tree: Tree, key: int, time: int) -> int:
    """Return the last leaf whose first row is not later than a time, or the first leaf. O(log n), O(1) at the end."""
    nodes = tree.nodes
    last: int = tree.keys[key * KEY + LAST]
    if tree.times[nodes[last * NODE + BASE] + nodes[last * NODE + LO]] <= time:
        return last
    node: int = tree.keys[key * KEY + ROOT]
    while nodes[node * NODE + LEVEL] > 0:
        row = nodes[node * NODE + BASE]
        slot = nodes[node * NODE + HI] - 1
        while slot > nodes[node * NODE + LO] and tree.lows[row + slot] > time:
            slot -= 1
        node = tree.kids[row + slot]
    return node


@kernel
def after_time(tree: Tree, key: int, time: int) -> int:
    """Return the position after all rows of a key up to a time, as the end of a range. O(log n)."""
    leaf = leaf_at(tree, key, time)
    base = tree.nodes[leaf * NODE + BASE]
    low, high = tree.nodes[leaf * NODE + LO], tree.nodes[leaf * NODE + HI]
    while low < high:
        middle = (low + high) >> 1
        if tree.times[base + middle] > time:
            high = middle
        else:
            low = middle + 1
    return position(leaf, low)


@kernel
def rank_of(tree: Tree, where: int) -> int:
    """Return how many rows of a key are before a position. O(log n)."""
    nodes = tree.nodes
    node = leaf_of(where)
    rank: int = at_of(where) - nodes[node * NODE + LO]
    parent = nodes[node * NODE + PARENT]
    while parent != NONE:
        base = nodes[parent * NODE + BASE]
        for slot in range(nodes[parent * NODE + LO], nodes[node * NODE + SLOT]):
            rank += nodes[tree.kids[base + slot] * NODE + COUNT]
        node = parent
        parent = nodes[node * NODE + PARENT]
    return rank


@kernel
def at_rank(tree: Tree, key: int, rank: int) -> int:
    """Return the position before which `rank` rows are, as a start. O(log n)."""
    nodes = tree.nodes
    node = tree.keys[key * KEY + ROOT]
    while nodes[node * NODE + LEVEL] > 0:
        base = nodes[node * NODE + BASE]
        slot = nodes[node * NODE + LO]
        while slot < nodes[node * NODE + HI] - 1 and rank >= nodes[tree.kids[base + slot] * NODE + COUNT]:
            rank -= nodes[tree.kids[base + slot] * NODE + COUNT]
            slot += 1
        node = tree.kids[base + slot]
    return position(node, nodes[node * NODE + LO] + rank)


# ---------------------------------------------------------------- insertion


@kernel
def mark_stale(tree: Tree, log: Log, node: int) -> None:
    """Note that the states of a closed node and of the closed ones above it must be folded anew."""
    nodes, marks = tree.nodes, tree.marks
    while node != NONE and nodes[node * NODE + STANDING] == CLOSED:
        nodes[node * NODE + STANDING] = STALE
        log.stale[marks[STALES]] = node
        marks[STALES] += 1
        node = nodes[node * NODE + PARENT]


@kernel
def adopt(tree: Tree, parent: int, slot: int, kid: int, low: int) -> None:
    """Make a node the kid of another, at a slot."""
    nodes = tree.nodes
    row = nodes[parent * NODE + BASE]
    tree.kids[row + slot] = kid
    tree.lows[row + slot] = low
    nodes[kid * NODE + PARENT] = parent
    nodes[kid * NODE + SLOT] = slot


@kernel
def move_kids(tree: Tree, source: int, first: int, last: int, target: int, at: int) -> None:
    """Move the kids [first, last) of a node to another, or within it, from slot `at` on."""
    row = tree.nodes[source * NODE + BASE]
    for i in range(last - first):
        k = i if at < first or source != target else last - first - 1 - i
        adopt(tree, target, at + k, tree.kids[row + first + k], tree.lows[row + first + k])


@kernel
def close_left(tree: Tree, log: Log, left: int, right: int) -> None:
    """Let a new node take the standing of its left neighbour, which is closed from now on; mark both as stale."""
    nodes = tree.nodes
    was_open = nodes[left * NODE + STANDING] == OPEN
    if was_open:
        nodes[left * NODE + STANDING] = CLOSED
    else:
        nodes[right * NODE + STANDING] = CLOSED
        mark_stale(tree, log, right)
    mark_stale(tree, log, left)


@kernel
def insert_after(tree: Tree, log: Log, key: int, left: int, right: int, low: int) -> None:
    """Insert a node, whose least time is `low`, after its left neighbour; split parents that are full."""
    nodes, size = tree.nodes, tree.marks[KIDS_SIZE]
    while True:
        parent = nodes[left * NODE + PARENT]
        level = nodes[left * NODE + LEVEL]
        if parent == NONE:
            parent = new_node(tree, level + 1)
            adopt(tree, parent, 0, left, BEFORE_TIME)
            nodes[parent * NODE + HI] = 1
            tree.keys[key * KEY + ROOT] = parent
        slot = nodes[left * NODE + SLOT] + 1
        first = nodes[parent * NODE + LO]
        if nodes[parent * NODE + HI] == size and first > 0:
            move_kids(tree, parent, first, size, parent, 0)
            nodes[parent * NODE + LO] = 0
            nodes[parent * NODE + HI] = size - first
            slot -= first
        split = NONE
        into = parent
        if nodes[parent * NODE + HI] == size:
            split = new_node(tree, level + 1)
            half = size if slot == size else size // 2  # rows in order leave full nodes behind
            move_kids(tree, parent, half, size, split, 0)
            nodes[parent * NODE + HI] = half
            nodes[split * NODE + HI] = size - half
            if slot > half or half == size:
                into = split
                slot -= half
        move_kids(tree, into, slot, nodes[into * NODE + HI], into, slot + 1)
        nodes[into * NODE + HI] += 1
        adopt(tree, into, slot, right, low)
        close_left(tree, log, left, right)
        if split == NONE:
            return
        left = parent
        right = split
        low = tree.lows[nodes[split * NODE + BASE]]


@kernel
def first_leaf(tree: Tree, key: int) -> None:
    """Give a key that has no rows an empty leaf."""
    leaf = new_node(tree, 0)
    tree.nodes[leaf * NODE + ROOM] = LEAST_ROOM
    tree.nodes[leaf * NODE + BASE] = allot(tree, LEAST_ROOM)
    tree.keys[key * KEY + ROOT] = tree.keys[key * KEY + FIRST] = tree.keys[key * KEY + LAST] = leaf


@kernel
def share_out(tree: Tree, log: Log, leaf: int, total: int) -> int:
    """Give the `total` rows of a leaf their leaves, with their sizes; return how many, and list them in the log.

    The last leaf is filled before another one is begun; a full one in the middle is halved, or shared out evenly.
    """
    nodes, size = tree.nodes, tree.marks[LEAF_SIZE]
    at = leaf * NODE
    if nodes[at + LO] + total <= nodes[at + ROOM]:
        first = total
    elif nodes[at + ROOM] < size:
        room = nodes[at + ROOM]
        while room < min(total, size):
            room *= 2
        nodes[at + ROOM] = room
        nodes[at + BASE] = allot(tree, room)
        nodes[at + LO] = 0
        first = min(total, size)
    elif nodes[at + NEXT] == NONE:
        first = size - nodes[at + LO]
    else:
        shares = max(2, (total + size - 1) // size)
        first = min((total + shares - 1) // shares, size - nodes[at + LO])
        tree.marks[SPLITS] += 1
    nodes[at + HI] = nodes[at + LO] + first
    log.made[0] = leaf
    rest = total - first
    parts: int = (rest + size - 1) // size
    is_last = nodes[at + NEXT] == NONE
    for i in range(parts):
        made = new_node(tree, 0)
        nodes[made * NODE + ROOM] = size
        nodes[made * NODE + BASE] = allot(tree, size)
        nodes[made * NODE + HI] = min(rest, size) if is_last else (rest + parts - i - 1) // (parts - i)
        rest -= nodes[made * NODE + HI]
        log.made[1 + i] = made
    return 1 + parts


@kernel
def merge_rows(tree: Tree, log: Log, key: int, leaf: int, row_times: Ints, first: int, last: int) -> None:
    """Merge the rows [first, last), in time order, into a leaf, after rows of equal time. O(LEAF + rows + log n).

    Leaves are filled from the back, so that no row is overwritten before it has moved:
    a leaf of 10 20 40 with room for a fourth takes 20 (late): 40 moves to the fourth place, the new 20 goes to the
    third, and 10 and 20 stay.
    """
    nodes, times, marks = tree.nodes, tree.times, tree.marks
    at = leaf * NODE
    base, room = nodes[at + BASE], nodes[at + ROOM]
    low = base + nodes[at + LO]
    old = base + nodes[at + HI] - 1
    new = last - 1
    count = share_out(tree, log, leaf, old + 1 - low + last - first)
    for i in range(count - 1, -1, -1):
        made = log.made[i] * NODE
        begin = nodes[made + BASE] + nodes[made + LO]
        for place in range(nodes[made + BASE] + nodes[made + HI] - 1, begin - 1, -1):
            if new >= first and (old < low or times[index(old)] <= row_times[index(new)]):
                times[index(place)] = row_times[index(new)]
                log.places[index(new)] = place
                new -= 1
            elif place == old:
                break  # the rows before it stay where they are
            else:
                times[index(place)] = times[index(old)]
                log.moves[index(marks[MOVES])] = place
                log.moves[index(marks[MOVES] + 1)] = old
                marks[MOVES] += 2
                old -= 1
    if nodes[at + BASE] != base:
        give_back(tree, base, room)
    mark_stale(tree, log, leaf)
    for i in range(1, count):
        left, made = log.made[i - 1], log.made[i]
        nodes[made * NODE + NEXT] = nodes[left * NODE + NEXT]
        nodes[left * NODE + NEXT] = made
        if tree.keys[key * KEY + LAST] == left:
            tree.keys[key * KEY + LAST] = made
        insert_after(tree, log, key, left, made, times[nodes[made * NODE + BASE]])
    tree.keys[key * KEY + ROWS] += last - first
    marks[HELD] += last - first


@kernel
def has_room(tree: Tree) -> bool:
    """Return whether `AT_ONCE` more rows fit in any case."""
    size, marks = tree.marks[LEAF_SIZE], tree.marks
    leaves = AT_ONCE // (size // 2) + 4
    places: bool = marks[USED] + leaves * size <= len(tree.times)
    inner = leaves + 64
    kids: bool = marks[KID_ROWS] + inner * marks[KIDS_SIZE] <= len(tree.kids)
    nodes: bool = (marks[NODES] + leaves + inner) * NODE <= len(tree.nodes)
    return places and kids and nodes


@kernel
def sort_stale(tree: Tree, log: Log) -> None:
    """Put the stale nodes in order, lower ones first, and count their rows."""
    nodes, count = tree.nodes, tree.marks[STALES]
    done = 0
    level = 0
    while done < count:
        for i in range(count):
            node = log.stale[i]
            if nodes[node * NODE + LEVEL] == level:
                log.order[done] = node
                done += 1
                recount(tree, node)
        level += 1
    for i in range(count):
        log.stale[i] = log.order[i]


@kernel
def recount(tree: Tree, node: int) -> None:
    """Count the rows of a closed node, whose kids are counted."""
    nodes = tree.nodes
    at = node * NODE
    if nodes[at + LEVEL] == 0:
        nodes[at + COUNT] = nodes[at + HI] - nodes[at + LO]
        return
    nodes[at + COUNT] = 0
    for slot in range(nodes[at + LO], nodes[at + HI]):
        nodes[at + COUNT] += nodes[tree.kids[nodes[at + BASE] + slot] * NODE + COUNT]


@kernel
def insert_rows(tree: Tree, log: Log, keys: Ints, row_times: Ints, cursor: Ints) -> int:
    """Insert rows, sorted by key and time, from the cursor on; return why it stopped.

    No row moves twice, and none that is new moves, before the log is carried out.
    """
    nodes, marks = tree.nodes, tree.marks
    row = cursor[0]
    marks[MOVES] = marks[STALES] = 0
    stopped = DONE
    while row < len(keys) and stopped == DONE:
        key = keys[row]
        if not has_room(tree):
            stopped = NO_ROOM
        elif marks[MOVES] + 4 * marks[LEAF_SIZE] > len(log.moves) or marks[STALES] + 512 > len(log.stale):
            stopped = FULL
        else:
            if tree.keys[key * KEY + ROOT] == NONE:
                first_leaf(tree, key)
            leaf = leaf_at(tree, key, row_times[row])
            after = nodes[leaf * NODE + NEXT]
            end = row + 1
            while end < len(keys) and keys[end] == key and end - row < AT_ONCE:
                if after != NONE and row_times[end] >= times_first(tree, after):
                    break
                end += 1
            if end - row == AT_ONCE and after != NONE:
                stopped = FULL  # more rows may come for these leaves
            merge_rows(tree, log, key, leaf, row_times, row, end)
            row = end
    cursor[0] = row
    sort_stale(tree, log)
    return stopped


@inlined
def times_first(tree: Tree, leaf: int) -> int:
    """Return the time of the first row of a leaf."""
    time: int = tree.times[tree.nodes[leaf * NODE + BASE] + tree.nodes[leaf * NODE + LO]]
    return time


# ---------------------------------------------------------------- eviction


@kernel
def drop_leaf(tree: Tree, key: int) -> None:
    """Free the first leaf of a key, and the inner nodes that held nothing else."""
    nodes = tree.nodes
    leaf = tree.keys[key * KEY + FIRST]
    after, parent = nodes[leaf * NODE + NEXT], nodes[leaf * NODE + PARENT]
    free_node(tree, leaf)
    while parent != NONE:
        nodes[parent * NODE + LO] += 1
        if nodes[parent * NODE + LO] < nodes[parent * NODE + HI]:
            break
        above = nodes[parent * NODE + PARENT]
        free_node(tree, parent)
        parent = above
    tree.keys[key * KEY + FIRST] = after
    if after == NONE:
        tree.keys[key * KEY + ROOT] = tree.keys[key * KEY + LAST] = NONE


@kernel
def evict_first(tree: Tree, key: int, count: int) -> int:
    """Evict the first rows of a key; return the time of the last one. O(1) per row, and O(log n) for a leaf."""
    nodes = tree.nodes
    latest = BEFORE_TIME
    tree.keys[key * KEY + ROWS] -= count
    tree.marks[HELD] -= count
    while count > 0:
        leaf = tree.keys[key * KEY + FIRST]
        low = nodes[leaf * NODE + LO]
        gone = min(count, nodes[leaf * NODE + HI] - low)
        latest = tree.times[nodes[leaf * NODE + BASE] + low + gone - 1]
        node = leaf
        while node != NONE:
            nodes[node * NODE + COUNT] -= gone
            node = nodes[node * NODE + PARENT]
        nodes[leaf * NODE + LO] = low + gone
        if low + gone == nodes[leaf * NODE + HI]:
            drop_leaf(tree, key)
        count -= gone
    return latest


ARENA = (block_class, allot, give_back, new_node, free_node)
POSITIONS = (position, leaf_of, at_of, place_of, as_start, is_end, leaf_at, after_time, rank_of, at_rank)
INSERTION = (
    mark_stale,
    adopt,
    move_kids,
    close_left,
    insert_after,
    first_leaf,
    share_out,
    merge_rows,
    has_room,
    recount,
    sort_stale,
    times_first,
)


# ---------------------------------------------------------------- invariants


def wrong(held: Tree) -> str | None:
    """Return what is wrong with the trees, None if nothing is. O(n)."""
    rows = 0
    for key in np.flatnonzero(held.keys[ROOT::KEY] != NONE):
        root, first, last, count = (int(number) for number in held.keys[key * KEY : key * KEY + KEY])
        leaves: list[int] = []
        reason = _wrong_below(held, root, leaves, is_open=True)
        if reason is not None:
            return f"key {key}: {reason}"
        if leaves[0] != first or leaves[-1] != last:
            return f"key {key}: it ends with the leaves {first} and {last}, its tree with {leaves[0]} and {leaves[-1]}"
        if [int(held.nodes[leaf * NODE + NEXT]) for leaf in leaves] != [*leaves[1:], NONE]:
            return f"key {key}: its leaves are not linked in order"
        times = np.concatenate([_times_of(held, leaf) for leaf in leaves])
        if (np.diff(times) < 0).any():
            return f"key {key}: its rows are not in the order of time"
        if len(times) != count or not count:
            return f"key {key}: it has {len(times)} rows, and {count} were counted"
        rows += count
    return None if rows == held.marks[HELD] else f"there are {rows} rows, and {held.marks[HELD]} were counted"


def _times_of(held: Tree, leaf: int) -> Array:
    base, _, low, high = (int(number) for number in held.nodes[leaf * NODE : leaf * NODE + 4])
    times: Array = held.times[base + low : base + high]
    return times


def _wrong_below(held: Tree, node: int, leaves: list[int], *, is_open: bool) -> str | None:
    """Return what is wrong at or below a node; append its leaves."""
    base, room, low, high, _, _, _, level, count, standing = (
        int(n) for n in held.nodes[node * NODE : (node + 1) * NODE]
    )
    most = held.marks[LEAF_SIZE] if level == 0 else held.marks[KIDS_SIZE]
    if not 0 <= low < high <= most or (level == 0 and high > room):
        return f"node {node} has the entries {low} to {high}"
    if standing != (OPEN if is_open else CLOSED):
        where = "" if is_open else "not "
        return f"node {node} is {('open', 'closed', 'stale')[standing]}, and is {where}on the right spine"
    below = len(leaves)
    if level == 0:
        leaves.append(node)
    for slot in range(low, high) if level else ():
        kid = int(held.kids[base + slot])
        line = held.nodes[kid * NODE : (kid + 1) * NODE]
        if (int(line[PARENT]), int(line[SLOT]), int(line[LEVEL])) != (node, slot, level - 1):
            return f"node {kid} does not know its parent {node}"
        reason = _wrong_below(held, kid, leaves, is_open=is_open and slot == high - 1)
        if reason is None and slot > low and held.lows[base + slot] > _times_of(held, _leftmost(held, kid))[0]:
            reason = f"node {kid} has a row before its least time"
        if reason is not None:
            return reason
    held_below = sum(len(_times_of(held, leaf)) for leaf in leaves[below:])
    return f"node {node} holds {held_below} rows, and counts {count}" if not is_open and count != held_below else None


def _leftmost(held: Tree, node: int) -> int:
    while held.nodes[node * NODE + LEVEL]:
        base, _, low = (int(number) for number in held.nodes[node * NODE : node * NODE + 3])
        node = int(held.kids[base + low])
    return node
