"""Windows by rows, as stretches of a tree over the rows of each key. A row out of order moves the numbers after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.trailing import TrailingRows
from rivals.fused import Fused
from rivals.sequenced import Keyed, kept, runs


@dataclass
class _Key:
    """What is known of a key's rows and windows. Windows have numbers: of the k-th row, or k * every."""

    dropped: int = 0
    """How many rows were let go; the first leaf is the row of this number."""
    floor: int = BEFORE_TIME
    """The time of the last row that was let go: rows before it are too late."""
    final: int = 0
    """Windows before this one never change again."""
    revisions: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """Of the windows from there on, as far as they were emitted; -1 for one that was not, though a later one was."""
    changed: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    """Whether they have changed since."""


class Counted:
    """The windows of one definition by rows. How many rows a key had is never forgotten: they are numbered."""

    def __init__(self, plan: Plan, window_id: int, definition: SlidingRows | TrailingRows, fused: Fused) -> None:
        self.plan, self.window_id, self.fused = plan, window_id, fused
        self.trailing = isinstance(definition, TrailingRows)
        self.range = definition.range.count
        self.every = 1 if isinstance(definition, TrailingRows) else definition.every.count
        self.keyed = Keyed(fused, tree=True)
        self.known: dict[int, _Key] = {}

    # ------------------------------------------------------------ rows in

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Insert the rows that a window not final can hold; return which, of trailing ones those with a window."""
        keys, times = batch.keys[order], batch.times[order]
        taken = times > max(watermark - self.plan.lateness, BEFORE_TIME)
        answered = taken.copy()
        for key, begin, stop in runs(keys):
            if not taken[begin]:  # they ascend: the others come after
                part = slice(begin, stop)
                self._judge(key, times[part], taken[part], answered[part], watermark)
        rows = kept(order, taken)
        times, inputs = batch.times[rows], self.fused.inputs(batch.columns, rows)
        for key, begin, stop in runs(batch.keys[rows]):
            self._insert(key, inputs, times, begin, stop)
        return answered if self.trailing else taken

    def _judge(self, key: int, times: Array, taken: Array, answered: Array, watermark: int) -> None:
        """Find out which rows behind the lateness are taken: those in a window whose last row is not."""
        state, leaves = self.known.setdefault(key, _Key()), self.keyed.of(key)
        held, new = leaves.times, 0
        for row in np.flatnonzero(~taken).tolist():
            time = int(times[row])
            place = state.dropped + int(np.searchsorted(held, time, "right")) + new
            count = state.dropped + len(held) + new
            last = place + self.range - 1 if self.trailing else place - place % self.every + self.range - 1
            if last < count:
                due = int(held[last - new - state.dropped]) if last - new >= state.dropped else BEFORE_TIME
            elif not self.trailing and self.range > 1:
                due = watermark + 1  # a window that is not full
            else:
                due = max(time, int(held[-1]) if len(held) else time)
            taken[row] = time >= state.floor and (time >= watermark or due + self.plan.lateness > watermark)
            final = state.dropped + int(np.searchsorted(held, watermark - self.plan.lateness, "right")) + new
            answered[row] = taken[row] and (time >= watermark or place >= final)
            new += bool(taken[row])

    def _insert(self, key: int, inputs: list[tuple[Array, ...]], times: Array, begin: int, stop: int) -> None:
        state, leaves = self.known.setdefault(key, _Key()), self.keyed.of(key)
        place = state.dropped + int(np.searchsorted(leaves.times, times[begin], "right"))
        leaves.merge(inputs, times, begin, stop)
        numbers = state.final + np.arange(len(state.changed))
        state.changed |= (numbers + 1 if self.trailing else numbers * self.every + self.range) > place

    # ------------------------------------------------------------ answers out

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Answer the windows that are due or have changed, and let go the rows that none needs."""
        return [each for key in sorted(self.known) for each in self._of_key(key, watermark, early=early)]

    def _of_key(self, key: int, watermark: int, *, early: bool) -> list[Answers]:
        state, leaves = self.known[key], self.keyed.of(key)
        first, last, full = self._windows(state, len(leaves))
        end = leaves.times[last - 1 - state.dropped]
        due = full & (end <= watermark)
        ready = due | ((full | self.plan.partial) & (early or watermark == END_OF_TIME))
        emitted = len(state.changed)
        fresh = np.ones(len(first), np.bool_)
        fresh[:emitted] = state.changed
        chosen = np.flatnonzero(ready & fresh)
        revisions = self._note(state, chosen)
        final = int((due & (end <= watermark - self.plan.lateness)).sum())
        found = []
        if len(chosen):
            outputs = self.fused.outputs(len(chosen))
            first, last = first[chosen], last[chosen]
            places = leaves.front + first - state.dropped, leaves.front + last - state.dropped
            leaves.answer(*places, outputs, 0)
            spans = leaves.times[first - state.dropped], leaves.times[last - 1 - state.dropped]
            keys, ids = np.full(len(chosen), key), np.full(len(chosen), self.window_id)
            arrays, retracted = self.fused.arrays(outputs), np.zeros(len(chosen), np.bool_)
            found.append(Answers(keys, ids, *spans, arrays, revisions, retracted, rows=(first, last)))
        self._finalize(key, final)
        return found

    def _windows(self, state: _Key, rows: int) -> tuple[Array, Array, Array]:
        """Return the first row of each window not final, the row after its last, and whether it is full."""
        count = state.dropped + rows
        if self.trailing:
            last = np.arange(state.final + 1, count + 1)
            return np.maximum(last - self.range, 0), last, np.ones(len(last), np.bool_)
        first = np.arange(state.final * self.every, count, self.every)
        return first, np.minimum(first + self.range, count), first + self.range <= count

    def _note(self, state: _Key, chosen: Array) -> Array:
        """Note that windows, by their places among those not final, are emitted; return their revisions."""
        more = max(0, int(chosen[-1]) + 1 - len(state.changed)) if len(chosen) else 0
        state.revisions = np.concatenate((state.revisions, np.full(more, -1)))
        state.changed = np.concatenate((state.changed, np.ones(more, np.bool_)))
        state.revisions[chosen] += 1
        state.changed[chosen] = False
        return state.revisions[chosen]

    def _finalize(self, key: int, count: int) -> None:
        """Make the oldest `count` windows final, and drop the rows that only they held."""
        state, leaves = self.known[key], self.keyed.of(key)
        state.final += count
        state.revisions, state.changed = state.revisions[count:], state.changed[count:]
        needed = state.final + 1 - self.range if self.trailing else state.final * self.every
        gone = min(max(needed - state.dropped, 0), len(leaves))
        if gone:
            state.floor = int(leaves.times[gone - 1])
            state.dropped += gone
            leaves.front += gone

    # ------------------------------------------------------------ looked at from outside

    def held_keys(self) -> Array:
        """Return the keys that ever had a row."""
        return np.array(sorted(self.known), np.int64)

    def metrics(self) -> dict[str, int]:
        """Return the numbers of leaves and keys, and bytes."""
        return self.keyed.metrics()

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        known = [(key, s.dropped, s.floor, s.final, len(s.changed)) for key, s in self.known.items()]
        each = self.known.values()
        return {
            **self.keyed.save(),
            "known": np.array(known, np.int64).ravel(),
            "revisions": np.concatenate([np.zeros(0, np.int64), *(s.revisions for s in each)]),
            "changed": np.concatenate([np.zeros(0, np.bool_), *(s.changed for s in each)]),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.keyed.load(state)
        self.known, at = {}, 0
        for key, dropped, floor, final, count in state["known"].reshape(-1, 5).tolist():
            windows = [state[name][at : at + count].copy() for name in ("revisions", "changed")]
            self.known[key] = _Key(dropped, floor, final, *windows)
            at += count

    def check(self) -> None:
        """Require what leaves must be."""
        self.keyed.check()
