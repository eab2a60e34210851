"""The arena of a Fiba tree, and operations on one or two nodes; `folds` has their aggregates.

A node is a number. Its entries are columns of two arrays, `slots` (states) and `times`, each with 2 * arity columns per
node: at most 2 * arity - 1 entries, and in the last column the node's aggregate (`slots`) and the number of entries it
covers (`times`). An overfull node holds one more entry, in the last column, until it is split.

    links   four for each node: parent, row in `kids` (-1 for a leaf), number of entries, spine
    kids    2 * arity + 1 for each row; only inner nodes have one, so that leaves waste nothing
    folds   beside each child in `kids`, the aggregate of its own part: of its entries, and of those of its children
            that its aggregate covers
    marks   the root, the fingers, the height and the like, then room for a path through the tree, then free nodes

`spine` is 1 on the left spine, 2 on the right one, 3 for the root, 0 elsewhere, and says what the aggregate covers:

    0  up      all children and entries
    3  inner   all but the first and the last child
    1  left    all but the first child, then the left aggregate of the parent (unless that is the root)
    2  right   the right aggregate of the parent (unless that is the root), then all but the last child

The fold of an inside node is a copy of its aggregate, so that its parent is recomputed from contiguous memory: reading
every child would take a cache miss each. On a spine the fold is the aggregate without the parent's, so that a change
above takes one combine per node below. Leaves on the spines, whose aggregates change with almost every row, are
refolded instead.

Node 0 is never in the tree. Its slots hold, for k from 1 on, the aggregate of the first leaf after all but its last k
entries have left: they are computed together, so that an eviction mostly takes no combine. The mark `FRONT` is the
number of the leaf's entries for which they are valid; 0 if they must be recomputed.

An inside node has at least arity - 1 entries. The root and the nodes on the spines, which are being filled or emptied,
may have fewer, but at least one. So rows that enter and leave in order fill each node once and empty it once, leave
full ones behind, and a cut through the tree seldom needs more than the cut nodes.

Free nodes are on a stack after the marks. One may still have children: they are freed when it is reused, so dropping a
subtree takes O(1), without reading it, and each reuse O(arity).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.aggregators.fiba.arity import arity
from muntin.kernels.runtime import count_bits, four_below, single_bit
from muntin.kernels.vocabulary import Ints, Slots, index, kernel

ROOT, LEFT, RIGHT, FREE_NODES, FREE_ROWS, NODES, ROWS, HEIGHT, FRONT, LIMIT = range(10)
"""The first marks: three nodes, the number of free ones, the first free row (-1: none), the numbers of nodes and rows
ever used, levels, the entries of the first leaf with precomputed aggregates, and the time before which everything
belongs to the last leaf sought."""
LATEST = 2**63 - 1
"""The greatest time."""
PATH = 16
"""The first mark of the path."""
PLACES = PATH + 4 * 64
"""The first mark of the places of a path's nodes among the children of their parents."""
FREE_STACK = PATH + 5 * 64
"""The first mark of the stack of free nodes."""
PARENT, ROW, COUNT, SPINE = range(4)
"""The links of a node."""
INSIDE, ON_LEFT, ON_RIGHT, AT_ROOT = range(4)
"""The position of a node: the root is on both spines."""


class Arena(NamedTuple):
    """The arrays of a tree, as drawn above."""

    slots: Slots
    times: Ints
    links: Ints
    kids: Ints
    folds: Slots
    marks: Ints


@kernel
def span() -> int:
    """Return the number of columns of a node in `slots` and `times`."""
    return 2 * arity()


@kernel
def width() -> int:
    """Return the room for children in a row of `kids`: one more than a node may keep."""
    return 2 * arity() + 1


@kernel
def parent_of(links: Ints, node: int) -> int:
    """Return the parent of a node; -1 for the root.

    Nodes are stored in four bytes and always passed as int64: else kernels would be compiled for both.
    """
    return np.int64(links[index(4 * node + PARENT)])  # type: ignore[return-value]  # an integer


@kernel
def row_of(links: Ints, node: int) -> int:
    """Return the row of a node's children; -1 for a leaf."""
    return np.int64(links[index(4 * node + ROW)])  # type: ignore[return-value]  # an integer


@kernel
def count_of(links: Ints, node: int) -> int:
    """Return the number of a node's entries."""
    return np.int64(links[index(4 * node + COUNT)])  # type: ignore[return-value]  # an integer


@kernel
def spine_of(links: Ints, node: int) -> int:
    """Return the position of a node: 0 inside, 1 on the left spine, 2 on the right one, 3 the root."""
    return np.int64(links[index(4 * node + SPINE)])  # type: ignore[return-value]  # an integer


@kernel
def kid_of(window: Arena, node: int, at: int) -> int:
    """Return a child of an inner node."""
    return np.int64(window.kids[index(row_of(window.links, node) * width() + at)])  # type: ignore[return-value]  # an integer


@kernel
def copy_entry(window: Arena, source: int, target: int) -> None:
    """Copy an entry from one column to another."""
    slots, times = window.slots, window.times
    slots[index(target)] = slots[index(source)]
    times[index(target)] = times[index(source)]


@kernel
def copy_kid(window: Arena, source: int, target: int) -> None:
    """Copy a child, with its fold, from one place of its row to another."""
    kids, folds = window.kids, window.folds
    kids[index(target)] = kids[index(source)]
    folds[index(target)] = folds[index(source)]


@kernel
def entries_before(times: Ints, base: int, count: int, time: int) -> int:
    """Return the number of entries before a time, of a node whose columns begin at `base`.

    Compares all columns, even those beyond the entries: a loop of variable length would be mispredicted in most nodes.
    """
    before = 0
    for i in range(0, span(), 4):
        before |= four_below(times, base + i, time) << i
    return count_bits(before & (single_bit(count) - 1))


@kernel
def entries_until(times: Ints, base: int, count: int, time: int) -> int:
    """Return the number of entries of a node at or before a time."""
    before = entries_before(times, base, count, time)
    if before < count and times[index(base + before)] == time:
        return before + 1
    return before


# ---------------------------------------------------------------- nodes and rows, used and free


@kernel
def release(window: Arena, node: int) -> None:
    """Free a node with its subtree, without reading it."""
    marks = window.marks
    marks[index(FREE_STACK + marks[FREE_NODES])] = node
    marks[FREE_NODES] += 1


@kernel
def release_row(window: Arena, node: int) -> None:
    """Remove the row of children from an inner node, which becomes a leaf."""
    links, kids, marks = window.links, window.kids, window.marks
    row = row_of(links, node)
    kids[index(row * width())] = marks[FREE_ROWS]
    marks[FREE_ROWS] = row
    links[index(4 * node + ROW)] = -1


@kernel
def release_alone(window: Arena, node: int) -> None:
    """Free a node whose children, if it had any, live on elsewhere."""
    if row_of(window.links, node) >= 0:
        release_row(window, node)
    release(window, node)


@kernel
def new_leaf(window: Arena) -> int:
    """Return a node without entries or children: a free one, whose children become free, else a new one."""
    links, marks = window.links, window.marks
    if marks[FREE_NODES] == 0:
        node = marks[NODES]
        marks[NODES] = node + 1
    else:
        marks[FREE_NODES] -= 1
        node = marks[index(FREE_STACK + marks[FREE_NODES])]
        row = row_of(links, node)
        if row >= 0:
            # The first child is reused next: nodes that were filled in sequence are so again.
            for i in range(count_of(links, node), -1, -1):
                release(window, kid_of(window, node, i))
            release_row(window, node)
    links[index(4 * node + PARENT)] = -1
    links[index(4 * node + ROW)] = -1
    links[index(4 * node + COUNT)] = 0
    links[index(4 * node + SPINE)] = INSIDE
    return node  # type: ignore[no-any-return]  # an integer


@kernel
def new_inner(window: Arena) -> int:
    """Return a node with room for children."""
    node = new_leaf(window)
    links, kids, marks = window.links, window.kids, window.marks
    row = marks[FREE_ROWS]
    if row < 0:
        row = marks[ROWS]
        marks[ROWS] = row + 1
    else:
        marks[FREE_ROWS] = kids[index(row * width())]
    links[index(4 * node + ROW)] = row
    return node


@kernel
def new_like(window: Arena, node: int) -> int:
    """Return a new node of the same level as another."""
    if row_of(window.links, node) < 0:
        return new_leaf(window)
    return new_inner(window)


@kernel
def adopt_kid(window: Arena, node: int, at: int, kid: int) -> None:
    """Make a node a child of another. The fold of a node on a spine must still be computed."""
    slots, links, kids, folds = window.slots, window.links, window.kids, window.folds
    here = row_of(links, node) * width() + at
    kids[index(here)] = kid
    folds[index(here)] = slots[index(kid * span() + span() - 1)]
    links[index(4 * kid + PARENT)] = node


@kernel
def grow_root(window: Arena) -> int:
    """Put a new root without entries above the old one, which is about to be split."""
    links, marks = window.links, window.marks
    old = marks[ROOT]
    root = new_inner(window)
    adopt_kid(window, root, 0, old)
    links[index(4 * root + SPINE)] = AT_ROOT
    marks[ROOT] = root
    marks[HEIGHT] += 1
    return root


# ---------------------------------------------------------------- aggregates


@kernel
def place_of(window: Arena, parent: int, node: int) -> int:
    """Return the place of a child in `kids` and `folds`: on a spine the first or the last, else it is searched."""
    links, kids = window.links, window.kids
    first = row_of(links, parent) * width()
    spine = spine_of(links, node)
    if spine == ON_LEFT:
        return first
    if spine == ON_RIGHT:
        return first + count_of(links, parent)
    place = first
    for i in range(width() - 1, -1, -1):  # leftovers after the children can only come later
        if kids[index(first + i)] == node:
            place = first + i
    return place


# ---------------------------------------------------------------- entries within a node, and between neighbours


@kernel
def open_gap(window: Arena, node: int, at: int) -> None:
    """Make room for an entry, and for the child after it."""
    links = window.links
    base = node * span()
    count = count_of(links, node)
    for i in range(count, at, -1):
        copy_entry(window, base + i - 1, base + i)
    row = row_of(links, node)
    if row >= 0:
        for i in range(count + 1, at + 1, -1):
            copy_kid(window, row * width() + i - 1, row * width() + i)
    links[index(4 * node + COUNT)] = count + 1


@kernel
def close_gap(window: Arena, node: int, at: int) -> None:
    """Drop an entry, and the child before it."""
    links = window.links
    base = node * span()
    count = count_of(links, node)
    for i in range(at + 1, count):
        copy_entry(window, base + i, base + i - 1)
    row = row_of(links, node)
    if row >= 0:
        for i in range(at + 1, count + 1):
            copy_kid(window, row * width() + i, row * width() + i - 1)
    links[index(4 * node + COUNT)] = count - 1


@kernel
def shift(window: Arena, node: int, by: int) -> None:
    """Move all entries and children of a node to the right; if `by` is negative, to the left, over the first ones."""
    links = window.links
    base = node * span()
    count = count_of(links, node)
    row = row_of(links, node)
    if by > 0:
        for i in range(count - 1, -1, -1):
            copy_entry(window, base + i, base + i + by)
    else:
        for i in range(-by, count):
            copy_entry(window, base + i, base + i + by)
    if row >= 0:
        first = row * width()
        if by > 0:
            for i in range(count, -1, -1):
                copy_kid(window, first + i, first + i + by)
        else:
            for i in range(-by, count + 1):
                copy_kid(window, first + i, first + i + by)
    links[index(4 * node + COUNT)] = count + by


@kernel
def copy_run(window: Arena, source: int, begin: int, target: int, at: int, count: int) -> None:
    """Copy `count` entries, and the children before each of them, from one node to another."""
    links = window.links
    for i in range(count):
        copy_entry(window, source * span() + begin + i, target * span() + at + i)
    if row_of(links, source) >= 0:
        for i in range(count):
            adopt_kid(window, target, at + i, kid_of(window, source, begin + i))


@kernel
def move_left(window: Arena, left: int, right: int, ancestor: int, at: int, count: int) -> None:
    """Move entries from a node to its left neighbour, through the ancestor's entry between them."""
    links = window.links
    held = count_of(links, left)
    between = ancestor * span() + at
    copy_entry(window, between, left * span() + held)
    copy_entry(window, right * span() + count - 1, between)
    links[index(4 * left + COUNT)] = held + count
    if row_of(links, right) >= 0:
        adopt_kid(window, left, held + count, kid_of(window, right, count - 1))
    copy_run(window, right, 0, left, held + 1, count - 1)
    shift(window, right, -count)


@kernel
def move_right(window: Arena, left: int, right: int, ancestor: int, at: int, count: int) -> None:
    """Move entries from a node to its right neighbour, through the ancestor's entry between them."""
    links = window.links
    kept = count_of(links, left) - count
    between = ancestor * span() + at
    shift(window, right, count)
    copy_entry(window, between, right * span() + count - 1)
    copy_entry(window, left * span() + kept, between)
    if row_of(links, left) >= 0:
        adopt_kid(window, right, count - 1, kid_of(window, left, kept + count))
    copy_run(window, left, kept + 1, right, 0, count - 1)
    links[index(4 * left + COUNT)] = kept


@kernel
def merge_right(window: Arena, left: int, right: int, ancestor: int, at: int) -> None:
    """Merge a node, and the ancestor's entry between, into its right neighbour. The node is then free.

    The entry, and the child before it, must still be removed from the ancestor.
    """
    links, marks = window.links, window.marks
    held = count_of(links, left)
    shift(window, right, held + 1)
    copy_entry(window, ancestor * span() + at, right * span() + held)
    if row_of(links, left) >= 0:
        adopt_kid(window, right, held, kid_of(window, left, held))
    copy_run(window, left, 0, right, 0, held)
    links[index(4 * right + SPINE)] |= spine_of(links, left) & ON_LEFT
    if marks[LEFT] == left:
        marks[LEFT] = right
    release_alone(window, left)


@kernel
def fits_one(links: Ints, left: int, right: int) -> bool:
    """Return whether to merge two neighbours, one of which has too few entries.

    Inner nodes are not merged into a full one: the next entry would split it, and those above it in turn.
    """
    count = count_of(links, left) + count_of(links, right) + 1
    if row_of(links, left) < 0:
        return count < span()
    return count < span() - 1


@kernel
def lacks(links: Ints, node: int) -> bool:
    """Return whether a node other than the root has too few entries."""
    if spine_of(links, node) != INSIDE:
        return count_of(links, node) < 1
    return count_of(links, node) < arity() - 1


@kernel
def shrink_root(window: Arena) -> bool:
    """Replace a root without entries by its child. Both spines must then be recomputed."""
    links, marks = window.links, window.marks
    root = marks[ROOT]
    if count_of(links, root) > 0 or row_of(links, root) < 0:
        return False
    kid = kid_of(window, root, 0)
    release_alone(window, root)
    crown(window, kid)
    marks[HEIGHT] -= 1
    return True


@kernel
def crown(window: Arena, node: int) -> None:
    """Make a node the root."""
    links, marks = window.links, window.marks
    links[index(4 * node + PARENT)] = -1
    links[index(4 * node + SPINE)] = AT_ROOT
    marks[ROOT] = node


NODE_KERNELS = (
    span,
    width,
    parent_of,
    row_of,
    count_of,
    spine_of,
    kid_of,
    copy_entry,
    copy_kid,
    entries_before,
    entries_until,
    release,
    release_row,
    release_alone,
    new_leaf,
    new_inner,
    new_like,
    adopt_kid,
    grow_root,
    place_of,
    open_gap,
    close_gap,
    shift,
    copy_run,
    move_left,
    move_right,
    merge_right,
    fits_one,
    lacks,
    crown,
    shrink_root,
)
