"""States in order, in the place of rows: each is that of a row, or of successive rows that have melted into one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.columns import Column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.vocabulary import Columns, Ints, Slots, State, combine, hold, kernel, lift, load, replaces, store
from muntin.streams.rows import folding
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import BASE, FANOUT, FIRST, HELD, HI, KEY, LEAF, LO, NEXT, NODE, ROWS, USED, Tree
from muntin.types import ANY, OBJECT, Array, ColumnType

STATE = "state"
"""The name of the states: as a column of new rows, and beside the entries."""
_PLACES = 1 << 16
"""As much room may stay free: an arena that is no larger is not made smaller."""


@kernel
def lift_rows(columns: Columns, times: Ints, states: Slots) -> None:
    """Lift each row into a state of its own."""
    for row in range(len(times)):
        store(states, row, lift(columns, times, row))


@kernel
def fold_runs(held: Slots, places: Ints, firsts: Ints, lasts: Ints, states: Slots) -> None:
    """Fold the states at each non-empty range of places into one."""
    for i in range(len(firsts)):
        state = hold(load(held, places[firsts[i]]))
        for at in range(firsts[i] + 1, lasts[i]):
            state = combine(state, load(held, places[at]))
        store(states, i, state)


@kernel
def write_states(held: Slots, moves: Ints, count: int, places: Ints, states: Slots) -> None:
    """Carry out the moves of a log, in order, then write new states to their places."""
    for i in range(0, count, 2):
        store(held, moves[i], load(held, moves[i + 1]))
    for i in range(len(places)):
        store(held, places[i], load(states, i))


@kernel
def find_runs(
    tree: Tree, keys: Ints, counts: Ints, hops: Ints, floors: Ints, places: Ints, firsts: Ints, left: Ints
) -> int:
    """List the first entries of keys in runs between which a frame may begin; return how many entries were listed.

    Writes how many runs a key has; its entries are only listed if these are fewer. Frames begin at multiples of hops,
    from a floor on. With hops of 10 from -29 on and of 5 from 16 on, none begins at 15 any more, and three runs remain:

        times                   11  14  17  21  24  28
        max(times, -29) // 10    1   1   1   2   2   2
        max(times, 16) // 5      3   3   3   4   4   5
        a run begins             x           x       x
    """
    nodes = tree.nodes
    listed = runs = 0
    for i in range(len(keys)):
        leaf = tree.keys[keys[i] * KEY + FIRST]
        at = nodes[leaf * NODE + LO]
        left[i] = 0
        next_begin = BEFORE_TIME
        for entry in range(listed, listed + counts[i]):
            if at == nodes[leaf * NODE + HI]:
                leaf = nodes[leaf * NODE + NEXT]
                at = nodes[leaf * NODE + LO]
            places[entry] = nodes[leaf * NODE + BASE] + at
            at += 1
            time = tree.times[places[entry]]
            if time >= next_begin:
                firsts[runs + left[i]] = entry
                left[i] += 1
                next_begin = END_OF_TIME
                for k in range(len(hops)):
                    next_begin = min(next_begin, (max(time, floors[k]) // hops[k] + 1) * hops[k])
        if left[i] < counts[i]:
            listed += counts[i]
            runs += left[i]
    return listed


@cache
def finding(compiled: bool) -> Any:
    """Return the kernel that finds runs, compiled once for all aggregations."""
    return kernel_cache.load(standalone(find_runs, counted=False), compiled=compiled)


@replaces(folding.state_at)
def kept_state(columns: Slots, times: Ints, place: int) -> State:  # noqa: ARG001  # as `state_at`
    """Return the state of the entry at a place, which was lifted when its row came."""
    return load(columns, place)


_FOLDING, _KEEPING = (*folding.FOLDING, kept_state), (lift_rows, fold_runs, write_states)


class StateStore(RowStore):
    """States by key and time, of one binding: entries in the trees of rows, which answers ranges of them alike.

    An entry has the time of its first row, and the numbers beside that one.
    """

    lifts: ClassVar[bool] = False

    def __init__(
        self,
        types: Mapping[str, ColumnType],
        bindings: Sequence[Binding],
        leaf: int = LEAF,
        fanout: int = FANOUT,
        moving: Mapping[str, Aggregation] | None = None,
    ) -> None:
        super().__init__(types, bindings, leaf, fanout, moving)
        (self.binding,) = self.bindings
        self.beside[STATE] = self.binding.slots(0)

    def folding(self, which: int) -> Any:
        """Return the kernels that fold the states of entries."""
        return self.bindings[which].kernels(_FOLDING, "refold", "answer_ranges")

    def inputs(self, which: int) -> Any:
        """Return the states of entries, by place."""
        return self.beside[STATE]

    def insert(self, keys: Array, times: Array, columns: Mapping[str, Column], beside: Mapping[Any, Array]) -> None:
        """Insert entries, whose states may be given as a column."""
        states = {STATE: columns[STATE].values} if columns else {}
        super().insert(keys, times, {}, {**beside, **states})

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the entries by those that `save` returned. O(n)."""
        held = state[f"beside.{STATE}"]
        if held.dtype == OBJECT:
            state = {**state, f"beside.{STATE}": States(self.binding).revived(held.copy())}
        super().load(state)

    def copy(self, beside: Collection[str]) -> RowStore:
        """Return the same entries, with some of the numbers beside them, in arrays of their own. O(n)."""
        return super().copy([STATE, *beside])

    def _write(self, held: Array, moves: Array, count: int, places: Array, new: Any) -> None:
        if held is self.beside[STATE]:
            keeping(self.binding).write_states(held, moves, count, places, new)
        else:
            super()._write(held, moves, count, places, new)

    # ------------------------------------------------------------ melting

    def up_to(self, keys: Array, time: int) -> Array:
        """Return how many entries of keys are not later than a time. O(log n) each."""
        before, counts, total = (np.empty(len(keys), np.int64) for _ in range(3))
        self.kernels.ranks_at(self.tree, keys, np.full(len(keys), time), before, counts, total)
        return counts

    def time_at(self, keys: Array, ranks: Array) -> Array:
        """Return the time of an entry of each key, by how many are before it. O(log n) each."""
        first, last = ranks.copy(), ranks + 1
        self.kernels.at_ranks(self.tree, keys, first, last)
        return self.times_at(first)

    def melt(self, keys: Array, counts: Array, hops: Array, floors: Array) -> Array:
        """Merge the first entries of keys, at least one of each, where no frame may begin; return how many are left.

        They are all of a key up to some time, so that what they become is earlier than all others. See `find_runs`.
        O(entries + log n) for each key: they are taken out at the front, and what they have become is inserted there.
        """
        places, firsts = (np.empty(int(counts.sum()), np.int64) for _ in range(2))
        left = np.empty(len(keys), np.int64)
        find = finding(not kernel_cache.is_uncompiled()).find_runs
        listed = find(self.tree, keys, counts, hops, floors, places, firsts, left)
        if listed:
            fewer = left < counts
            first = firsts[: left[fewer].sum()]
            self._replace_first(keys[fewer], counts[fewer], left[fewer], places[:listed], first)
        return left

    def _replace_first(self, keys: Array, counts: Array, left: Array, places: Array, first: Array) -> None:
        """Replace the first entries of keys, at these places, by the runs that begin among them."""
        states = self.binding.slots(len(first))
        ends = np.append(first[1:], len(places))
        keeping(self.binding).fold_runs(self.beside[STATE], places, first, ends, states)
        kept = places[first]
        owners, times = np.repeat(keys, left), self.tree.times[kept]
        beside = {name: states if name == STATE else held[kept] for name, held in self.beside.items()}
        self.evict(keys, counts)
        super().insert(owners, times, {}, beside)

    def shrink(self) -> None:
        """Give memory back if seven eighths of it are free. Amortised O(1) for each entry that has come."""
        marks = self.tree.marks
        if marks[USED] > max(_PLACES, 8 * marks[HELD]):
            self.load(self.save())

    def held(self, keys: Array) -> Array:
        """Return how many entries keys have. O(1) each."""
        entries: Array = self.tree.keys[KEY * keys + ROWS]
        return entries


def keeping(binding: Binding) -> Any:
    """Return the kernels that lift rows, and write and fold states that are kept."""
    return binding.kernels(_KEEPING, *(each.__name__ for each in _KEEPING))


def lifted(binding: Binding, columns: Mapping[str, Column], times: Array) -> Mapping[str, Column]:
    """Return the states of rows as their only column."""
    count = len(times)
    states = binding.slots(count)
    keeping(binding).lift_rows(binding.inputs(columns, count), np.ascontiguousarray(times), states)
    return {STATE: Column(states, None, ANY)}
