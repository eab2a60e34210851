"""What all strategies over rows in order have in common: the store, aggregates of ranges, and when to look at keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import Raw
from muntin.arrays.runner import results_by_name, windows_of_rows
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.decisions import ROWS
from muntin.streams.journal import Journal, Replayed
from muntin.streams.places import Places
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import LEAF, NODE
from muntin.streams.strategy import Batch, HeldBatch
from muntin.types import Array

NEVER = END_OF_TIME
"""A key that sleeps forever: nothing happens to it until a row comes, or the stream closes."""


class OrderedRows(Replayed):
    """Rows in the order of time, in a tree for each key, with the states of its nodes.

    A push of m rows takes O(m log n) for n rows held, in order O(m), and O(1) combines, amortised, for each window that
    it answers; late rows answer the windows that hold them again. Aggregations whose states have no fixed size take the
    rows of these windows instead of states. Rows are evicted when no window that may still change needs them.
    """

    keeps = ROWS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.bindings, self.apart = _bindings(plan)
        self.store = RowStore(plan.types, self.bindings)
        self._watermark = BEFORE_TIME
        self._complete_from = BEFORE_TIME  # every row from this time on is held
        self._kept_from = BEFORE_TIME  # no row from this time on was evicted
        self._wake = np.zeros(0, np.int64)  # the watermark at which each key must be looked at

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        return bool(self.apart) or any(each.may_fail for each in self.bindings)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row: its time, what is read of it, a word for each window, and its share of a full leaf."""
        columns = sum(kind.physical.itemsize for kind in self.plan.types.values())
        masks = sum(len(each.masks) for each in self.bindings)
        leaf = NODE * 8 + sum(each.dtype.itemsize for each in self.bindings)
        return 8 + columns + masks + 4 * len(self.plan.windows) + -(-leaf // LEAF)

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what aggregates the rows of windows."""
        for each in self.bindings:
            yield Chosen(each.names, "a tree of rows", "O(log n) combines a late row, O(1) a row in order and a window")
        if self.apart:
            yield Chosen(tuple(self.apart), "the aggregators of run", "their states have no fixed size")

    # ------------------------------------------------------------ rows

    def rows_held(self) -> HeldBatch:
        """Return all rows, by key and time. O(n)."""
        keys, places = self.store.rows()
        rows = Batch(keys, self.store.tree.times[places], self.store.take(places))
        return HeldBatch(rows, self._watermark, self._complete_from, self._kept_from)

    def begin(self, held: HeldBatch) -> int | None:
        """Begin with these rows; return the time from which they are complete. O(n)."""
        self._watermark, self._complete_from, self._kept_from = held.watermark, held.complete_from, held.kept_from
        self._begin(held.rows)
        self._wake_at(held.rows.keys, BEFORE_TIME)
        return self._complete_from

    def begin_at(self, since: int) -> None:
        """Note that rows before a time were never given."""
        self._complete_from = since

    @abstractmethod
    def _begin(self, rows: Batch) -> None:
        """Insert rows, before any others; windows that are final by the watermark are not emitted."""

    def _wake_at(self, keys: Array, when: int) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self._wake):
            more = np.full(max(size, 2 * len(self._wake)) - len(self._wake), NEVER, np.int64)
            self._wake = np.concatenate((self._wake, more))
        self._wake[keys] = when

    def _active(self, watermark: int, early: bool) -> Array:
        """Return the keys to look at, ascending."""
        return self.store.present if early else np.flatnonzero(self._wake[: self.store.keys] <= watermark)

    def _missing(self, rows: Batch, taken: Array) -> None:
        """Note which rows are not held."""
        if not taken.all():
            self._complete_from = max(self._complete_from, int(rows.times[~taken].max()) + 1)

    def _evicted(self, latest: int) -> None:
        """Note the greatest time of evicted rows."""
        if latest > BEFORE_TIME:
            self._kept_from = max(self._kept_from, latest + 1)
            self._complete_from = max(self._complete_from, self._kept_from)

    def _changed(self, plan: Plan) -> None:
        """Answer other definitions from now on: calls before cannot be replayed."""
        self.plan = plan
        self._journal = Journal(self)
        self._wake_at(self.store.present, BEFORE_TIME)

    # ------------------------------------------------------------ aggregates

    def _of_ranges(self, first: Array, last: Array, hidden: Array | None = None) -> dict[str, Raw]:
        """Return the aggregates of ranges of rows, by name; rows that are `hidden`, by place, do not count."""
        raw: dict[str, Raw] = {}
        for i, binding in enumerate(self.bindings if hidden is None else ()):
            raw |= results_by_name(binding, self.store.answers(i, first, last))
        apart = self.apart if hidden is None else self.plan.aggregates
        return raw | self._from_rows(apart, first, last, hidden) if apart else raw

    def _from_rows(
        self, aggregates: Mapping[str, Aggregation], first: Array, last: Array, hidden: Array | None
    ) -> dict[str, Any]:
        places, begins, ends = self.store.listed(first, last)
        if hidden is not None:
            seen = ~hidden[places]
            total = np.concatenate(([0], np.cumsum(seen)))
            places, begins, ends = places[seen], total[begins], total[ends]
        times = self.store.tree.times[places]
        return windows_of_rows(self.store.take(places), times, self.plan.time_type, begins, ends, aggregates)

    # ------------------------------------------------------------ state

    def held_keys(self) -> Array:
        """Return the numbers of the keys with rows, ascending."""
        return self.store.present

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = {f"rows.{name}": array for name, array in self.store.save().items()}
        marks = [self._watermark, self._complete_from, self._kept_from]
        return state | {"marks": np.array(marks, np.int64), "wake": self._wake.copy()}

    @property
    def places(self) -> tuple[Places, ...]:
        """Nothing: rows are kept by the names of their columns."""
        return ()

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        self.store.load({name[5:]: array for name, array in state.items() if name.startswith("rows.")})
        self._watermark, self._complete_from, self._kept_from = map(int, state["marks"])
        self._wake = state["wake"].copy()

    def metrics(self) -> dict[str, int]:
        """Return the number of rows held, and the bytes of state."""
        return {"kept": len(self.store), "bytes": self.store.nbytes + self._wake.nbytes}

    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
        self.store.check()


def _bindings(plan: Plan) -> tuple[list[Binding], dict[str, Aggregation]]:
    """Return the aggregates whose states nodes can hold, fused, and the others."""
    groups = run_together(plan.aggregates, lambda some: plan.bind(some, gaps=True))
    bindings = [plan.bind(each, gaps=True) for each in groups]
    apart = {name for each in bindings if not each.fixed for name in each.names}
    return [each for each in bindings if each.fixed], {
        name: each for name, each in plan.aggregates.items() if name in apart
    }


def in_order(keys: Array, times: Array) -> Array | None:
    """Return the order of rows by key and time, stably; None if they are in it. O(m log m), O(m) in order."""
    later = times[1:] >= times[:-1]
    same, after = keys[1:] == keys[:-1], keys[1:] > keys[:-1]
    if bool((after | (same & later)).all()):
        return None
    by_time = None if bool(later.all()) else np.argsort(times, kind="stable")
    ordered = keys if by_time is None else keys[by_time]
    few = int(ordered.max(initial=0)) < 1 << 16
    by_key = np.argsort(ordered.astype(np.uint16) if few else ordered, kind="stable")  # NumPy radix-sorts short numbers
    return by_key if by_time is None else by_time[by_key]


def joined(fresh: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the keys and times of rows of several pushes, sorted by these."""
    if not fresh:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(fresh) == 1:
        return fresh[0]
    keys, times = (np.concatenate(each) for each in zip(*fresh, strict=True))
    order = in_order(keys, times)
    return (keys, times) if order is None else (keys[order], times[order])


def by_key(fresh: list[tuple[Array, Array]], active: Array) -> Fresh:
    """Return the new rows of the keys to look at, which are among these."""
    keys, times = joined(fresh)
    return Fresh(active, times, np.searchsorted(keys, active, "right"))
