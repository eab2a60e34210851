"""The base of monoid trees: a tree over the ring of rows, as levels of aggregates of adjacent pairs.

Positions only grow, and node j of level l covers the rows [j * 2^l, (j + 1) * 2^l): its children are the nodes 2j and
2j + 1 below, without pointers. Level 0 is the rows themselves. Each level is a ring of half the size of the one below,
and all are in a single array, one after another, which doubles when it is full.

A part of the window is folded or searched in strides that double while they fit and then halve: O(log n) combines.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import SlideRule
from muntin.aggregators.base import named
from muntin.aggregators.ring import END, FRONT, RingAggregator, Side
from muntin.aggregators.states import States
from muntin.errors import InvalidArgumentError, PolicyWarning
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    State,
    combine,
    emit,
    hold,
    kernel,
    lift,
    load,
    must_leave,
    replaceable,
    thorough,
)
from muntin.policies import Policy
from muntin.types import Array, ColumnType

DOUBT = 2
"""The mark that is 1 once a policy has contradicted itself."""

if TYPE_CHECKING:

    def push(window: Any, time: int, state: Any) -> None:
        """Append a state to the window."""

    def pop(window: Any) -> None:
        """Remove the oldest state."""

    def total(window: Any) -> Any:
        """Return the state of the whole window, which is not empty."""

    def has_node(window: Any, level: int, j: int) -> bool:
        """Return whether a node that begins inside the window exists, with all its rows."""

    def move_front(window: Any, position: int) -> None:
        """Remove all rows before a position."""


@replaceable
@kernel
def spot(size: int, marks: Ints, level: int, j: int) -> int:
    """Return the cell of a node: each level is a ring of half the size of the one below, and follows it."""
    capacity = size >> (level + 1)
    return size - 2 * capacity + (j & (capacity - 1))


@replaceable
@kernel
def last_spot(size: int, marks: Ints, level: int, j: int) -> int:
    """Return the cell of a node among the last few of its level."""
    return spot(size, marks, level, j)


@replaceable
@kernel
def put_time(times: Ints, marks: Ints, position: int, time: int) -> None:
    """Store the time of a row."""
    times[position & (len(times) - 1)] = time


@kernel
def node(window: Any, level: int, j: int) -> State:
    """Return the aggregate in a node."""
    return load(window.slots, spot(len(window.slots), window.marks, level, j))


@replaceable
@kernel
def ready(window: Any, level: int, j: int) -> bool:
    """Return whether a node is in memory. Here all are."""
    return True


@kernel
def fold_rows(window: Any, begin: int, end: int) -> State:
    """Return the aggregate of the positions [begin, end), at least one."""
    state = hold(node(window, 0, begin))
    at = begin + 1
    level = 0
    while at < end:
        wide = 2 << level
        if at & (wide - 1) == 0 and at + wide <= end and has_node(window, level + 1, at >> (level + 1)):
            level += 1
        elif at + (1 << level) <= end and has_node(window, level, at >> level):
            state = combine(state, node(window, level, at >> level))
            at += 1 << level
        else:
            level -= 1
    return state


@kernel
def answer_range(window: Any, begin: int, end: int, outputs: Outputs) -> None:
    """Lower the aggregate of the positions [begin, end)."""
    emit(outputs, 0, fold_rows(window, begin, end))


@kernel
def longest_cut(window: Any) -> Any:
    """Return the end of the longest part to evict, of those that end with a node; -1 if a node is not `ready`."""
    marks = window.marks
    whole = hold(total(window))
    old = hold(node(window, 0, marks[FRONT]))
    at = marks[FRONT] + 1
    cut = at if must_leave(whole, old) else marks[FRONT]
    level = 0
    while at < marks[END]:
        if at & ((2 << level) - 1) == 0 and has_node(window, level + 1, at >> (level + 1)):
            level += 1
        elif has_node(window, level, at >> level):
            if not ready(window, level, at >> level):
                return -1
            old = combine(old, node(window, level, at >> level))
            at += 1 << level
            if must_leave(whole, old):
                cut = at
        else:
            level -= 1
    return cut


@kernel
def leaving(window: Any) -> Any:
    """Return the position before which a monotone policy evicts all rows, at least one; -1 if a node is not `ready`."""
    marks = window.marks
    whole = hold(total(window))
    old = hold(node(window, 0, marks[FRONT]))
    at = marks[FRONT] + 1
    level = 0
    rising = True
    while at < marks[END]:
        if rising and at & ((2 << level) - 1) == 0 and has_node(window, level + 1, at >> (level + 1)):
            level += 1
            continue
        if has_node(window, level, at >> level):
            if not ready(window, level, at >> level):
                return -1
            longer = combine(old, node(window, level, at >> level))
            if must_leave(whole, longer):
                old = longer
                at += 1 << level
                continue
        rising = False
        if level == 0:
            break
        level -= 1
    return at


@kernel
def cut_down(window: Any) -> None:
    """Evict by a policy that is not monotone; ask it again about the rest."""
    marks = window.marks
    while marks[FRONT] < marks[END]:
        position = longest_cut(window)
        if position == marks[FRONT]:
            return
        move_front(window, position)


@kernel
def enforce(window: Any) -> None:
    """Evict by the policy. Nearly always that is one row, or none: two policy calls, and no search."""
    cells, marks = window.slots, window.marks
    front = marks[FRONT]
    if thorough():
        cut_down(window)
        return
    whole = total(window)
    old = load(cells, spot(len(cells), marks, 0, front))
    if not must_leave(whole, old):
        if must_leave(whole, whole):
            marks[DOUBT] = 1
    elif front + 1 < marks[END] and must_leave(whole, combine(old, load(cells, spot(len(cells), marks, 0, front + 1)))):
        move_front(window, leaving(window))
    else:
        pop(window)


@kernel
def insert_enforced(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> None:
    """Insert rows, and enforce the policy after each."""
    for row in range(start, stop):
        push(window, times[row], lift(columns, times, row))
        enforce(window)


SEARCH = (node, fold_rows, answer_range, longest_cut, leaving)
SHARED = (spot, last_spot, put_time, ready, *SEARCH, cut_down, enforce, insert_enforced)


class LevelAggregator(RingAggregator):
    """A ring of rows with levels of aggregates above it, and a slide policy if wanted.

    All levels are in `slots`: the cells of the nodes. The first marks are `FRONT`, `END` and `DOUBT`.
    """

    entries: ClassVar[tuple[str, ...]] = ("insert_enforced", "answer_range", "move_front", "rebuild")
    spare: ClassVar[int] = 1
    """The places per row in the lowest level."""

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        policy: Policy | None = None,
        **options: Any,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise InvalidArgumentError(f"a policy is made by policies.define; got {policy!r}")
        self._policy = policy
        self._asked = True
        self._warned = False
        reported = named(aggregation)
        taken = [name for name in reported if policy is not None and name in policy.named]
        if taken:
            raise InvalidArgumentError(f"the name {taken[0]!r} is the policy's own; give the aggregation another")
        super().__init__(reported if policy is None else {**reported, **policy.named}, **options)
        self._single = not isinstance(aggregation, Mapping)

    @classmethod
    def restore(cls, data: bytes, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any) -> Self:
        """Return the window that `snapshot` saved; one with a policy needs `policy=`, with the same aggregations."""
        return super().restore(data, aggregation, **options)

    # ------------------------------------------------------------ the policy

    def _arguments(self) -> tuple[dict[str, Aggregation], dict[str, Any]]:
        aggregations, options = super()._arguments()
        if self._policy is not None:
            aggregations = {name: each for name, each in aggregations.items() if name not in self._policy.named}
        return aggregations, {**options, "policy": self._policy}

    def _rule(self) -> SlideRule | None:
        if self._policy is None or self._time_type is None:
            return None
        return self._policy.rule(self._time_type)

    def _take_types(self, time_type: ColumnType, types: dict[str, ColumnType]) -> None:
        if self._policy is not None:
            self._policy.rule(time_type)  # rejects a duration incomparable with these times
        super()._take_types(time_type, types)

    def insert_unasked(self, t: Any, v: Any = None) -> None:
        """Insert a row without calling the policy: one that it kept before, in a window being rebuilt.

        >>> from muntin import agg, aggregators, policies
        >>> window = aggregators.MonoidTree(agg.sum("v"), policy=policies.at_most_rows(1), compiled=False)
        >>> window.insert_unasked(1, 5), window.insert_unasked(2, 7), len(window)
        (None, None, 2)
        >>> window.insert(3, 9)
        >>> window.query()
        9
        """
        self._asked = False
        try:
            self.insert(t, v)
        finally:
            self._asked = True

    def _append(self, columns: tuple[Array, ...], times: Array, start: int, stop: int) -> None:
        if self._policy is None or not self._asked:
            super()._append(columns, times, start, stop)
            return
        self._run("insert_enforced", self._window, columns, times, start, stop)
        self._warn_of_doubt()

    def _append_may_fail(self) -> bool:
        return self._policy is not None or super()._append_may_fail()  # a warning may be an error

    def _warn_of_doubt(self) -> None:
        if self._marks[DOUBT] and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self._policy!r} keeps the oldest row and would let the whole window go, so it is not monotone; "
                "define it with thorough=True",
                PolicyWarning,
                stacklevel=5,
            )

    def _answer(self, outputs: tuple[Array, ...], *, empty: bool) -> Any:
        if self._policy is None:
            return super()._answer(outputs, empty=empty)
        single, self._single = self._single, False
        try:
            answers = super()._answer(outputs, empty=empty)
        finally:
            self._single = single
        reported = {name: value for name, value in answers.items() if name not in self._policy.named}
        return next(iter(reported.values())) if single else reported

    # ------------------------------------------------------------ the levels

    def _position(self, time: int, side: Side) -> int:
        """Return the first position whose time is at least (left) or above (right) the given one. O(log n)."""
        times, marks = self._window.times, self._window.marks
        front, end = int(marks.item(FRONT)), int(marks.item(END))
        begin = front & (len(times) - 1)
        older = times[begin : begin + end - front]  # up to the end of the ring; the others are at its start
        found = int(older.searchsorted(time, side))
        if found < len(older):
            return front + found
        newer = times[: end - front - len(older)]
        return front + found + int(newer.searchsorted(time, side))

    def _evict_many(self, count: int) -> None:
        """O(log n) combines for any number of rows."""
        self._run("move_front", self._window, int(self._marks[FRONT]) + count)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(log n) combines for any range."""
        self._module.answer_range(self._window, begin, end, outputs)

    def _empty(self, capacity: int) -> Any:
        capacity *= self.spare
        cells = self._binding.slots(2 * capacity)
        marks = np.zeros(self.mark_count, "i8")
        return self.layout(cells, np.zeros(capacity, "i8"), marks, *self._extra_arrays(capacity))

    @abstractmethod
    def _node_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield each level that has nodes, with its first node and the one after its last."""

    @property
    def _room(self) -> int:
        """The most rows that the levels can hold."""
        return len(self._window.times) // self.spare

    def _reserve(self, rows: int) -> None:
        """Double all levels until there is room for `rows` rows; nodes stay unchanged."""
        capacity = self._room
        if rows <= capacity:
            return
        while capacity < rows:
            capacity *= 2
        held, grown = self._window, self._empty(capacity)
        for level, first, last in self._node_ranges():
            nodes = np.arange(first, last)
            before = held.slots[spots(len(held.slots), level, nodes)]
            grown.slots[spots(len(grown.slots), level, nodes)] = before
        positions = np.arange(self._marks[FRONT], self._marks[END])
        grown.times[positions & (len(grown.times) - 1)] = held.times[positions & (len(held.times) - 1)]
        for name in self._small_fields():
            getattr(grown, name)[:] = getattr(held, name)
        self._window = grown

    def _small_fields(self) -> tuple[str, ...]:
        """Return the names of the arrays that do not grow with the rows: the marks, and those of the structure."""
        return tuple(name for name in self.layout._fields if name not in self.ring_fields)

    def _arrays(self) -> dict[str, Array]:
        """Omit the nodes above the rows, which determine them."""
        at = np.arange(self._marks[FRONT], self._marks[END]) & (len(self._window.times) - 1)
        small = [getattr(self._window, name) for name in self._small_fields()]
        held = [self._window.slots[at], self._window.times[at], *small]
        return dict(zip(self._snapshot_names(), held, strict=True))

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        self._window = self._empty(self._room_for(len(arrays["times"])))
        for saved, (name, array) in zip(self._snapshot_names(), self._fields(), strict=True):
            if name in self._small_fields():
                array[:] = arrays[saved]
        at = np.arange(self._marks[FRONT], self._marks[END]) & (len(self._window.times) - 1)
        self._window.slots[at], self._window.times[at] = arrays["slots"], arrays["times"]
        if len(self):
            self._module.rebuild(self._window)

    def _check(self, states: States, require: Any) -> None:
        cells, times, marks = self._window.slots, self._window.times, self._marks
        require(len(times) & (len(times) - 1) == 0, f"the capacity {len(times)} is no power of two")
        require(len(cells) == 2 * len(times), "the levels have lost step with the times")
        require(0 <= len(self) <= len(times) // self.spare, f"{len(self)} rows in a ring of {len(times)}")
        held = times[np.arange(marks[FRONT], marks[END]) & (len(times) - 1)]
        require(bool((held[1:] >= held[:-1]).all()), "the times in the ring descend")
        self._check_structure(states, require)

    def _fold(self, states: States, begin: int, end: int) -> Any:
        """Fold rows in plain Python, for checks."""
        return states.fold(self._window.slots[: len(self._window.times)], begin, end)


def spots(size: int, level: int, nodes: Any) -> Any:
    """Return what the kernel `spot` returns, for many nodes."""
    capacity = size >> (level + 1)
    return size - 2 * capacity + (nodes & (capacity - 1))
