"""Windows by rows, over rows in order: each push answers those that are due, or hold other rows, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, less
from muntin.query.plan import Plan
from muntin.streams.change import Change
from muntin.streams.points import AskedPoints
from muntin.streams.rows.counting import AHEAD, DONE, EMITTED, EVERY, GONE, NUMBERS, SEEN, Numbered
from muntin.streams.rows.finding import NEW, Fresh
from muntin.streams.rows.part import OWN, Emission, Held, Moment, Part
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window

_ROOM = 1 << 10
_NO_WORDS = np.zeros(0, np.int32)
_COLUMNS = {"gone": GONE, "done": DONE, "seen": SEEN, "sent": EMITTED}
"""The names of a key's numbers in a saved state."""


class ByNumber(Part):
    """One definition of windows by rows, which are numbered by key: a window for each row, or for every k-th."""

    for_ever: bool = True
    how: ClassVar[str] = (
        "a window is a range of row numbers; m rows take O(m log n) where n are held, in order O(m), and a late row "
        "moves later numbers without touching their rows, and revises the windows that hold others"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        shape = window.row_shape
        assert shape is not None
        fills = shape.fills and not plan.partial
        ahead, back = max(0, shape.until - 1), max(0, -shape.since)
        self._shape = np.array([shape.since, shape.until, ahead, back, shape.every, fills, window.tells_at], np.int64)
        self._word = f"{window_id}.word"
        self._remembers = plan.lateness > 0 or plan.early
        """Whether a window may change after it was emitted."""
        self._numbers = np.zeros(0, np.int64)
        self._room = Numbered.empty(_ROOM)

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether it holds some rows around every row, or every k-th one."""
        return window.row_shape is not None

    @property
    def beside(self) -> Mapping[str, type]:
        """A word for each row: the revision of its window, or why it has none."""
        return {self._word: np.int32} if self._remembers else {}

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return the verdict on each row: late ones are judged by the frames that would hold them."""
        verdicts = np.full(len(rows.times), OWN, np.int8)
        settled = self.late_until(watermark)
        if rows.least >= watermark or rows.least > settled:
            return verdicts
        late = np.flatnonzero((rows.times <= settled) & (rows.times < watermark))
        self._know_keys(store)
        state = (self._numbers, self._shape, self._moment(watermark, early=False))
        found = np.empty(len(late), np.int64)
        store.kernels.judge_rows(store.tree, rows.keys[late], rows.times[late], *state, found)
        verdicts[late] = found
        return verdicts

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the words of admitted rows: their windows are new."""
        return {name: np.full(len(rows.times), NEW, kind) for name, kind in self.beside.items()}

    def took(self, store: RowStore, rows: Batch) -> None:
        """Have room for the numbers of all keys."""
        self._know_keys(store)

    def _know_keys(self, store: RowStore) -> None:
        size = store.keys * NUMBERS
        if size > len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros(size - len(self._numbers), np.int64)))

    def _moment(self, watermark: int, *, early: bool) -> Array:
        settled = self.late_until(watermark)
        return np.array([watermark, settled, less(watermark, 1), int(early)], np.int64)

    # ------------------------------------------------------------ windows

    def emit(self, store: RowStore, fresh: Fresh, moment: Moment) -> Iterator[Emission]:
        """Yield the frames that are due, or hold other rows than when they were emitted."""
        words, cursor = store.beside.get(self._word, _NO_WORDS), np.array([0, NONE, 0, 0, 0], np.int64)
        when = self._moment(moment.watermark, early=moment.early)
        state = (store.tree, words, self._numbers, self._shape, when, fresh, cursor)
        while not store.kernels.find_numbered(*state, self._room):
            self._room = self._room.longer()
        found = self._room.first_rows(int(cursor[2]))
        if len(found.keys):
            times = store.tree.times
            yield Emission(
                found.keys,
                found.first,
                found.last,
                times[found.start],
                times[found.end],
                found.revisions,
                rows=(found.from_row, found.to_row),
                at=times[found.places] if self.window.tells_at else None,
            )

    def let_go(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of frames that may change; look at a key when its next frame may be due or final."""
        state = (self._numbers, self._shape, self._moment(watermark, early=False), self.lateness)
        store.kernels.numbers_need(store.tree, keys, *state, needed, wake)

    def evicted(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Count the evicted rows."""
        self._numbers.reshape(-1, NUMBERS)[keys, GONE] += counts

    def forget(self, keys: Array) -> None:
        """Number the rows of keys from 0 on."""
        self._numbers.reshape(-1, NUMBERS)[keys] = 0

    def held_keys(self) -> Array:
        """Return the keys whose rows are numbered."""
        return np.flatnonzero(self._numbers.reshape(-1, NUMBERS).any(axis=1))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held: frames that are final already are not emitted."""
        self._know_keys(store)
        settled = self.late_until(watermark)
        every = int(self._shape[EVERY])
        for key in store.present:
            _, places = store.rows(np.array([key]))
            count = int(np.searchsorted(store.tree.times[places], settled, "right")) - int(self._shape[AHEAD])
            final = max(0, -(-count // every) * every)
            self._numbers.reshape(-1, NUMBERS)[key, [DONE, SEEN, EMITTED]] = final
            for name in self.beside:
                store.beside[name][places] = NEW
                store.beside[name][places[:final]] = 0

    def adopt(self, store: RowStore, change: Change) -> None:
        """Note which windows were emitted, if nobody has remembered so far."""
        if not self._remembers or change.lateness > 0 or change.early:
            return
        keys, places = store.rows()
        firsts = np.searchsorted(keys, keys)
        rank = np.arange(len(keys)) - firsts + self._numbers[keys * NUMBERS + GONE]
        store.beside[self._word][places] = np.where(rank < self._numbers[keys * NUMBERS + SEEN], 0, NEW)

    # ------------------------------------------------------------ points

    def frames_at(self, held: Held, points: AskedPoints, complete_from: int | None) -> tuple[Array, Array, Array]:
        """Return between which positions the rows of frames at points are, and where these end. O(log n) each."""
        all_known = complete_from is None
        first, last, whole = self._at(held.store, points.keys, points.times, all_known)
        least = max(complete_from or BEFORE_TIME, held.forgotten_at)
        refused = ~whole | (points.times < least)
        if refused.any():
            bad = int(np.argmax(refused))
            since = self._complete_at(held.store, int(points.keys[bad]), least, all_known)
            raise points.refusal(bad, self.window_id, since)
        store = held.store
        store.kernels.at_ranks(store.tree, points.keys, first, last)
        return first, last, self._ends(store, points.times, last)

    def _ends(self, store: RowStore, times: Array, last: Array) -> Array:
        """Return where frames at points end: there, or with their last rows, if these are later.

        A frame that is delayed ends before its point, with its last row.
        """
        held = np.flatnonzero(last != NONE)
        reached = times.copy()
        reached[held] = store.times_at(last[held] - 1)
        window: Any = self.window
        return reached if window.high < 0 else np.maximum(reached, times)

    def _at(self, store: RowStore, keys: Array, times: Array, all_known: bool) -> tuple[Array, Array, Array]:
        """Return the ranks between which the rows of frames at points are, and which frames lack no row."""
        before, upto, total = (np.empty(len(keys), np.int64) for _ in range(3))
        store.kernels.ranks_at(store.tree, keys, times, before, upto, total)
        window: Any = self.window
        first, last = window.bounds_at(before, upto)
        # The number of rows before the first kept one is irrelevant: before it, nothing is known.
        unknown = -(2**61)
        known, _ = window.bounds_at(np.where(before > 0, before, unknown), np.where(upto > 0, upto, unknown))
        inside = (keys >= 0) & (keys < len(self._numbers) // NUMBERS)
        gone = np.zeros(len(keys), np.int64)
        gone[inside] = self._numbers[keys[inside] * NUMBERS + GONE]
        first = np.clip(first, 0, total)
        return first, np.clip(last, first, total), ((gone == 0) & all_known) | (known >= 0)

    def _complete_at(self, store: RowStore, key: int, least: int, all_known: bool) -> int | None:
        """Return the earliest time, from `least` on, at which frames of a key can be answered; None if never. O(n)."""
        rows = np.array([key]) if key in store.present else np.zeros(0, np.int64)
        held = store.tree.times[store.rows(rows)[1]]
        times = np.unique(np.concatenate(([max(least, BEFORE_TIME + 1)], held, held + 1)))
        _, _, whole = self._at(store, np.full(len(times), key), times, all_known)
        answered = times[whole & (times >= least)]
        return int(answered[0]) if len(answered) else None

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the numbers of keys, by their numbers."""
        numbers = self._numbers.reshape(-1, NUMBERS)
        return {name: numbers[:, column].copy() for name, column in _COLUMNS.items()}

    def numbers_of(self, keys: Array) -> dict[str, Array]:
        """Return the numbers of some keys."""
        numbers = np.zeros((len(keys), NUMBERS), np.int64)
        known = keys < len(self._numbers) // NUMBERS
        numbers[known] = self._numbers.reshape(-1, NUMBERS)[keys[known]]
        return {name: numbers[:, column].copy() for name, column in _COLUMNS.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self._numbers = np.stack([state[name] for name in _COLUMNS], axis=1).ravel()
