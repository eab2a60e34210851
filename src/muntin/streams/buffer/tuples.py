"""The tuple buffer: keeps raw rows, and finds windows among them. Exact for every kind of window.

The simplest strategy, for whatever has no better one, and the baseline for the others. One buffer serves all
definitions; each remembers the rows it rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from muntin.aggregators.choose import Chosen
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.buffer.asked import answered, rows_near
from muntin.streams.buffer.definition import BufferedDefinition, under
from muntin.streams.decisions import ROWS
from muntin.streams.places import Places
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.strategy import Batch, HeldBatch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.buffered import REFUSED, TAKEN, Moment
from muntin.windows.found import SortedRows
from muntin.windows.held_rows import HeldRows


class Tuples(Strategy):
    """A buffer of rows, sorted by key and time.

    A push takes O(n) to copy the n rows held, and one pass per definition over the rows of the keys it touches. Rows
    are evicted when no window that may still change needs them.
    """

    keeps = ROWS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._rows = HeldRows.none(plan.types)
        self._parts = [self._part(i, each, plan) for i, each in plan.windows.items()]
        self._watermark = BEFORE_TIME
        self._fresh = 0  # the number of the first row since windows were last examined
        self._arrived = 0
        self._complete_from = BEFORE_TIME  # every row from this time on is held
        self._kept_from = BEFORE_TIME  # no row from this time on was evicted
        self._forgotten_at = BEFORE_TIME  # the watermark at which keys were last forgotten
        self._wake = np.zeros(0, np.int64)  # the watermark at which each key must be examined

    def _part(self, window_id: int, definition: Window, plan: Plan) -> BufferedDefinition:
        """Return what answers one definition."""
        return BufferedDefinition(window_id, definition.buffered(plan.terms), plan)

    @classmethod
    def can(cls, plan: Plan) -> str | None:  # noqa: ARG003  # the interface of strategies
        """Return None: rows answer every window."""
        return None

    @property
    def row_bytes(self) -> int | None:
        """The bytes of a row: key, time, number, and the columns that are read."""
        return 3 * 8 + sum(kind.physical.itemsize for kind in self.plan.types.values())

    def merged_by(self) -> Iterator[Chosen]:
        """Yield the aggregators of `run`, for all aggregates."""
        why = "the rows that are kept are windows of a sorted table"
        yield Chosen(tuple(self.plan.aggregates), "the aggregators of run", why)

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took.

        A row held only by the windows of other rows is late: it has no answer of its own.
        """
        self._watermark = watermark
        self._fresh = min(self._fresh, batch.arrived) if self._fresh < self._arrived else batch.arrived
        order = np.argsort(batch.times, kind="stable")
        numbers = batch.arrived + np.arange(len(order), dtype=np.int64)
        new = HeldRows(batch.keys, batch.times, numbers, batch.columns).take(order)
        new = replace(new, numbers=numbers)
        taken, has_frame = np.zeros(len(new), np.bool_), np.zeros(len(new), np.bool_)
        by_part = []
        for part in self._parts:
            verdict = part.kind.takes(new, part.view(self._rows), watermark)
            mine = verdict != REFUSED
            part.kind.note(new.take(np.flatnonzero(mine)))
            by_part.append(mine)
            taken |= mine
            has_frame |= verdict == TAKEN
        for part, mine in zip(self._parts, by_part, strict=True):
            part.refuse(new.numbers[taken & ~mine])
        self._rows = self._rows.with_rows(new if taken.all() else new.take(np.flatnonzero(taken)))
        if not taken.all():
            self._complete_from = max(self._complete_from, int(new.times[~taken].max()) + 1)
        self._arrived = batch.arrived + len(new)
        self._wake_at(np.unique(new.keys[taken]), BEFORE_TIME)
        result = np.zeros(len(taken), np.bool_)
        result[order] = has_frame
        return result

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        moment = Moment(self._watermark, watermark, horizon, self._fresh)
        active = np.flatnonzero(self._wake <= watermark) if not early else np.flatnonzero(self._wake < _NEVER)
        rows = self._rows if len(active) == len(self._wake) else self._rows.gathered(*self._rows.stretches(active))
        answers: list[Answers] = []
        needed = rows.ends.copy()
        wake = np.full(len(active), END_OF_TIME)
        for part in self._parts:
            view = part.view(rows)
            emitted, first = part.emit(view, active, moment, early)
            answers += emitted
            _lower_to(needed, rows, view, first)
            part.forget(view, first)
            np.minimum(wake, part.wakes(view, active, first, watermark), out=wake)
        self._wake[active] = wake
        self._let_go(rows, needed)
        self._watermark, self._fresh = watermark, self._arrived
        return answers

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points. O(log n) per key, plus the rows from its first frame to its last."""
        parts = [part for part in self._parts if part.window_id in complete_from]
        near = rows_near(self._rows, points, parts, self.plan.time_type)
        rows = [part.asked_rows(near) for part in parts]
        for part, mine in zip(parts, rows, strict=True):
            self._require_held(part, mine, points, complete_from[part.window_id])
        yield from answered(parts, rows, points.by_key)

    def _require_held(
        self, part: BufferedDefinition, rows: SortedRows, points: AskedPoints, complete_from: int | None
    ) -> None:
        """Reject points whose frames may hold evicted rows."""
        least = self._first_answered(part, max(self._kept_from, complete_from or BEFORE_TIME))
        whole = complete_from is None
        complete = part.kind.complete_at(rows, points.by_key, points.asked_keys, all_known=whole)
        if points.least < least or not (complete is None or complete.all()):
            bad = int(np.argmax((points.times < least) | (False if complete is None else ~complete)))
            since = part.complete_from(self._rows, int(points.keys[bad]), least, all_known=whole)
            raise points.refusal(bad, part.window_id, since)

    def _first_answered(self, part: BufferedDefinition, kept_from: int) -> int:
        """Return the earliest time at which a point can be answered, judged by times alone."""
        least = part.kind.first_answered(kept_from)
        return max(least, self._forgotten_at) if part.lookback.rows else least

    def _let_go(self, rows: HeldRows, needed: Array) -> None:
        """Evict the rows of some keys before the first needed one."""
        begins = np.concatenate(([0], rows.ends[:-1])).astype(np.int64) if len(rows.ends) else rows.ends
        if not (needed > begins).any():
            return
        gone = np.arange(len(rows)) < np.repeat(needed, rows.ends - begins)
        numbers = rows.numbers[gone]
        self._kept_from = max(self._kept_from, int(rows.times[gone].max()) + 1)
        self._complete_from = max(self._complete_from, self._kept_from)
        for part in self._parts:
            mine = rows.take(np.flatnonzero(gone & part.takes_part(rows)))
            keys, counts = np.unique(mine.keys, return_counts=True)
            part.kind.dropped(keys, counts)
            part.refused = np.setdiff1d(part.refused, numbers, assume_unique=True)
        first, _ = self._rows.stretches(rows.present)
        self._rows = self._rows.without(first, first + needed - begins)

    def _wake_at(self, keys: Array, when: int) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self._wake):
            more = np.full(max(size, 2 * len(self._wake)) - len(self._wake), _NEVER, np.int64)
            self._wake = np.concatenate((self._wake, more))
        self._wake[keys] = when

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition, from the rows held. O(n log n) for n rows."""
        part = self._part(window_id, definition, plan)
        part.begin(self._rows, self._watermark)
        self._parts = [*self._parts, part]
        self.plan = plan
        self._wake_at(np.flatnonzero(self._wake < _NEVER), BEFORE_TIME)
        return self._complete_from

    def rows_held(self) -> HeldBatch | None:
        """Return the rows. O(1)."""
        rows = Batch(self._rows.keys, self._rows.times, self._rows.columns)
        return HeldBatch(rows, self._watermark, self._complete_from, self._kept_from)

    def begin(self, held: HeldBatch) -> int | None:
        """Begin with these rows; return the time from which they are complete. O(n)."""
        rows, count = held.rows, len(held.rows.times)
        self._rows = HeldRows(rows.keys, rows.times, np.arange(-count, 0), rows.columns)
        self._watermark, self._complete_from, self._kept_from = held.watermark, held.complete_from, held.kept_from
        for part in self._parts:
            part.begin(self._rows, self._watermark)
        self._wake_at(np.unique(rows.keys), BEFORE_TIME)
        return self._complete_from

    def begin_at(self, since: int) -> None:
        """Note that rows before a time were never given."""
        self._complete_from = since

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition; the next push evicts what only it needed."""
        self._parts = [part for part in self._parts if part.window_id != window_id]
        self.plan = plan
        self._wake_at(np.flatnonzero(self._wake < _NEVER), BEFORE_TIME)

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current rows and definitions."""
        state, parts, plan = self.save(), self._parts, self.plan

        def restore() -> None:
            self._parts, self.plan = parts, plan
            self.load(state)

        return restore

    def held_keys(self) -> Array:
        """Return the numbers of the keys with any state, ascending."""
        held = [self._rows.keys, *(part.held_keys() for part in self._parts)]
        return np.unique(np.concatenate(held)).astype(np.int64)

    def kept_for_ever(self) -> Array:
        """Return all keys with any state: what would be evicted anyway is not known."""
        return self.held_keys()

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys, which start over with their next row; return their remaining windows. O(n)."""
        chosen = np.intersect1d(keys, self.held_keys())
        gone = np.isin(self._rows.keys, chosen)
        rows = self._rows.take(np.flatnonzero(gone))
        moment = Moment(self._watermark, END_OF_TIME, horizon, self._fresh)
        answers = [found for part in self._parts for found in part.close_keys(part.view(rows), chosen, moment)]
        for part in self._parts:
            part.refused = np.setdiff1d(part.refused, rows.numbers, assume_unique=True)
        self._rows = self._rows.take(np.flatnonzero(~gone))
        if len(rows):
            self._kept_from = max(self._kept_from, int(rows.times.max()) + 1)
            self._complete_from = max(self._complete_from, self._kept_from)
        if len(chosen):
            self._forgotten_at = self._watermark
        self._wake_at(chosen, _NEVER)
        return answers

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = {f"rows.{name}": array for name, array in self._rows.save().items()}
        marks = [self._watermark, self._fresh, self._arrived, self._complete_from]
        state["marks"] = np.array([*marks, self._kept_from, self._forgotten_at], np.int64)
        state["wake"] = self._wake.copy()
        for i, part in enumerate(self._parts):
            state |= {f"{i}.{name}": array for name, array in part.save().items()}
        return state

    @property
    def places(self) -> tuple[Places, ...]:
        """Nothing: rows are kept by the names of their columns."""
        return ()

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        self._rows = self._rows.load(under("rows.", state))
        self._watermark, self._fresh, self._arrived, self._complete_from, *later = map(int, state["marks"])
        # Older states do not record what was evicted: assume all that may have been.
        self._kept_from, self._forgotten_at, *_ = later or (self._complete_from, self._watermark)
        self._wake = state["wake"].copy()
        for i, part in enumerate(self._parts):
            part.load(under(f"{i}.", state))

    def metrics(self) -> dict[str, int]:
        """Return the number of rows held, and the bytes of state."""
        size = self._rows.nbytes + self._wake.nbytes + sum(part.nbytes for part in self._parts)
        return {"kept": len(self._rows), "bytes": size}

    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
        rows = self._rows
        order = np.lexsort((rows.numbers, rows.times, rows.keys))
        if not np.array_equal(order, np.arange(len(rows))):
            raise InvariantError("the tuple buffer is not sorted by key, time and arrival")
        # Rows of different keys may share a number if they were regrouped from several streams.
        twice = (np.diff(rows.keys) == 0) & (np.diff(rows.times) == 0) & (np.diff(rows.numbers) == 0)
        if twice.any():
            raise InvariantError("a row is in the tuple buffer twice")
        for name, column in rows.columns.items():
            if len(column.values) != len(rows) or (column.valid is not None and len(column.valid) != len(rows)):
                raise InvariantError(f"the column {name!r} of the tuple buffer is not as long as the others")
        if len(rows) and (self._wake[rows.present] == _NEVER).any():
            raise InvariantError("a key has rows in the tuple buffer, but none of them will be looked at again")
        for part in self._parts:
            part.check(rows)


_NEVER = END_OF_TIME
"""A key that sleeps forever: nothing happens to it until a row comes, or the stream closes."""


def _lower_to(needed: Array, rows: HeldRows, view: HeldRows, first: Array) -> None:
    """Lower each key's first needed row to that of a definition, which sees only some of the rows."""
    if view is rows:
        np.minimum(needed, first, out=needed)
        return
    key = np.searchsorted(rows.present, view.present)
    place = np.append(np.flatnonzero(np.isin(rows.numbers, view.numbers)), len(rows))
    place = np.where(first < view.ends, place[np.minimum(first, len(place) - 1)], rows.ends[key])
    needed[key] = np.minimum(needed[key], place)
