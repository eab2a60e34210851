"""Rows in order: the strategy for all windows whose edges depend on rows.

The definitions of a query share one store, and so do rows of different definitions, as long as they admit the same
rows. When one refuses a late row that another takes, they part, and each goes on with a store of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import Raw, to_arrow
from muntin.arrays.runner import results_by_name, windows_of_rows
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.change import Change, Missing, under
from muntin.streams.decisions import ROWS
from muntin.streams.journal import Journal, Replayed
from muntin.streams.places import Places
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.adopting import adopted
from muntin.streams.rows.by_code import ByCode
from muntin.streams.rows.by_count import ByCount
from muntin.streams.rows.by_end import ByEnd
from muntin.streams.rows.by_gap import ByGap
from muntin.streams.rows.by_mark import ByMark
from muntin.streams.rows.by_number import ByNumber
from muntin.streams.rows.by_policy import ByPolicy
from muntin.streams.rows.by_step import ByStep
from muntin.streams.rows.by_time import ByTime
from muntin.streams.rows.by_value import ByValue
from muntin.streams.rows.by_zone import ByZone
from muntin.streams.rows.completing import completed
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.holistic import MovingWindows
from muntin.streams.rows.numbering import numbering_for
from muntin.streams.rows.part import OWN, REFUSED, Emission, Held, Moment, Part
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import LEAF, NODE
from muntin.streams.segments import Segment, Segmented
from muntin.streams.strategy import Batch, HeldBatch, KeyedState
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window

T = TypeVar("T")
NEVER = END_OF_TIME
"""A key that sleeps forever: nothing happens to it until a row comes, or the stream closes."""
PARTS: tuple[type[Part], ...] = (
    ByTime,
    ByNumber,
    ByEnd,
    ByGap,
    ByCount,
    ByStep,
    ByZone,
    ByMark,
    ByValue,
    ByCode,
    ByPolicy,
)
"""The kinds of windows over rows in order. The first that answers a definition takes it."""


def part_for(window: Window) -> type[Part] | None:
    """Return what answers a definition over rows in order; None if nothing does."""
    return next((each for each in PARTS if each.answers(window)), None)


@dataclass
class Group:
    """Definitions that admitted the same rows, and these rows."""

    store: RowStore
    parts: list[Part]
    complete_from: int = BEFORE_TIME
    """Every row from this time on is held."""
    kept_from: int = BEFORE_TIME
    """No row from this time on was evicted."""
    forgotten_at: int = BEFORE_TIME
    """The watermark at which keys were last forgotten."""
    fresh: list[tuple[Array, Array]] = field(default_factory=list)
    """The keys and times of rows since windows were last emitted, each push sorted by these."""
    wake: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """The watermark at which each key must be looked at."""

    # ------------------------------------------------------------ rows

    def divided(self, masks: Sequence[Array]) -> list[tuple[Group, Array]]:
        """Return this group, or several in its place, each with the one mask of rows that its definitions admit.

        Those that differ take copies of the rows with them. O(definitions), O(rows held) if they differ.
        """
        sets: list[tuple[Array, list[Part]]] = []
        for part, mask in zip(self.parts, masks, strict=True):
            mine = next((parts for known, parts in sets if np.array_equal(known, mask)), None)
            if mine is None:
                sets.append((mask, [part]))
            else:
                mine.append(part)
        if len(sets) == 1:
            return [(self, sets[0][0])]
        return [(self.with_parts(parts), mask) for mask, parts in sets]

    def with_parts(self, parts: list[Part]) -> Group:
        """Return a group of its own for some of the definitions, with the same rows. O(rows held)."""
        store = self.store.copy([name for part in parts for name in part.beside])
        return replace(self, store=store, parts=parts, fresh=list(self.fresh), wake=self.wake.copy())

    def insert(self, rows: Batch, verdicts: Sequence[Array], taken: Array) -> None:
        """Insert the admitted rows; `verdicts` are those of each definition."""
        if not taken.all():
            self.complete_from = max(self.complete_from, int(rows.times[~taken].max()) + 1)
            kept = np.flatnonzero(taken)
            rows, verdicts = rows.take(kept), [each[kept] for each in verdicts]
        if not len(rows.times):
            return
        beside: dict[str, Array] = {}
        for part, verdict in zip(self.parts, verdicts, strict=True):
            beside |= part.numbers(rows, verdict)
        self.store.insert(rows.keys, rows.times, rows.columns, beside)
        for part in self.parts:
            part.took(self.store, rows)
        self.fresh.append((rows.keys, rows.times))
        self.wake_at(rows.keys, BEFORE_TIME)

    def begin(self, held: HeldBatch, watermark: int) -> None:
        """Begin with rows that another strategy held. O(n)."""
        self.complete_from, self.kept_from = held.complete_from, held.kept_from
        rows = held.rows
        order = in_order(rows.keys, rows.times)
        rows = rows if order is None else rows.take(order)
        verdicts = [np.full(len(rows.times), OWN, np.int8) for _ in self.parts]
        self.insert(rows, verdicts, np.ones(len(rows.times), np.bool_))
        self.fresh = []
        for part in self.parts:
            part.begin(self.store, watermark)

    def wake_at(self, keys: Array, when: int) -> None:
        """Look at some keys at a watermark."""
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.wake):
            more = np.full(max(size, 2 * len(self.wake)) - len(self.wake), NEVER, np.int64)
            self.wake = np.concatenate((self.wake, more))
        self.wake[keys] = when

    def awake(self, watermark: int, early: bool) -> Array:
        """Return the keys to look at, ascending."""
        due = np.flatnonzero(self.wake[: self.store.keys] <= watermark)
        return np.union1d(self.store.present, due) if early else due

    # ------------------------------------------------------------ windows

    def emit(self, keys: Array, moment: Moment) -> Iterator[tuple[Part, Emission]]:
        """Yield the windows of some keys that are due or have changed."""
        fresh = by_key(self.fresh, keys)
        for part in self.parts:
            for emission in part.emit(self.store, fresh, moment):
                yield part, emission

    def let_go(self, keys: Array, watermark: int) -> None:
        """Evict the rows of some keys that no definition needs, and note when to look at the keys again."""
        if not len(keys):
            return
        needed, wake = np.full(len(keys), END_OF_TIME), np.full(len(keys), NEVER)
        for part in self.parts:
            part.let_go(self.store, keys, watermark, needed, wake)
        self.evict(keys, needed)
        self.wake_at(keys, BEFORE_TIME)
        self.wake[keys] = wake

    def evict(self, keys: Array, counts: Array) -> None:
        """Evict the first rows of keys, at most all."""
        latest = self.store.evict(keys, counts)
        if latest > BEFORE_TIME:
            for part in self.parts:
                part.evicted(self.store, keys, counts)
            self.kept_from = max(self.kept_from, latest + 1)
            self.complete_from = max(self.complete_from, self.kept_from)

    def held_keys(self) -> Array:
        """Return the keys of which anything is kept, ascending."""
        return reduce(np.union1d, (part.held_keys() for part in self.parts), self.store.present)

    def forget(self, keys: Array, watermark: int) -> None:
        """Forget keys, which start over with their next row."""
        self.evict(keys, np.full(len(keys), END_OF_TIME))
        for part in self.parts:
            part.forget(keys)
        self.wake_at(keys, NEVER)
        self.forgotten_at = watermark

    # ------------------------------------------------------------ state

    def save(self, segments: dict[str, list[Segment]] | None = None) -> dict[str, Array]:
        """Return the whole state, as arrays by name; given `segments`, all but the rows that are in these."""
        keys, times = joined(self.fresh)
        state = {
            "windows": np.array([part.window_id for part in self.parts], np.int64),
            "marks": np.array([self.complete_from, self.kept_from, self.forgotten_at], np.int64),
            "wake": self.wake.copy(),
            "fresh.keys": keys,
            "fresh.times": times,
        }
        rows, held = (self.store.save(), []) if segments is None else self.store.save_changes()
        if segments is not None and held:
            segments["rows."] = held
        state |= {f"rows.{name}": array for name, array in rows.items()}
        for part in self.parts:
            state |= {f"of.{part.window_id}.{name}": array for name, array in part.save().items()}
        return state

    def save_keys(self, keys: Array) -> KeyedState:
        """Return what answers points of some keys, without the numbers beside rows: these are of emitted windows."""
        known = keys[keys < self.store.keys]
        owners, places = self.store.rows(known)
        rows = self.store.as_arrays(np.searchsorted(keys, owners), places)
        words = {f"beside.{name}" for part in self.parts for name in part.beside}
        numbers = {
            f"of.{part.window_id}.{name}": each for part in self.parts for name, each in part.numbers_of(keys).items()
        }
        whole = {f"of.{part.window_id}.{name}": each for part in self.parts for name, each in part.save().items()}
        return KeyedState(
            {"windows": np.array([part.window_id for part in self.parts], np.int64)},
            {
                "marks": np.array([self.complete_from, self.kept_from, self.forgotten_at], np.int64),
                **{name: each for name, each in whole.items() if name not in numbers},
            },
            numbers,
            {"rows": {name: each for name, each in rows.items() if name not in words}},
        )

    def load_keys(self, state: Mapping[str, Array], keys: int) -> None:
        """Replace the state by one that `save_keys` returned, of a group of the same definitions."""
        rows: dict[str, Array] = {}
        parts: dict[str, dict[str, Array]] = {str(part.window_id): {} for part in self.parts}
        for name, held in state.items():
            if name.startswith("rows."):
                rows[name[len("rows.") :]] = held
            elif name.startswith("of."):
                _, whose, mine = name.split(".", 2)
                parts[whose][mine] = held
        for part in self.parts:
            rows |= {f"beside.{name}": np.zeros(len(rows["keys"]), kind) for name, kind in part.beside.items()}
        self.complete_from, self.kept_from, self.forgotten_at = map(int, state["marks"])
        self.store.load(rows)
        self.store.know_keys(keys)
        for part in self.parts:
            part.load(parts[str(part.window_id)])

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a group of the same definitions."""
        self.complete_from, self.kept_from, self.forgotten_at = map(int, state["marks"])
        self.wake = state["wake"].copy()
        self.fresh = [(state["fresh.keys"], state["fresh.times"])] if len(state["fresh.keys"]) else []
        self.store.load(under("rows.", state))
        self.store.know_keys(int(np.flatnonzero(self.wake < NEVER).max(initial=-1)) + 1)
        for part in self.parts:
            part.load(under(f"of.{part.window_id}.", state))


class Rows(Replayed):
    """Rows in the order of time, in a tree for each key, with the states of its nodes.

    A push of m rows takes O(m log n) for n rows held, in order O(m), and O(1) combines, amortised, for each window that
    it answers; late rows answer the windows that hold them again. Quantiles and distinct counts have the values of a
    window in a multiset, which follows it in O(log n) a row; other aggregations whose states have no fixed size take
    the rows of these windows. Rows are evicted when no window that may still change needs them.
    """

    keeps = ROWS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.bindings, self.apart, self.moving = self._bound(plan)
        parts = [self._part(i, each) for i, each in plan.windows.items()]
        together = [part for part in parts if not part.is_apart]
        self.groups = [self._group(mine) for mine in (together, *([part] for part in parts if part.is_apart)) if mine]
        self._watermark = BEFORE_TIME

    def _bound(self, plan: Plan) -> tuple[list[Binding], dict[str, Aggregation], dict[str, Aggregation]]:
        """Return the aggregates whose states nodes can hold, fused; those that need all rows, and those of values."""
        return _bindings(plan)

    def _part(self, window_id: int, window: Window) -> Part:
        kind = part_for(window)
        assert kind is not None
        return kind(window_id, window, self.plan)

    def _group(self, parts: list[Part]) -> Group:
        bindings = [*self.bindings, *(own for part in parts for own in part.bindings)]
        store = RowStore(self.plan.types, bindings, moving=self.moving)
        for part in parts:
            store.beside |= {name: np.zeros(0, kind) for name, kind in part.beside.items()}
        return Group(store, parts)

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why a plan has other windows than those over rows in order, or None."""
        other = [each for each in plan.windows.values() if part_for(each) is None]
        return f"{other[0]!r} has no edges that rows in order tell" if other else None

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error."""
        values_fail = bool(self.apart or self.moving) or any(each.may_fail for each in self.bindings)
        return values_fail or any(part.may_fail for part in self._parts)

    @property
    def row_bytes(self) -> int | None:
        """The bytes of a row: its time, what is read of it, its numbers, and its share of a full leaf."""
        columns = sum(kind.physical.itemsize for kind in self.plan.types.values())
        masks = sum(len(each.masks) for each in self.bindings)
        beside = sum(np.dtype(kind).itemsize for part in self._parts for kind in part.beside.values())
        leaf = NODE * 8 + sum(each.dtype.itemsize for each in self.bindings)
        moving = MovingWindows(self.moving, self.plan.types)
        values = moving.row_bytes + moving.value_bytes * len(self.plan.windows)
        return 8 + columns + masks + beside + values + -(-leaf // LEAF)

    @property
    def besides(self) -> str:
        """Emitted windows, if any may still change."""
        return "more for emitted windows that may still change" if any(each.remembers for each in self._parts) else ""

    def how(self, window_id: int) -> str:
        """Return how it finds the windows of a definition, and what a push costs."""
        return next(part.how for part in self._parts if part.window_id == window_id)

    @property
    def _parts(self) -> Iterator[Part]:
        return (part for group in self.groups for part in group.parts)

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what aggregates the rows of windows."""
        for each in self.bindings:
            yield Chosen(each.names, "a tree of rows", "O(log n) combines a late row, O(1) a row in order and a window")
        if self.moving:
            what = "O(log n) for each row that enters a window or leaves it"
            yield Chosen(tuple(self.moving), "a multiset of values", what)
        if self.apart:
            yield Chosen(tuple(self.apart), "the aggregators of run", "their states have no fixed size")

    # ------------------------------------------------------------ rows in

    def _take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them have a window of their own.

        A row held only by the windows of other rows is late: it has no answer of its own.
        """
        self._watermark = watermark
        order = in_order(batch.keys, batch.times)
        rows = batch if order is None else batch.take(order)
        own = np.zeros(len(rows.times), np.bool_)
        groups: list[Group] = []
        for group in self.groups:
            verdicts = {part.window_id: part.admit(group.store, rows, watermark) for part in group.parts}
            for mine, taken in group.divided([verdicts[part.window_id] != REFUSED for part in group.parts]):
                mine.insert(rows, [verdicts[part.window_id] for part in mine.parts], taken)
                groups.append(mine)
            for verdict in verdicts.values():
                own |= verdict == OWN
        self.groups = groups
        if order is None:
            return own
        result = np.empty(len(own), np.bool_)
        result[order] = own
        return result

    # ------------------------------------------------------------ windows out

    def _emit(self, watermark: int, horizon: int, early: bool) -> list[Answers]:
        """Return the windows that are due, or have changed since they were emitted; evict what is no longer needed."""
        moment = Moment(self._watermark, watermark, horizon, early)
        answers: list[Answers] = []
        for group in self.groups:
            keys = group.awake(watermark, early)
            answers += self._answered(group.store, group.emit(keys, moment))
            group.fresh = []
            group.let_go(keys, watermark)
        self._watermark = watermark
        return answers

    def _answered(self, store: RowStore, emissions: Iterable[tuple[Part, Emission]]) -> list[Answers]:
        return [self._answers(store, part, each) for part, each in emissions if len(each.keys)]

    def _answers(self, store: RowStore, part: Part, each: Emission) -> Answers:
        count = len(each.keys)
        if each.is_retracted:
            aggregates: dict[str, Any] = {name: pa.nulls(count) for name in self.plan.aggregates}
        else:
            raw = self._of_windows(store, part, each)
            aggregates = {name: to_arrow(raw[name], each.end) for name in self.plan.aggregates}
        return Answers(
            each.keys,
            np.full(count, part.window_id, np.int64),
            each.start,
            each.end,
            aggregates,
            each.revisions,
            np.full(count, each.is_retracted),
            rows=each.rows,
            values=each.values,
            at=each.at,
        )

    def _of_windows(self, store: RowStore, part: Part, each: Emission) -> Mapping[str, Raw]:
        """Return the aggregates of windows, by name."""
        if each.places is not None:
            times, rows = store.tree.times[each.places], store.take(each.places)
            return windows_of_rows(rows, times, self.plan.time_type, each.first, each.last, self.plan.aggregates)
        raw = self._of_ranges(store, each.first, each.last, self.apart)
        return raw | store.moving.answer(store, part.window_id, each.keys, each.first, each.last)

    def _of_ranges(
        self, store: RowStore, first: Array, last: Array, apart: Mapping[str, Aggregation]
    ) -> dict[str, Raw]:
        """Return the aggregates of ranges of rows by name; those of `apart` from all rows."""
        raw: dict[str, Raw] = {}
        for i, binding in enumerate(self.bindings):
            raw |= results_by_name(binding, store.answers(i, first, last))
        if apart:
            places, begins, ends = store.listed(first, last)
            times = store.tree.times[places]
            raw |= windows_of_rows(store.take(places), times, self.plan.time_type, begins, ends, apart)
        return raw

    def held_keys(self) -> Array:
        """Return the keys of which anything is kept, ascending."""
        return reduce(np.union1d, (group.held_keys() for group in self.groups))

    def kept_for_ever(self) -> Array:
        """Return the keys whose last rows stay."""
        held = (group.held_keys() for group in self.groups if any(part.for_ever for part in group.parts))
        return reduce(np.union1d, held, np.zeros(0, np.int64))

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys, which start over with their next row; return their remaining windows. O(rows of the keys)."""
        chosen = np.intersect1d(keys, self.kept_for_ever())
        if not len(chosen):
            return []
        answers = self._close_keys(chosen, horizon)
        self._journal.note(1, lambda: self._close_keys(chosen, horizon))
        return answers

    def _close_keys(self, keys: Array, horizon: int) -> list[Answers]:
        moment = Moment(self._watermark, END_OF_TIME, horizon)
        answers: list[Answers] = []
        for group in self.groups:
            if any(part.for_ever for part in group.parts):
                answers += self._answered(group.store, _closing(group, keys, moment))
        return answers

    # ------------------------------------------------------------ points

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points. O(log n) each at worst, amortised O(1) combines for those of a key."""
        for group in self.groups:
            held = Held(group.store, group.kept_from, group.forgotten_at)
            for part in group.parts:
                if part.window_id in complete_from:
                    first, last, ends = part.frames_at(held, points, complete_from[part.window_id])
                    # Points may be anywhere: multisets stay where the windows of the stream are.
                    with self._in_words():
                        raw = self._of_ranges(group.store, first, last, {**self.apart, **self.moving})
                    begins = part.begins_at(group.store, points, first, last)
                    yield FramesAtPoints([part.window_id], raw, ends, begins)

    # ------------------------------------------------------------ definitions

    def rows_held(self) -> HeldBatch | None:
        """Return the rows of the group that lacks fewest, by key and time. O(n)."""
        group = self._whole
        keys, places = group.store.rows()
        rows = Batch(keys, group.store.tree.times[places], group.store.take(places))
        return HeldBatch(rows, self._watermark, group.complete_from, group.kept_from)

    @property
    def _whole(self) -> Group:
        return min(self.groups, key=lambda group: group.complete_from)

    def begin(self, held: HeldBatch) -> int | None:
        """Begin with these rows; return the time from which they are complete. O(n)."""
        self._watermark = held.watermark
        for group in self.groups:
            group.begin(held, self._watermark)
        return self._whole.complete_from

    def begin_at(self, since: int) -> None:
        """Note that rows before a time were never given."""
        for group in self.groups:
            group.complete_from = since

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition, from the rows held. O(n)."""
        if self.can(plan) is not None:
            return super().add(window_id, definition, plan)
        self.plan = plan
        part, group = self._part(window_id, definition), self._whole
        if part.is_apart or any(each.is_apart for each in group.parts):
            held, group = self.rows_held(), self._group([part])
            assert held is not None
            group.begin(held, self._watermark)
            self.groups = [*self.groups, group]
        else:
            for name, kind in part.beside.items():
                group.store.add_beside(name, np.zeros(len(group.store), kind))
            group.parts = [*group.parts, part]
            part.begin(group.store, self._watermark)
        self._changed()
        return group.complete_from

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition; the next push evicts what only it needed."""
        self.plan = plan
        for group in self.groups:
            for part in group.parts:
                if part.window_id == window_id:
                    group.store.drop_beside(part.beside)
                    group.store.moving.drop(window_id)
            group.parts = [part for part in group.parts if part.window_id != window_id]
        self.groups = [group for group in self.groups if group.parts]
        self._changed()

    def _changed(self) -> None:
        """Answer other definitions from now on: calls before cannot be replayed."""
        self._journal = Journal(self)
        for group in self.groups:
            group.wake_at(group.store.present, BEFORE_TIME)

    # ------------------------------------------------------------ state

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current rows and definitions."""
        rows, plan, journal = super().restore_point(), self.plan, self._journal

        def restore() -> None:
            self.plan, self._journal = plan, journal
            rows()

        return restore

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        return self._save(None)

    def save_changes(self) -> tuple[dict[str, Array], dict[str, list[Segment]]]:
        """Return the state with its rows in segments, of which those that changed have arrays."""
        segments: dict[str, list[Segment]] = {}
        return self._save(segments), segments

    def _save(self, segments: dict[str, list[Segment]] | None) -> dict[str, Array]:
        state = {"watermark": np.array([self._watermark], np.int64), "groups": np.array([len(self.groups)], np.int64)}
        for i, group in enumerate(self.groups):
            mine: dict[str, list[Segment]] | None = None if segments is None else {}
            state |= {f"{i}.{name}": array for name, array in group.save(mine).items()}
            if segments is not None and mine:
                segments |= {f"{i}.{name}": each for name, each in mine.items()}
        return state

    def go_on_from(self, known: Mapping[str, Segmented]) -> None:
        """Note the segments that the state was loaded from."""
        for i, group in enumerate(self.groups):
            if f"{i}.rows." in known:
                group.store.go_on_from(known[f"{i}.rows."])

    @property
    def places(self) -> tuple[Places, ...]:
        """Nothing: rows are kept by the names of their columns."""
        return ()

    def require_loadable(self, state: Mapping[str, Array]) -> None:
        """Reject a state with other arrays."""
        self.groups = self.empty_groups(state) if "groups" in state else self.groups
        super().require_loadable(state)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        self._watermark = int(state["watermark"][0])
        self.groups = self.empty_groups(state)
        for i, group in enumerate(self.groups):
            group.load(under(f"{i}.", state))

    def save_keys(self, keys: Array) -> KeyedState:
        """Return what answers points of some keys. O(rows of the keys)."""
        groups = [group.save_keys(keys) for group in self.groups]
        return KeyedState(
            {"groups": np.array([len(groups)], np.int64), **_numbered(each.fixed for each in groups)},
            {"watermark": np.array([self._watermark], np.int64), **_numbered(each.marks for each in groups)},
            _numbered(each.numbers for each in groups),
            _numbered(each.tables for each in groups),
        )

    def load_keys(self, state: Mapping[str, Array], keys: int) -> None:
        """Replace the state by that of some keys. O(rows)."""
        self._watermark = int(state["watermark"][0])
        members = [state[f"{i}.windows"].tolist() for i in range(int(state["groups"][0]))]
        if members != [[part.window_id for part in group.parts] for group in self.groups]:
            self.groups = self.empty_groups(state)
        for i, group in enumerate(self.groups):
            group.load_keys(under(f"{i}.", state), keys)

    def empty_groups(self, state: Mapping[str, Array]) -> list[Group]:
        """Return groups without rows, of the definitions that those of a state have."""
        members = (state[f"{i}.windows"].tolist() for i in range(int(state["groups"][0])))
        return [self._group([self._part(j, self.plan.windows[j]) for j in mine]) for mine in members]

    def adopt(self, saved: Mapping[str, Array], change: Change) -> None:
        """Go on with the rows of a state that other definitions and aggregates saved. O(n)."""
        self.load(adopted(self, saved, change))
        for group in self.groups:
            for part in group.parts:
                part.adopt(group.store, change)
            group.wake_at(group.held_keys(), BEFORE_TIME)

    def complete(self, batch: Batch, missing: Missing) -> None:
        """Give aggregates that came later the rows of a history. O(state + rows)."""
        self.load(completed(self, batch, missing))
        for group in self.groups:
            group.wake_at(group.held_keys(), BEFORE_TIME)

    def metrics(self) -> dict[str, int]:
        """Return the number of rows held, how often edges came between rows, and the bytes of state."""
        size = sum(group.store.nbytes + group.wake.nbytes for group in self.groups)
        return {
            "kept": sum(len(group.store) for group in self.groups),
            "splits": sum(part.splits for part in self._parts),
            "bytes": size + sum(part.nbytes for part in self._parts),
        }

    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
        for group in self.groups:
            group.store.check()
            for part in group.parts:
                part.check(group.store)


def _closing(group: Group, keys: Array, moment: Moment) -> Iterator[tuple[Part, Emission]]:
    """Yield the remaining windows of keys, then forget the keys."""
    yield from group.emit(keys, moment)
    group.forget(keys, moment.before)


def _bindings(plan: Plan) -> tuple[list[Binding], dict[str, Aggregation], dict[str, Aggregation]]:
    """Return the aggregates whose states nodes can hold, fused; those that need all rows, and those of their values."""
    aggregates = plan.aggregates
    kinds = {name: "holistic" if each.kind == "holistic" else "" for name, each in aggregates.items()}
    groups = run_together(aggregates, lambda some: plan.bind(some, gaps=True), lambda name, _: kinds[name])
    bindings = [plan.bind(each, gaps=True) for each in groups]
    grows = {name for each in bindings if not each.fixed for name in each.names if kinds[name]}
    rest = {name: each for name, each in aggregates.items() if name in grows}
    moving = {name: each for name, each in rest.items() if numbering_for(each, plan.types) is not None}
    apart = {name: each for name, each in rest.items() if name not in moving}
    return [each for each in bindings if grows.isdisjoint(each.names)], apart, moving


def _numbered(named: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Return what groups have by name, under their numbers."""
    return {f"{i}.{name}": held for i, each in enumerate(named) for name, held in each.items()}


def in_order(keys: Array, times: Array) -> Array | None:
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


def joined(fresh: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the keys and times of rows of several pushes, sorted by these."""
    if not fresh:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if len(fresh) == 1:
        return fresh[0]
    keys, times = (np.concatenate(each) for each in zip(*fresh, strict=True))
    order = in_order(keys, times)
    return (keys, times) if order is None else (keys[order], times[order])


def by_key(fresh: list[tuple[Array, Array]], keys: Array) -> Fresh:
    """Return the new rows of the keys to look at, which are among these."""
    owners, times = joined(fresh)
    return Fresh(keys, times, np.searchsorted(owners, keys, "right"))
