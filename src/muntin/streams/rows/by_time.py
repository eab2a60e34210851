"""Frames by time, over rows in order: each push answers the frames that are due, or hold a new row, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.begun import first_instant
from muntin.streams.points import AskedPoints
from muntin.streams.rows.finding import FRAMELESS, NEW, Found, Fresh
from muntin.streams.rows.part import HELD, OWN, REFUSED, Emission, Held, Moment, Part
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window

_ROOM = 1 << 10


class ByTime(Part):
    """One definition of frames by time."""

    how: ClassVar[str] = (
        "a frame is a range of times; m rows take O(m log n) where n are held, in order O(m), and a late row revises "
        "the frames that hold it"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        shape = window.frame_shape
        assert shape is not None
        self.shape = shape
        self._early = plan.early
        self._word = f"{window_id}.word"
        self._frame = np.array([shape.since, shape.until, shape.ahead, shape.tile], np.int64)
        self.slack = max(self.lateness, int(shape.waits_at_end))
        """How long after it is due a frame may change."""
        self.memory = END_OF_TIME if shape.is_endless else shape.ahead + shape.back + self.slack
        """How long a row is needed; END_OF_TIME if for ever."""
        self.for_ever = shape.is_endless
        self._looked_at = BEFORE_TIME
        """The watermark at which all frames that were due have been looked at."""
        self._room = Found.empty(_ROOM)

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether it is a frame by time."""
        return window.frame_shape is not None

    @property
    def beside(self) -> Mapping[str, type]:
        """A word for each row: the revision of its frame, or why it has none."""
        return {self._word: np.int32}

    def _due(self, watermark: int) -> int:
        """Return the last time whose frame is due at a watermark."""
        return less(watermark, self.shape.ahead)

    def _final(self, watermark: int) -> int:
        """Return the last time whose frame never changes again."""
        return self._due(self._settled(watermark, self.slack))

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows with a frame of their own, HELD for those in frames of others, REFUSED for the rest."""
        verdicts = np.full(len(rows.times), OWN, np.int8)
        newest_final = min(self.late_until(watermark), self._final(watermark))
        if rows.least >= watermark or rows.least > newest_final:
            return verdicts
        late = np.flatnonzero((rows.times <= newest_final) & (rows.times < watermark))
        times, shape = rows.times[late], self.shape
        oldest = np.maximum(times - shape.until + 1, less(self.late_until(watermark), shape.ahead) + 1)
        youngest = self._last_with(times)
        held = np.empty(len(late), np.int64)
        store.kernels.rows_between(store.tree, rows.keys[late], oldest, youngest, held)
        verdicts[late] = np.where(held > 0, HELD, REFUSED)
        return verdicts

    def _last_with(self, times: Array) -> Array:
        """Return the last time whose frame begins at or before each time, whatever it holds."""
        tile = self.shape.tile
        if self.shape.is_endless:
            return np.full(len(times), END_OF_TIME - 1)
        last: Array = (times - times % tile + tile - 1 if tile else times) - self.shape.since
        return last

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the words of admitted rows."""
        return {self._word: np.where(verdicts == OWN, NEW, FRAMELESS).astype(np.int32)}

    # ------------------------------------------------------------ windows

    def emit(self, store: RowStore, fresh: Fresh, moment: Moment) -> Iterator[Emission]:
        """Yield the frames that are due, or have changed since they were emitted."""
        found = self._find(store, fresh, moment)
        if moment.watermark < END_OF_TIME:  # else only some keys may be closed
            self._looked_at = moment.watermark
        if len(found.keys):
            at = store.tree.times[found.places]
            start, end = self._start(store, found.first, at), at + self.shape.high
            told = at if self.window.tells_at else None
            yield Emission(found.keys, found.first, found.last, start, end, found.revisions, at=told)

    def _find(self, store: RowStore, fresh: Fresh, moment: Moment) -> Found:
        final, due = self._final(moment.before), self._due(moment.watermark)
        seen = (final, END_OF_TIME) if moment.early else (self._due(self._looked_at), due)
        when = np.array([final, *seen, due, 2 if moment.early else int(self._early)], np.int64)
        cursor = np.array([0, NONE, 0, 0, 0, 0], np.int64)
        words = store.beside[self._word]
        while not store.kernels.find_frames(store.tree, words, self._frame, when, fresh, cursor, self._room):
            self._room = self._room.longer()
        return self._room.first_rows(int(cursor[2]))

    def _start(self, store: RowStore, first: Array, at: Array) -> Array:
        """Return where the frames of rows at these times start, as answers tell it. O(1) each."""
        if self.shape.is_endless:  # with the first row; a frame without rows is that of the first row
            start = at.copy()
            held = first != NONE
            start[held] = store.times_at(first[held])
            return start
        start = at + self.shape.low
        return start - start % self.shape.tile if self.shape.tile else start

    def let_go(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of frames that may change, and look at a key when its next frame is due, or a row too old."""
        until = END_OF_TIME
        if watermark < END_OF_TIME:
            until = BEFORE_TIME if self.for_ever else less(watermark, self.memory)
        moment = np.array([until, self.memory, self._due(watermark), self.shape.ahead], np.int64)
        store.kernels.frames_need(store.tree, keys, moment, needed, wake)

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held: frames that are final already are not emitted."""
        self._looked_at = self._settled(watermark, self.slack)
        _, places = store.rows()
        final = store.tree.times[places] <= self._final(watermark)
        store.beside[self._word][places] = np.where(final, FRAMELESS, NEW)

    # ------------------------------------------------------------ points

    def frames_at(self, held: Held, points: AskedPoints, complete_from: int | None) -> tuple[Array, Array, Array]:
        """Return between which positions the rows of frames at points are, and where these end. O(log n) each."""
        least = self._first_answered(max(held.kept_from, complete_from or BEFORE_TIME))
        if points.least < least:
            raise points.refusal(int(np.argmax(points.times < least)), self.window_id, least)
        first, last = np.empty(len(points.keys), np.int64), np.empty(len(points.keys), np.int64)
        store = held.store
        store.kernels.find_at(store.tree, self._frame, points.keys, points.times, first, last)
        return first, last, points.times + self.shape.high

    def begins_at(self, store: RowStore, points: AskedPoints, first: Array, last: Array) -> Array:
        """Return since when the frames at points hold rows."""
        if self.shape.is_endless:
            return super().begins_at(store, points, first, last)
        return self._start(store, first, points.times) + first_instant(self.window)

    def _first_answered(self, kept_from: int) -> int:
        """Return the earliest time whose frame begins at `kept_from` or later.

        A frame of all rows lets none go: it begins with the first row since the window or the key is there.
        """
        if kept_from == BEFORE_TIME or self.for_ever:
            return BEFORE_TIME
        shape = self.shape
        return kept_from + -kept_from % shape.tile - shape.low if shape.tile else kept_from - shape.since

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the state besides the rows and their words."""
        return {"looked_at": np.array([self._looked_at], np.int64)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self._looked_at = int(state["looked_at"][0])
