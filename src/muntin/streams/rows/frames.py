"""Frames by time, from rows in order: each push answers the frames that are due, or hold a new row, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from muntin.arrays.results import Raw, to_arrow
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.finding import HELD, HIDDEN, NEW, Found, Fresh
from muntin.streams.rows.ordered import OrderedRows, by_key, in_order, joined
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.buffered import less
from muntin.windows.shapes import FrameShape

_ROOM = 1 << 10


@dataclass
class _Definition:
    """One definition of frames, and what came for it since frames were last answered."""

    window_id: int
    shape: FrameShape
    tells_at: bool
    lateness: int
    looked_at: int = BEFORE_TIME
    """The watermark at which all frames that were due have been looked at."""
    hidden_until: int = BEFORE_TIME
    """The greatest time of a row that others see, and this one rejected; BEFORE_TIME if there is none."""
    fresh: list[tuple[Array, Array]] = field(default_factory=list)
    """The keys and times of new rows, each push sorted by these."""

    @property
    def slack(self) -> int:
        """How long after it is due a frame may change."""
        return max(self.lateness, int(self.shape.waits_at_end))

    @property
    def memory(self) -> int:
        """How long a row is needed."""
        return self.shape.ahead + self.shape.back + self.slack

    @property
    def numbers(self) -> list[int]:
        """The shape, as kernels take it."""
        return [self.shape.since, self.shape.until, self.shape.ahead, self.shape.tile]

    def start(self, at: Array) -> Array:
        """Return the starts of the frames of these times."""
        start = at + self.shape.low
        return start - start % self.shape.tile if self.shape.tile else start

    def first_answered(self, kept_from: int) -> int:
        """Return the earliest time whose frame begins at `kept_from` or later."""
        if kept_from == BEFORE_TIME:
            return BEFORE_TIME
        shape = self.shape
        return kept_from + -kept_from % shape.tile - shape.low if shape.tile else kept_from - shape.since

    def due(self, watermark: int) -> int:
        """Return the last time whose frame is due at a watermark."""
        return less(watermark, self.shape.ahead)

    def final(self, watermark: int) -> int:
        """Return the last time whose frame never changes again."""
        return self.due(less(watermark, self.slack))


class Frames(OrderedRows):
    """Frames by time."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._parts: list[_Definition] = []
        for i, each in plan.windows.items():
            self._parts.append(self._definition(i, each))
            self.store.add_beside(i, np.zeros(0, np.int32))
        self._room = Found.empty(_ROOM)

    def _definition(self, window_id: int, window: Window) -> _Definition:
        shape = window.frame_shape
        assert shape is not None
        return _Definition(window_id, shape, window.tells_at, self.plan.lateness)

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why a plan has other windows than frames by time, or None."""
        other = [each for each in plan.windows.values() if each.frame_shape is None]
        return f"{other[0]!r} is no frame by time" if other else None

    # ------------------------------------------------------------ rows in

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them have a frame of their own.

        A row held only by the frames of other rows is late: it has no answer of its own.
        """
        self._watermark = watermark
        order = in_order(batch.keys, batch.times)
        rows = batch if order is None else batch.take(order)
        verdicts = [self._judge(part, rows, watermark) for part in self._parts]
        own = np.zeros(len(rows.times), np.bool_)
        taken = own.copy()
        for verdict in verdicts:
            own |= verdict == NEW
            taken |= verdict != HIDDEN
        self._insert(rows, verdicts, taken)
        if order is None:
            return own
        result = np.empty(len(own), np.bool_)
        result[order] = own
        return result

    def _judge(self, part: _Definition, rows: Batch, watermark: int) -> Array:
        """Return the word of each row: NEW with a frame of its own, HELD in frames of others, HIDDEN in none."""
        words = np.full(len(rows.times), NEW, np.int32)
        newest_final = min(less(watermark, part.lateness), less(watermark, part.slack + part.shape.ahead))
        if rows.least >= watermark or rows.least > newest_final:
            return words
        late = np.flatnonzero((rows.times <= newest_final) & (rows.times < watermark))
        times, shape = rows.times[late], part.shape
        oldest = np.maximum(times - shape.until + 1, less(watermark, part.lateness + shape.ahead) + 1)
        tile = shape.tile
        youngest = (times - times % tile + tile - 1 if tile else times) - shape.since
        held = np.empty(len(late), np.int64)
        self.store.kernels.rows_between(self.store.tree, rows.keys[late], oldest, youngest, held)
        words[late] = np.where(held > 0, HELD, HIDDEN)
        return words

    def _insert(self, rows: Batch, verdicts: list[Array], taken: Array) -> None:
        if not taken.all():
            self._missing(rows, taken)
            kept = np.flatnonzero(taken)
            rows, verdicts = rows.take(kept), [each[kept] for each in verdicts]
        if not len(rows.times):
            return
        words = {part.window_id: each for part, each in zip(self._parts, verdicts, strict=True)}
        self.store.insert(rows.keys, rows.times, rows.columns, words)
        for part, verdict in zip(self._parts, verdicts, strict=True):
            hidden = verdict == HIDDEN
            if hidden.any():
                part.hidden_until = max(part.hidden_until, int(rows.times[hidden].max()))
                part.fresh.append((rows.keys[~hidden], rows.times[~hidden]))
            else:
                part.fresh.append((rows.keys, rows.times))
        self._wake_at(rows.keys, BEFORE_TIME)

    # ------------------------------------------------------------ frames out

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Return the frames that are due, or have changed since they were emitted; evict what is no longer needed."""
        active = self._active(watermark, early)
        answers = [
            found for part in self._parts if (found := self._emit_of(part, active, watermark, early)) is not None
        ]
        self._let_go(active, watermark)
        self._watermark = watermark
        return answers

    def _emit_of(self, part: _Definition, active: Array, watermark: int, early: bool) -> Answers | None:
        final, due = part.final(self._watermark), part.due(watermark)
        looked_at = part.due(part.looked_at)
        seen = (final, END_OF_TIME) if early else (looked_at, due)
        moment = np.array([final, *seen, due, 2 if early else int(self.plan.early)], np.int64)
        fresh = by_key(part.fresh, active)
        found = self._find(part, moment, fresh)
        part.fresh, part.looked_at = [], watermark
        if not len(found.keys):
            return None
        at = self.store.tree.times[found.places]
        ends = at + part.shape.high
        raw = self._aggregates(part, found.first, found.last)
        return Answers(
            found.keys,
            np.full(len(at), part.window_id, np.int64),
            part.start(at),
            ends,
            {name: to_arrow(raw[name], ends) for name in self.plan.aggregates},
            found.revisions,
            np.zeros(len(at), np.bool_),
            at=at if part.tells_at else None,
        )

    def _find(self, part: _Definition, moment: Array, fresh: Fresh) -> Found:
        words, shape = self.store.beside[part.window_id], np.array(part.numbers, np.int64)
        cursor = np.array([0, NONE, 0, 0, 0, 0], np.int64)
        while not self.store.kernels.find_frames(self.store.tree, words, shape, moment, fresh, cursor, self._room):
            self._room = self._room.longer()
        return self._room.first_rows(int(cursor[2]))

    def _aggregates(self, part: _Definition, first: Array, last: Array) -> dict[str, Raw]:
        """Return the aggregates of ranges of rows, by name, without the rows that the definition rejected."""
        sees_all = part.hidden_until == BEFORE_TIME
        return self._of_ranges(first, last, None if sees_all else self.store.beside[part.window_id] == HIDDEN)

    def _let_go(self, keys: Array, watermark: int) -> None:
        """Evict the rows of some keys that no frame needs, and note when to look at the keys again."""
        memory = max(part.memory for part in self._parts)
        until = less(watermark, memory) if watermark < END_OF_TIME else END_OF_TIME
        shapes = np.array([part.numbers for part in self._parts], np.int64).ravel()
        due = np.array([part.due(watermark) for part in self._parts], np.int64)
        gone = self.store.kernels.let_go(self.store.tree, keys, shapes, due, until, memory, self._wake)
        self._evicted(gone)
        for part in self._parts:
            if part.hidden_until <= until:
                part.hidden_until = BEFORE_TIME

    # ------------------------------------------------------------ points

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points. O(log n) each at worst, amortised O(1) combines for those of a key."""
        for part in self._parts:
            if part.window_id not in complete_from:
                continue
            least = part.first_answered(max(self._kept_from, complete_from[part.window_id] or BEFORE_TIME))
            if points.least < least:
                raise points.refusal(int(np.argmax(points.times < least)), part.window_id, least)
            first, last = np.empty(len(points.keys), np.int64), np.empty(len(points.keys), np.int64)
            shape = np.array(part.numbers, np.int64)
            self.store.kernels.find_at(self.store.tree, shape, points.keys, points.times, first, last)
            yield FramesAtPoints([part.window_id], self._aggregates(part, first, last), points.times + part.shape.high)

    # ------------------------------------------------------------ definitions

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition, from the rows held. O(n)."""
        if self.can(plan) is not None:
            return super().add(window_id, definition, plan)
        part = self._definition(window_id, definition)
        self._parts = [*self._parts, part]
        self._begin_part(part)
        self._changed(plan)
        return self._complete_from

    def _begin(self, rows: Batch) -> None:
        words = {part.window_id: np.full(len(rows.keys), NEW, np.int32) for part in self._parts}
        self.store.insert(rows.keys, rows.times, rows.columns, words)
        for part in self._parts:
            self._begin_part(part)

    def _begin_part(self, part: _Definition) -> None:
        """Let a definition begin with the rows held: frames that are final already are not emitted."""
        part.looked_at = less(self._watermark, part.slack)
        final = self.store.tree.times[self.store.rows()[1]] <= part.final(self._watermark)
        self.store.add_beside(part.window_id, np.where(final, HELD, NEW).astype(np.int32))

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition; the next push evicts what only it needed."""
        self._parts = [part for part in self._parts if part.window_id != window_id]
        del self.store.beside[window_id]
        self._changed(plan)

    # ------------------------------------------------------------ state

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current rows and definitions."""
        rows, plan, parts, journal = super().restore_point(), self.plan, self._parts, self._journal
        kept = [replace(part) for part in parts]
        words = list(self.store.beside)

        def restore() -> None:
            self.plan, self._parts, self._journal = plan, kept, journal
            self.store.beside = {name: np.zeros(0, np.int32) for name in words}
            rows()

        return restore

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = super().save()
        for part in self._parts:
            state[f"of.{part.window_id}"] = np.array([part.looked_at, part.hidden_until], np.int64)
            keys, times = joined(part.fresh)
            state |= {f"of.{part.window_id}.keys": keys, f"of.{part.window_id}.times": times}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        super().load(state)
        for part in self._parts:
            part.looked_at, part.hidden_until = map(int, state[f"of.{part.window_id}"])
            keys, times = (state[f"of.{part.window_id}.{name}"] for name in ("keys", "times"))
            part.fresh = [(keys, times)] if len(keys) else []
