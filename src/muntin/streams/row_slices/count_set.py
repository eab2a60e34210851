"""The rows and slices of windows by rows, with the states of aggregations that are run together."""

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
from muntin.query.plan import Plan
from muntin.streams.blocks import ARENA, LENGTHS, MARKS, STEP, USED, dropped, given_back, lay_out, room_of
from muntin.streams.blocks import SLICES as SLICE_COUNT
from muntin.streams.found import Found
from muntin.streams.row_slices.due import ANSWER, FIND, find_windows, settle
from muntin.streams.row_slices.late import HOLES, JUDGE, NUMBERS, judge
from muntin.streams.row_slices.leave_anew import LEAVE_ANEW
from muntin.streams.row_slices.leave_beaten import LEAVE_BEATEN
from muntin.streams.row_slices.leave_inverted import LEAVE_INVERTED
from muntin.streams.row_slices.rows import KEYED, NOWHERE, ROWS, rows_until
from muntin.streams.row_slices.slices import SLICES
from muntin.streams.slices.shapes import fewest, ints
from muntin.streams.slices.slice_set import longer, more_states
from muntin.streams.slices.slicer import position
from muntin.streams.tree import TREE
from muntin.types import Array
from muntin.windows.base import Window

LEAVING = {"invert": LEAVE_INVERTED, "beaten": LEAVE_BEATEN, "anew": LEAVE_ANEW}
"""How a row leaves a slice."""
ENTRIES = ("merge_rows", "extend", "answer_slices", "answer_rows")
_NOTHING = np.zeros(0, np.int64)


@cache
def _finding(compiled: bool) -> Any:
    """Return the kernels that touch no state: compiled once, whatever the aggregations."""
    entries = (judge, find_windows, settle)
    inner = (position, room_of, given_back, dropped, rows_until, *NUMBERS, *JUDGE, *FIND)
    within = [each for each in inner if each not in entries]
    return kernel_cache.load(standalone(*entries, within=within, counted=False), compiled=compiled)


def leaving(binding: Binding) -> str:
    """Say how a row leaves a slice of these aggregations.

    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import INT64
    >>> [leaving(bind({"it": each}, {"v": INT64})) for each in (agg.sum("v"), agg.max("v"), agg.collect("v"))]
    ['invert', 'beaten', 'anew']
    """
    if not all(each.commutative for each in binding.aggregations):
        return "anew"
    if binding.invertible:
        return "invert"
    alone = len(binding.states) == 1 and not any(f.length is not None for f in binding.parts[0].fields or ())
    return "beaten" if alone and all(each.selective for each in binding.aggregations) else "anew"


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

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What kernels take."""
        return self.lengths, self.everys, self.steps, self.phases


class CountSet:
    """The rows and slices of all keys, with the states of aggregations that are run together."""

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
        self.keyed = {name: np.zeros(0, np.int64) for name in KEYED}
        self.apart = np.zeros(0, np.int64)
        self.apart_tables = tuple(np.zeros((0, len(self.shapes.lengths)), np.int64) for _ in range(4))
        self.holes = np.zeros((0, 3), np.int64)
        self.row_marks, self.marks = np.zeros(MARKS, np.int64), np.zeros(MARKS, np.int64)
        self.row_marks[STEP] = self.marks[STEP] = 2
        self.row_free, self.free = np.full(LENGTHS, -1, np.int64), np.full(LENGTHS, -1, np.int64)
        self.row_blocks, self.blocks = (tuple(np.zeros(0, np.int64) for _ in range(5)) for _ in range(2))
        self.times = np.zeros(0, np.int64)
        self.row_states, self.states, self.tree = (self.binding.slots(0) for _ in range(3))
        self.low, self.high, self.first, self.last = (np.zeros(0, np.int64) for _ in range(4))
        self.peaks = np.zeros(0, self._peak_type)
        self.cuts = np.zeros(0, np.bool_)
        self._make_room_for_rows(64)
        self._make_room_for_slices(64)

    @property
    def _peak_type(self) -> np.dtype[Any]:
        """One record for each slice, which moves with it: how large its floats have been, where that is watched."""
        watched = self.binding.float_fields if self.leaving == "invert" else 0
        return np.dtype([("size", np.float64, (max(1, watched),))])

    @cached_property
    def module(self) -> Any:
        """The kernels."""
        return self.binding.kernels(self.structure, *ENTRIES)

    @property
    def finding(self) -> Any:
        """The kernels that find windows."""
        return _finding(not kernel_cache.is_uncompiled())

    @property
    def structure(self) -> tuple[Any, ...]:
        """The kernels of these aggregations."""
        return (position, *ARENA, *ROWS, *NUMBERS, *LEAVING[self.leaving], *SLICES, *TREE, *ANSWER)

    # ------------------------------------------------------------ memory

    def _make_room_for_rows(self, slots: int) -> None:
        self.times = longer(self.times, slots)
        self.row_states = more_states(self.binding, self.row_states, slots)

    def _make_room_for_slices(self, slots: int) -> None:
        self.low, self.high = longer(self.low, slots), longer(self.high, slots)
        self.first, self.last = longer(self.first, slots), longer(self.last, slots)
        peaks = np.zeros(slots, self._peak_type)
        peaks[: len(self.peaks)] = self.peaks
        self.peaks = peaks
        self.states = more_states(self.binding, self.states, slots)
        self.tree = more_states(self.binding, self.tree, slots)

    def _make_room_apart(self) -> None:
        used, definitions = self.apart_tables[0].shape
        self.apart_tables = tuple(
            np.concatenate((table, np.zeros((max(4, used), definitions), np.int64))) for table in self.apart_tables
        )
        more = max(definitions, len(self.holes))
        self.holes = np.concatenate((self.holes, np.zeros((more, 3), np.int64)))

    def know_keys(self, count: int) -> None:
        """Be ready for keys up to a number."""
        if count > len(self.apart):
            capacity = max(count, 2 * len(self.apart))
            self.apart = longer(self.apart, capacity, -1)
            for name in KEYED:
                self.keyed[name] = longer(self.keyed[name], capacity, NOWHERE if name == "moved" else 0)
            self.row_blocks, self.blocks = (
                _longer_blocks(self.row_blocks, capacity),
                _longer_blocks(self.blocks, capacity),
            )

    @property
    def _rows(self) -> tuple[Any, ...]:
        return (self.times, self.row_states), self.row_blocks

    @property
    def _slices(self) -> tuple[Any, ...]:
        # The fields of the arena that slices by time have: times and peaks move with a slice, names it has none.
        times = (self.first, self.last, self.first)
        return (self.low, self.high, *times, self.peaks, _NOTHING, _NOTHING, self.states), self.blocks

    @property
    def _row_times(self) -> tuple[Any, ...]:
        """The rows without their states."""
        return (self.times, _NOTHING), self.row_blocks

    @property
    def _edges(self) -> tuple[Any, ...]:
        """The slices without their states."""
        return (self.low, self.high, *(_NOTHING,) * 7), self.blocks

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """What is kept of each key, the definitions, and by how much their numbers differ."""
        return tuple(self.keyed.values()), self.shapes.arrays, (self.apart, *self.apart_tables)

    # ------------------------------------------------------------ rows

    def judge(self, keys: Array, times: Array, order: Array, limit: int) -> Array:
        """Return which rows are taken of those that come after the lateness allowed, in the order of key and time."""
        taken = np.zeros(len(times), np.bool_)
        self.cursor[0] = 0
        batch = (keys, times, order)
        while not self.finding.judge(batch, *self._row_times, *self._numbers, self.holes, self.cursor, limit, taken):
            self._make_room_apart()
        return taken

    def take(self, keys: Array, times: Array, order: Array, columns: Mapping[str, Column], limit: int) -> None:
        """Put rows, in the order of key and time, between those there are. Those up to the limit were judged."""
        inputs = self.binding.inputs(columns, len(times))
        spots = np.empty(len(order), np.int64)
        self.cursor[0] = 0
        keyed, _, numbers = self._numbers
        slices = (*self._slices, self.marks, keyed, numbers, self.cursor, limit, self.commutes, spots)
        batch = (keys, times, order)
        while not self.module.merge_rows(batch, inputs, *self._rows, self.row_marks, self.row_free, *slices):
            self._make_room_for_rows(4 * len(self.times))

    def extend(self, chosen: Array, watermark: int) -> None:
        """Put all rows up to the watermark into slices."""
        most = int(self.row_blocks[3].max(initial=0)) + 2
        if most > len(self.cuts):
            self.cuts = np.zeros(2 * most, np.bool_)
        while not self.module.extend(
            *self._rows, *self._slices, self.marks, self.free, *self._numbers, self.cuts, chosen, watermark
        ):
            self._make_room_for_slices(4 * len(self.low))

    # ------------------------------------------------------------ windows

    def find(self, chosen: Array, watermark: int, *, everything: bool, partial: bool) -> tuple[Found, Array]:
        """Return windows of some keys, by their rows, and which of them were due before.

        `start` is a window's first row and `rows` the one after its last; `end` is always 0, since the first row alone
        tells windows of a definition apart.
        """
        fixed = (*self._row_times, *self._edges, *self._numbers, chosen, watermark, everything, partial)
        found = _room_for_windows(self.expected)
        count = self.finding.find_windows(*fixed, found)
        if count > self.expected:
            found = _room_for_windows(count)
            self.finding.find_windows(*fixed, found)
        self.expected = max(64, count + count // 4)
        keys, definitions, start, end, first, last, again = (array[:count] for array in found)
        return Found(keys, definitions, start, np.zeros(count, np.int64), first, last, end), again != 0

    def moved(self, keys: Array, definitions: Array) -> Array:
        """Return for definitions of keys the first row since windows were last looked at, in their own numbers."""
        which = self.apart[keys]
        moved = self.keyed["moved"][keys]
        own = which >= 0
        moved[own] = self.apart_tables[3][which[own], definitions[own]]
        return moved

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name."""
        outputs = self.binding.outputs(len(found.keys))
        arena, blocks = self._slices
        self.module.answer_slices(arena, self.tree, blocks, found.keys, found.first, found.last, outputs)
        for at in np.flatnonzero(found.first < 0):
            self.module.answer_rows(self.row_states, self._odd_rows(found, int(at)), outputs, at)
        triples = zip(self.binding.names, self.binding.results, self.binding.raw_results(outputs), strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def spans(self, found: Found) -> tuple[Array, Array]:
        """Return the times of the first and the last row of windows."""
        start, end = self.first[found.first], self.last[found.last - 1]
        for at in np.flatnonzero(found.first < 0):
            rows = self._odd_rows(found, int(at))
            start[at], end[at] = self.times[rows[0]], self.times[rows[-1]]
        return start, end

    def _odd_rows(self, found: Found, at: int) -> Array:
        """Return the slots of the rows of a window that has holes."""
        key, definition = int(found.keys[at]), int(found.definitions[at])
        keys, definitions, rows = self.holes[: self.cursor[HOLES]].T
        holes = np.sort(rows[(keys == key) & (definitions == definition)])
        first = int(found.start[at] + self.apart_tables[0][self.apart[key], definition]) - len(holes)
        for hole in holes:
            first += int(hole) <= first
        count = int(found.rows[at] - found.start[at])
        numbers = np.setdiff1d(np.arange(first, first + count + len(holes)), holes)[:count]
        slots: Array = numbers + (self.row_blocks[0][key] + self.row_blocks[2][key] - self.keyed["gone"][key])
        return slots

    def settle(self, chosen: Array, watermark: int) -> None:
        """Note that windows were looked at, and let go what none needs any more."""
        limit = watermark if watermark in (BEFORE_TIME, END_OF_TIME) else watermark - self.plan.lateness
        memory = (*self._row_times, self.row_marks, self.row_free, *self._edges, self.marks, self.free)
        closed = watermark == END_OF_TIME
        self.cursor[HOLES] = 0
        self.finding.settle(*memory, *self._numbers, chosen, watermark, limit, self.plan.ordered, closed)

    def begins(self, keys: Array, definitions: Array) -> Array:
        """Return for definitions of keys the first row of the first window that is not settled, in their numbers."""
        which = self.apart[keys]
        shift = np.where(which >= 0, self.apart_tables[0][which, definitions], 0) if len(self.apart_tables[0]) else 0
        every = self.shapes.everys[definitions]
        settled = (self.keyed["final"][keys] - shift - self.shapes.lengths[definitions]) // every + 1
        begins: Array = np.maximum(0, settled) * every
        return begins

    # ------------------------------------------------------------ state

    def known(self) -> Array:
        """Return the keys of which a row was ever taken: their rows are numbered for ever."""
        return np.flatnonzero(self.keyed["gone"] + self.row_blocks[3] > 0)

    def save(self) -> dict[str, Array]:
        """Return rows and slices, one key after the other."""
        keys = self.known()
        rows, slices = _slots(self.row_blocks, keys), _slots(self.blocks, keys)
        used = int(self.cursor[1])
        tables = dict(
            zip(
                ("shifts", "fresh", "odd", "least"),
                (table[:used].ravel().copy() for table in self.apart_tables),
                strict=True,
            )
        )
        arrays = {name: array[keys] for name, array in self.keyed.items()}
        arrays |= {"keys": keys, "row_sizes": self.row_blocks[3][keys], "sizes": self.blocks[3][keys]}
        arrays |= {"times": self.times[rows], "row_states": _copied(self.row_states, rows), "apart": self.apart[keys]}
        arrays |= {name: getattr(self, name)[slices] for name in ("low", "high", "first", "last", "peaks", "states")}
        return arrays | tables | {"cursor": self.cursor.copy()}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `save` returned."""
        self._clear()
        keys = arrays["keys"]
        self.know_keys(int(keys.max(initial=-1)) + 1)
        for name in KEYED:
            self.keyed[name][keys] = arrays[name]
        self.apart[keys] = arrays["apart"]
        definitions = len(self.shapes.lengths)
        self.apart_tables = tuple(
            arrays[name].reshape(-1, definitions).copy() for name in ("shifts", "fresh", "odd", "least")
        )
        self.cursor[:] = arrays["cursor"]
        revived = States(self.binding).revived
        self._make_room_for_rows(lay_out(self.row_blocks, self.row_marks, keys, arrays["row_sizes"]))
        rows = _slots(self.row_blocks, keys)
        self.times[rows], self.row_states[rows] = arrays["times"], revived(arrays["row_states"].copy())
        self._make_room_for_slices(lay_out(self.blocks, self.marks, keys, arrays["sizes"]))
        slices = _slots(self.blocks, keys)
        for name in ("low", "high", "first", "last", "peaks"):
            getattr(self, name)[slices] = arrays[name]
        self.states[slices] = revived(arrays["states"].copy())

    @property
    def kept(self) -> int:
        """How many rows are kept."""
        return int(self.row_blocks[3].sum())

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use."""
        row, slice_ = 8 + self.row_states.itemsize, 4 * 8 + self.peaks.itemsize + 2 * self.states.itemsize
        of_key = 8 * (len(KEYED) + 11) * len(self.apart)
        used = int(self.row_marks[USED]) * row + int(self.marks[USED]) * slice_
        return used + of_key + 4 * self.apart_tables[0].nbytes

    # ------------------------------------------------------------ invariants

    def check(self) -> None:
        """Raise `InvariantError` where rows and slices contradict each other."""
        states = States(self.binding)
        sizes = self.blocks[3][self.known()]
        _require(
            int(self.marks[SLICE_COUNT]) == int(sizes.sum()), "the number of slices is not that of the slots in use"
        )
        for key in self.known():
            rows, slices = _slots(self.row_blocks, ints([key])), _slots(self.blocks, ints([key]))
            gone, made = int(self.keyed["gone"][key]), int(self.keyed["made"][key])
            _require(bool((np.diff(self.times[rows]) >= 0).all()), "the rows of a key are out of order")
            _require(gone <= made <= gone + len(rows) or self.plan.ordered, "slices reach beyond the rows")
            _require(bool((self.low[slices] < self.high[slices]).all()), "a slice holds no row")
            _require(np.array_equal(self.low[slices][1:], self.high[slices][:-1]), "there is a gap between slices")
            _require(not len(slices) or int(self.high[slices[-1]]) == made, "slices do not reach as far as they should")
            if not self.plan.ordered:
                for slot in slices:
                    self._check_slice(states, slot, rows, gone)

    def _check_slice(self, states: States, slot: int, rows: Array, gone: int) -> None:
        mine = rows[int(self.low[slot]) - gone : int(self.high[slot]) - gone]
        _require(int(self.first[slot]) == int(self.times[mine[0]]), "a slice does not begin with its first row")
        _require(int(self.last[slot]) == int(self.times[mine[-1]]), "a slice does not end with its last row")
        folded = states.load(self.row_states, mine[0])
        for row in mine[1:]:
            folded = states.combine(folded, states.load(self.row_states, row))
        held = states.load(self.states, slot)
        if self.leaving == "beaten":  # the number of rows that are not null may be too high, but never for none
            masks = len(held) - len(self.binding.states)
            folded, held = (
                (*state[: len(state) - masks], *(n > 0 for n in state[len(state) - masks :]))
                for state in (folded, held)
            )
        _require(close(tuple(held), tuple(folded)), "the state of a slice is not that of its rows")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvariantError(f"Counted: {message}")


def _room_for_windows(count: int) -> tuple[Array, ...]:
    return tuple(np.empty(count, np.int64) for _ in range(7))


def _longer_blocks(blocks: tuple[Array, ...], capacity: int) -> tuple[Array, ...]:
    base, *others = blocks
    return (longer(base, capacity, -1), *(longer(each, capacity, 0) for each in others))


def _slots(blocks: tuple[Array, ...], keys: Array) -> Array:
    """Return the slots of keys, one key after the other."""
    base, _, head, size, _ = (array[keys] for array in blocks)
    within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
    slots: Array = np.repeat(base + head, size) + within
    return slots


def _copied(states: Array, slots: Array) -> Array:
    """Return states of slots; where these are side by side as one copy, which is much faster."""
    if len(slots) and slots[-1] - slots[0] == len(slots) - 1:
        return states[slots[0] : slots[-1] + 1].copy()
    return states[slots]
