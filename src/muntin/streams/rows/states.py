"""States in order, in the place of rows: each is that of a row, or of successive rows that have melted into one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.columns import Column
from muntin.kernels.vocabulary import Columns, Ints, Slots, State, combine, hold, kernel, lift, load, replaces, store
from muntin.streams.rows import folding
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import FANOUT, HELD, KEY, LEAF, ROWS, USED
from muntin.types import ANY, Array, ColumnType

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


@replaces(folding.state_at)
def kept_state(columns: Slots, times: Ints, place: int) -> State:  # noqa: ARG001  # as `state_at`
    """Return the state of the entry at a place, which was lifted when its row came."""
    return load(columns, place)


_LIFTING, _MELTING, _FOLDING = (lift_rows,), (fold_runs,), (*folding.FOLDING, kept_state)


class StateStore(RowStore):
    """States by key and time, of one binding: entries in the trees of rows, which answers ranges of them alike.

    An entry has the time of its first row, and the numbers beside that one.
    """

    lifts: ClassVar[bool] = False

    def __init__(
        self, types: Mapping[str, ColumnType], bindings: Sequence[Binding], leaf: int = LEAF, fanout: int = FANOUT
    ) -> None:
        super().__init__(types, bindings, leaf, fanout)
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

    def copy(self, beside: Collection[str]) -> RowStore:
        """Return the same entries, with some of the numbers beside them, in arrays of their own. O(n)."""
        return super().copy([STATE, *beside])

    # ------------------------------------------------------------ melting

    def up_to(self, keys: Array, time: int) -> Array:
        """Return how many entries of keys are not later than a time. O(log n) each."""
        before, counts, total = (np.empty(len(keys), np.int64) for _ in range(3))
        self.kernels.ranks_at(self.tree, keys, np.full(len(keys), time), before, counts, total)
        return counts

    def first_entries(self, keys: Array, counts: Array) -> tuple[Array, Array]:
        """Return the places and the times of the first entries of keys, at least one of each, in order. O(entries)."""
        first, last = np.zeros(len(keys), np.int64), counts.copy()
        self.kernels.at_ranks(self.tree, keys, first, last)
        places, _, _ = self.listed(first, last)
        return places, self.tree.times[places]

    def time_at(self, keys: Array, ranks: Array) -> Array:
        """Return the time of an entry of each key, by how many are before it. O(log n) each."""
        first, last = ranks.copy(), ranks + 1
        self.kernels.at_ranks(self.tree, keys, first, last)
        return self.times_at(first)

    def melt(self, keys: Array, counts: Array, places: Array, begins: Array) -> None:
        """Merge the first entries of keys, which are at these places, into as many as there are begins among them.

        They are all of a key up to some time, so that what they become is earlier than all others.
        O(entries + log n) for each key: they are taken out at the front, and what they have become is inserted there.
        """
        first = np.flatnonzero(begins)
        states = self.binding.slots(len(first))
        ends = np.append(first[1:], len(places))
        run = self.binding.kernels(_MELTING, "fold_runs").fold_runs
        run(self.beside[STATE], places, first, ends, states)
        kept = places[first]
        owners, times = np.repeat(keys, counts)[first], self.tree.times[kept]
        beside = {name: states if name == STATE else held[kept] for name, held in self.beside.items()}
        self.evict(keys, counts.copy())
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


def lifted(binding: Binding, columns: Mapping[str, Column], times: Array) -> Mapping[str, Column]:
    """Return the states of rows as their only column."""
    count = len(times)
    states = binding.slots(count)
    run = binding.kernels(_LIFTING, "lift_rows").lift_rows
    run(binding.inputs(columns, count), np.ascontiguousarray(times), states)
    return {STATE: Column(states, None, ANY)}
