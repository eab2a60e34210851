"""The rows and slices of windows by rows, with the states of fused aggregations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States, close
from muntin.columns import Column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.tiers import SameTypes
from muntin.query.plan import Plan
from muntin.streams.blocks import MEMORY, SLOTS, USED, Blocks, Slices, lay_out, longer
from muntin.streams.blocks import SLICES as SLICE_COUNT
from muntin.streams.found import Found
from muntin.streams.row_slices.due import ANSWER, FEW, FIND, Asked, Windows, finalize, find_windows
from muntin.streams.row_slices.folding import FOLDING
from muntin.streams.row_slices.late import APART, HOLES, JUDGE, NUMBERS, ROW, Numbers, RowWindows, judge
from muntin.streams.row_slices.removal import REMOVAL
from muntin.streams.row_slices.rows import NOWHERE, ROWS, Arriving, Keyed
from muntin.streams.row_slices.slices import SLICES, extend, merge_rows
from muntin.streams.script import ACTION, DONE, LEAVING, NO_ROOM, OPEN, REFOLD, SCRIPT, SHORT, Script
from muntin.streams.slices.shapes import fewest, ints
from muntin.streams.slices.slice_set import more_states
from muntin.streams.slices.slicer import position
from muntin.streams.tree import TREE
from muntin.types import Array
from muntin.windows.base import Window

SLICING = (judge, merge_rows, extend, find_windows, finalize)
"""The kernels that see no state."""
_INNER = (*SCRIPT, *MEMORY, *SLOTS, position, *ROWS, *NUMBERS, *JUDGE, *SLICES, *FIND)
ENTRIES = ("lift_newest", "lift_rows", "fold_rows", "answer_few", "answer_slices", "answer_rows")
_NOTHING = np.zeros(0, np.int64)
_KEPT = ("low", "high", "first", "last")
"""The saved columns of a slice."""
_TABLES = ("shifts", "fresh", "odd", "least")
"""The tables of keys whose definitions number rows separately."""


@cache
def slicing(compiled: bool) -> Any:
    """Return the kernels that see no state, compiled once for all aggregations."""
    within = [each for each in _INNER if each not in SLICING]
    return SameTypes(kernel_cache.load(standalone(*SLICING, within=within, counted=False), compiled=compiled))


def leaving(binding: Binding) -> str:
    """Return how a row leaves a slice of these aggregations.

    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import INT64
    >>> [leaving(bind({"it": each}, {"v": INT64})) for each in (agg.sum("v"), agg.max("v"), agg.collect("v"))]
    ['invert', 'beaten', 'refold']
    """
    if not all(each.commutative for each in binding.aggregations):
        return "refold"
    if binding.invertible:
        return "invert"
    alone = len(binding.states) == 1 and not any(f.length is not None for f in binding.parts[0].fields or ())
    return "beaten" if alone and all(each.selective for each in binding.aggregations) else "refold"


@dataclass(frozen=True)
class RowShapes:
    """The definitions of a plan as arrays, and the progressions of row numbers at which their windows begin or end."""

    ids: Array
    lengths: Array
    everys: Array
    steps: Array
    phases: Array

    @classmethod
    def of(cls, windows: Mapping[int, Window]) -> RowShapes:
        """Read the shapes of definitions, all of which have one."""
        shapes = [each.row_shape for each in windows.values()]
        pairs = [(each.length, each.every) for each in shapes if each is not None]
        begins = [(every, 0) for _, every in pairs]
        steps, phases = fewest([*begins, *((every, length % every) for length, every in pairs)])
        return cls(ints(windows), ints(n for n, _ in pairs), ints(n for _, n in pairs), steps, phases)

    @cached_property
    def most_slices(self) -> int:
        """The most slices of the longest window: each definition begins and ends windows in it."""
        return int((2 * (int(self.lengths.max(initial=0)) // self.everys + 1)).sum())

    @property
    def arrays(self) -> RowWindows:
        """What kernels take."""
        return RowWindows(self.lengths, self.everys, self.steps, self.phases)


class CountSet:
    """The rows and slices of all keys, with the states of fused aggregations."""

    def __init__(self, binding: Binding, shapes: RowShapes, plan: Plan) -> None:
        self.binding = binding
        self.shapes = shapes
        self.plan = plan
        self.leaving = leaving(binding)
        self.commutes = all(each.commutative for each in binding.aggregations)
        self.expected = 64
        self._clear()

    def _clear(self) -> None:
        self.cursor = np.zeros(7, np.int64)
        self.keyed = Keyed(*(np.zeros(0, np.int64) for _ in Keyed._fields))
        tables = (np.zeros((0, len(self.shapes.lengths)), np.int64) for _ in _TABLES)
        self.numbers = Numbers(np.zeros(0, np.int64), *tables)
        self.holes = np.zeros((0, 3), np.int64)
        self.row_blocks, self.blocks = Blocks.empty(2), Blocks.empty(2)
        self.script = Script.empty(columns=LEAVING + 1)
        self.times = np.zeros(0, np.int64)
        self.row_states, self.states, self.tree = (self.binding.slots(0) for _ in range(3))
        self.slices = Slices(*(_NOTHING for _ in Slices._fields))
        self.peaks = np.zeros(0, self._peak_type)
        self.cuts = np.zeros(0, np.bool_)
        self._make_room_for_rows(64)
        self._make_room_for_slices(64)

    @property
    def marks(self) -> Array:
        """The counters of slices and their memory: see `blocks`."""
        marks: Array = self.blocks.marks
        return marks

    @property
    def _peak_type(self) -> np.dtype[Any]:
        """A record per slice, which moves with it: the largest sizes of its floats, if those are watched."""
        watched = self.binding.float_fields if self.leaving == "invert" else 0
        return np.dtype([("size", np.float64, (max(1, watched),))])

    @cached_property
    def folding(self) -> Any:
        """The kernels that fold rows into states, and merge states."""
        return SameTypes(self.binding.kernels(self.kernels, *ENTRIES))

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The modules compiled for these aggregations."""
        return (*REMOVAL[self.leaving], *FOLDING, *TREE, *ANSWER)

    @property
    def slicing(self) -> Any:
        """The kernels that see no state."""
        return slicing(not kernel_cache.is_uncompiled())

    # ------------------------------------------------------------ memory

    def _make_room_for_rows(self, slots: int) -> None:
        self.times = longer(self.times, slots)
        self.row_states = more_states(self.binding, self.row_states, slots)

    def _make_room_for_slices(self, slots: int) -> None:
        edges = {name: longer(getattr(self.slices, name), slots) for name in _KEPT}
        self.slices = self.slices._replace(**edges)
        peaks = np.zeros(slots, self._peak_type)
        peaks[: len(self.peaks)] = self.peaks
        self.peaks = peaks
        self.states = more_states(self.binding, self.states, slots)
        self.tree = more_states(self.binding, self.tree, slots)

    def _make_room_apart(self) -> None:
        used, definitions = self.numbers.shifts.shape
        more = np.zeros((max(4, used), definitions), np.int64)
        tables = {name: np.concatenate((getattr(self.numbers, name), more)) for name in _TABLES}
        self.numbers = self.numbers._replace(**tables)
        more = np.zeros((max(definitions, len(self.holes)), 3), np.int64)
        self.holes = np.concatenate((self.holes, more))

    def know_keys(self, count: int) -> None:
        """Make room for `count` keys."""
        known = len(self.numbers.apart)
        if count > known:
            capacity = max(count, 2 * known)
            self.numbers = self.numbers._replace(apart=longer(self.numbers.apart, capacity, -1))
            pairs = zip(Keyed._fields, self.keyed, strict=True)
            self.keyed = Keyed(*(longer(each, capacity, NOWHERE if name == "moved" else 0) for name, each in pairs))
            self.row_blocks, self.blocks = self.row_blocks.for_keys(capacity), self.blocks.for_keys(capacity)

    @property
    def _rows(self) -> tuple[Any, ...]:
        """The rows without their states."""
        return self.times, self.row_blocks

    @property
    def _slices(self) -> tuple[Any, ...]:
        """The slices without their states."""
        return self.slices, self.blocks

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """The data of each key, the definitions, and the differences of their numbers."""
        return self.keyed, self.shapes.arrays, self.numbers

    # ------------------------------------------------------------ rows

    def judge(self, keys: Array, times: Array, order: Array, limit: int) -> Array:
        """Return which of the rows behind the allowed lateness, ordered by key and time, are taken."""
        taken = np.zeros(len(times), np.bool_)
        self.cursor[ROW] = 0
        batch = Arriving(keys, times, order)
        while not self.slicing.judge(batch, *self._rows, *self._numbers, self.holes, self.cursor, limit, taken):
            self._make_room_apart()
        return taken

    def take(self, keys: Array, times: Array, order: Array, columns: Mapping[str, Column], limit: int) -> None:
        """Merge rows, ordered by key and time, into those held. Rows up to `limit` are already judged."""
        inputs = self.binding.inputs(columns, len(times))
        spots = np.empty(len(order), np.int64)
        batch = Arriving(keys, times, order)
        fixed = (self.keyed, self.numbers, self.cursor, limit, self.commutes, spots)
        self.cursor[ROW] = self.script.length[0] = 0
        stopped = -1
        while stopped != DONE:
            stopped = self.slicing.merge_rows(batch, *self._rows, *self._slices, self.script, *fixed)
            if int(self.script.steps[: self.script.length[0], ACTION].max(initial=OPEN)) < REFOLD:
                self.folding.lift_newest(self.script, batch, inputs, self.row_states)
            else:
                states = (self.row_states, self.states, self.peaks)
                self.folding.lift_rows(self.script, batch, inputs, *states, spots, self.cursor)
            if stopped == NO_ROOM:
                self._make_room_for_rows(4 * len(self.times))
            elif stopped == SHORT:
                self.script = Script.empty(2 * len(self.script.steps), LEAVING + 1)

    def extend(self, chosen: Array, watermark: int) -> None:
        """Put all rows up to the watermark into slices."""
        most = int(self.row_blocks.size.max(initial=0)) + 2
        if most > len(self.cuts):
            self.cuts = np.zeros(2 * most, np.bool_)
        self.cursor[ROW] = self.script.length[0] = 0
        stopped = -1
        while stopped != DONE:
            stopped = self.slicing.extend(
                *self._rows, *self._slices, self.script, *self._numbers, self.cuts, chosen, self.cursor, watermark
            )
            self.folding.fold_rows(self.script, self.row_states, self.states, self.peaks)
            if stopped == NO_ROOM:
                self._make_room_for_slices(4 * len(self.slices.low))

    # ------------------------------------------------------------ windows

    def find(self, chosen: Array, watermark: int, *, everything: bool, partial: bool) -> tuple[Found, Array]:
        """Return windows of some keys, by their rows, and which of them were due before.

        `start` is a window's first row and `rows` the one after its last; `end` is always 0, since the first row alone
        identifies a window of a definition.
        """
        asked = Asked(everything, partial)
        fixed = (*self._rows, *self._slices, *self._numbers, chosen, watermark, asked)
        found = _room_for_windows(self.expected)
        count = self.slicing.find_windows(*fixed, found)
        if count > self.expected:
            found = _room_for_windows(count)
            self.slicing.find_windows(*fixed, found)
        self.expected = max(64, count + count // 4)
        keys, definitions, start, end, first, last, again = (array[:count] for array in found)
        return Found(keys, definitions, start, np.zeros(count, np.int64), first, last, end), again != 0

    def moved(self, keys: Array, definitions: Array) -> Array:
        """Return the first row since windows were last examined, for pairs of key and definition, in its numbers."""
        which = self.numbers.apart[keys]
        moved: Array = self.keyed.moved[keys]
        own = which >= 0
        moved[own] = self.numbers.least[which[own], definitions[own]]
        return moved

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name."""
        outputs = self.binding.outputs(len(found.keys))
        if self.shapes.most_slices <= FEW:
            self.folding.answer_few(self.states, found.first, found.last, outputs)
        else:
            windows = (found.keys, found.first, found.last)
            self.folding.answer_slices(self.states, self.tree, self.blocks, *windows, outputs)
        for at in np.flatnonzero(found.first < 0):
            self.folding.answer_rows(self.row_states, self._odd_rows(found, int(at)), outputs, at)
        triples = zip(self.binding.names, self.binding.results, self.binding.raw_results(outputs), strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def spans(self, found: Found) -> tuple[Array, Array]:
        """Return the times of the first and the last row of windows."""
        start, end = self.slices.first[found.first], self.slices.last[found.last - 1]
        for at in np.flatnonzero(found.first < 0):
            rows = self._odd_rows(found, int(at))
            start[at], end[at] = self.times[rows[0]], self.times[rows[-1]]
        return start, end

    def _odd_rows(self, found: Found, at: int) -> Array:
        """Return the slots of the rows of a window with holes."""
        key, definition = int(found.keys[at]), int(found.definitions[at])
        keys, definitions, rows = self.holes[: self.cursor[HOLES]].T
        holes = np.sort(rows[(keys == key) & (definitions == definition)])
        first = int(found.start[at] + self.numbers.shifts[self.numbers.apart[key], definition]) - len(holes)
        for hole in holes:
            first += int(hole) <= first
        count = int(found.rows[at] - found.start[at])
        numbers = np.setdiff1d(np.arange(first, first + count + len(holes)), holes)[:count]
        slots: Array = numbers + (self.row_blocks.base[key] + self.row_blocks.head[key] - self.keyed.gone[key])
        return slots

    def finalize(self, chosen: Array, watermark: int) -> None:
        """Record that windows were examined, and evict what none needs any more."""
        limit = watermark if watermark in (BEFORE_TIME, END_OF_TIME) else watermark - self.plan.lateness
        closed = watermark == END_OF_TIME
        self.cursor[HOLES] = 0
        fixed = (*self._rows, *self._slices, *self._numbers)
        self.slicing.finalize(*fixed, chosen, watermark, limit, self.plan.ordered, closed)

    def forget(self, keys: Array) -> None:
        """Number the rows of keys without any state from 0 again."""
        for name, values in zip(Keyed._fields, self.keyed, strict=True):
            values[keys] = NOWHERE if name == "moved" else 0
        self.numbers.apart[keys] = -1

    def begins(self, keys: Array, definitions: Array) -> Array:
        """Return the first row of the first non-final window, for pairs of key and definition, in its numbers."""
        which = self.numbers.apart[keys]
        shift = np.where(which >= 0, self.numbers.shifts[which, definitions], 0) if len(self.numbers.shifts) else 0
        every = self.shapes.everys[definitions]
        final = (self.keyed.final[keys] - shift - self.shapes.lengths[definitions]) // every + 1
        begins: Array = np.maximum(0, final) * every
        return begins

    # ------------------------------------------------------------ state

    def known(self) -> Array:
        """Return the keys that ever had a row: their rows are numbered forever."""
        return np.flatnonzero(self.keyed.gone + self.row_blocks.size > 0)

    def save(self) -> dict[str, Array]:
        """Return rows and slices, key by key."""
        keys = self.known()
        rows, slices = _slots(self.row_blocks, keys), _slots(self.blocks, keys)
        used = int(self.cursor[APART])
        tables = {name: getattr(self.numbers, name)[:used].ravel().copy() for name in _TABLES}
        arrays = {name: array[keys] for name, array in self.keyed._asdict().items()}
        arrays |= {"keys": keys, "row_sizes": self.row_blocks.size[keys], "sizes": self.blocks.size[keys]}
        arrays |= {"times": self.times[rows], "row_states": _copied(self.row_states, rows)}
        arrays |= {name: getattr(self.slices, name)[slices] for name in _KEPT}
        arrays |= {"apart": self.numbers.apart[keys], "peaks": self.peaks[slices], "states": self.states[slices]}
        return arrays | tables | {"cursor": self.cursor.copy()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        self._clear()
        keys = arrays["keys"]
        self.know_keys(int(keys.max(initial=-1)) + 1)
        for name, of_key in self.keyed._asdict().items():
            of_key[keys] = arrays[name]
        self.numbers.apart[keys] = arrays["apart"]
        definitions = len(self.shapes.lengths)
        tables = {name: arrays[name].reshape(-1, definitions).copy() for name in _TABLES}
        self.numbers = self.numbers._replace(**tables)
        self.cursor[:] = arrays["cursor"]
        revived = States(self.binding).revived
        self._make_room_for_rows(lay_out(self.row_blocks, keys, arrays["row_sizes"]))
        rows = _slots(self.row_blocks, keys)
        self.times[rows], self.row_states[rows] = arrays["times"], revived(arrays["row_states"].copy())
        self._make_room_for_slices(lay_out(self.blocks, keys, arrays["sizes"]))
        slices = _slots(self.blocks, keys)
        for name in _KEPT:
            getattr(self.slices, name)[slices] = arrays[name]
        self.peaks[slices], self.states[slices] = arrays["peaks"], revived(arrays["states"].copy())

    @property
    def kept(self) -> int:
        """The number of rows held."""
        return int(self.row_blocks.size.sum())

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use."""
        row, slice_ = 8 + self.row_states.itemsize, 4 * 8 + self.peaks.itemsize + 2 * self.states.itemsize
        of_key = 8 * (len(Keyed._fields) + 11) * len(self.numbers.apart)
        used = int(self.row_blocks.marks[USED]) * row + int(self.marks[USED]) * slice_
        return used + of_key + 4 * int(self.numbers.shifts.nbytes)

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Raise `InvariantError` if rows and slices contradict each other."""
        states = States(self.binding)
        sizes = self.blocks.size[self.known()]
        _require(
            int(self.marks[SLICE_COUNT]) == int(sizes.sum()), "the number of slices is not that of the slots in use"
        )
        for key in self.known():
            rows, slices = _slots(self.row_blocks, ints([key])), _slots(self.blocks, ints([key]))
            gone, made = int(self.keyed.gone[key]), int(self.keyed.made[key])
            _require(bool((np.diff(self.times[rows]) >= 0).all()), "the rows of a key are out of order")
            _require(gone <= made <= gone + len(rows) or self.plan.ordered, "slices reach beyond the rows")
            low, high = self.slices.low[slices], self.slices.high[slices]
            _require(bool((low < high).all()), "a slice holds no row")
            _require(
                np.array_equal(self.slices.low[slices][1:], self.slices.high[slices][:-1]),
                "there is a gap between slices",
            )
            _require(
                not len(slices) or int(self.slices.high[slices[-1]]) == made,
                "slices do not reach as far as they should",
            )
            if not self.plan.ordered:
                for slot in slices:
                    self._check_slice(states, slot, rows, gone)

    def _check_slice(self, states: States, slot: int, rows: Array, gone: int) -> None:
        mine = rows[int(self.slices.low[slot]) - gone : int(self.slices.high[slot]) - gone]
        _require(int(self.slices.first[slot]) == int(self.times[mine[0]]), "a slice does not begin with its first row")
        _require(int(self.slices.last[slot]) == int(self.times[mine[-1]]), "a slice does not end with its last row")
        folded = states.load(self.row_states, mine[0])
        for row in mine[1:]:
            folded = states.combine(folded, states.load(self.row_states, row))
        held = states.load(self.states, slot)
        if self.leaving == "beaten":  # the count of non-null rows may be too high, but is 0 only if there are none
            masks = len(held) - len(self.binding.states)
            folded, held = (
                (*state[: len(state) - masks], *(n > 0 for n in state[len(state) - masks :]))
                for state in (folded, held)
            )
        _require(close(tuple(held), tuple(folded)), "the state of a slice is not that of its rows")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(f"Counted: {message}")


def _room_for_windows(count: int) -> Windows:
    return Windows(*(np.empty(count, np.int64) for _ in Windows._fields))


def _slots(blocks: Blocks, keys: Array) -> Array:
    """Return the slots of keys, key by key."""
    size = blocks.size[keys]
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    slots: Array = np.repeat(blocks.base[keys] + blocks.head[keys], size) + within
    return slots


def _copied(states: Array, slots: Array) -> Array:
    """Return the states of slots; contiguous ones as one copy, which is much faster.

    >>> _copied(np.arange(9), np.array([3, 7, 0, 6])), _copied(np.arange(9), np.array([3, 4, 5, 6]))
    (array([3, 7, 0, 6]), array([3, 4, 5, 6]))
    """
    if len(slots) and (np.diff(slots) == 1).all():  # blocks of keys may be in any order
        return states[slots[0] : slots[-1] + 1].copy()
    return states[slots]
