"""Frames by time, from rows in order: each push answers the frames that are due, or hold a new row, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import Raw, to_arrow
from muntin.arrays.runner import results_by_name, windows_of_rows
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.decisions import ROWS
from muntin.streams.journal import Replayed
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.finding import HELD, HIDDEN, NEW, Found, Fresh
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.buffered import less
from muntin.windows.shapes import FrameShape

_NEVER = END_OF_TIME
"""A key that sleeps forever: nothing happens to it until a row comes, or the stream closes."""
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


class Frames(Replayed):
    """Rows in the order of time, in a tree for each key, with the states of its nodes.

    A push of m rows takes O(m log n) for n rows held, in order O(m), and O(1) combines, amortised, for each frame that
    it answers; late rows answer the frames that hold them again. Aggregations whose states have no fixed size take the
    rows of these frames instead of states. Rows are evicted when no frame that may still change needs them.
    """

    keeps = ROWS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.bindings, self.apart = _bindings(plan)
        self.store = RowStore(plan.types, self.bindings)
        self._parts: list[_Definition] = []
        for i, each in plan.windows.items():
            self._parts.append(self._definition(i, each))
            self.store.add_beside(i, np.zeros(0, np.int32))
        self._watermark = BEFORE_TIME
        self._complete_from = BEFORE_TIME  # every row from this time on is held
        self._kept_from = BEFORE_TIME  # no row from this time on was evicted
        self._wake = np.zeros(0, np.int64)  # the watermark at which each key must be looked at
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

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        return bool(self.apart) or any(each.may_fail for each in self.bindings)

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what aggregates the rows of frames."""
        for each in self.bindings:
            yield Chosen(
                each.names, "a tree of rows", "rows in order and late ones in O(log n), a frame in O(1) combines"
            )
        if self.apart:
            yield Chosen(tuple(self.apart), "the aggregators of run", "their states have no fixed size")

    # ------------------------------------------------------------ rows in

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them have a frame of their own.

        A row held only by the frames of other rows is late: it has no answer of its own.
        """
        self._watermark = watermark
        order = _order(batch.keys, batch.times)
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
            self._complete_from = max(self._complete_from, int(rows.times[~taken].max()) + 1)
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

    def _wake_at(self, keys: Array, when: int) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self._wake):
            more = np.full(max(size, 2 * len(self._wake)) - len(self._wake), _NEVER, np.int64)
            self._wake = np.concatenate((self._wake, more))
        self._wake[keys] = when

    # ------------------------------------------------------------ frames out

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Return the frames that are due, or have changed since they were emitted; evict what is no longer needed."""
        active = np.flatnonzero(self._wake < _NEVER if early else self._wake <= watermark)
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
        fresh = _by_key(part.fresh, active)
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
        cursor = np.array([0, NONE, 0], np.int64)
        while not self.store.kernels.find_frames(self.store.tree, words, shape, moment, fresh, cursor, self._room):
            self._room = self._room.longer()
        return self._room.first_rows(int(cursor[2]))

    def _aggregates(self, part: _Definition, first: Array, last: Array) -> dict[str, Raw]:
        """Return the aggregates of ranges of rows, by name."""
        sees_all = part.hidden_until == BEFORE_TIME
        raw: dict[str, Raw] = {}
        for i, binding in enumerate(self.bindings if sees_all else ()):
            raw |= results_by_name(binding, self.store.answers(i, first, last))
        apart = self.apart if sees_all else self.plan.aggregates
        return raw | self._from_rows(part, apart, first, last) if apart else raw

    def _from_rows(
        self, part: _Definition, aggregates: Mapping[str, Aggregation], first: Array, last: Array
    ) -> dict[str, Raw]:
        """Return the aggregates of ranges by taking their rows, without those that the definition rejected."""
        places, begins, ends = self.store.listed(first, last)
        if part.hidden_until > BEFORE_TIME:
            seen = self.store.beside[part.window_id][places] != HIDDEN
            total = np.concatenate(([0], np.cumsum(seen)))
            places, begins, ends = places[seen], total[begins], total[ends]
        times = self.store.tree.times[places]
        return windows_of_rows(self.store.take(places), times, self.plan.time_type, begins, ends, aggregates)

    def _let_go(self, keys: Array, watermark: int) -> None:
        """Evict the rows of some keys that no frame needs, and note when to look at the keys again."""
        memory = max(part.memory for part in self._parts)
        until = less(watermark, memory) if watermark < END_OF_TIME else END_OF_TIME
        shapes = np.array([part.numbers for part in self._parts], np.int64).ravel()
        due = np.array([part.due(watermark) for part in self._parts], np.int64)
        gone = self.store.kernels.let_go(self.store.tree, keys, shapes, due, until, memory, self._wake)
        if gone > BEFORE_TIME:
            self._kept_from = max(self._kept_from, gone + 1)
            self._complete_from = max(self._complete_from, self._kept_from)
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
        reason = self.can(plan)
        if reason is not None:
            return super().add(window_id, definition, plan)
        part = self._definition(window_id, definition)
        part.looked_at = less(self._watermark, part.slack)
        _, places = self.store.rows()
        final = self.store.tree.times[places] <= part.final(self._watermark)
        self.store.add_beside(window_id, np.where(final, HELD, NEW).astype(np.int32))
        self._parts = [*self._parts, part]
        self.plan = plan
        self._wake_at(self.store.present, BEFORE_TIME)
        return self._complete_from

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition; the next push evicts what only it needed."""
        self._parts = [part for part in self._parts if part.window_id != window_id]
        del self.store.beside[window_id]
        self.plan = plan
        self._wake_at(self.store.present, BEFORE_TIME)

    # ------------------------------------------------------------ state

    def held_keys(self) -> Array:
        """Return the numbers of the keys with rows, ascending."""
        return self.store.present

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = {f"rows.{name}": array for name, array in self.store.save().items()}
        marks = [self._watermark, self._complete_from, self._kept_from]
        state["marks"] = np.array(marks, np.int64)
        state["wake"] = self._wake.copy()
        for part in self._parts:
            state[f"of.{part.window_id}"] = np.array([part.looked_at, part.hidden_until], np.int64)
            keys, times = _joined(part.fresh)
            state |= {f"of.{part.window_id}.keys": keys, f"of.{part.window_id}.times": times}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        self.store.load({name[5:]: array for name, array in state.items() if name.startswith("rows.")})
        self._watermark, self._complete_from, self._kept_from = map(int, state["marks"])
        self._wake = state["wake"].copy()
        for part in self._parts:
            part.looked_at, part.hidden_until = map(int, state[f"of.{part.window_id}"])
            keys, times = (state[f"of.{part.window_id}.{name}"] for name in ("keys", "times"))
            part.fresh = [(keys, times)] if len(keys) else []

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


def _order(keys: Array, times: Array) -> Array | None:
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


def _joined(fresh: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the keys and times of all pushes, sorted by these."""
    if not fresh:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(fresh) == 1:
        return fresh[0]
    keys, times = (np.concatenate(each) for each in zip(*fresh, strict=True))
    order = _order(keys, times)
    return (keys, times) if order is None else (keys[order], times[order])


def _by_key(fresh: list[tuple[Array, Array]], active: Array) -> Fresh:
    """Return the new rows of the keys to look at, which are among these."""
    keys, times = _joined(fresh)
    return Fresh(active, times, np.searchsorted(keys, active, "right"))
