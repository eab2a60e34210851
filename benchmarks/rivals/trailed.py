"""Windows that trail each row by time, as stretches of a tree over the rows of each key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.durations import BEFORE_TIME
from muntin.query.plan import Plan
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.kinds.trailing import Trailing
from rivals.fused import Fused
from rivals.sequenced import Keyed, kept, runs


class Trailed:
    """The windows (t - range, t] of one definition, one for each row: rows are added to a window and never leave it."""

    def __init__(self, plan: Plan, window_id: int, definition: Trailing, fused: Fused) -> None:
        self.plan, self.window_id, self.fused = plan, window_id, fused
        self.range = int(definition.range)
        self.slack = max(plan.lateness, 1)  # a row may come at the watermark for a window that ended there
        self.keyed = Keyed(fused, tree=True)
        self.watermark = BEFORE_TIME
        self.emitted: dict[int, tuple[Array, Array]] = {}
        """For each row of a key: how many rows its window had when it was last emitted, or -1, and the revision."""

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Insert the rows that a window not final can hold; return those whose own window is not."""
        keys, times = batch.keys[order], batch.times[order]
        limit = max(watermark - self.plan.lateness, BEFORE_TIME)
        punctual = (times > limit) | (times >= watermark)
        taken = punctual.copy()
        for key, begin, stop in runs(keys):
            held = self.keyed.leaves[key].times if key in self.keyed.leaves else times[:0]
            place = int(np.searchsorted(held, limit, "right"))
            if place < len(held):  # the window of this row is the first that is not final
                taken[begin:stop] |= times[begin:stop] > held[place] - self.range
        rows = kept(order, taken)
        times, inputs = batch.times[rows], self.fused.inputs(batch.columns, rows)
        for key, begin, stop in runs(batch.keys[rows]):
            leaves = self.keyed.of(key)
            places = np.searchsorted(leaves.times, times[begin:stop], "right")
            none = np.zeros(0, np.int64)
            counts, revisions = self.emitted.get(key, (none, none))
            self.emitted[key] = np.insert(counts, places, -1), np.insert(revisions, places, -1)
            leaves.merge(inputs, times, begin, stop)
        return punctual

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Answer the windows that are due or have changed, and let go the rows that none needs."""
        found = [each for key in sorted(self.emitted) for each in self._of_key(key, watermark, early=early)]
        self.watermark = max(watermark, self.watermark)
        for key in list(self.emitted):
            leaves = self.keyed.leaves[key]
            gone = leaves.drop(max(self.watermark - self.slack + 2 - self.range, BEFORE_TIME))
            self.emitted[key] = self.emitted[key][0][gone:], self.emitted[key][1][gone:]
            if not len(leaves):
                del self.keyed.leaves[key], self.emitted[key]
        return found

    def _of_key(self, key: int, watermark: int, *, early: bool) -> list[Answers]:
        leaves, (counts, revisions) = self.keyed.leaves[key], self.emitted[key]
        times = leaves.times
        begin = int(np.searchsorted(times, self.watermark - self.slack, "right")) if self.watermark > BEFORE_TIME else 0
        stop = len(times) if early else int(np.searchsorted(times, watermark, "right"))
        ends = times[begin:stop]
        first, last, rows = leaves.stretches(ends - self.range + 1, ends + 1)
        chosen = np.flatnonzero(rows != counts[begin:stop])
        if not len(chosen):
            return []
        counts[begin + chosen] = rows[chosen]
        revisions[begin + chosen] += 1
        outputs = self.fused.outputs(len(chosen))
        leaves.answer(first[chosen], last[chosen], outputs, 0)
        keys, ids = np.full(len(chosen), key), np.full(len(chosen), self.window_id)
        arrays, end = self.fused.arrays(outputs), ends[chosen]
        retracted = np.zeros(len(chosen), np.bool_)
        return [Answers(keys, ids, end - self.range, end, arrays, revisions[begin + chosen], retracted)]

    def held_keys(self) -> Array:
        """Return the keys with rows."""
        return np.array(sorted(self.emitted), np.int64)

    def metrics(self) -> dict[str, int]:
        """Return the numbers of leaves and keys, and bytes."""
        return self.keyed.metrics()

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        emitted = [np.stack(self.emitted[key], axis=1) for key in self.keyed.leaves]
        joined = np.concatenate([np.zeros((0, 2), np.int64), *emitted]).ravel()
        return {**self.keyed.save(), "emitted": joined, "watermark": np.array([self.watermark], np.int64)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.keyed.load(state)
        self.watermark = int(state["watermark"][0])
        emitted, at = state["emitted"].reshape(-1, 2), 0
        self.emitted = {}
        for key, leaves in self.keyed.leaves.items():
            mine = emitted[at : at + len(leaves)]
            self.emitted[key] = mine[:, 0].copy(), mine[:, 1].copy()
            at += len(leaves)

    def check(self) -> None:
        """Require what leaves must be."""
        self.keyed.check()
