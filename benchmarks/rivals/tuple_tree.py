"""TupleTree: an aggregate tree over the rows of each key (FlatFAT). Every window is a range query.

A row in order is a new leaf at the right; a row out of order moves all leaves after it, and the nodes above them are
computed again. Windows share whatever nodes they have in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from muntin.aggregators.choose import Chosen
from muntin.durations import END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.decisions import ROWS
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.trailing import Trailing, TrailingRows
from rivals.common import Part, Parted, early_without_rows
from rivals.counted import Counted
from rivals.fused import Fused
from rivals.joined import KEY, LAST, REVISION, START, Sessions
from rivals.sequenced import Keyed, Sequenced, kept, runs
from rivals.trailed import Trailed


class _Sessions:
    """The sessions of one definition, as stretches of a tree of their own: they judge by themselves what is late."""

    def __init__(self, plan: Plan, window_id: int, definition: Session, fused: Fused) -> None:
        self.window_id, self.fused = window_id, fused
        self.sessions = Sessions(definition.gap, plan.lateness)
        self.keyed = Keyed(fused, tree=True)

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Add the rows that are not too late for their session; return which are."""
        joined = self.sessions.join(batch.keys[order], batch.times[order], watermark)
        taken = joined.into >= 0
        rows = kept(order, taken)
        times, inputs = batch.times[rows], self.fused.inputs(batch.columns, rows)
        for key, begin, stop in runs(batch.keys[rows]):
            self.keyed.of(key).merge(inputs, times, begin, stop)
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Answer the sessions that are due or have changed, and take back those that are no more."""
        due = self.sessions.due(watermark, early=early)
        sessions = self.sessions.table[due.sessions]
        sessions = sessions[np.argsort(sessions[:, KEY], kind="stable")]
        answers = []
        if len(due.retracted):
            key, start, end, revision = due.retracted.T
            words = (self.fused.nothing(len(key)), revision, np.ones(len(key), np.bool_))
            answers.append(Answers(key, np.full(len(key), self.window_id), start, end, *words))
        for key, begin, stop in runs(sessions[:, KEY]):
            mine, leaves, outputs = sessions[begin:stop], self.keyed.of(key), self.fused.outputs(stop - begin)
            first, last, _ = leaves.stretches(mine[:, START], mine[:, LAST] + 1)
            leaves.answer(first, last, outputs, 0)
            words = (self.fused.arrays(outputs), mine[:, REVISION], np.zeros(len(mine), np.bool_))
            ids = np.full(len(mine), self.window_id)
            answers.append(Answers(mine[:, KEY], ids, mine[:, START], mine[:, LAST] + self.sessions.gap, *words))
        self.sessions.finalize(watermark)
        self._let_go()
        return answers

    def _let_go(self) -> None:
        needed = dict.fromkeys(self.keyed.leaves, END_OF_TIME)
        for key, start in self.sessions.table[:, [KEY, START]].tolist():
            needed[key] = min(needed[key], start)
        for key, time in needed.items():
            self.keyed.leaves[key].drop(time)
            if not len(self.keyed.leaves[key]):
                del self.keyed.leaves[key]

    def held_keys(self) -> Array:
        """Return the keys with a session, or where a final one keeps rows out."""
        return self.sessions.held_keys()

    def metrics(self) -> dict[str, int]:
        """Return the numbers of leaves, keys and merges, and bytes."""
        return {**self.keyed.metrics(), "merges": self.sessions.merges}

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        return {**self.sessions.save(), **self.keyed.save()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.sessions.load(state)
        self.keyed.load(state)

    def check(self) -> None:
        """Require what sessions and leaves must be."""
        self.sessions.check()
        self.keyed.check()


class TupleTree(Parted):
    """An aggregate tree over the rows of each key; windows are range queries.

    For context-free, session and trailing windows by time and windows by rows; rows in any order; any aggregation.
    O(1) combines a row in order, O(rows after it) to insert one out of order, O(log n) to answer a window. All rows
    are kept for as long as a window may need them, once for all context-free windows, once for each other one.

    >>> import numpy as np
    >>> from muntin import agg, window
    >>> from muntin.durations import BEFORE_TIME
    >>> from muntin.query.plan import Plan
    >>> from muntin.streams.strategy import Batch
    >>> from muntin.types import INT64
    >>> plan = Plan({0: window.tumbling(5)}, {"n": agg.count()}, {}, INT64)
    >>> strategy = TupleTree(plan)
    >>> strategy.take(Batch(np.array([0, 0, 0]), np.array([1, 7, 5]), {}), BEFORE_TIME).tolist()
    [True, True, True]
    >>> [(each.end.tolist(), each.aggregates["n"].to_pylist()) for each in strategy.emit(10, 10)]
    [([5, 10], [1, 2])]
    """

    keeps = ROWS

    def merged_by(self) -> Iterator[Chosen]:
        """Yield the tree over rows, for all aggregates."""
        why = "a tree over the rows of each key; a window is a range of it"
        yield Chosen(tuple(self.plan.aggregates), "flat_fat", why)

    def _make_parts(self, plan: Plan) -> list[Part]:
        fused = Fused(plan)
        free = {i: each for i, each in plan.windows.items() if isinstance(each, ContextFree)}
        parts: list[Part] = [Sequenced(plan, free, fused)] if free else []
        parts += [_Sessions(plan, i, w, fused) for i, w in plan.windows.items() if isinstance(w, Session)]
        counted = {i: w for i, w in plan.windows.items() if isinstance(w, SlidingRows | TrailingRows)}
        parts += [Counted(plan, i, each, fused) for i, each in counted.items()]
        return parts + [Trailed(plan, i, w, fused) for i, w in plan.windows.items() if isinstance(w, Trailing)]

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why this strategy cannot answer a plan, or None where it can."""
        for each in plan.windows.values():
            frame = isinstance(each, Trailing | TrailingRows) and each == type(each)(each.range)
            if not frame and not isinstance(each, ContextFree | Session | SlidingRows):
                return (
                    f"the tree over rows answers context-free and session windows, windows by rows, and trailing "
                    f"ones without options, and {each!r} is none of these; take the strategy 'slices'"
                )
        return early_without_rows(plan)

    def metrics(self) -> dict[str, int]:
        """Return the numbers of kept rows, keys and merges of sessions, and bytes."""
        found = super().metrics()
        return {"kept": found.pop("leaves"), **found}
