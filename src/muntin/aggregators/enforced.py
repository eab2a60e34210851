"""Any in-order aggregator under a slide policy. It cannot search, so a small tree decides, and rows leave singly."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping
from typing import Any, Self

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.base import Aggregator
from muntin.aggregators.monoid_tree import MonoidTree
from muntin.aggregators.ring import RingAggregator
from muntin.errors import ColumnError, InvalidArgumentError
from muntin.policies import Policy
from muntin.restoring import RestorePoint, all_or_nothing
from muntin.turns import Turn, changing, exclusive

_LENGTH = struct.Struct("<Q")


class Enforced:
    """An aggregator that evicts rows by a policy after every insert, one by one.

    A `MonoidTree` of the policy's own aggregations finds how many must go: amortised O(1) combines per row, O(log n)
    for many at once, plus what the aggregator takes per eviction. `MonoidTree(..., policy=p)` does without the second
    structure. The policy's columns must be among those of the aggregator, and times come in order. If rows of equal
    time are one entry, as in `Fiba`, they stay until all of them must go.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.Enforced(aggregators.TwoStacks(agg.max("v")), policies.sum_at_most("v", 10))
    >>> window.bulk_insert(range(5), [2, 2, 3, 3, 4])
    >>> window.query(), len(window)
    (4, 3)
    """

    _turn: Turn
    _halfway = False

    def __init__(self, window: Aggregator, policy: Policy) -> None:
        if not isinstance(window, Aggregator) or not isinstance(policy, Policy):
            raise InvalidArgumentError(
                f"Enforced puts an aggregator under a policy, such as policies.at_most_rows(100); got {window!r} and "
                f"{policy!r}"
            )
        if len(window):
            raise InvalidArgumentError(
                f"a policy is enforced from the first row on, and there are {len(window)} already"
            )
        self._turn = threading.RLock()
        self._window = window
        self._columns = window._binding.columns
        self._judge = MonoidTree(policy.aggregations, policy=policy, compiled=window._binding.compiled)
        self._judged = self._judge._binding.columns
        missing = [name for name in self._judged if name not in self._columns]
        if missing:
            raise ColumnError(f"{policy!r} looks at the column {missing[0]!r}, which {window!r} does not have")

    def restore_point(self) -> RestorePoint:
        """Return a callback that undoes insertions into the tree alone. O(1).

        There was room for the new rows beside all old ones, so rows evicted by the policy are still there.
        """
        tree = self._judge
        types, time_type, arrays = tree._types, tree._time_type, tree._window
        before = arrays.marks.copy(), arrays.results.copy()

        def restore() -> None:
            tree._types, tree._time_type, tree._window = types, time_type, arrays
            arrays.marks[:], arrays.results[:] = before
            tree._stop_growing()
            tree._rebind()

        return restore

    @exclusive
    def insert(self, t: Any, v: Any = None) -> None:
        """Insert a value at a time, and evict what the policy says. A rejected value changes nothing."""
        row = dict(zip(self._columns, self._window._row(v), strict=True))
        values = tuple(row[name] for name in self._judged)
        with changing(self):
            with all_or_nothing(self):
                self._judge.insert(t, values[0] if len(values) == 1 else values)
                self._window.insert(t, v)
            self._let_go()

    @exclusive
    def bulk_insert(self, ts: Any, vs: Any = None) -> None:
        """Insert many values, and evict by the policy, as single inserts would. All or none are inserted."""
        columns = self._by_name(vs)
        with changing(self):
            with all_or_nothing(self):
                self._judge.bulk_insert(ts, columns)
                self._window.bulk_insert(ts, columns)
            self._let_go()

    def _by_name(self, vs: Any) -> Any:
        """Return values as columns by name, which both structures can read."""
        if not self._columns or isinstance(vs, Mapping) or hasattr(vs, "column_names") or hasattr(vs, "columns"):
            return vs
        if len(self._columns) == 1:
            return {self._columns[0]: vs}
        rows = [self._window._row(v) for v in vs]
        return {name: [row[i] for row in rows] for i, name in enumerate(self._columns)}

    def _let_go(self) -> None:
        if isinstance(self._window, RingAggregator):
            self._window._evict_many(len(self._window) - len(self._judge))
            return
        while len(self._window) and (not len(self._judge) or self._window.oldest < self._judge.oldest):
            self._window.evict()

    @exclusive
    def evict(self) -> None:
        """Remove the oldest row, or all rows of the oldest time if the aggregator does."""
        oldest = self._window.oldest
        with changing(self):
            self._window.evict()
            if isinstance(self._window, RingAggregator):
                self._judge.evict()
            else:
                self._judge.bulk_evict(oldest)

    @exclusive
    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t."""
        with changing(self):
            self._window.bulk_evict(t)
            self._judge.bulk_evict(t)

    @exclusive
    def query(self) -> Any:
        """Return the aggregate of the window."""
        return self._window.query()

    @exclusive
    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi."""
        return self._window.range_query(lo, hi)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._window)

    @property
    def oldest(self) -> Any:
        """The least time in the window, None if it is empty."""
        return self._window.oldest

    @property
    def youngest(self) -> Any:
        """The greatest time in the window, None if it is empty."""
        return self._window.youngest

    @exclusive
    def snapshot(self) -> bytes:
        """Return the window as bytes: the snapshots of both structures. O(n)."""
        first = self._window.snapshot()
        return _LENGTH.pack(len(first)) + first + self._judge.snapshot()

    @classmethod
    def restore(
        cls,
        data: bytes,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        kind: type[Aggregator],
        policy: Policy,
        **options: Any,
    ) -> Self:
        """Return the window that `snapshot` saved; `kind` is the aggregator's class, the policy must be the same."""
        length = _LENGTH.unpack_from(data)[0] if len(data) >= _LENGTH.size else 0
        first, second = data[_LENGTH.size : _LENGTH.size + length], data[_LENGTH.size + length :]
        trusted = {"allow_pickle": options.pop("allow_pickle", False)}
        made = cls(kind(aggregation, **options), policy)
        plain = {"compiled": made._window._binding.compiled}
        made._window = kind.restore(first, aggregation, **options, **trusted)
        made._judge = MonoidTree.restore(second, policy.aggregations, policy=policy, **plain, **trusted)
        return made

    @exclusive
    def check(self) -> None:
        """Verify every invariant of both structures."""
        self._window.check()
        self._judge.check()
