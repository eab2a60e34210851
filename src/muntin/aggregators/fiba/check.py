"""The tree outside its kernels: walked in order, counted, and checked for every invariant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from muntin.aggregators.fiba.nodes import (
    COUNT,
    FREE_NODES,
    FREE_ROWS,
    FREE_STACK,
    FRONT,
    HEIGHT,
    LEFT,
    NODES,
    PARENT,
    RIGHT,
    ROOT,
    ROW,
    ROWS,
    SPINE,
    Arena,
)
from muntin.aggregators.states import States


def children(window: Arena, node: int, arity: int) -> list[int]:
    """Return the children of a node, none for a leaf."""
    links, kids = window.links, window.kids
    row = int(links[4 * node + ROW])
    if row < 0:
        return []
    first = row * (2 * arity + 1)
    return [int(kid) for kid in kids[first : first + int(links[4 * node + COUNT]) + 1]]


def columns_in_order(window: Arena, arity: int) -> Iterator[int]:
    """Yield the columns of all entries in time order."""
    links, marks = window.links, window.marks
    stack = [(int(marks[ROOT]), -1)]
    while stack:
        node, entry = stack.pop()
        if entry >= 0:
            yield node * 2 * arity + entry
            continue
        kids = children(window, node, arity)
        for at in range(int(links[4 * node + COUNT]), -1, -1):
            if at < links[4 * node + COUNT]:
                stack.append((node, at))
            if kids:
                stack.append((kids[at], -1))
        # Last in, first out: the child before an entry is on top of it.


class TreeCheck:
    """One walk over a tree that requires every invariant; records visited nodes, so that none is visited twice."""

    def __init__(self, window: Arena, arity: int, states: States, require: Callable[[bool, str], None]) -> None:
        self.window, self.arity, self.states, self.require = window, arity, states, require
        self.columns = 2 * arity
        self.nodes = {0}
        self.rows: set[int] = set()
        self.whole: dict[int, tuple[Any, int]] = {}
        """The aggregate of a node's subtree, and its number of entries."""

    def run(self, size: int) -> None:
        """Require everything."""
        marks = self.window.marks
        root = int(marks[ROOT])
        self.require(self._link(root, PARENT) == -1, f"the root {root} has a parent")
        self._fingers(root)
        if self._link(root, COUNT) > 0:
            height = self._shape(root, None, None, 3)
            self.require(height == int(marks[HEIGHT]), f"the tree has {height} levels, and says {marks[HEIGHT]}")
            self._aggregates(root, None)
            self.require(self.whole[root][1] == size, f"there are {self.whole[root][1]} entries, and len says {size}")
        else:
            self._meet(root)
            self.require(self._link(root, ROW) < 0, "the root has children and no entry")
            self.require(self._link(root, SPINE) == 3, "the root does not know that it is the root")
        self._front(int(marks[LEFT]))
        self._free()

    def _link(self, node: int, which: int) -> int:
        return int(self.window.links[4 * node + which])

    def _meet(self, node: int) -> None:
        self.require(node not in self.nodes, f"the node {node} is used twice")
        self.nodes.add(node)
        row = self._link(node, ROW)
        if row >= 0:
            self.require(row not in self.rows, f"the row of children {row} is used twice")
            self.rows.add(row)

    def _shape(self, node: int, low: int | None, high: int | None, spine: int) -> int:
        """Require arity, order, parents, spines and height at and below a node; return the height."""
        self._meet(node)
        count = self._link(node, COUNT)
        least = 1 if spine else self.arity - 1
        self.require(least <= count < self.columns, f"the node {node} has {count} entries")
        self.require(self._link(node, SPINE) == spine, f"the node {node} is not on spine {self._link(node, SPINE)}")
        times = [int(t) for t in self.window.times[node * self.columns :][:count]]
        bounds = [*([] if low is None else [low]), *times, *([] if high is None else [high])]
        self.require(all(a < b for a, b in pairwise(bounds)), f"times out of order: {bounds}")
        kids = children(self.window, node, self.arity)
        limits = [low, *times, high]
        heights = set()
        for at, kid in enumerate(kids):
            self.require(self._link(kid, PARENT) == node, f"the node {kid} does not know its parent {node}")
            side = (spine & 1 if at == 0 else 0) | (spine & 2 if at == count else 0)
            heights.add(self._shape(kid, limits[at], limits[at + 1], side))
        self.require(len(heights) <= 1, f"the leaves below the node {node} are not on one level")
        self.whole[node] = self._fold(node, kids, 0)
        return 1 + max(heights, default=0)

    def _fold(self, node: int, kids: list[int], spine: int) -> tuple[Any, int]:
        """Return the aggregate of a node's entries and of its children, except those on a spine."""
        parts: list[tuple[Any, int]] = []
        for at in range(self._link(node, COUNT) + 1):
            outside = (at == 0 and spine & 1) or (at == self._link(node, COUNT) and spine & 2)
            if kids and not outside:
                parts.append(self.whole[kids[at]])
            if at < self._link(node, COUNT):
                parts.append((self.states.load(self.window.slots, node * self.columns + at), 1))
        return self._join(parts)

    def _join(self, parts: list[tuple[Any, int]]) -> tuple[Any, int]:
        state, size = parts[0]
        for other, more in parts[1:]:
            state, size = self.states.combine(state, other), size + more
        return state, size

    def _aggregates(self, node: int, above: tuple[Any, int] | None) -> None:
        """Require the aggregate of a node and those below it; `above` is the parent's, if it is a part."""
        spine = self._link(node, SPINE)
        kids = children(self.window, node, self.arity)
        expected = self._fold(node, kids, spine)
        if above is not None and spine in (1, 2):
            expected = self._join([expected, above] if spine == 1 else [above, expected])
        total = node * self.columns + self.columns - 1
        kind = KINDS[spine]
        held = self.states.load(self.window.slots, total)
        self.require(self.states.close(held, expected[0]), f"the {kind} aggregate of the node {node} is {held}")
        size = int(self.window.times[total])
        self.require(size == expected[1], f"the {kind} aggregate of the node {node} covers {expected[1]}, not {size}")
        for at, kid in enumerate(kids):
            self._require_fold(node, at, kid)
            self._aggregates(kid, None if spine == 3 else expected)

    def _require_fold(self, node: int, at: int, kid: int) -> None:
        """Require the fold beside a child; that of a leaf on a spine is not maintained."""
        spine, below = self._link(kid, SPINE), children(self.window, kid, self.arity)
        if below or not spine:
            held = self.states.load(self.window.folds, self._link(node, ROW) * (self.columns + 1) + at)
            expected = self._fold(kid, below, spine)[0]
            self.require(self.states.close(held, expected), f"the fold of the node {kid} is {held}")

    def _fingers(self, root: int) -> None:
        for mark, at, name in ((LEFT, 0, "left"), (RIGHT, -1, "right")):
            node = root
            while kids := children(self.window, node, self.arity):
                node = kids[at]
            self.require(int(self.window.marks[mark]) == node, f"the {name} finger is not on the leaf {node}")

    def _front(self, leaf: int) -> None:
        """Require the precomputed aggregates for evictions from the first leaf, if any."""
        ready, count = int(self.window.marks[FRONT]), self._link(leaf, COUNT)
        self.require(ready in (0, count), f"aggregates are ready for {ready} entries of the first leaf, of {count}")
        parent = self._link(leaf, PARENT)
        parts: list[tuple[Any, int]] = []
        if parent >= 0 and self._link(parent, SPINE) != 3:
            parts.append((self.states.load(self.window.slots, parent * self.columns + self.columns - 1), 0))
        for kept in range(1, ready):
            parts.insert(0, (self.states.load(self.window.slots, leaf * self.columns + count - kept), 1))
            held = self.states.load(self.window.slots, kept)
            right = self.states.close(held, self._join(parts)[0])
            self.require(right, f"the aggregate that waits for the last {kept} entries of the first leaf is {held}")

    def _free(self) -> None:
        """Require that nodes outside the tree are free, with their subtrees, and only once."""
        marks = self.window.marks
        for node in marks[FREE_STACK : FREE_STACK + int(marks[FREE_NODES])]:
            stack = [int(node)]
            while stack:
                each = stack.pop()
                self._meet(each)
                stack += children(self.window, each, self.arity)
        row = int(marks[FREE_ROWS])
        while row >= 0:
            self.require(row not in self.rows, f"the row of children {row} is used twice")
            self.rows.add(row)
            row = int(self.window.kids[row * (self.columns + 1)])
        self.require(self.nodes == set(range(int(marks[NODES]))), "a node is neither in the tree nor free")
        self.require(self.rows == set(range(int(marks[ROWS]))), "a row of children is neither in use nor free")


KINDS = {0: "up", 1: "left", 2: "right", 3: "inner"}
"""The kinds of aggregate, by spine."""
