"""Where windows by value are among rows whose values ascend. `held` has the value of each row, by place."""

from __future__ import annotations

from typing import Any

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.kernels.vocabulary import Ints, index, inlined, kernel
from muntin.streams.rows.cutting import has_rows
from muntin.streams.rows.finding import first_from
from muntin.streams.rows.tree import (
    BASE,
    HI,
    KEY,
    LEVEL,
    LO,
    NODE,
    ROOT,
    Tree,
    after_time,
    as_start,
    at_of,
    is_end,
    leaf_of,
    place_of,
    position,
    rank_of,
)


@inlined
def value_at(tree: Tree, held: Any, where: int) -> Any:
    """Return the value of the row at a position."""
    return held[index(place_of(tree, where))]


@kernel
def first_value(tree: Tree, held: Any, node: int) -> Any:
    """Return the value of the first row below a node. O(log n)."""
    nodes = tree.nodes
    while nodes[node * NODE + LEVEL] > 0:
        node = tree.kids[nodes[node * NODE + BASE] + nodes[node * NODE + LO]]
    return held[nodes[node * NODE + BASE] + nodes[node * NODE + LO]]


@kernel
def before_value(tree: Tree, held: Any, key: int, value: Any) -> int:
    """Return the end of the rows of a key that are below a value. O(log n) steps, each of O(log n)."""
    nodes = tree.nodes
    node = tree.keys[key * KEY + ROOT]
    while nodes[node * NODE + LEVEL] > 0:
        row = nodes[node * NODE + BASE]
        slot = nodes[node * NODE + HI] - 1
        while slot > nodes[node * NODE + LO] and first_value(tree, held, tree.kids[row + slot]) >= value:
            slot -= 1
        node = tree.kids[row + slot]
    base = nodes[node * NODE + BASE]
    low, high = nodes[node * NODE + LO], nodes[node * NODE + HI]
    while low < high:
        middle = (low + high) >> 1
        if held[base + middle] >= value:
            high = middle
        else:
            low = middle + 1
    return position(node, low)


@kernel
def find_valued(
    tree: Tree, held: Any, steps: Any, keys: Ints, low: Any, high: Any, which: Ints, start: Any, out: Ints
) -> int:
    """Find the windows [start, start + range) with a start in [low, high] that hold a row.

    `steps` are the range, the step and the offset. Writes for each window which stretch it is of, its start, and four
    numbers to `out`: between which positions its rows are, how many, and the time of the first row behind it.
    Returns how many, -1 if there is no room. O(log n) steps for each.
    """
    length, every, offset = steps[0], steps[1], steps[2]
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        if not has_rows(tree, key):
            continue
        where = as_start(tree, before_value(tree, held, key, low[i]))
        coming = 0 * offset  # the number of the next window
        is_first = True
        while not is_end(tree, where):
            value = value_at(tree, held, where) - offset
            lowest = (value - length) // every + 1
            if is_first or lowest > coming:
                coming = lowest
            is_first = False
            while coming * every + offset < low[i]:
                coming += 1
            while coming * every <= value and coming * every + offset <= high[i]:
                if count == len(which):
                    return -1
                begins = coming * every + offset
                behind = before_value(tree, held, key, begins + length)
                which[count] = i
                start[count] = begins
                out[4 * count] = where
                out[4 * count + 1] = behind
                out[4 * count + 2] = rank_of(tree, behind) - rank_of(tree, where)
                after = as_start(tree, behind)
                out[4 * count + 3] = END_OF_TIME if is_end(tree, after) else tree.times[place_of(tree, after)]
                count += 1
                coming += 1
            if coming * every + offset > high[i]:
                break
            where = as_start(tree, before_value(tree, held, key, coming * every + offset))
    return count


@kernel
def ranks_of_values(tree: Tree, held: Any, keys: Ints, values: Any, ranks: Ints) -> None:
    """Write how many rows of each key are below a value. O(log n) steps each."""
    for i in range(len(keys)):
        ranks[i] = 0
        if has_rows(tree, keys[i]):
            ranks[i] = rank_of(tree, before_value(tree, held, keys[i], values[i]))


@kernel
def greatest_between(tree: Tree, held: Any, keys: Ints, after: int, upto: int, most: Any) -> None:
    """Raise `most` to the greatest value of each key at times in (after, upto]. O(log n), and O(1) for each row."""
    for i in range(len(keys)):
        if not has_rows(tree, keys[i]):
            continue
        where = first_from(tree, keys[i], max(after, BEFORE_TIME) + 1)
        while not is_end(tree, where) and tree.times[index(place_of(tree, where))] <= upto:
            most[i] = max(most[i], value_at(tree, held, where))
            where = as_start(tree, where + 1)


@kernel
def find_disorder(tree: Tree, held: Any, keys: Ints, row_times: Ints, found: Ints) -> None:
    """Write 1 for each row that was just inserted next to which values descend. O(log n), and O(1) for equal times."""
    for i in range(len(keys)):
        found[i] = 0
        if i > 0 and keys[i] == keys[i - 1] and row_times[i] == row_times[i - 1]:
            continue
        before = after_time(tree, keys[i], row_times[i] - 1)
        where = as_start(tree, before)
        last = value_at(tree, held, where)
        if at_of(before) > tree.nodes[leaf_of(before) * NODE + LO]:
            last = value_at(tree, held, before - 1)
        while not is_end(tree, where):
            value = value_at(tree, held, where)
            if value < last:
                found[i] = 1
            if tree.times[index(place_of(tree, where))] > row_times[i]:
                break
            last = value
            where = as_start(tree, where + 1)


VALUING = (find_valued, ranks_of_values, greatest_between, find_disorder)
WITHIN = (value_at, first_value, before_value)
