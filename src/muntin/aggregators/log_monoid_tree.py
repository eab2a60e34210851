"""LogMonoidTree: the plain monoid tree. Every operation takes O(log n) combines, including any bulk eviction.

One tree over the rows, in levels of pairs (see `levels.py`), whose aggregates are always up to date: an insert renews
those above the newest row, an eviction of any number of rows those above the oldest remaining one. The highest level is
the first with at most two nodes, whose aggregate is the window's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.levels import SHARED, LevelAggregator, node, put_time, spot, spots
from muntin.aggregators.ring import END, FRONT, RingWindow
from muntin.aggregators.states import States
from muntin.kernels.vocabulary import State, combine, kernel, load, store
from muntin.policies import Policy
from muntin.stores.base import Store

if TYPE_CHECKING:
    from muntin.aggregators.stored import StoredLogMonoidTree

HEIGHT = 3
"""The mark of the highest level."""


@kernel
def has_node(window: RingWindow, level: int, j: int) -> Any:
    """Return whether a node that begins inside the window exists, with all its rows."""
    return level <= window.marks[HEIGHT] and ((j + 1) << level) <= window.marks[END]


@kernel
def renew(window: RingWindow, level: int, j: int) -> None:
    """Renew a node from its children with rows in the window."""
    cells, marks = window.slots, window.marks
    size = len(cells)
    below = level - 1
    if 2 * j < (marks[FRONT] >> below):
        state = load(cells, spot(size, marks, below, 2 * j + 1))
    else:
        state = load(cells, spot(size, marks, below, 2 * j))
        if 2 * j + 1 <= ((marks[END] - 1) >> below):
            state = combine(state, load(cells, spot(size, marks, below, 2 * j + 1)))
    store(cells, spot(size, marks, level, j), state)


@kernel
def renew_last(window: RingWindow) -> None:
    """Renew all nodes above the newest row."""
    marks = window.marks
    for level in range(1, marks[HEIGHT] + 1):
        renew(window, level, (marks[END] - 1) >> level)


@kernel
def push(window: RingWindow, time: int, state: State) -> None:
    """Append a state."""
    cells, times, marks = window.slots, window.times, window.marks
    store(cells, spot(len(cells), marks, 0, marks[END]), state)
    put_time(times, marks, marks[END], time)
    marks[END] += 1
    renew_last(window)
    height = marks[HEIGHT]
    if ((marks[END] - 1) >> height) - (marks[FRONT] >> height) > 1:
        marks[HEIGHT] = height + 1
        renew(window, height + 1, marks[FRONT] >> (height + 1))
        renew(window, height + 1, (marks[END] - 1) >> (height + 1))


@kernel
def move_front(window: RingWindow, position: int) -> None:
    """Remove all rows before a position."""
    marks = window.marks
    marks[FRONT] = position
    if position == marks[END]:
        marks[HEIGHT] = 0
        return
    while marks[HEIGHT] > 0 and ((marks[END] - 1) >> (marks[HEIGHT] - 1)) - (position >> (marks[HEIGHT] - 1)) <= 1:
        marks[HEIGHT] -= 1
    for level in range(1, marks[HEIGHT] + 1):
        renew(window, level, position >> level)


@kernel
def pop(window: RingWindow) -> None:
    """Remove the oldest state."""
    move_front(window, window.marks[FRONT] + 1)


@kernel
def total(window: RingWindow) -> State:
    """Return the aggregate of the whole window."""
    marks = window.marks
    height = marks[HEIGHT]
    first = marks[FRONT] >> height
    last = (marks[END] - 1) >> height
    if first == last:
        return node(window, height, first)
    return combine(node(window, height, first), node(window, height, last))


@kernel
def rebuild(window: RingWindow) -> None:
    """Rebuild all nodes from the rows."""
    marks = window.marks
    for level in range(1, marks[HEIGHT] + 1):
        for j in range(marks[FRONT] >> level, ((marks[END] - 1) >> level) + 1):
            renew(window, level, j)


class LogMonoidTree(LevelAggregator):
    """In order; any associative aggregation; every operation takes O(log n) combines, a query one.

    `bulk_evict` and `range_query` take O(log n), however many rows they concern; so does `policy`, a slide policy
    enforced after every insert (see `muntin.policies`). Memory is four states and two times per row.

    `store` keeps the middle in a key-value store, as that of `MonoidTree`, with the same options: memory is then
    O(log n), and a call takes O(log n) combines as well.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.LogMonoidTree(agg.concat("v"))
    >>> window.bulk_insert(range(6), "abcdef")
    >>> window.bulk_evict(1)
    >>> window.query(), window.range_query(3, 4)
    ('cdef', 'de')
    """

    structure: ClassVar[tuple[Any, ...]] = (
        *SHARED,
        has_node,
        renew,
        renew_last,
        push,
        move_front,
        pop,
        total,
        rebuild,
    )
    mark_count: ClassVar[int] = 4
    spare: ClassVar[int] = 2

    def __new__(cls, *_: Any, store: Store | None = None, **__: Any) -> Self:
        """Create a window in memory, or one whose body is in a store."""
        if store is None or cls is not LogMonoidTree:
            return super().__new__(cls)
        from muntin.aggregators.stored import StoredLogMonoidTree  # which is a LogMonoidTree

        return super().__new__(StoredLogMonoidTree)  # type: ignore[return-value]  # mypy takes Self for this class

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
    ) -> StoredLogMonoidTree:
        """Return a stored window as its last completed `flush` left it, as `MonoidTree.open` does. O(log n).

        >>> from muntin import agg, aggregators, stores
        >>> store = stores.Memory()
        >>> with aggregators.LogMonoidTree(agg.sum("v"), store=store, window_id="w") as window:
        ...     window.bulk_insert(range(5000), range(5000))
        ...     window.bulk_evict(4997)
        >>> window = aggregators.LogMonoidTree.open(store, "w", agg.sum("v"))
        >>> window.query(), len(window)
        (9997, 2)
        >>> window.close()
        """
        from muntin.aggregators.stored import StoredLogMonoidTree  # which is a LogMonoidTree

        return StoredLogMonoidTree.reopen(store, window_id, aggregation, **options)

    def _node_ranges(self) -> Iterator[tuple[int, int, int]]:
        front, end, height = (int(self._marks[m]) for m in (FRONT, END, HEIGHT))
        for level in range(height + 1):
            yield level, front >> level, ((end - 1) >> level) + 1

    def _in_ring(self, field: str) -> bool:
        """Return False for the nodes if a combine can fail: an insertion rewrites some, so all are saved first."""
        return super()._in_ring(field) and not (field == "slots" and self._binding.may_fail)

    def _check_structure(self, states: States, require: Any) -> None:
        cells = self._window.slots
        front, end, height = (int(self._marks[m]) for m in (FRONT, END, HEIGHT))
        if front == end:
            require(height == 0, "an empty window has levels")
            return
        require(((end - 1) >> height) - (front >> height) <= 1, "the highest level has more than two nodes")
        if height:
            below = height - 1
            require(((end - 1) >> below) - (front >> below) > 1, "there is a level too many")
        for level, first, last in self._node_ranges():
            for j in range(first, last):
                held = states.load(cells, spots(len(cells), level, j))
                rows = self._fold(states, max(front, j << level), min(end, (j + 1) << level))
                require(states.close(held, rows), f"node {j} of level {level} is not the aggregate of its rows")
