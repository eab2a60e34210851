r"""Multisets of integers in order: a counted B+-tree for each, the nodes of all in one arena.

    a set    root, values, distinct ones, ...
                               root
                 [ low | rows ] [ low | rows ] [ low | rows ]
                  /               |                    \
    [ value | how often ] x 64   [ ... ]               [ ... ]

A leaf has up to `WIDTH` distinct values, each with how often it is in, an inner node as many kids, each with its least
value and the rows below. All is done on the way down, in O(log n): a full node is split before it is entered, one that
is nearly empty is joined with a neighbour. So no node knows its parent.

The numbers of a node stand before its values, so that a search touches as little memory as it can.

Whoever reads the k-th value reads one near it next. So a set remembers the leaf last read, the *finger*, and how many
values are before it: O(1) as long as reads stay in that leaf. A set with few values has one block of 4, 8, ... entries.

Rejected: a row for each value, instead of how often it is in (many rows share few values, and distinct ones could not
be counted); two heaps (they answer one rank, and let go of old values late); a Fenwick tree over the ranks, as over
arrays (new values change all ranks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.rows.tree import NONE, longer
from muntin.types import Array

FILLED, ROWS, LEVEL, ROOM = range(4)
"""The numbers of a node, before its entries: how many it has; the rows of a leaf; its height; how many entries it may
have. A node is known by the place of the first."""
HEAD = 4
ROOT, COUNT, DISTINCT, FINGER, BEFORE, LOW, FIRST, LAST, KNOWN = range(9)
"""The numbers of a set: its root; values, and distinct ones; the leaf last read, the values before it, and the least
one that belongs there. Then those of its owner: which rows it has the values of, and whether that is so."""
SET = 9
WIDTH, USED, FREE_NODE = range(3)
"""The marks: how many entries a node may have; places ever used; then the first free node of each size."""
MARKS = FREE_NODE + 8
WIDEST, LEAST_ROOM = 64, 4
LOWEST = -(2**63)
MOST_PLACES = 2**31
"""Kids are 32 bits wide."""
ENTRY = 16
"""The bytes of an entry."""


class Multisets(NamedTuple):
    """The arrays of all sets."""

    entries: Ints
    """The nodes: numbers and values."""
    weights: Ints
    """Beside each entry, how often the value is in, or the rows below the kid."""
    kids: Ints
    """Beside each entry of an inner node. The value of a first kid means nothing."""
    sets: Ints
    marks: Ints

    @classmethod
    def empty(cls, width: int = WIDEST) -> Multisets:
        """Return no sets."""
        marks = np.zeros(MARKS, np.int64)
        marks[WIDTH], marks[FREE_NODE:] = width, NONE
        entries, sets = np.zeros(0, np.int64), np.zeros(0, np.int64)
        return cls(entries, np.zeros(0, np.int32), np.zeros(0, np.int32), sets, marks)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self)


def with_sets(held: Multisets, count: int) -> Multisets:
    """Return the same with at least `count` sets. Amortised O(1) each."""
    known = len(held.sets) // SET
    if count <= known:
        return held
    sets = np.zeros(SET * max(count, 2 * known), np.int64)
    sets[: len(held.sets)] = held.sets
    sets[len(held.sets) + ROOT :: SET] = sets[len(held.sets) + FINGER :: SET] = NONE
    return held._replace(sets=sets)


def with_room(held: Multisets, values: int) -> Multisets:
    """Return the same with room for more values. Amortised O(1) each."""
    places = int(held.marks[USED]) + places_for(held, values)
    if places <= len(held.entries):
        return held
    if places >= MOST_PLACES:
        raise MemoryError("the windows of one definition have more than a billion distinct values")
    room = min(places + places // 2, MOST_PLACES)
    entries, weights, kids = (longer(each, room) for each in (held.entries, held.weights, held.kids))
    return held._replace(entries=entries, weights=weights, kids=kids)


# ---------------------------------------------------------------- the arena


@kernel
def places_for(held: Multisets, values: int) -> int:
    """Return how many places adding some values takes at most."""
    width = held.marks[WIDTH]
    return int((4 * values // width + 16) * (HEAD + width))


@kernel
def fits(held: Multisets, values: int) -> bool:
    """Return whether there is room to add some values, whatever they are."""
    room: bool = held.marks[USED] + places_for(held, values) <= len(held.entries)
    return room


@kernel
def mark_of(room: int) -> int:
    """Return the mark of the free nodes of a size."""
    which = FREE_NODE
    while room > LEAST_ROOM:
        room >>= 1
        which += 1
    return which


@kernel
def make_node(held: Multisets, level: int, room: int) -> int:
    """Return a new node without entries."""
    entries, marks = held.entries, held.marks
    which = mark_of(room)
    node: int = marks[which]
    if node != NONE:
        marks[which] = entries[node]  # a free node links to the next one
    else:
        node = marks[USED]
        marks[USED] = node + HEAD + room
    entries[node + FILLED] = entries[node + ROWS] = 0
    entries[node + LEVEL] = level
    entries[node + ROOM] = room
    return node


@kernel
def drop_node(held: Multisets, node: int) -> None:
    """Free a node."""
    which = mark_of(held.entries[node + ROOM])
    held.entries[node] = held.marks[which]
    held.marks[which] = node


@kernel
def clear(held: Multisets, line: int) -> None:
    """Take all values out of a set, and free its nodes: the last one first. O(nodes)."""
    entries, sets = held.entries, held.sets
    while sets[line + ROOT] != NONE:
        above = NONE
        node = sets[line + ROOT]
        while entries[node + LEVEL] > 0 and entries[node + FILLED] > 0:
            above = node
            node = held.kids[node + HEAD + entries[node + FILLED] - 1]
        drop_node(held, node)
        if above == NONE:
            sets[line + ROOT] = NONE
        else:
            entries[above + FILLED] -= 1
    sets[line + COUNT] = sets[line + DISTINCT] = sets[line + FIRST] = sets[line + LAST] = sets[line + KNOWN] = 0
    sets[line + FINGER] = NONE


# ---------------------------------------------------------------- values in and out


@inlined
def last_up_to(entries: Ints, at: int, count: int, value: int) -> int:
    """Return the last of `count` entries from a place on that is not greater than a value; the first one counts as it.

    Compares all: the compiler does that for several entries at once, while each step of a search waits for the last.
    """
    found = at
    for k in range(at + 1, at + count):
        found += int(entries[index(k)] <= value)
    return found


@inlined
def open_gap(held: Multisets, node: int, at: int) -> None:
    """Make room for an entry at a place of a node that is not full."""
    base = node + HEAD
    stop = base + held.entries[node + FILLED]
    for k in range(stop, at, -1):
        held.entries[index(k)] = held.entries[index(k - 1)]
    for k in range(stop, at, -1):
        held.weights[index(k)] = held.weights[index(k - 1)]
    if held.entries[node + LEVEL] > 0:
        for k in range(stop, at, -1):
            held.kids[index(k)] = held.kids[index(k - 1)]
    held.entries[node + FILLED] += 1


@inlined
def close_gap(held: Multisets, node: int, at: int) -> None:
    """Take the entry at a place out of a node."""
    last = node + HEAD + held.entries[node + FILLED] - 1
    for k in range(at, last):
        held.entries[index(k)] = held.entries[index(k + 1)]
    for k in range(at, last):
        held.weights[index(k)] = held.weights[index(k + 1)]
    if held.entries[node + LEVEL] > 0:
        for k in range(at, last):
            held.kids[index(k)] = held.kids[index(k + 1)]
    held.entries[node + FILLED] -= 1


@kernel
def move_entries(held: Multisets, source: int, begin: int, target: int) -> int:
    """Move the entries of a node from the `begin`-th on to the end of another; return the rows of these."""
    entries = held.entries
    old, new = source + HEAD, target + HEAD + entries[target + FILLED]
    count = entries[source + FILLED] - begin
    rows = 0
    for k in range(count):
        held.entries[new + k] = held.entries[old + begin + k]
        held.weights[new + k] = held.weights[old + begin + k]
        held.kids[new + k] = held.kids[old + begin + k]
        rows += held.weights[new + k]
    entries[source + FILLED] = begin
    entries[target + FILLED] += count
    entries[source + ROWS] -= rows
    entries[target + ROWS] += rows
    return rows


@kernel
def split_kid(held: Multisets, parent: int, at: int) -> None:
    """Split the full kid at a place of a node that is not full."""
    entries, width = held.entries, held.marks[WIDTH]
    kid = held.kids[at]
    right = make_node(held, entries[kid + LEVEL], width)
    rows = move_entries(held, kid, width >> 1, right)
    open_gap(held, parent, at + 1)
    held.entries[at + 1] = held.entries[right + HEAD]
    held.weights[at + 1] = rows
    held.weights[at] -= rows
    held.kids[at + 1] = right


@kernel
def join_kids(held: Multisets, parent: int, at: int) -> None:
    """Join the kid at a place of a node with the next one."""
    left, right = held.kids[at], held.kids[at + 1]
    if held.entries[right + LEVEL] > 0:
        held.entries[right + HEAD] = held.entries[at + 1]  # that of a first kid meant nothing
    held.weights[at] += held.weights[at + 1]
    move_entries(held, right, 0, left)
    drop_node(held, right)
    close_gap(held, parent, at + 1)


@kernel
def raise_root(held: Multisets, line: int) -> int:
    """Give a full root a parent, and split it; return the new root."""
    root = held.sets[line + ROOT]
    above = make_node(held, held.entries[root + LEVEL] + 1, held.marks[WIDTH])
    base = above + HEAD
    held.entries[base] = LOWEST
    held.kids[base] = root
    held.weights[base] = held.sets[line + COUNT]
    held.entries[above + FILLED] = 1
    split_kid(held, above, base)
    held.sets[line + ROOT] = above
    held.sets[line + FINGER] = NONE
    return above


@inlined
def add_value(held: Multisets, line: int, value: int) -> None:
    """Add a value to a set. O(log n)."""
    entries, sets, width = held.entries, held.sets, held.marks[WIDTH]
    node = sets[line + ROOT]
    if node == NONE:
        node = sets[line + ROOT] = make_node(held, 0, LEAST_ROOM)
    if entries[index(node + FILLED)] == width:
        node = raise_root(held, line)
    while entries[index(node + LEVEL)] > 0:
        at = last_up_to(entries, node + HEAD, entries[index(node + FILLED)], value)
        if entries[index(held.kids[index(at)] + FILLED)] == width:
            split_kid(held, node, at)
            sets[line + FINGER] = NONE
            at += int(entries[index(at + 1)] <= value)
        held.weights[index(at)] += 1
        node = held.kids[index(at)]
    base, filled = node + HEAD, entries[index(node + FILLED)]
    at = last_up_to(entries, base, filled, value)
    if filled > 0 and entries[index(at)] == value:
        held.weights[index(at)] += 1
    else:
        if filled == entries[index(node + ROOM)]:
            at -= node
            node = enlarge(held, line, node)
            at += node
        at += int(filled > 0 and entries[index(at)] < value)
        open_gap(held, node, at)
        entries[index(at)] = value
        held.weights[index(at)] = 1
        sets[index(line + DISTINCT)] += 1
    entries[index(node + ROWS)] += 1
    sets[index(line + COUNT)] += 1
    sets[index(line + BEFORE)] += int(value < sets[index(line + LOW)])


@kernel
def enlarge(held: Multisets, line: int, leaf: int) -> int:
    """Give a set that is one leaf another one with twice the room; return that."""
    wider = make_node(held, 0, 2 * held.entries[leaf + ROOM])
    move_entries(held, leaf, 0, wider)
    drop_node(held, leaf)
    held.sets[line + ROOT] = wider
    held.sets[line + FINGER] = NONE
    return wider


@inlined
def remove_value(held: Multisets, line: int, value: int) -> None:
    """Take a value that is in a set out of it, once. O(log n)."""
    entries, sets, width = held.entries, held.sets, held.marks[WIDTH]
    node = sets[line + ROOT]
    while entries[index(node + LEVEL)] > 0:
        base, filled = node + HEAD, entries[index(node + FILLED)]
        at = last_up_to(entries, base, filled, value)
        held.weights[index(at)] -= 1
        kid = held.kids[index(at)]
        if entries[index(kid + FILLED)] <= width >> 2 and filled > 1:
            kid = join_small(held, line, node, at)
        node = kid
    base, filled = node + HEAD, entries[index(node + FILLED)]
    at = last_up_to(entries, base, filled, value)
    held.weights[index(at)] -= 1
    if held.weights[index(at)] == 0:
        close_gap(held, node, at)
        sets[index(line + DISTINCT)] -= 1
    entries[index(node + ROWS)] -= 1
    sets[index(line + COUNT)] -= 1
    sets[index(line + BEFORE)] -= int(value < sets[index(line + LOW)])


@kernel
def join_small(held: Multisets, line: int, node: int, at: int) -> int:
    """Join the kid at a place with a neighbour, unless they would soon be split again; return the kid."""
    entries, width = held.entries, held.marks[WIDTH]
    left = at if at + 1 < node + HEAD + entries[node + FILLED] else at - 1
    both = held.entries[held.kids[left] + FILLED] + held.entries[held.kids[left + 1] + FILLED]
    if both > width - (width >> 2):
        return int(held.kids[at])
    join_kids(held, node, left)
    held.sets[line + FINGER] = NONE
    kid: int = held.kids[left]
    if node == held.sets[line + ROOT] and entries[node + FILLED] == 1:
        held.sets[line + ROOT] = kid
        drop_node(held, node)
    return kid


# ---------------------------------------------------------------- values by rank


@kernel
def reach(held: Multisets, line: int, rank: int) -> None:
    """Move the finger to the leaf with a rank. O(log n)."""
    entries, weights = held.entries, held.weights
    node = held.sets[line + ROOT]
    before, low = 0, LOWEST
    while entries[index(node + LEVEL)] > 0:
        base = node + HEAD
        at = base
        while before + weights[index(at)] <= rank:
            before += weights[index(at)]
            at += 1
        if at > base:
            low = held.entries[index(at)]
        node = held.kids[index(at)]
    held.sets[line + FINGER] = node
    held.sets[line + BEFORE] = before
    held.sets[line + LOW] = low


@inlined
def value_at(held: Multisets, line: int, rank: int) -> int:
    """Return the value with `rank` values before it. O(1) near the last one read, else O(log n)."""
    entries, sets = held.entries, held.sets
    leaf = sets[index(line + FINGER)]
    inside = rank - sets[index(line + BEFORE)]
    if leaf == NONE or inside < 0 or inside >= entries[index(leaf + ROWS)]:
        reach(held, line, rank)
        leaf = sets[index(line + FINGER)]
        inside = rank - sets[index(line + BEFORE)]
    at = leaf + HEAD
    if entries[index(leaf + ROWS)] == entries[index(leaf + FILLED)]:
        return int(held.entries[index(at + inside)])
    while inside >= held.weights[index(at)]:
        inside -= held.weights[index(at)]
        at += 1
    return int(held.entries[index(at)])


ARENA = (places_for, fits, mark_of, make_node, drop_node, clear)
CHANGES = (
    last_up_to,
    open_gap,
    close_gap,
    move_entries,
    split_kid,
    join_kids,
    raise_root,
    enlarge,
    add_value,
    join_small,
    remove_value,
)
READING = (reach, value_at)


# ---------------------------------------------------------------- invariants


def contents(held: Multisets, number: int) -> tuple[Array, Array]:
    """Return the distinct values of a set in order, and how often each is in. O(n)."""
    root = int(held.sets[number * SET + ROOT])
    found: list[tuple[int, int]] = [] if root == NONE else list(_entries_below(held, root))
    values, weights = zip(*found, strict=True) if found else ((), ())
    return np.array(values, np.int64), np.array(weights, np.int64)


def _entries_below(held: Multisets, node: int) -> list[tuple[int, int]]:
    filled, _, level, _ = held.entries[node : node + HEAD].tolist()
    base = node + HEAD
    if not level:
        places = slice(base, base + filled)
        return list(zip(held.entries[places].tolist(), held.weights[places].tolist(), strict=True))
    kids = held.kids[base : base + filled].tolist()
    return [entry for kid in kids for entry in _entries_below(held, kid)]


def wrong(held: Multisets, number: int) -> str | None:
    """Return what is wrong with a set, None if nothing is. O(n)."""
    line = held.sets[number * SET : (number + 1) * SET]
    root = int(line[ROOT])
    if root == NONE:
        return f"set {number} has no root, and {line[COUNT]} values" if line[COUNT] or line[DISTINCT] else None
    reason, rows = _wrong_below(held, root, LOWEST, None)
    if reason is not None:
        return f"set {number}: {reason}"
    values, weights = contents(held, number)
    if (values[1:] <= values[:-1]).any():
        return f"set {number}: its values are not in order"
    if (len(values), int(weights.sum()), rows) != (line[DISTINCT], line[COUNT], line[COUNT]):
        return f"set {number}: it has {rows} values, {len(values)} distinct, and counts {line[COUNT]}, {line[DISTINCT]}"
    leaf = int(line[FINGER])
    before = int(weights[values < line[LOW]].sum())
    return f"set {number}: {before} values are before its finger" if leaf != NONE and before != line[BEFORE] else None


def _wrong_below(held: Multisets, node: int, low: int, high: int | None) -> tuple[str | None, int]:
    """Return what is wrong at or below a node, whose values lie in [low, high), and its rows."""
    filled, rows, level, room = held.entries[node : node + HEAD].tolist()
    base = node + HEAD
    values = held.entries[base : base + filled].tolist()
    weights = held.weights[base : base + filled].tolist()
    if not (0 <= filled <= room <= held.marks[WIDTH]) or (level and not filled):
        return f"node {node} has {filled} entries", 0
    if not level:
        inside = all(low <= value and (high is None or value < high) for value in values)
        whole = sum(weights) == rows and all(weight > 0 for weight in weights)
        return (
            None if inside and whole else f"leaf {node} has values of another one, or {rows} rows are not its own",
            rows,
        )
    for slot in range(filled):
        kid = int(held.kids[base + slot])
        begin, end = values[slot] if slot else low, values[slot + 1] if slot + 1 < filled else high
        if int(held.entries[kid + LEVEL]) != level - 1:
            return f"node {kid} is no kid of {node}", 0
        reason, below = _wrong_below(held, kid, begin, end)
        if reason is not None or below != weights[slot]:
            return reason or f"node {kid} has {below} rows, and {node} counts {weights[slot]}", 0
    return None, sum(weights)
