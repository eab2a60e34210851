"""MonoidTree: the amortised monoid tree aggregator. O(1) combines per slide, amortised; O(log n) for any bulk eviction.

A forest over the rows, in levels of pairs (see `levels.py`). A pair gets a parent only once a newer pair follows it, so
no aggregate ever changes: the last pair of every level is the root of its own tree, and E rows have ((E + 1) >> l) - 1
nodes in level l. Beside the forest:

    results   the aggregate of the leftmost tree, and that of all others
    stack     the aggregates of what the leftmost tree will be without its oldest 1, 2, 4 ... rows

An insert extends the second result and closes pairs up the levels, as a counter carries. An eviction takes the first
result from the stack, and pushes the new oldest pairs onto it. Only when the leftmost tree has grown or is used up
are the results and the stack rebuilt, from the first and last pairs of the levels; once, however much has changed.

Nodes that begin before the oldest row are stale, and never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.growing import GrowingRing, runs
from muntin.aggregators.levels import SHARED, LevelAggregator, last_spot, node, put_time, spot, spots
from muntin.aggregators.ring import END, FRONT
from muntin.aggregators.states import States
from muntin.kernels.vocabulary import Ints, Slots, State, combine, kernel, load, store
from muntin.policies import Policy
from muntin.stores.base import Store
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.aggregators.stored import StoredMonoidTree

TOP, SPLIT, DEPTH = 3, 4, 5
"""Marks: the highest level, the position after the leftmost tree, and the place after the top of the stack."""
LEFTMOST, OTHERS, STACK = 0, 1, 2
"""The places in `results` of the two results, and of the stack."""


class MonoidTreeWindow(NamedTuple):
    """The levels in `slots`, the times of the rows, and what is kept beside the forest."""

    slots: Slots
    times: Ints
    marks: Ints
    results: Slots
    """At `LEFTMOST` and `OTHERS` the two results, from `STACK` on the stack."""


@kernel
def has_node(window: MonoidTreeWindow, level: int, j: int) -> Any:
    """Return whether a node that begins inside the window exists, with all its rows."""
    return j < ((window.marks[END] + 1) >> level) - 1


@kernel
def rebuild_left(window: MonoidTreeWindow) -> None:
    """Rebuild the stack and the first result, from the first pairs of all levels."""
    cells, marks, results = window.slots, window.marks, window.results
    front = marks[FRONT]
    depth = STACK
    for level in range(marks[TOP], -1, -1):
        j = (front >> level) + 1
        if j & 1 == 1 and has_node(window, level, j):
            state = load(cells, spot(len(cells), marks, level, j))
            if depth > STACK:
                state = combine(state, load(results, depth - 1))
            store(results, depth, state)
            depth += 1
    marks[DEPTH] = depth
    state = load(cells, spot(len(cells), marks, 0, front))
    if depth > STACK:
        state = combine(state, load(results, depth - 1))
    store(results, LEFTMOST, state)


@kernel
def rebuild_right(window: MonoidTreeWindow) -> None:
    """Rebuild the second result, from the last pairs of all levels but the highest."""
    cells, marks, results = window.slots, window.marks, window.results
    count = marks[END] + 1
    for level in range(marks[TOP]):
        last = (count >> level) - 2
        first = 2 * ((count >> (level + 1)) - 1)
        for j in range(last, first - 1, -1):
            state = load(cells, last_spot(len(cells), marks, level, j))
            if level > 0 or j < last:
                state = combine(state, load(results, OTHERS))
            store(results, OTHERS, state)


@kernel
def update_split(window: MonoidTreeWindow) -> None:
    """Find the leftmost tree; if its end has changed, rebuild results and stack."""
    marks = window.marks
    count = marks[END] + 1
    top = marks[TOP]
    while (count >> (top + 1)) - 1 > (marks[FRONT] >> (top + 1)):
        top += 1
    while top > 0 and (count >> top) - 1 <= (marks[FRONT] >> top):
        top -= 1
    marks[TOP] = top
    split = ((count >> top) - 1) << top
    if split != marks[SPLIT]:
        marks[SPLIT] = split
        rebuild_left(window)
        rebuild_right(window)


@kernel
def push(window: MonoidTreeWindow, time: int, state: State) -> None:
    """Append a state."""
    cells, times, marks, results = window.slots, window.times, window.marks, window.results
    end = marks[END]
    size = len(cells)
    store(cells, last_spot(size, marks, 0, end), state)
    put_time(times, marks, end, time)
    if end == marks[SPLIT]:
        store(results, OTHERS, state)
    else:
        store(results, OTHERS, combine(load(results, OTHERS), state))
    marks[END] = end + 1
    count = end + 2
    level = 1
    while count & ((1 << level) - 1) == 0:
        j = (count >> level) - 2
        if (j << level) < marks[FRONT]:
            break
        older = load(cells, last_spot(size, marks, level - 1, 2 * j))
        newer = load(cells, last_spot(size, marks, level - 1, 2 * j + 1))
        store(cells, last_spot(size, marks, level, j), combine(older, newer))
        level += 1
    if count & ((1 << marks[TOP]) - 1) == 0:
        update_split(window)


@kernel
def clear(window: MonoidTreeWindow) -> None:
    """Mark the window as empty."""
    marks = window.marks
    marks[FRONT] = marks[END]
    marks[TOP] = 0
    marks[SPLIT] = marks[END]
    marks[DEPTH] = STACK


@kernel
def pop(window: MonoidTreeWindow) -> None:
    """Remove the oldest state."""
    cells, marks, results = window.slots, window.marks, window.results
    front = marks[FRONT] + 1
    marks[FRONT] = front
    if front < marks[SPLIT]:
        depth = marks[DEPTH] - 1
        store(results, LEFTMOST, load(results, depth))
        level = 0
        while front & (1 << level) == 0:
            level += 1
        while level > 0:
            level -= 1
            state = load(cells, spot(len(cells), marks, level, (front >> level) + 1))
            if depth > STACK:
                state = combine(state, load(results, depth - 1))
            store(results, depth, state)
            depth += 1
        marks[DEPTH] = depth
    elif front < marks[END]:
        update_split(window)
    else:
        clear(window)


@kernel
def move_front(window: MonoidTreeWindow, position: int) -> None:
    """Remove all rows before a position: by the stack if they are few, else at once."""
    marks = window.marks
    if position - marks[FRONT] <= marks[TOP] + 1:
        while marks[FRONT] < position:
            pop(window)
    elif position == marks[END]:
        clear(window)
    else:
        marks[FRONT] = position
        if position < marks[SPLIT]:
            rebuild_left(window)
        else:
            update_split(window)


@kernel
def total(window: MonoidTreeWindow) -> State:
    """Return the aggregate of the whole window."""
    marks, results = window.marks, window.results
    if marks[SPLIT] == marks[END]:
        return load(results, LEFTMOST)
    return combine(load(results, LEFTMOST), load(results, OTHERS))


@kernel
def rebuild(window: MonoidTreeWindow) -> None:
    """Rebuild all nodes above the rows."""
    cells, marks = window.slots, window.marks
    count = marks[END] + 1
    for level in range(1, marks[TOP] + 1):
        for j in range((marks[FRONT] + (1 << level) - 1) >> level, (count >> level) - 1):
            older = node(window, level - 1, 2 * j)
            store(cells, spot(len(cells), marks, level, j), combine(older, node(window, level - 1, 2 * j + 1)))


ALGORITHM = (has_node, rebuild_left, rebuild_right, update_split, push, clear, pop, move_front, total, rebuild)


class MonoidTree(GrowingRing, LevelAggregator):
    """In order; any associative aggregation; a slide takes O(1) combines amortised, O(log n) at worst.

    `bulk_evict` and `range_query` take O(log n) combines, however many rows they concern. `policy` enforces a slide
    policy after every insert (see `muntin.policies`): O(log n) at worst, amortised O(1) if few rows leave at a time.
    Memory is two states and a time per row, in rings that grow in steps: no call copies more than O(1) rows for each
    row that it inserts. With `capacity=` there is room for as many rows from the start; it is no limit.

    `store` keeps the middle in a key-value store (see `muntin.stores`), under the name `window_id`, and memory is
    O(log n). `chunk_pairs` is the number of pairs stored together: by default 512 to 4096, by the size of their states.
    If the store fails an operation waits up to `patience` seconds, then raises `StoreError` and leaves the window
    usable. `allow_pickle` reads states of Python objects that only pickle can write. Such a window has `flush`, `close`
    and `window_id`, and is a context manager.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree({"highest": agg.max("v")}, policy=policies.sum_at_most("v", 10))
    >>> window.bulk_insert(range(5), [2, 2, 3, 3, 4])
    >>> window.query(), len(window)
    ({'highest': 4}, 3)
    >>> window.bulk_evict(3)
    >>> len(window)
    1
    """

    structure: ClassVar[tuple[Any, ...]] = (*SHARED, *ALGORITHM)
    layout: ClassVar[Any] = MonoidTreeWindow
    mark_count: ClassVar[int] = 6

    def __new__(cls, *_: Any, store: Store | None = None, **__: Any) -> Self:
        """Create a window in memory, or one whose body is in a store."""
        if store is None or cls is not MonoidTree:
            return super().__new__(cls)
        from muntin.aggregators.stored import StoredMonoidTree  # which is a MonoidTree

        return super().__new__(StoredMonoidTree)  # type: ignore[return-value]  # mypy takes Self for MonoidTree itself

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        policy: Policy | None = None,
        store: None = None,
        **options: Any,
    ) -> None:
        super().__init__(aggregation, policy=policy, **options)

    @classmethod
    def open(
        cls, store: Store, window_id: str, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any
    ) -> StoredMonoidTree:
        """Return a stored window as its last completed `flush` left it; `updates` counts the rows inserted by then.

        Takes the options of the constructor. The aggregation and the policy must be those the window was created with,
        with unchanged definitions. `LeaseError` if a living process has the window open, `StoreError` if there is none,
        or a different one.

        >>> from muntin import agg, aggregators, stores
        >>> store = stores.Memory()
        >>> with aggregators.MonoidTree(agg.sum("v"), store=store, window_id="w") as window:
        ...     window.bulk_insert(range(5000), range(5000))
        ...     window.bulk_evict(4997)
        >>> window = aggregators.MonoidTree.open(store, "w", agg.sum("v"))
        >>> window.query(), len(window), window.updates
        (9997, 2, 5000)
        >>> window.close()
        """
        from muntin.aggregators.stored import StoredMonoidTree  # which is a MonoidTree

        return StoredMonoidTree.reopen(store, window_id, aggregation, **options)

    @property
    def updates(self) -> int:
        """How many rows have been inserted so far, including evicted ones."""
        return int(self._marks[END])

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (self._binding.slots(2 + 64),)

    def _slot_runs(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the runs of the nodes that the rows [begin, end) have completed, level by level: none ever changes."""
        assert self._next is not None
        size, grown = len(self._window.slots), len(self._next[0])
        front = int(self._marks[FRONT])
        level, oldest, last = 0, front, end
        while oldest < last:
            first = begin if level == 0 else ((begin + 1) >> level) - 1
            places, more = size >> (level + 1), grown >> (level + 1)
            for at, to, count in runs(max(first, oldest), last, places, more):
                yield size - 2 * places + at, grown - 2 * more + to, count
            level += 1
            oldest, last = (oldest + 1) >> 1, ((end + 1) >> level) - 1

    def _node_ranges(self) -> Iterator[tuple[int, int, int]]:
        front, end, top = (int(self._marks[m]) for m in (FRONT, END, TOP))
        for level in range(top + 1):
            yield level, front >> level, ((end + 1) >> level) - 1

    def _allocate(self) -> None:
        end = self.updates if hasattr(self, "_window") else 0  # positions continue, whatever the types become
        super()._allocate()
        self._marks[[FRONT, END, SPLIT, DEPTH]] = end, end, end, 2

    def _check_structure(self, states: States, require: Any) -> None:
        front, end, _, top, split, _ = (int(mark) for mark in self._marks)
        require(front <= split <= end, f"the leftmost tree ends at {split}, outside the rows")
        if front == end:
            require((top, self._marks[DEPTH]) == (0, 2), "an empty window has levels")
            return
        first, count = front >> top, ((end + 1) >> top) - 1
        require(first < count, f"the highest level, {top}, has no node")
        require(first >> 1 >= (count - 1) >> 1, f"the highest level, {top}, has more than a pair")
        require(split == count << top, "the leftmost tree does not end with the highest level")
        self._check_nodes(states, require)
        self._check_results(states, require)

    def _check_nodes(self, states: States, require: Any) -> None:
        cells = self._window.slots
        for level, _, last in self._node_ranges():
            for j in range((int(self._marks[FRONT]) + (1 << level) - 1) >> level, last):
                held = states.load(cells, spots(len(cells), level, j))
                rows = self._fold(states, j << level, (j + 1) << level)
                require(states.close(held, rows), f"node {j} of level {level} is not the aggregate of its rows")

    def _check_results(self, states: States, require: Any) -> None:
        front, end, _, top, split, depth = (int(mark) for mark in self._marks)
        results = self._window.results
        left = self._fold(states, front, split)
        require(states.close(states.load(results, LEFTMOST), left), "the first result is not that of the leftmost tree")
        if split < end:
            right = self._fold(states, split, end)
            require(
                states.close(states.load(results, OTHERS), right), "the second result is not that of the other trees"
            )
        begins = [
            ((front >> level) + 1) << level
            for level in range(top, -1, -1)
            if (front >> level) & 1 == 0 and (front >> level) + 1 < ((end + 1) >> level) - 1
        ]
        require(depth == 2 + len(begins), f"{depth - 2} aggregates on the stack, not {len(begins)}")
        for at, begin in enumerate(begins):
            rest = self._fold(states, begin, split)
            require(states.close(states.load(results, 2 + at), rest), f"place {at} of the stack is not what it was")
