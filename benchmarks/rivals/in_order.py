"""Slices of a stream whose rows come in the order of their times: one begins at each edge that a row has passed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregators.choose import Chosen
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import OutOfOrderError
from muntin.query.plan import Plan
from muntin.streams.decisions import NOTHING
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from rivals.common import early_without_rows
from rivals.fused import Fused
from rivals.sequenced import Sequenced


class Slices(Sequenced):
    """The slices of each key as leaves. The next edge is remembered, and asked for again when a row has passed it."""

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree], fused: Fused) -> None:
        super().__init__(plan, windows, fused)
        self.youngest = BEFORE_TIME
        self.next_edge = BEFORE_TIME
        self.passed = 0
        """How many edges were found to be passed: rows between which this grows are in different slices."""
        self.last: dict[int, tuple[int, int]] = {}
        """For each key with slices: how many edges its last row had passed, and the time of that row."""

    @abstractmethod
    def _edge_after(self, time: int) -> int:
        """Return the first time after this one at which a slice begins."""

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Add rows; refuse them all if one comes before another's time. O(1) combines a row."""
        times = batch.times
        before = np.concatenate(([self.youngest], times[:-1]))
        if (times < before).any():
            row = int(np.argmax(times < before))
            raise OutOfOrderError(
                f"row {row} has the time {times[row]}, after {before[row]}; this strategy takes rows in order only: "
                "take the strategy 'slices'"
            )
        cuts = self._cuts(times)
        self._passed_by = self.passed + np.searchsorted(cuts, times[order], "right")
        self.passed += len(cuts)
        self.youngest = int(times[-1]) if len(times) else self.youngest
        return super().take(batch, order, watermark)

    def _cuts(self, times: Array) -> Array:
        """Return the edges that rows pass, of those between two rows the first. O(log rows) and one look-up each."""
        cuts = []
        row = 0
        while row < len(times):
            if self.next_edge <= times[row]:
                cuts.append(self.next_edge)
                self.next_edge = self._edge_after(int(times[row]))
            row = int(np.searchsorted(times, self.next_edge, "left"))
        return np.array(cuts, np.int64)

    def _prepare(self, times: Array, keys: Array, taken: Array) -> None:
        """Find out which rows begin a slice, but for the first of each key."""
        self._passed_by = self._passed_by[taken]
        self._fresh = np.ones(len(times), np.int64)
        self._fresh[1:] = self._passed_by[1:] != self._passed_by[:-1]

    def _add(self, inputs: list[tuple[Array, ...]], times: Array, key: int, begin: int, stop: int) -> None:
        leaves = self.keyed.of(key)
        passed, _ = self.last.get(key, (-1, 0))
        self._fresh[begin] = len(leaves) == 0 or passed != self._passed_by[begin]
        self._extend(inputs, times, key, begin, stop)
        self.last[key] = (int(self._passed_by[stop - 1]), int(times[stop - 1]))

    def _extend(self, inputs: list[tuple[Array, ...]], times: Array, key: int, begin: int, stop: int) -> None:
        self.keyed.of(key).extend(inputs, times, begin, stop, self._fresh)

    def _let_go(self) -> None:
        super()._let_go()
        self.last = {key: each for key, each in self.last.items() if key in self.keyed.leaves}

    def metrics(self) -> dict[str, int]:
        """Return the numbers of slices and keys, and bytes."""
        found = super().metrics()
        return {"slices": found.pop("leaves"), **found}

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        last = [(key, *each) for key, each in self.last.items()]
        marks = np.array([self.youngest, self.next_edge, self.passed], np.int64)
        return {**super().save(), "last": np.array(last, np.int64).ravel(), "marks": marks}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        super().load(state)
        self.last = {key: (passed, time) for key, passed, time in state["last"].reshape(-1, 3).tolist()}
        self.youngest, self.next_edge, self.passed = state["marks"].tolist()


class InOrder(Strategy):
    """A strategy that slices a stream in order: what is cut where, and how slices are merged, is its slices' affair."""

    slices: ClassVar[type[Slices]]
    kinds: ClassVar[Any]
    """The definitions that it takes."""
    says: ClassVar[str]
    """What those are, for a reader."""
    merger: ClassVar[tuple[str, str]]
    """What merges slices, and why."""
    keeps = NOTHING

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        windows = {i: each for i, each in plan.windows.items() if isinstance(each, ContextFree)}
        self._slices = self.slices(plan, windows, Fused(plan))

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why this strategy cannot answer a plan, or None where it can."""
        name = cls.__name__
        for each in plan.windows.values():
            if not isinstance(each, cls.kinds):
                return f"{name} takes {cls.says}, and {each!r} is none; take the strategy 'slices'"
        if not plan.ordered:
            return f"{name} takes rows in order only, and none was promised; take the strategy 'slices' or 'buckets'"
        return early_without_rows(plan)

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what merges slices, for all aggregates."""
        yield Chosen(tuple(self.plan.aggregates), *self.merger)

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows into slices; `OutOfOrderError` if a time comes before one already seen. O(1) combines a row."""
        keys = batch.keys
        alone = bool((keys == keys[0]).all()) if len(keys) else True
        order = slice(None) if alone else np.argsort(keys, kind="stable")
        taken = np.zeros(len(keys), np.bool_)
        taken[order] = self._slices.take(batch, order, watermark)
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due or have changed."""
        return self._slices.emit(watermark, horizon, early=early)

    def held_keys(self) -> Array:
        """Return the numbers of the keys of which anything is kept."""
        return self._slices.held_keys()

    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays. O(slices)."""
        return self._slices.save()

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state. O(slices)."""
        self._slices.load(state)

    def metrics(self) -> dict[str, int]:
        """Return the numbers of slices and keys, and bytes."""
        return self._slices.metrics()

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself. O(slices)."""
        self._slices.check()


def earliest(edges: list[int | None]) -> int:
    """Return the first of some edges, or the end of time where there is none."""
    return min((edge for edge in edges if edge is not None), default=END_OF_TIME)
