"""Frames by rows, from rows in order: each push answers the frames that are due, or hold other rows, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.arrays.results import to_arrow
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.counting import DONE, EMITTED, GONE, NUMBERS, SEEN, Numbered
from muntin.streams.rows.finding import NEW
from muntin.streams.rows.ordered import NEVER, OrderedRows, by_key, in_order, joined
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.buffered import less

_ROOM = 1 << 10
_WORDS = "words"
_COLUMNS = {"gone": GONE, "done": DONE, "seen": SEEN, "sent": EMITTED}
"""The names of a key's numbers in a saved state."""


class RowFrames(OrderedRows):
    """Frames by rows of one definition: which rows come too late, and so the numbers of rows, depend on it."""

    alone: ClassVar[bool] = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        ((self._window_id, self._window),) = plan.windows.items()
        since, until = self._bounds = self._window.row_bounds or (0, 0)
        self._shape = np.array([since, until, max(0, until - 1), max(0, -since)], np.int64)
        self.store.add_beside(_WORDS, np.zeros(0, np.int32))
        self._numbers = np.zeros(0, np.int64)
        self._fresh: list[tuple[Array, Array]] = []
        self._forgotten_at = BEFORE_TIME  # the watermark at which keys were last forgotten
        self._room = Numbered.empty(_ROOM)

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why a plan has other windows than one definition of frames by rows, or None."""
        other = [each for each in plan.windows.values() if each.row_bounds is None]
        if other:
            return f"{other[0]!r} is no frame by rows"
        return "each definition of frames by rows numbers its own rows" if len(plan.windows) > 1 else None

    # ------------------------------------------------------------ rows in

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them have a frame of their own."""
        self._watermark = watermark
        order = in_order(batch.keys, batch.times)
        rows = batch if order is None else batch.take(order)
        verdicts = self._judge(rows, watermark)
        taken = verdicts > 0
        self._missing(rows, taken)
        self._insert(rows if taken.all() else rows.take(np.flatnonzero(taken)))
        own = np.empty(len(taken), np.bool_)
        own[slice(None) if order is None else order] = verdicts == 1
        return own

    def _judge(self, rows: Batch, watermark: int) -> Array:
        verdicts = np.ones(len(rows.times), np.int64)
        settled = less(watermark, self.plan.lateness)
        if rows.least >= watermark or rows.least > settled:
            return verdicts
        late = np.flatnonzero((rows.times <= settled) & (rows.times < watermark))
        found = np.empty(len(late), np.int64)
        state = (self._numbers, self._shape, self._moment(watermark, early=False))
        self.store.kernels.judge_rows(self.store.tree, rows.keys[late], rows.times[late], *state, found)
        verdicts[late] = found
        return verdicts

    def _moment(self, watermark: int, *, early: bool) -> Array:
        settled = less(watermark, self.plan.lateness)
        return np.array([watermark, settled, less(watermark, 1), int(early)], np.int64)

    def _insert(self, rows: Batch) -> None:
        if not len(rows.times):
            return
        words = np.full(len(rows.times), NEW, np.int32)
        self.store.insert(rows.keys, rows.times, rows.columns, {_WORDS: words})
        size = self.store.keys * NUMBERS
        if size > len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros(size - len(self._numbers), np.int64)))
        self._fresh.append((rows.keys, rows.times))
        self._wake_at(rows.keys, BEFORE_TIME)

    # ------------------------------------------------------------ frames out

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Return the frames that are due, or have changed since they were emitted; evict what is no longer needed."""
        active = self._active(watermark, early)
        answers = self._emit_of(active, watermark, early)
        self._fresh = []
        self._let_go(active, watermark)
        self._watermark = watermark
        return answers

    def _emit_of(self, active: Array, watermark: int, early: bool) -> list[Answers]:
        moment, fresh = self._moment(watermark, early=early), by_key(self._fresh, active)
        words, cursor = self.store.beside[_WORDS], np.array([0, NONE, 0, 0, 0], np.int64)
        state = (self.store.tree, words, self._numbers, self._shape, moment, fresh, cursor)
        while not self.store.kernels.find_numbered(*state, self._room):
            self._room = self._room.longer()
        found = self._room.first_rows(int(cursor[2]))
        if not len(found.keys):
            return []
        times = self.store.tree.times
        ends = times[found.end]
        raw = self._of_ranges(found.first, found.last)
        return [
            Answers(
                found.keys,
                np.full(len(ends), self._window_id, np.int64),
                times[found.start],
                ends,
                {name: to_arrow(raw[name], ends) for name in self.plan.aggregates},
                found.revisions,
                np.zeros(len(ends), np.bool_),
                rows=(found.from_row, found.to_row),
                at=times[found.places] if self._window.tells_at else None,
            )
        ]

    def _let_go(self, keys: Array, watermark: int) -> None:
        state = (self._numbers, self._shape, self._moment(watermark, early=False), self.plan.lateness)
        self._evicted(self.store.kernels.let_rows_go(self.store.tree, keys, *state, self._wake))

    def kept_for_ever(self) -> Array:
        """Return the keys with rows: the last ones stay."""
        return self.held_keys()

    def held_keys(self) -> Array:
        """Return the keys with rows, or whose rows are numbered."""
        numbered = self._numbers.reshape(-1, NUMBERS).any(axis=1)
        return np.union1d(self.store.present, np.flatnonzero(numbered))

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys, which start over with their next row; return their remaining frames. O(rows of the keys)."""
        chosen = np.intersect1d(keys, self.held_keys())
        if not len(chosen):
            return []
        answers = self._close_keys(chosen)
        self._journal.note(1, lambda: self._close_keys(chosen))
        return answers

    def _close_keys(self, keys: Array) -> list[Answers]:
        answers = self._emit_of(keys, END_OF_TIME, early=False)
        for key in keys:  # all rows, whatever frames may need
            if key in self.store.present:
                self._evicted(self.store.kernels.evict_first(self.store.tree, key, self._rows_of(key)))
        self._numbers.reshape(-1, NUMBERS)[keys] = 0
        self._wake_at(keys, NEVER)
        self._forgotten_at = self._watermark
        return answers

    def _rows_of(self, key: int) -> int:
        return len(self.store.rows(np.array([key]))[0])

    # ------------------------------------------------------------ points

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points. O(log n) each."""
        all_known = complete_from[self._window_id] is None
        first, last, whole = self._at(points.keys, points.times, all_known)
        least = max(complete_from[self._window_id] or BEFORE_TIME, self._forgotten_at)
        refused = ~whole | (points.times < least)
        if refused.any():
            bad = int(np.argmax(refused))
            raise points.refusal(bad, self._window_id, self._complete_at(int(points.keys[bad]), least, all_known))
        self.store.kernels.at_ranks(self.store.tree, points.keys, first, last)
        yield FramesAtPoints([self._window_id], self._of_ranges(first, last), None)

    def _at(self, keys: Array, times: Array, all_known: bool) -> tuple[Array, Array, Array]:
        """Return the ranks between which the rows of frames at points are, and which frames lack no row."""
        before, upto, total = (np.empty(len(keys), np.int64) for _ in range(3))
        self.store.kernels.ranks_at(self.store.tree, keys, times, before, upto, total)
        window: Any = self._window
        first, last = window.bounds_at(before, upto)
        # The number of rows before the first kept one is irrelevant: before it, nothing is known.
        unknown = -(2**61)
        known, _ = window.bounds_at(np.where(before > 0, before, unknown), np.where(upto > 0, upto, unknown))
        inside = (keys >= 0) & (keys < len(self._numbers) // NUMBERS)
        gone = np.zeros(len(keys), np.int64)
        gone[inside] = self._numbers[keys[inside] * NUMBERS + GONE]
        first = np.clip(first, 0, total)
        return first, np.clip(last, first, total), ((gone == 0) & all_known) | (known >= 0)

    def _complete_at(self, key: int, least: int, all_known: bool) -> int | None:
        """Return the earliest time, from `least` on, at which frames of a key can be answered; None if never. O(n)."""
        rows = np.array([key]) if key in self.store.present else np.zeros(0, np.int64)
        held = self.store.tree.times[self.store.rows(rows)[1]]
        times = np.unique(np.concatenate(([max(least, BEFORE_TIME + 1)], held, held + 1)))
        _, _, whole = self._at(np.full(len(times), key), times, all_known)
        answered = times[whole & (times >= least)]
        return int(answered[0]) if len(answered) else None

    # ------------------------------------------------------------ state

    def _begin(self, rows: Batch) -> None:
        self._insert(rows)
        self._fresh = []
        settled = less(self._watermark, self.plan.lateness)
        for key in self.store.present:
            _, places = self.store.rows(np.array([key]))
            count = int(np.searchsorted(self.store.tree.times[places], settled, "right")) - int(self._shape[2])
            final = max(0, count)
            for which in (DONE, SEEN, EMITTED):
                self._numbers[key * NUMBERS + which] = final
            self.store.beside[_WORDS][places[:final]] = 0

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        keys, times = joined(self._fresh)
        numbers = self._numbers.reshape(-1, NUMBERS)
        state = {name: numbers[:, column].copy() for name, column in _COLUMNS.items()}
        forgotten = np.array([self._forgotten_at], np.int64)
        return {**super().save(), **state, "forgotten": forgotten, "fresh.keys": keys, "fresh.times": times}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        super().load(state)
        size = max(self.store.keys, len(state["gone"]))
        numbers = np.zeros((size, NUMBERS), np.int64)
        for name, column in _COLUMNS.items():
            numbers[: len(state[name]), column] = state[name]
        self._numbers = numbers.ravel()
        self._forgotten_at = int(state["forgotten"][0])
        self._fresh = [(state["fresh.keys"], state["fresh.times"])] if len(state["fresh.keys"]) else []
