"""Rows in order as states: each row is lifted when it comes, and only its state is kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.choose import Chosen
from muntin.query.plan import Plan
from muntin.streams.decisions import NOTHING
from muntin.streams.places import Places
from muntin.streams.rows.part import Part
from muntin.streams.rows.rows import Group, Rows
from muntin.streams.rows.states import STATE, StateStore, lifted
from muntin.streams.rows.tree import LEAF, NODE
from muntin.streams.sorted_runs.runs import keeps_runs
from muntin.streams.strategy import Batch, HeldBatch
from muntin.types import Array


class StatesInOrder(Rows):
    """Rows in order, of which states are kept: the base of strategies that differ in the windows that they answer."""

    def _bound(self, plan: Plan) -> tuple[list[Binding], dict[str, Aggregation], dict[str, Aggregation]]:
        return [plan.bind(plan.aggregates, gaps=True)], {}, {}

    def _group(self, parts: list[Part]) -> Group:
        return Group(self._store(parts), parts)

    def _store(self, parts: list[Part]) -> StateStore:
        store = StateStore({}, self.bindings)
        for part in parts:
            store.beside |= {name: np.zeros(0, kind) for name, kind in part.beside.items()}
        return store

    @property
    def row_bytes(self) -> int | None:
        """None: no rows are kept."""

    @property
    def state_bytes(self) -> int:
        """The bytes of an entry: its time, its state, its numbers, and its share of a full leaf."""
        (binding,) = self.bindings
        beside = sum(np.dtype(kind).itemsize for part in self._parts for kind in part.beside.values())
        leaf = NODE * 8 + binding.dtype.itemsize
        return 8 + binding.dtype.itemsize + beside + -(-leaf // LEAF)

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what aggregates the states of windows."""
        for each in self.bindings:
            why = "O(log n) combines a late row, O(1) a row in order and a window"
            yield Chosen(each.names, "a tree of states", why)

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows as states, judged by the watermark before them; return which of them have a window of their own."""
        (binding,) = self.bindings
        columns = lifted(binding, batch.columns, batch.times)
        return super()._take(Batch(batch.keys, batch.times, columns, batch.arrived), watermark)

    def rows_held(self) -> None:
        """Return None: there are states, not rows."""

    def begin(self, held: HeldBatch) -> None:  # the interface of strategies
        """Return None: begins with the next row."""

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the states have what belongs to which aggregate, in as many groups as there may be."""
        (binding,) = self.bindings
        states = tuple(f"{i}.rows.beside.{STATE}" for i in range(len(self.plan.windows)))
        return (Places.of("", binding, states=states),)


class RowStates(StatesInOrder):
    """Windows by rows, from the states of rows in order.

    Streams that version 2 began have these: it kept states of such windows, and no rows. A push takes what it takes
    with rows.
    """

    keeps = NOTHING

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why states of rows cannot answer a plan, or None if they can."""
        for each in plan.windows.values():
            if each.row_shape is None:
                return f"{each!r} is not told by the numbers of rows"
        for name, aggregation in plan.aggregates.items():
            if keeps_runs(aggregation, plan.types):
                return f"{name!r} is {aggregation!r}, which needs the values of a window in order"
        return None
