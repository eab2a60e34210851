"""General stream slicing: rows become slices, which all windows by time and all sessions of a query share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.aggregators.states import States
from muntin.columns import Column, boxed, mask_of
from muntin.errors import InvariantError
from muntin.slicing.blocks import ARENA, LENGTHS, MARKS, MERGES, SLICES, TOP, USED
from muntin.slicing.due import CUMULATIVE, DUE, SLIDING
from muntin.slicing.late import LATE
from muntin.slicing.merge import LAZY, TREE
from muntin.slicing.purge import PURGE
from muntin.slicing.records import Found, Records, matched
from muntin.slicing.results import to_arrow
from muntin.slicing.slicer import ROW, SLICER
from muntin.slicing.strategy import BEFORE_TIME, END_OF_TIME, Answers, Batch, Plan, Strategy
from muntin.types import Array
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding

KERNELS = (*ARENA, *SLICER, *DUE, *LATE, *PURGE, *LAZY, *TREE)
_MANY_KEYS = 4096
"""From so many keys on, rows are put into the order of their keys first: slices are then met in the order of memory."""

ENTRIES = (
    "order_by_key",
    "take_rows",
    "take_late_rows",
    "due_windows",
    "purge",
    "fold_windows",
    "query_windows",
    "count_rows",
)


@dataclass(frozen=True)
class Shapes:
    """The definitions of a plan as arrays: windows by time first, then sessions."""

    ids: Array
    kinds: Array
    lengths: Array
    everys: Array
    offsets: Array
    gaps: Array
    steps: Array
    phases: Array

    @classmethod
    def of(cls, windows: Mapping[int, Any]) -> Shapes:
        """Read resolved definitions."""
        timed = {i: each for i, each in windows.items() if isinstance(each, Sliding | Cumulative)}
        sessions = {i: each for i, each in windows.items() if isinstance(each, Session)}
        steps, phases = _progressions(timed.values())
        return cls(
            ids=_ints([*timed, *sessions]),
            kinds=_ints(SLIDING if isinstance(each, Sliding) else CUMULATIVE for each in timed.values()),
            lengths=_ints(each.range for each in timed.values()),
            everys=_ints(each.every for each in timed.values()),
            offsets=_ints(each.offset for each in timed.values()),
            gaps=_ints(each.gap for each in sessions.values()),
            steps=steps,
            phases=phases,
        )

    @property
    def timed(self) -> tuple[Array, Array, Array, Array]:
        """The windows by time, as kernels take them."""
        return self.kinds, self.lengths, self.everys, self.offsets

    @property
    def gap(self) -> int:
        """The smallest gap of a session, which no slice may span; -1 where there is none."""
        return int(self.gaps.min()) if len(self.gaps) else -1

    def first_needed(self, watermark: int, lateness: int) -> int:
        """Return the least time that a window by time which is not settled can begin at."""
        if watermark == END_OF_TIME or not len(self.kinds):
            return END_OF_TIME
        settled = watermark - lateness
        ends = settled + self.everys - (settled - self.offsets - self.lengths) % self.everys
        origins = ends - 1 - (ends - 1 - self.offsets) % self.lengths
        return int(np.where(self.kinds == SLIDING, ends - self.lengths, origins).min())


def _ints(values: Iterable[int]) -> Array:
    return np.array(list(values), np.int64)


def _longer(array: Array, length: int, fill: int | None = None) -> Array:
    """Return a longer array; pages beyond what is copied stay untouched unless there is something to fill in."""
    longer = np.empty(length, np.int64)
    longer[: len(array)] = array
    if fill is not None:
        longer[len(array) :] = fill
    return longer


def _progressions(windows: Iterable[Any]) -> tuple[Array, Array]:
    """Return all times at which windows begin or end as progressions (step, phase); none is part of another."""
    pairs = set()
    for each in windows:
        pairs.add((each.every, each.offset % each.every))
        if isinstance(each, Sliding):
            pairs.add((each.every, (each.offset + each.range) % each.every))
    kept: list[tuple[int, int]] = []
    for step, phase in sorted(pairs):
        known = np.array(kept, np.int64).reshape(-1, 2)
        if not bool(((step % known[:, 0] == 0) & (phase % known[:, 0] == known[:, 1])).any()):
            kept.append((step, phase))
    return _ints(step for step, _ in kept), _ints(phase for _, phase in kept)


class SliceSet:
    """The slices of all keys, with the states of aggregations that are run together."""

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, tree: bool) -> None:
        self.binding = binding
        self.shapes = shapes
        self.watched = watched
        self.has_tree = tree
        self.marks = np.zeros(MARKS, np.int64)
        self.free = np.full(LENGTHS, -1, np.int64)
        self.cursor = _ints([1, 0, 0])
        self.expected = 64
        self.coming = np.full(len(shapes.steps), BEFORE_TIME, np.int64) + shapes.steps
        self.base = np.full(0, -1, np.int64)
        self.length, self.head, self.size, self.stale = (np.zeros(0, np.int64) for _ in range(4))
        self.low, self.high, self.first, self.last, self.count, self.skip = (np.zeros(0, np.int64) for _ in range(6))
        self.states, self.tree = binding.slots(0), binding.slots(0)
        self._make_room(64)

    @cached_property
    def module(self) -> Any:
        """The kernels."""
        return self.binding.kernels(KERNELS, *ENTRIES)

    def _make_room(self, slots: int) -> None:
        """Make the arrays so many slots long, keeping what they hold."""
        watched = slots if self.watched else 0
        self.low, self.high = _longer(self.low, slots), _longer(self.high, slots)
        self.first, self.last = _longer(self.first, watched), _longer(self.last, watched)
        self.count, self.skip = _longer(self.count, watched), _longer(self.skip, watched, 0)
        self.states = self._more_states(self.states, slots)
        self.tree = self._more_states(self.tree, slots if self.has_tree else 0)

    def _more_states(self, states: Array, slots: int) -> Array:
        longer = self.binding.slots(slots)
        if self.binding.fixed:  # as bytes: NumPy copies records field by field
            longer.view(np.uint8)[: states.nbytes] = states.view(np.uint8)
        else:
            longer[: len(states)] = states
        return longer

    @property
    def arena(self) -> tuple[Array, ...]:
        """The arrays of slices, as kernels take them."""
        nothing = np.zeros(0, np.int64)
        return (self.low, self.high, self.first, self.last, self.count, self.skip, nothing, nothing, self.states)

    @property
    def blocks(self) -> tuple[Array, ...]:
        """Where the slices of each key are, as kernels take it."""
        return self.base, self.length, self.head, self.size, self.stale

    def know_keys(self, count: int) -> None:
        """Be ready for keys up to a number."""
        if count > len(self.base):
            capacity = max(count, 2 * len(self.base))
            self.base = _longer(self.base, capacity, fill=-1)
            self.length, self.head = _longer(self.length, capacity, 0), _longer(self.head, capacity, 0)
            self.size, self.stale = _longer(self.size, capacity, 0), _longer(self.stale, capacity, 0)

    def inputs(self, columns: Mapping[str, Column], rows: int) -> tuple[Array, ...]:
        """Return what `lift` reads of the columns."""
        used = [columns[name] for name in self.binding.columns]
        masks = [mask_of([used[p] for p in positions], skip_nan, rows) for positions, skip_nan in self.binding.masks]
        values = [boxed(column) if self.binding.boxed(c) else column.values for c, column in enumerate(used)]
        return (*values, *masks)

    def order_by_key(self, keys: Array, top: int) -> Array:
        """Return the rows in the order of their keys, which are below `top`."""
        if top > 16 * len(keys):
            return np.argsort(keys, kind="stable")
        order = np.empty(len(keys), np.int64)
        self.module.order_by_key(keys, np.zeros(top, np.int64), order)
        return order

    def take(self, batch: Batch) -> None:
        """Put rows into slices."""
        self._resuming("take_rows", batch)

    def take_late(self, batch: Batch, lateness: int, watermark: int) -> Array:
        """Put rows behind the watermark, which ascend in time, into slices; return which of them a window took."""
        taken = np.zeros(len(batch.times), np.bool_)
        self._resuming("take_late_rows", batch, self.shapes.timed, self.shapes.gaps, lateness, watermark, taken)
        return taken

    def _resuming(self, name: str, batch: Batch, *further: Any) -> None:
        """Run a kernel over rows, again with more memory where it stopped for lack of it."""
        rows = (batch.keys, batch.times)
        inputs = self.inputs(batch.columns, len(batch.times))
        kernel = getattr(self.module, name)
        self.cursor[ROW] = 0
        edges = (self.shapes.steps, self.shapes.phases, self.coming)
        gap = self.shapes.gap
        while not kernel(
            rows, inputs, self.arena, self.blocks, self.marks, self.free, edges, self.cursor, gap, *further
        ):
            self._make_room(4 * len(self.low))  # pages that no slice reaches are never touched

    def find(self, chosen: Array, after: tuple[int, int], until: int) -> Found:
        """Return the windows of some keys that end in (after, until]."""
        fixed = (self.arena, self.blocks, chosen, self.shapes.timed, self.shapes.gaps, _ints(after), until)
        found = Found.of_length(self.expected)
        count = self.module.due_windows(*fixed, found.arrays)
        if count > self.expected:
            found = Found.of_length(count)
            self.module.due_windows(*fixed, found.arrays)
        self.expected = max(64, count + count // 4)  # as many as now, and some more, will be found the next time
        rows = np.zeros(count if self.watched else 0, np.int64)
        found = found.cut(count, rows)
        if self.watched:
            self.module.count_rows(self.arena, found.arrays, len(self.shapes.kinds), rows)
        return found

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name."""
        outputs = self.binding.outputs(len(found.keys))
        if len(found.keys):
            shift = len(self.shapes.kinds)
            if self.has_tree and not self.has_gaps:
                self.module.query_windows(self.arena, self.tree, self.blocks, found.arrays, outputs)
            else:
                self.module.fold_windows(self.arena, found.arrays, shift, outputs)
        triples = zip(self.binding.names, self.binding.results, self.binding.raw_results(outputs), strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    @property
    def has_gaps(self) -> bool:
        """Whether sessions skip slices in their midst, so that no tree can answer for them."""
        return bool(len(self.shapes.gaps)) and bool(self.skip[: self.marks[TOP]].any())

    def purge(self, chosen: Array, needed: int, watermark: int, lateness: int) -> None:
        """Let slices go that no window needs any more."""
        store = (self.arena, self.blocks, self.marks, self.free)
        self.module.purge(*store, chosen, needed, self.shapes.gap, self.shapes.gaps, watermark, lateness)

    def held(self) -> Array:
        """Return the keys that have slices."""
        return np.flatnonzero(self.size > 0)

    def slots(self) -> tuple[Array, Array, Array]:
        """Return the keys that have slices, how many each has, and all slots in order."""
        keys = self.held()
        sizes = self.size[keys]
        begins = self.base[keys] + self.head[keys]
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return keys, sizes, np.repeat(begins, sizes) + within

    def save(self) -> dict[str, Array]:
        """Return the slices, one key after the other."""
        keys, sizes, slots = self.slots()
        arrays = {"keys": keys, "sizes": sizes, "low": self.low[slots], "high": self.high[slots]}
        if self.watched:
            arrays |= {name: getattr(self, name)[slots] for name in ("first", "last", "count", "skip")}
        return arrays | {"states": self.states[slots], "merges": self.marks[MERGES : MERGES + 1].copy()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over slices that `save` returned."""
        fresh = SliceSet(self.binding, self.shapes, watched=self.watched, tree=self.has_tree)
        self.__dict__.update({name: value for name, value in fresh.__dict__.items() if name != "module"})
        keys, sizes = arrays["keys"], arrays["sizes"]
        self.know_keys(int(keys.max()) + 1 if len(keys) else 0)
        lengths = np.maximum(2, np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64))
        rooms = np.left_shift(1, lengths)
        base = np.cumsum(rooms) - rooms
        self._make_room(max(64, int(rooms.sum())))
        self.base[keys], self.length[keys], self.size[keys] = base, lengths, sizes
        self.marks[TOP] = self.marks[USED] = int(rooms.sum())
        self.marks[SLICES] = int(sizes.sum())
        self.marks[MERGES] = int(arrays["merges"][0])
        _, _, slots = self.slots()
        self.low[slots], self.high[slots] = arrays["low"], arrays["high"]
        if self.watched:
            for name in ("first", "last", "count", "skip"):
                getattr(self, name)[slots] = arrays[name]
        self.states[slots] = States(self.binding).revived(arrays["states"].copy())

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use."""
        each = 2 * 8 + (4 * 8 if self.watched else 0) + self.states.itemsize * (1 + self.has_tree)
        return int(self.marks[USED]) * int(each) + 5 * 8 * len(self.base)

    def check(self) -> None:
        """Raise `InvariantError` where slices contradict each other."""
        keys, sizes, slots = self.slots()
        starts = np.cumsum(sizes) - sizes
        inner = np.ones(len(slots), np.bool_)
        inner[starts] = False
        low, high = self.low[slots], self.high[slots]
        _require(int(self.marks[SLICES]) == len(slots), "the number of slices is not that of the slots in use")
        _require(bool((low < high).all()), "a slice ends before it begins")
        _require(bool((low[inner] >= low[np.flatnonzero(inner) - 1]).all()), "slices are out of order")
        if self.shapes.gap < 0:
            before = high[np.flatnonzero(inner) - 1]
            _require(bool((low[inner] >= before).all()), "slices overlap")
        if self.watched and self.shapes.gap >= 0:
            self._check_rows(slots, np.flatnonzero(inner))
        _require(bool((self.base[keys] >= 0).all()), "a key with slices has no block")

    def _check_rows(self, slots: Array, inner: Array) -> None:
        first, last, skip = self.first[slots], self.last[slots], self.skip[slots]
        low, high = self.low[slots], self.high[slots]
        plain = skip == 0
        _require(bool(((low <= first) & (first <= last))[plain].all()), "a slice has a row before its edge")
        _require(bool((last < high)[plain].all()), "a slice has a row at its end or after")
        _require(bool((self.count[slots] > 0).all()), "a slice has no rows")
        _require(bool((last[inner] >= last[inner - 1]).all()), "the last rows of slices do not ascend")
        both = inner[plain[inner] & plain[inner - 1] & (low[inner] == low[inner - 1])]
        _require(bool((first[both] > last[both - 1] + self.shapes.gap).all()), "two slices should have been one")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(f"Slices: {message}")


class Slices(Strategy):
    """Slices for windows by time and sessions, of aggregations that commute, or of rows that come in order.

    A push is one pass over its rows, whatever the number of windows; a window takes one combine for each of its slices,
    or O(log n) with a tree.
    """

    def __init__(self, plan: Plan, *, tree: bool = False) -> None:
        super().__init__(plan)
        self.shapes = Shapes.of(plan.windows)
        watched = bool(len(self.shapes.gaps)) or plan.lateness > 0 or plan.early
        self.sets = [SliceSet(binding, self.shapes, watched=watched, tree=tree) for binding in _groups(plan)]
        self.records = Records.empty()
        self.watermark = BEFORE_TIME
        self._before: tuple[Array, Found] | None = None

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why slices cannot answer a plan, or None if they can."""
        for each in plan.windows.values():
            if not isinstance(each, Sliding | Cumulative | Session):
                return f"{each!r} needs the rows themselves"
        if plan.emit_empty:
            return "windows without rows have no slices"
        for name, aggregation in plan.aggregates.items():
            if not aggregation.commutative:
                return f"{name} depends on the order of rows, which may come out of order"
        return None

    @property
    def _unsettled(self) -> tuple[int, int]:
        """The times after which windows that have ended may still change: of windows by time, and of sessions."""
        if self.watermark == BEFORE_TIME:
            return BEFORE_TIME, BEFORE_TIME
        lateness = self.plan.lateness
        return self.watermark - lateness, self.watermark - max(lateness, 1)

    def take(self, batch: Batch, watermark: int) -> Array:
        """Put the rows into slices. O(1) combines a row."""
        if not len(batch.times):
            return np.ones(0, np.bool_)
        top = int(batch.keys.max()) + 1
        for each in self.sets:
            each.know_keys(top)
        if top > _MANY_KEYS:
            order = self.sets[0].order_by_key(batch.keys, top)
            return _put_back(self._take(_rows_of(batch, order), watermark), order)
        return self._take(batch, watermark)

    def _take(self, batch: Batch, watermark: int) -> Array:
        taken = np.ones(len(batch.times), np.bool_)
        least = int(batch.times.min())
        if least > watermark or (least == watermark and not len(self.shapes.gaps)) or watermark == BEFORE_TIME:
            for each in self.sets:
                each.take(batch)
            return taken
        self._remember(batch, watermark)
        behind = np.flatnonzero(batch.times < watermark)
        behind = behind[np.argsort(batch.times[behind], kind="stable")]
        punctual = np.flatnonzero(batch.times >= watermark)
        late, others = _rows_of(batch, behind), _rows_of(batch, punctual)
        for each in self.sets:
            taken[behind] = each.take_late(late, self.plan.lateness, watermark)
            each.take(others)
        return taken

    def _remember(self, batch: Batch, watermark: int) -> None:
        """Note the windows that were emitted and may change now, as they are before the rows that change them."""
        if self.sets[0].watched:
            limit = watermark if len(self.shapes.gaps) else watermark - 1
            chosen = np.unique(batch.keys[batch.times <= limit])
            self._before = chosen, self.sets[0].find(chosen, self._unsettled, watermark)

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Answer the windows that end by the watermark. O(slices) combines a window, O(log n) with a tree."""
        chosen = self.sets[0].held()
        if self.plan.early:
            answers = self._emit_recorded(chosen, watermark, early)
        else:
            answers = self._emit_revised() + self._emit_due(chosen, watermark)
        self.watermark = watermark
        self._let_go(chosen)
        return [each for each in answers if len(each.keys)]

    def _emit_due(self, chosen: Array, watermark: int) -> list[Answers]:
        """Return the windows that have ended by this watermark and not by the last: each for the first time."""
        due = self.sets[0].find(chosen, (self.watermark, self.watermark), watermark)
        return [self._answers(due, np.zeros(len(due.keys), np.int64))]

    def _emit_revised(self) -> list[Answers]:
        """Return what became of windows that had been emitted when rows behind the watermark came."""
        if self._before is None:
            return []
        chosen, before = self._before
        self._before = None
        after = self.sets[0].find(chosen, self._unsettled, self.watermark)
        was = matched(before, after)
        emitted = was >= 0
        changed = ~emitted
        changed[emitted] = after.rows[emitted] != before.rows[was[emitted]]
        gone = np.ones(len(before.keys), np.bool_)
        gone[was[emitted]] = False
        return [*self._again(after.pick(changed), emitted[changed]), *self._retract(before.pick(gone))]

    def _again(self, found: Found, emitted: Array) -> list[Answers]:
        """Return windows with their next revision; those not on record were emitted once, or never."""
        revision = self.records.revisions(found, emitted)
        self.records.note(found, revision)
        return [self._answers(found, revision)]

    def _retract(self, found: Found) -> list[Answers]:
        revision = self.records.revisions(found, np.ones(len(found.keys), np.bool_))
        self.records.note(found, revision, retracted=True)
        return [self._answers(found, revision, retracted=True)]

    def _emit_recorded(self, chosen: Array, watermark: int, early: bool) -> list[Answers]:
        """Return what is not on record as it is: with early results every emitted window is, until it is settled."""
        self._before = None
        found = self.sets[0].find(chosen, self._unsettled, END_OF_TIME)
        answers = self._retract(self.records.vanished(found))
        chosen_now = self.records.changed(found) & (early | (found.end <= watermark))
        changed = found.pick(chosen_now)
        return answers + self._again(changed, np.zeros(len(changed.keys), np.bool_))

    def _let_go(self, chosen: Array) -> None:
        """Forget what can never change again, and slices that no window needs."""
        if self.watermark == BEFORE_TIME:
            return
        closed = self.watermark == END_OF_TIME
        ends = np.where(self.records.definitions < len(self.shapes.kinds), *self._unsettled)
        self.records.keep((self.records.end > ends) & (not closed))
        needed = self.shapes.first_needed(self.watermark, self.plan.lateness)
        for each in self.sets:
            each.purge(chosen, needed, self.watermark, self.plan.lateness)

    def _answers(self, found: Found, revision: Array, *, retracted: bool = False) -> Answers:
        count = len(found.keys)
        answered = found.pick(np.zeros(count, np.bool_)) if retracted else found
        raw: dict[str, Any] = {}
        for each in self.sets:
            raw |= each.answer(answered)
        arrays = {name: to_arrow(raw[name]) for name in self.plan.aggregates}
        if retracted:
            arrays = {name: pa.nulls(count, array.type) for name, array in arrays.items()}
        return Answers(
            keys=found.keys,
            window_ids=self.shapes.ids[found.definitions],
            start=found.start,
            end=found.end,
            aggregates=arrays,
            revision=revision,
            retracted=np.full(count, retracted),
        )

    def held_keys(self) -> Array:
        """Return the keys that have slices."""
        return np.union1d(self.sets[0].held(), self.records.keys)

    def save(self) -> dict[str, Array]:
        """Return all slices. O(n)."""
        arrays = {f"{i}.{name}": array for i, each in enumerate(self.sets) for name, array in each.save().items()}
        arrays |= {f"records.{name}": array for name, array in self.records.save().items()}
        return arrays | {"watermark": _ints([self.watermark])}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over slices that `save` returned. O(n)."""
        for i, each in enumerate(self.sets):
            each.load({name.partition(".")[2]: array for name, array in state.items() if name.startswith(f"{i}.")})
        self.records.load({n.partition(".")[2]: array for n, array in state.items() if n.startswith("records.")})
        self.watermark = int(state["watermark"][0])
        self._before = None

    def metrics(self) -> dict[str, int]:
        """Return the number of slices, and the bytes they take."""
        lead = self.sets[0]
        return {
            "slices": int(lead.marks[SLICES]),
            "merges": int(lead.marks[MERGES]),
            "splits": 0,
            "kept": 0,
            "bytes": sum(each.bytes for each in self.sets),
        }

    def check(self) -> None:
        """Raise `InvariantError` where slices contradict each other. O(n)."""
        for each in self.sets:
            each.check()
            lead = self.sets[0]
            _require(np.array_equal(each.slots()[1], lead.slots()[1]), "the sets have different slices")


def _put_back(array: Array, order: Array) -> Array:
    """Return values of rows in some order in that of the rows."""
    result = np.empty_like(array)
    result[order] = array
    return result


def _rows_of(batch: Batch, rows: Array) -> Batch:
    columns = {
        name: Column(each.values[rows], None if each.valid is None else each.valid[rows], each.type)
        for name, each in batch.columns.items()
    }
    return Batch(batch.keys[rows], batch.times[rows], columns)


def _groups(plan: Plan) -> list[Binding]:
    """Return the aggregations that run together: what is compiled, and what is not."""
    groups: dict[Any, dict[str, Aggregation]] = {}
    for name, each in plan.aggregates.items():
        binding = _bound(plan, {name: each})
        objects = all(part.fields is None for part in binding.parts)  # these get Python objects, the others ticks
        groups.setdefault((binding.compiled, objects), {})[name] = each
    return [_bound(plan, group) for group in groups.values()]


def _bound(plan: Plan, aggregates: Mapping[str, Aggregation]) -> Binding:
    types = {c: plan.types[c] for each in aggregates.values() for c in each.columns}
    return bind(aggregates, types, time=plan.time_type, nullable=True, gaps=False)
