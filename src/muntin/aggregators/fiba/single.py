"""Single entries: searched from the nearer finger, inserted or removed, and the tree rebalanced above."""

from __future__ import annotations

from muntin.aggregators.fiba.arity import arity
from muntin.aggregators.fiba.folds import refresh, refresh_all_spines, refresh_spines, update_above
from muntin.aggregators.fiba.nodes import (
    AT_ROOT,
    COUNT,
    FRONT,
    INSIDE,
    LATEST,
    LEFT,
    LIMIT,
    ON_LEFT,
    ON_RIGHT,
    PATH,
    PLACES,
    RIGHT,
    ROOT,
    SPINE,
    Arena,
    adopt_kid,
    close_gap,
    copy_entry,
    copy_run,
    count_of,
    entries_before,
    fits_one,
    grow_root,
    kid_of,
    lacks,
    merge_right,
    move_left,
    move_right,
    new_leaf,
    new_like,
    open_gap,
    parent_of,
    place_of,
    row_of,
    shift,
    shrink_root,
    span,
    spine_of,
)
from muntin.kernels.vocabulary import Ints, State, combine, hold, index, kernel, load, store


@kernel
def seek_top(window: Arena, time: int) -> int:
    """Return the lowest node of a spine whose subtree a time belongs to: climbs both spines at once. O(log d)."""
    times, links, marks = window.times, window.links, window.marks
    left = marks[LEFT]
    right = marks[RIGHT]
    while left != right:  # they meet in the root
        above = parent_of(links, right)
        if time > times[index(above * span() + count_of(links, above) - 1)]:
            return right  # type: ignore[no-any-return]  # an integer
        right = above
        above = parent_of(links, left)
        if time < times[index(above * span())]:
            return left  # type: ignore[no-any-return]  # an integer
        left = above
    return left  # type: ignore[no-any-return]  # an integer


@kernel
def seek(window: Arena, time: int) -> tuple[int, int, int, bool]:
    """Return the node and the place in it where a time is, or, in a leaf, belongs; and whether it exists.

    Third is the depth of the node: the length of the path to it, whose places are in the marks.
    """
    times, links, marks = window.times, window.links, window.marks
    node = seek_top(window, time)
    depth = 0
    marks[LIMIT] = LATEST
    if spine_of(links, node) == ON_LEFT:
        marks[LIMIT] = times[index(parent_of(links, node) * span())]
    while True:
        base = node * span()
        count = count_of(links, node)
        at = entries_before(times, base, count, time)
        if at < count and times[index(base + at)] == time:
            return node, at, depth, True
        if row_of(links, node) < 0:
            return node, at, depth, False
        if at < count:
            marks[LIMIT] = times[index(base + at)]
        marks[index(PLACES + depth)] = at
        depth += 1
        node = kid_of(window, node, at)


@kernel
def refresh_or_note(window: Arena, node: int, left: int, right: int) -> tuple[int, int]:
    """Recompute a changed node, or, on a spine, record it as the start of the pass down."""
    spine = spine_of(window.links, node)
    if spine == ON_LEFT:
        return node, right
    if spine == ON_RIGHT:
        return left, node
    refresh(window, node)
    return left, right


@kernel
def mend(window: Arena, node: int, top: int, left: int, right: int) -> None:
    """Recompute the dependents of a changed node: upwards to a spine, at least to `top`, then down the spines.

    `left` and `right` are changed nodes of the spines below this one; -1: none.
    """
    links, marks = window.links, window.marks
    reached = False
    while True:
        left, right = refresh_or_note(window, node, left, right)
        reached = reached or node == top
        # An inside node is part of its parent's aggregate; one on a spine is not.
        if node == marks[ROOT] or (reached and spine_of(links, node) != INSIDE):
            break
        node = parent_of(links, node)
    refresh_spines(window, left, right)


# ---------------------------------------------------------------- in


@kernel
def push(window: Arena, time: int, state: State) -> None:
    """Insert a state."""
    if is_late(window, time):
        push_anywhere(window, time, state)
    else:
        push_last(window, time, state)


@kernel
def is_late(window: Arena, time: int) -> bool:
    """Return whether the window has a time at or after the given one."""
    times, links, marks = window.times, window.links, window.marks
    leaf = marks[RIGHT]
    count = count_of(links, leaf)
    return count > 0 and times[index(leaf * span() + count - 1)] >= time


@kernel
def push_last(window: Arena, time: int, state: State) -> None:
    """Insert the youngest state. One combine if the last leaf has room."""
    slots, times, links, marks = window.slots, window.times, window.links, window.marks
    leaf = marks[RIGHT]
    count = count_of(links, leaf)
    base = leaf * span()
    if count == 0:
        links[index(4 * leaf + COUNT)] = 1
        times[index(base)] = time
        times[index(base + span() - 1)] = 1
        store(slots, base, state)
        store(slots, base + span() - 1, state)
    elif count < span() - 1:
        total = base + span() - 1
        store(slots, total, combine(load(slots, total), state))
        store(slots, base + count, state)
        times[index(base + count)] = time
        times[index(total)] += 1
        links[index(4 * leaf + COUNT)] = count + 1
        if leaf == marks[LEFT]:
            marks[FRONT] = 0
    else:
        begin_leaf(window, time, state)


@kernel
def begin_leaf(window: Arena, time: int, state: State) -> None:
    """Insert the youngest state into a new leaf after the last one, which is full and gives up an entry.

    That entry goes to the parent, whose aggregate grows by it and by the full leaf: nothing there is recomputed.
    """
    slots, times, links, folds, marks = window.slots, window.times, window.links, window.folds, window.marks
    leaf = marks[RIGHT]
    if leaf == marks[ROOT]:
        grow_root(window)
    links[index(4 * leaf + SPINE)] &= ON_LEFT
    parent = parent_of(links, leaf)
    other = new_leaf(window)
    here = other * span()
    store(slots, here, state)
    times[index(here)] = time
    links[index(4 * other + COUNT)] = 1
    links[index(4 * other + SPINE)] = ON_RIGHT
    marks[RIGHT] = other
    held = count_of(links, parent)
    between = parent * span() + held
    copy_entry(window, leaf * span() + span() - 2, between)
    links[index(4 * leaf + COUNT)] = span() - 2
    links[index(4 * parent + COUNT)] = held + 1
    adopt_kid(window, parent, held + 1, other)
    if held == 0 or held == span() - 1:  # a new root, or one too many
        relieve(window, parent, 0, note_pair(marks, 0, leaf, other), 1)
        return
    refresh(window, leaf)
    last = span() - 1
    above = parent * span() + last
    more = combine(load(slots, leaf * span() + last), load(slots, between))
    store(slots, above, combine(load(slots, above), more))
    if spine_of(links, parent) != AT_ROOT:
        fold = place_of(window, parent_of(links, parent), parent)
        store(folds, fold, combine(load(folds, fold), more))
    times[index(above)] += times[index(leaf * span() + last)] + 1
    times[index(here + last)] = 1
    if spine_of(links, parent) == AT_ROOT:
        store(slots, here + last, state)
    else:
        store(slots, here + last, combine(load(slots, above), state))
        times[index(here + last)] += times[index(above)]


@kernel
def push_anywhere(window: Arena, time: int, state: State) -> None:
    """Insert a state that is not the youngest."""
    leaf, depth, more = put(window, time, state, -1, 0, 0)
    if leaf >= 0:
        update_above(window, leaf, depth, more)


@kernel
def put(window: Arena, time: int, state: State, leaf: int, depth: int, more: int) -> tuple[int, int, int]:
    """Insert a state that is not the youngest; an existing one of this time is combined before it.

    Return its leaf, the leaf's depth and its number of new entries, if the leaf's dependents must still be recomputed;
    else -1 for the leaf. The last three arguments are the results of the previous call, if the time belongs to that
    leaf; else the leaf is -1.
    """
    slots, times, links = window.slots, window.times, window.links
    if leaf < 0:
        node, at, depth, found = seek(window, time)
        more = 0
    else:
        node = leaf
        count = count_of(links, leaf)
        at = entries_before(times, leaf * span(), count, time)
        found = at < count and times[index(leaf * span() + at)] == time
    here = node * span() + at
    if found:
        store(slots, here, combine(load(slots, here), state))
        update_above(window, node, depth, more)
        return -1, 0, 0
    open_gap(window, node, at)
    store(slots, here, state)
    times[index(here)] = time
    # The structure is complete before any combine is called: one that raises leaves a walkable tree.
    if spine_of(links, node) == INSIDE and count_of(links, node) < span():
        return node, depth, more + 1
    relieve(window, node, depth, 0, more + 1)
    return -1, 0, 0


@kernel
def belongs(window: Arena, leaf: int, time: int) -> bool:
    """Return whether a time belongs to the last leaf sought, and not before all its entries."""
    return time > window.times[index(leaf * span())] and time < window.marks[LIMIT]  # type: ignore[no-any-return]  # a boolean


@kernel
def relieve(window: Arena, node: int, depth: int, changed: int, more: int) -> None:
    """Split an overfull node, and those above that overflow in turn; then recompute.

    The path holds a list of `changed` nodes below that have already changed. `more` entries are new.
    """
    links, marks = window.links, window.marks
    while count_of(links, node) == span():
        changed = note_pair(marks, changed, node, split(window, node))
        node = parent_of(links, node)
        depth -= 1
    left = -1
    right = -1
    for i in range(changed):
        left, right = refresh_or_note(window, marks[index(PATH + i)], left, right)
    if left < 0 and right < 0:
        update_above(window, node, depth, more)
    else:  # a node of a spine was split, so the one above it is the root or on that spine too
        left, right = refresh_or_note(window, node, left, right)
        refresh_spines(window, left, right)


@kernel
def note_pair(marks: Ints, changed: int, one: int, two: int) -> int:
    """Append two nodes to the list of changed ones; return its length."""
    marks[index(PATH + changed)] = one
    marks[index(PATH + 1 + changed)] = two
    return changed + 2


@kernel
def split(window: Arena, node: int) -> int:
    """Split an overfull node in two; the entry between them goes to the parent. Return the new node, the right one.

    On the right spine an inner node overflows when rows come in order: the left part stays full.
    """
    times, links, marks = window.times, window.links, window.marks
    if node == marks[ROOT]:
        grow_root(window)
        links[index(4 * node + SPINE)] = 1
        spine = ON_RIGHT
    else:
        spine = spine_of(links, node) & ON_RIGHT
        links[index(4 * node + SPINE)] &= ON_LEFT
    other = new_like(window, node)
    links[index(4 * other + SPINE)] = spine
    if marks[RIGHT] == node:
        marks[RIGHT] = other
    kept = arity()
    if spine == ON_RIGHT and row_of(links, node) >= 0:
        kept = span() - 2
    moved = count_of(links, node) - kept - 1
    copy_run(window, node, kept + 1, other, 0, moved)
    if row_of(links, node) >= 0:
        adopt_kid(window, other, moved, kid_of(window, node, kept + 1 + moved))
    links[index(4 * node + COUNT)] = kept
    links[index(4 * other + COUNT)] = moved
    parent = parent_of(links, node)
    between = node * span() + kept
    at = entries_before(times, parent * span(), count_of(links, parent), times[index(between)])
    open_gap(window, parent, at)
    copy_entry(window, between, parent * span() + at)
    adopt_kid(window, parent, at + 1, other)
    return other


# ---------------------------------------------------------------- out


@kernel
def pop(window: Arena) -> None:
    """Remove the oldest state."""
    links, marks = window.links, window.marks
    leaf = marks[LEFT]
    count = count_of(links, leaf)
    if count == 1:
        links[index(4 * leaf + COUNT)] = 0
        marks[FRONT] = 0
        if leaf != marks[ROOT]:
            mend_front(window, leaf, -1)
        return
    pop_front(window, leaf, 1)


@kernel
def pop_front(window: Arena, leaf: int, gone: int) -> None:
    """Remove some of the entries of the first leaf, but not all."""
    slots, times, links, marks = window.slots, window.times, window.links, window.marks
    count = count_of(links, leaf)
    if marks[FRONT] != count:
        fill_front(window, leaf)
    base = leaf * span()
    if gone == 1:
        for i in range(span() - 2):  # all columns, not only those with entries: no branch to mispredict
            copy_entry(window, base + i + 1, base + i)
    else:
        for i in range(gone, count):
            copy_entry(window, base + i, base + i - gone)
    slots[index(base + span() - 1)] = slots[index(count - gone)]
    times[index(base + span() - 1)] -= gone
    links[index(4 * leaf + COUNT)] = count - gone
    marks[FRONT] = count - gone


@kernel
def fill_front(window: Arena, leaf: int) -> None:
    """Precompute the aggregate of the first leaf after each of the next evictions."""
    slots, links, marks = window.slots, window.links, window.marks
    count = count_of(links, leaf)
    last = leaf * span() + count - 1
    state = hold(load(slots, last))
    if leaf != marks[ROOT]:
        parent = parent_of(links, leaf)
        if parent != marks[ROOT]:
            state = combine(state, load(slots, parent * span() + span() - 1))
    store(slots, 1, state)
    for kept in range(2, count):
        state = combine(load(slots, last + 1 - kept), state)
        store(slots, kept, state)


@kernel
def mend_front(window: Arena, node: int, right: int) -> None:
    """Fill up a node of the left spine, and those above it; then recompute.

    A move takes all that the neighbour can spare: fewer moves, as each recomputes two nodes. `right` is a changed node
    of the right spine.
    """
    links, marks = window.links, window.marks
    while node != marks[ROOT] and lacks(links, node):
        parent = parent_of(links, node)
        neighbour = kid_of(window, parent, 1)
        if fits_one(links, node, neighbour):
            merge_right(window, node, neighbour, parent, 0)
            shift(window, parent, -1)
        else:
            move_left(window, node, neighbour, parent, 0, count_of(links, neighbour) + 1 - arity())
            if spine_of(links, neighbour) == ON_RIGHT:
                right = neighbour
            else:
                refresh(window, neighbour)
        node = parent
    if shrink_root(window):
        refresh_all_spines(window)
    else:
        refresh_spines(window, node, right)


@kernel
def erase(window: Arena, time: int) -> bool:
    """Remove the entry of a time; return whether there was one. O(log n)."""
    links, marks = window.links, window.marks
    node, at, _, found = seek(window, time)
    if not found:
        return False
    leaf = node
    if row_of(links, node) >= 0:
        leaf = kid_of(window, node, at + 1)
        while row_of(links, leaf) >= 0:
            leaf = kid_of(window, leaf, 0)
        copy_entry(window, leaf * span(), node * span() + at)
        at = 0
    close_gap(window, leaf, at)
    marks[FRONT] = 0
    if leaf == marks[ROOT]:
        if count_of(links, leaf) > 0:
            refresh(window, leaf)
        return True
    mend_inside(window, leaf, node)
    return True


@kernel
def mend_inside(window: Arena, node: int, top: int) -> None:
    """Fill up any node, and those above it; then recompute, at least up to `top`."""
    links, marks = window.links, window.marks
    left = -1
    right = -1
    while node != marks[ROOT] and lacks(links, node):
        parent = parent_of(links, node)
        at = 0
        while kid_of(window, parent, at) != node:
            at += 1
        at = min(at, count_of(links, parent) - 1)
        one = kid_of(window, parent, at)
        two = kid_of(window, parent, at + 1)
        if fits_one(links, one, two):
            merge_right(window, one, two, parent, at)
            close_gap(window, parent, at)
        else:
            if one == node:
                move_left(window, one, two, parent, at, count_of(links, two) + 1 - arity())
            else:
                move_right(window, one, two, parent, at, count_of(links, one) + 1 - arity())
            left, right = refresh_or_note(window, one, left, right)
        left, right = refresh_or_note(window, two, left, right)
        node = parent
    if shrink_root(window):
        refresh_all_spines(window)
    else:
        mend(window, node, top, left, right)


@kernel
def total(window: Arena) -> State:
    """Return the aggregate of the whole window, which is not empty: two combines."""
    slots, links, marks = window.slots, window.links, window.marks
    last = span() - 1
    root = marks[ROOT]
    if row_of(links, root) < 0:
        return load(slots, root * span() + last)
    left = load(slots, marks[LEFT] * span() + last)
    right = load(slots, marks[RIGHT] * span() + last)
    return combine(combine(left, load(slots, root * span() + last)), right)


SINGLE_KERNELS = (
    seek_top,
    seek,
    refresh_or_note,
    mend,
    push,
    is_late,
    push_last,
    begin_leaf,
    push_anywhere,
    put,
    belongs,
    relieve,
    note_pair,
    split,
    pop,
    pop_front,
    fill_front,
    mend_front,
    erase,
    mend_inside,
    total,
)
