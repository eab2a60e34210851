"""FlatFat: the reactive aggregator. A complete binary tree of states in one flat array, its leaves used as a ring.

    node v has the children 2v and 2v + 1; the root is node 1; leaf i of a tree of `capacity` leaves is capacity + i

           1            a node holds the aggregate of the leaves below it that hold rows
       2       3
     4   5   6   7      leaves: positions modulo the capacity

Inserts and evictions only write leaves and marks. A query first applies pending changes: m changes of a tree of n
leaves are propagated level by level, at most m(1 + ceil(log2(n / m))) combines. Then the root is the answer, or, if the
ring wraps around, so that the youngest rows lie left of the oldest, a suffix of the tree (from the oldest leaf) and a
prefix (to the youngest), log2(n) combines at most each.

While rows leave in order, their positions tell which nodes hold something; nodes above both the young and the old end
of a wrapped ring are neither read nor maintained. A row evicted from the middle leaves a hole: from then on, until the
tree is rebuilt, each node is marked as full or empty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregators import flat_fat_marked
from muntin.aggregators.base_intervals import highest_level
from muntin.aggregators.flat_fat_marked import BACKWARD, FORWARD, HOLDS, HOLES, PENDING, MarkedWindow
from muntin.aggregators.ring import END, FRONT, RingAggregator, RingWindow, Side, checked_capacity
from muntin.aggregators.states import States
from muntin.columns import read_only
from muntin.errors import InvalidArgumentError, MuntinError
from muntin.kernels.runtime import lowest_bit
from muntin.kernels.tiers import working_on
from muntin.kernels.vocabulary import (
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    emit_empty,
    hold,
    inlined,
    kernel,
    load,
    store,
)
from muntin.turns import changing
from muntin.types import Array

APPLIED, STALE = 2, 3
"""Marks: the position up to which the nodes are up to date, and which other nodes are stale."""
FRONT_STALE, TOP_STALE = 1, 2
"""What is stale: the nodes above the oldest leaf, or all above both ends of a wrapped ring as well."""
LEAST_CAPACITY = 16


@inlined
def push(window: RingWindow, time: int, state: State) -> None:
    """Append a state: a leaf."""
    slots, times, marks = window.slots, window.times, window.marks
    at = marks[END] & (len(times) - 1)
    store(slots, len(times) + at, state)
    times[at] = time
    marks[END] += 1


@inlined
def pop(window: RingWindow) -> None:
    """Remove the oldest state."""
    marks = window.marks
    marks[FRONT] += 1
    if marks[STALE] == 0:
        marks[STALE] = FRONT_STALE


# ---------------------------------------------------------------- propagating changes, level by level


@kernel
def renew(slots: Slots, marks: Ints, capacity: int) -> None:
    """Bring the nodes up to date."""
    begin = marks[FRONT] & (capacity - 1)
    end = begin + marks[END] - marks[FRONT]
    changed = begin + max(marks[APPLIED], marks[FRONT]) - marks[FRONT]
    if end > capacity or end - begin == capacity:
        if changed < capacity:
            renew_complete(slots, capacity, begin, capacity, changed, capacity)
        if end > capacity:
            renew_complete(slots, capacity, 0, end - capacity, max(changed - capacity, 0), end - capacity)
        # Nodes above both ends are not read while the ring is wrapped; they are marked as stale.
        marks[STALE] = TOP_STALE
    elif begin < end and (changed < end or marks[STALE] != 0):
        if marks[STALE] == TOP_STALE:
            changed = min(changed, end - 1)
        renew_straight(slots, capacity, begin, end, changed, marks[STALE] > 0)
        marks[STALE] = 0
    marks[APPLIED] = marks[END]


@kernel
def renew_straight(slots: Slots, capacity: int, begin: int, end: int, changed: int, front: bool) -> None:
    """Compute the nodes above the leaves [changed, end), and those above `begin` if the front has moved."""
    oldest, youngest = capacity + begin, capacity + end - 1
    first = capacity + changed
    complete = oldest  # the first node of its level without a leaf before the oldest row's
    while youngest > 1:
        below_oldest, below_youngest = oldest, youngest
        oldest >>= 1
        youngest >>= 1
        first >>= 1
        complete = (complete + 1) >> 1
        # Evicted rows are below a node above the oldest leaf only if that leaf is not the node's first.
        if front and oldest < first and oldest < complete:
            renew_node(slots, oldest, below_oldest, below_youngest)
        for node in range(first, youngest + 1):
            renew_node(slots, node, below_oldest, below_youngest)


@kernel
def renew_node(slots: Slots, node: int, oldest: int, youngest: int) -> None:
    """Compute a node from its children; those outside [oldest, youngest] are empty."""
    if 2 * node < oldest:
        store(slots, node, load(slots, 2 * node + 1))
    elif 2 * node + 1 > youngest:
        store(slots, node, load(slots, 2 * node))
    else:
        store(slots, node, combine(load(slots, 2 * node), load(slots, 2 * node + 1)))


@kernel
def renew_complete(slots: Slots, capacity: int, begin: int, end: int, changed: int, stop: int) -> None:
    """Compute the nodes above the leaves [changed, stop) whose leaves are all in [begin, end)."""
    begin += capacity
    end += capacity
    first = capacity + changed
    after = capacity + stop
    while first < after:
        begin = (begin + 1) >> 1
        end >>= 1
        first = max(first >> 1, begin)
        after = min((after + 1) >> 1, end)
        for node in range(first, after):
            store(slots, node, combine(load(slots, 2 * node), load(slots, 2 * node + 1)))


# ---------------------------------------------------------------- answers


@inlined
def suffix(slots: Slots, node: int) -> State:
    """Return the aggregate from a leaf to the last one."""
    node >>= lowest_bit(node)
    state = hold(load(slots, node))
    while node & (node + 1) != 0:
        node += 1
        node >>= lowest_bit(node)
        state = combine(state, load(slots, node))
    return state


@inlined
def prefix(slots: Slots, end: int) -> State:
    """Return the aggregate from the first leaf up to, not including, a leaf."""
    node = (end >> lowest_bit(end)) - 1
    state = hold(load(slots, node))
    while node & (node - 1) != 0:
        node = (node >> lowest_bit(node)) - 1
        state = combine(load(slots, node), state)
    return state


@inlined
def total(window: RingWindow) -> State:
    """Return the aggregate of the whole window."""
    slots, times, marks = window.slots, window.times, window.marks
    capacity = len(times)
    begin = marks[FRONT] & (capacity - 1)
    end = begin + marks[END] - marks[FRONT]
    if (end > capacity or end - begin == capacity) and marks[APPLIED] + 1 == marks[END]:
        # The usual case of `renew`, one new row in a wrapped or full ring, without the cost of a call.
        node = capacity + ((marks[END] - 1) & (capacity - 1))
        while node & 1 == 1 and node > 1:
            node >>= 1
            store(slots, node, combine(load(slots, 2 * node), load(slots, 2 * node + 1)))
        marks[APPLIED] = marks[END]
        marks[STALE] = TOP_STALE
    else:
        renew(slots, marks, capacity)
    if end <= capacity:
        return load(slots, 1)
    return combine(suffix(slots, capacity + begin), prefix(slots, end))


@kernel
def stretch(slots: Slots, leaf: int, end: int) -> State:
    """Return the aggregate of the leaves [leaf, end), at least one, from the largest nodes that fit."""
    height = highest_level(leaf, end)
    state = hold(load(slots, leaf >> height))
    leaf += 1 << height
    while leaf < end:
        height = highest_level(leaf, end)
        state = combine(state, load(slots, leaf >> height))
        leaf += 1 << height
    return state


@kernel
def between(slots: Slots, capacity: int, begin: int, end: int) -> State:
    """Return the aggregate of the positions [begin, end), at least one, from up-to-date nodes."""
    leaf = begin & (capacity - 1)
    stop = leaf + end - begin
    if stop <= capacity:
        return stretch(slots, capacity + leaf, capacity + stop)
    return combine(stretch(slots, capacity + leaf, 2 * capacity), stretch(slots, capacity, stop))


@kernel
def answer_between(window: RingWindow, begin: int, end: int, outputs: Outputs) -> None:
    """Lower the aggregate of the positions [begin, end)."""
    slots, capacity = window.slots, len(window.times)
    renew(slots, window.marks, capacity)
    emit(outputs, 0, between(slots, capacity, begin, end))


@kernel
def answer_spans(window: RingWindow, begins: Ints, ends: Ints, outputs: Outputs) -> None:
    """Lower the aggregates of many spans of positions, each [begin, end) and some empty."""
    slots, capacity = window.slots, len(window.times)
    renew(slots, window.marks, capacity)
    for i in range(len(begins)):
        if begins[i] < ends[i]:
            emit(outputs, i, between(slots, capacity, begins[i], ends[i]))
        else:
            emit_empty(outputs, i)


class FlatFat(RingAggregator):
    """In order; any associative aggregation; evicts by time from anywhere; O(log n) combines per slide, fewer in bulk.

    m changes since the last query take at most m(1 + ceil(log2(n / m))) combines, in a tree of n leaves; the answer
    then none, or 2 log2(n) + 1 if the ring is wrapped. The tree doubles when it is full (or is packed, if a quarter of
    it is holes), and halves when three quarters are empty: amortised O(1) combines per change. `capacity` fixes the
    maximum number of rows: the tree has its final size from the start, and no query takes O(n) as long as rows leave in
    order. (Holes among that many rows need a tree twice as large, once.)

    >>> from muntin import agg, aggregators
    >>> window = aggregators.FlatFat(agg.concat("v"))
    >>> window.bulk_insert([1, 2, 3, 4, 5], "abcde")
    >>> window.evict_at(3)
    >>> window.query(), window.range_query(2, 4)
    ('abde', 'bd')
    """

    structure: ClassVar[tuple[Any, ...]] = (
        renew_node, renew_straight, renew_complete, renew, push, pop, suffix, prefix, total,
        highest_level, stretch, between, answer_between, answer_spans,
    )  # fmt: skip
    entries: ClassVar[tuple[str, ...]] = ("renew", "answer_between", "answer_spans")
    mark_count: ClassVar[int] = 6
    states_a_row: ClassVar[int] = 2

    def __init__(self, aggregation: Any, *, capacity: int | None = None, **options: Any) -> None:
        self._most = checked_capacity(capacity) or None
        try:
            super().__init__(aggregation, **options)
        except (MemoryError, ValueError, OverflowError) as error:
            if capacity is None or isinstance(error, MuntinError):
                raise
            raise InvalidArgumentError(f"capacity is {capacity!r}, for which there is no memory: {error}") from error

    def evict(self) -> None:
        """Remove the oldest row; `IndexError` if there is none. O(1); the next query updates the nodes above."""
        super().evict()
        self._shrink()

    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t: O(log n), O(rows) if rows have left from the middle before."""
        super().bulk_evict(t)
        self._shrink()

    def evict_at(self, t: Any) -> None:
        """Remove the oldest of the rows with this time; `KeyError` if there is none.

        O(log n), however many rows have the time and have left; the first one from the middle also marks the nodes,
        O(capacity).
        """
        position = self._row_at(t)
        with changing(self):
            if position == self._marks[FRONT]:
                self._module.evict_rows(self._window, 1)
            else:
                self._mark_nodes()
                self._module.remove_rows(self._window, np.array([position]))
            self._shrink()

    def bulk_evict_at(self, ts: Any) -> None:
        """Remove a row for each of some times, the oldest with that time; `KeyError`, and no change, if one is missing.

        O(m log n) for m times, in any order and repeated for several rows; the first time also O(capacity).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.FlatFat(agg.concat("v"))
        >>> window.bulk_insert([1, 2, 2, 2, 3], "abcde")
        >>> window.bulk_evict_at([3, 2, 2])
        >>> window.query()
        'ad'
        """
        times = np.sort(self._read_times(ts)[1])
        if not len(times):
            return
        if not len(self):
            raise KeyError(f"the window has no row, or too few, of the time {self._shown(times[0])}")
        with changing(self):
            self._mark_nodes()
            positions = self._positions(times, "left")
            self._module.pick_rows(self._window, read_only(times), positions)
            found = self._window.times[positions & (self._capacity - 1)]
            missing = (positions >= self._marks[END]) | (found != times)
            if missing.any():
                time = times[int(missing.argmax())]
                raise KeyError(f"the window has no row, or too few, of the time {self._shown(time)}")
            self._module.remove_rows(self._window, positions)
            self._shrink()

    def update(self, t: Any, v: Any = None) -> None:
        """Replace the value of the oldest of the rows with this time; `KeyError` if there is none.

        O(log n) to find it; the next query updates the nodes above. The first time also marks the nodes, O(capacity).

        >>> from muntin import agg, aggregators
        >>> window = aggregators.FlatFat(agg.concat("v"))
        >>> window.bulk_insert([1, 2, 3], "abc")
        >>> window.update(2, "B")
        >>> window.query()
        'aBc'
        """
        self._row_at(t)
        time_type, time = self._read_time(t)
        types, row, physical = self._read_value(v)
        with changing(self):
            self._take_types(time_type, types)
            self._fill(row, physical)
            self._time_cell[0] = time
            self._mark_nodes()
            # Wider states are packed on the left of a new tree: found again.
            self._module.replace(self._window, self._cell_views, self._time_view, self._row_at(t))

    def __len__(self) -> int:
        """Return the number of rows. O(1)."""
        return super().__len__() - int(self._marks[HOLES])

    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi: O(log n)."""
        return super().range_query(lo, hi)

    def range_queries(self, los: Any, his: Any) -> Any:
        """Return what `range_query` returns for each pair of bounds, as a list, or as a dict of lists.

        Pending changes are applied once, and then each range takes O(log n): the way to draw many zoom levels.

        >>> from muntin import agg, aggregators
        >>> window = aggregators.FlatFat(agg.sum("v"))
        >>> window.bulk_insert([1, 2, 3, 4], [10, 20, 30, 40])
        >>> window.range_queries([1, 2, 9], [2, 4, 9])
        [30, 90, None]
        """
        begins, ends = self._spans(los, his)
        outputs = self._binding.outputs(len(begins))
        with working_on(len(begins)):
            self._lower(self._module.answer_spans, self._window, read_only(begins), read_only(ends), outputs)
        return self._answers(outputs, begins < ends)

    def _spans(self, los: Any, his: Any) -> tuple[Array, Array]:
        """Return the positions [begin, end) of the rows of many ranges; empty ones have end <= begin."""
        low, high = self._read_bounds(los, his)
        if not len(self):
            return np.zeros(len(low), np.int64), np.zeros(len(low), np.int64)
        begins, ends = self._positions(low, "left"), self._positions(high, "right")
        if self._marked:
            self._module.narrow(self._window, begins, ends)
        return begins, ends

    def _positions(self, times: Array, side: Side) -> Array:
        """Return what `_position` returns, for many times."""
        front, end = int(self._marks[FRONT]), int(self._marks[END])
        begin = front & (self._capacity - 1)
        stop = begin + end - front
        parts = (self._window.times[begin:stop], self._window.times[: max(0, stop - self._capacity)])
        return sum((np.searchsorted(part, times, side) for part in parts), np.full(len(times), front))

    # ------------------------------------------------------------ leaves, and the holes among them

    @property
    def _capacity(self) -> int:
        return len(self._window.times)

    @property
    def _marked(self) -> bool:
        """Whether nodes are marked, because rows have left from the middle."""
        return isinstance(self._window, MarkedWindow)

    def _leaf(self, position: Any) -> Any:
        return self._capacity + (position & (self._capacity - 1))

    def _row_at(self, t: Any) -> int:
        """Return the position of the oldest row with this time; `KeyError` if there is none."""
        time = self._time(t)  # rejects an invalid time, even if there is no row
        begin, end = self._held_span(time, time) if len(self) else (0, 0)
        if begin >= end:
            raise KeyError(f"no row in the window has the time {t!r}")
        return begin

    def _shown(self, time: int) -> str:
        return repr(int(time) if self._time_type is None else self._logical_time(time))

    def _holds(self, positions: Any) -> Any:
        """Return which positions of the window are not holes."""
        return self._window.holds[self._leaf(positions)] & 1 == 1

    def _held(self) -> Array:
        """Return the positions that hold rows, in order."""
        positions = np.arange(self._marks[FRONT], self._marks[END])
        return positions[self._holds(positions)] if self._marked else positions

    def _mark_nodes(self) -> None:
        """Start marking each node as full or empty; the next query computes what was skipped above the two ends."""
        if self._marked:
            return
        held = self._held()
        window = self._window
        holds = np.zeros(len(window.slots), np.int8)
        holds[self._leaf(held)] = 1
        level = self._capacity
        while level > 1:
            holds[level // 2 : level] = holds[level : 2 * level : 2] | holds[level + 1 : 2 * level : 2]
            level //= 2
        self._module.renew(window.slots, window.marks, self._capacity)
        self._window = MarkedWindow(
            window.slots, window.times, window.marks, holds, work=np.zeros(self._capacity, np.int64)
        )
        self._module = self._load_kernels()
        for end in (held[0], held[-1]):
            self._module.schedule(self._window, int(self._leaf(end)), 1)

    def _form(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Return the kernels for nodes with marks, or without."""
        has_marks = hasattr(self, "_window") and self._marked
        return (flat_fat_marked.STRUCTURE, flat_fat_marked.ENTRIES) if has_marks else super()._form()

    # ------------------------------------------------------------ capacity

    def _allocate(self) -> None:
        self._window = self._empty(_power_of_two(self._most or LEAST_CAPACITY))
        self._module = self._load_kernels()

    def _empty(self, capacity: int) -> RingWindow:
        slots = self._binding.slots(2 * capacity)
        marks = np.zeros(self.mark_count, np.int64)
        return RingWindow(slots, np.zeros(capacity, np.int64), marks)

    def _accept(self, times: Array) -> None:
        super()._accept(times)
        if self._most is not None and len(self) + len(times) > self._most:
            raise InvalidArgumentError(
                f"the window was built for {self._most} rows and holds {len(self)}; {len(times)} more do not fit: "
                "evict first, or build it without a capacity"
            )

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        self._reserve(count)
        before = self._marks.copy()
        try:
            self._module.insert_rows(self._window, columns, times, 0, count)
        except BaseException:
            self._marks[:] = before
            self._rebuild(self._capacity)
            raise

    def _reserve(self, rows: int) -> None:
        """Make room for more rows: compact the tree if a quarter of it is holes, else double it."""
        used = int(self._marks[END] - self._marks[FRONT])
        if used + rows <= self._capacity:
            return
        capacity = self._capacity
        if 4 * len(self) > 3 * capacity:
            capacity *= 2
        while len(self) + rows > capacity:
            capacity *= 2
        self._rebuild(capacity)

    def _shrink(self) -> None:
        """Halve the tree as long as three quarters of it are empty."""
        capacity = self._capacity
        while self._most is None and capacity > LEAST_CAPACITY and len(self) < capacity // 4:
            capacity //= 2
        if capacity != self._capacity:
            self._rebuild(capacity)

    def _rebuild(self, capacity: int) -> None:
        """Move the rows to the left of a new tree; the next query computes its nodes, n - 1 combines."""
        held = self._held()
        window = self._empty(capacity)
        window.slots[capacity : capacity + len(held)] = self._window.slots[self._leaf(held)]
        window.times[: len(held)] = self._window.times[held & (self._capacity - 1)]
        window.marks[END] = len(held)
        self._window = window
        self._module = self._load_kernels()

    def _after_conversion(self) -> None:
        self._rebuild(self._capacity)

    def _lower(self, answer: Callable[..., Any], *arguments: Any) -> Any:
        """Start over from the leaves if a combine fails while propagating."""
        try:
            return super()._lower(answer, *arguments)
        except BaseException:
            self._rebuild(self._capacity)
            raise

    # ------------------------------------------------------------ overrides of the ring

    def _guard_eviction(self, count: int, evict: Callable[..., None], *arguments: Any) -> None:
        """Evict without a copy of the marks of all nodes: nothing is combined, so that nothing can fail."""
        with changing(self):
            evict(*arguments)

    def _evict_many(self, count: int) -> None:
        if self._marked:
            self._module.pop_until(self._window, int(self._marks[FRONT]) + count)
        else:
            self._marks[FRONT] += count
            self._marks[STALE] = max(self._marks[STALE], 1)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        self._module.answer_between(self._window, begin, end, outputs)

    def _span(self, lo: Any, hi: Any) -> tuple[int, int]:
        return self._held_span(self._time(lo), self._time(hi))

    def _held_span(self, lo: int, hi: int) -> tuple[int, int]:
        """Return the positions from the first row of a range to the last, possibly with holes in between."""
        begin, end = self._position(lo, "left"), self._position(hi, "right")
        if self._marked and begin < end:
            begin = int(self._module.held_from(self._window, begin, FORWARD))
            end = int(self._module.held_from(self._window, end - 1, BACKWARD)) + 1
        return begin, end

    def _options(self) -> dict[str, Any]:
        return {"capacity": self._most}

    def _arrays(self) -> dict[str, Array]:
        """Save the leaves at their places: the rebuilt tree has the same nodes to the last bit."""
        positions = np.arange(self._marks[FRONT], self._marks[END])
        return {
            "slots": self._window.slots[self._leaf(positions)],
            "times": self._window.times[positions & (self._capacity - 1)],
            "held": self._holds(positions) if self._marked else np.ones(len(positions), np.bool_),
            "bounds": np.array([self._marks[FRONT], self._marks[END], self._capacity], np.int64),
        }

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        front, end, capacity = (int(x) for x in arrays["bounds"])
        rows = int(arrays["held"].sum())
        if self._most is not None and rows > self._most:
            raise InvalidArgumentError(f"the snapshot holds {rows} rows, more than the capacity {self._most}")
        self._window = self._empty(capacity)
        positions = np.arange(front, end)
        self._window.slots[self._leaf(positions)] = arrays["slots"]
        self._window.times[positions & (capacity - 1)] = arrays["times"]
        self._marks[[FRONT, END, APPLIED]] = front, end, front
        if not arrays["held"].all():
            self._mark_nodes()
            holes = positions[~arrays["held"]]
            for hole in holes:
                self._module.schedule(self._window, int(self._leaf(hole)), 0)
            self._marks[HOLES] = len(holes)

    def _check_structure(self, states: States, require: Any) -> None:
        marks = self._marks
        front, end = int(marks[FRONT]), int(marks[END])
        held = self._held()
        require(len(held) == len(self), f"{len(self)} rows, and {len(held)} leaves that hold one")
        if len(held):
            require(held[0] == front and held[-1] == end - 1, "a hole at an end of the window")
        wrapped = (front & (self._capacity - 1)) + end - front > self._capacity
        if self._marked:
            full = self._window.holds & HOLDS
            above = full[2 : 2 * self._capacity : 2] | full[3 : 2 * self._capacity : 2]
            require(bool((full[1 : self._capacity] == above).all()), "a node is not marked as the leaves below it")
        pending = marks[PENDING] if self._marked else marks[APPLIED] != end or (marks[STALE] and not wrapped)
        if len(held) and not pending:
            self._check_nodes(states, require, {int(self._leaf(p)) for p in held}, wrapped)

    def _check_nodes(self, states: States, require: Any, level: set[int], wrapped: bool) -> None:
        """Require that each node is the aggregate of its children; in a wrapped ring only nodes that are read."""
        slots = self._window.slots
        holds = self._window.holds if self._marked else np.ones(len(slots), np.int8)
        oldest = int(self._leaf(self._marks[FRONT]))
        while level and level != {1}:
            across, oldest = oldest >> 1 if oldest & 1 else 0, oldest >> 1
            parents = {node >> 1 for node in level}
            if wrapped and not self._marked:
                parents = {p for p in parents if p != across and {2 * p, 2 * p + 1} <= level}
            for node in parents:
                children = [states.load(slots, child) for child in (2 * node, 2 * node + 1) if child in level]
                whole = children[0] if len(children) == 1 else states.combine(*children)
                require(states.close(states.load(slots, node), whole), f"node {node} is not what its children are")
                require(bool(holds[node] == 1), f"node {node} holds something, and is not marked so")
            level = parents


def _power_of_two(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()
