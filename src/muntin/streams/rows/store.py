"""The rows of all keys in order, with their columns, and the states of the trees' nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.columns import BoxedCells, Column, read_only
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.streams.rows import counting, cutting, finding, folding, judging, tree, valuing
from muntin.streams.rows.holistic import MovingWindows
from muntin.streams.rows.segmenting import RowSegments, has_tables
from muntin.streams.rows.tree import DONE, FANOUT, HELD, LEAF, MOVES, NO_ROOM, STALES, Log, Tree, insert_rows
from muntin.streams.segments import Segment, Segmented
from muntin.types import OBJECT, Array, ColumnType

_OF_TREES = (*tree.ARENA, *tree.POSITIONS, *tree.INSERTION, tree.drop_leaf)
_WITHIN = (*_OF_TREES, *finding.WITHIN, *counting.WITHIN, *cutting.WITHIN, *valuing.WITHIN)


@kernel
def move_values(values: Any, moves: Ints, count: int) -> None:
    """Carry out the moves of a log, in order."""
    for i in range(0, count, 2):
        values[index(moves[index(i)])] = values[index(moves[index(i + 1)])]


@cache
def ordering(compiled: bool) -> Any:
    """Return the kernels that see no state, compiled once for all aggregations."""
    found = (*finding.FINDING, *counting.COUNTING, *cutting.CUTTING, *valuing.VALUING)
    kernels = (insert_rows, move_values, tree.evict_first, *found)
    return kernel_cache.load(standalone(*kernels, within=_WITHIN, counted=False), compiled=compiled)


class RowStore:
    """Rows by key and time, equal times in the order of arrival.

    `beside` are further arrays with an entry for each row, which move with it. The rows of a column are at the places
    of its array; what is at other places means nothing.
    """

    lifts: ClassVar[bool] = True
    """Whether rows are lifted when they are read, so that their columns are kept."""

    def __init__(
        self,
        types: Mapping[str, ColumnType],
        bindings: Sequence[Binding],
        leaf: int = LEAF,
        fanout: int = FANOUT,
        moving: Mapping[str, Aggregation] | None = None,
    ) -> None:
        self.types = types
        self.bindings = tuple(bindings)
        self.moving = MovingWindows(moving or {}, types)
        self.tree, self.log = Tree.empty(leaf, fanout), Log.empty()
        self.values = {name: np.zeros(0, kind.physical) for name, kind in types.items()}
        self.valid: dict[str, Array | None] = dict.fromkeys(types)
        """Where values are not null; None as long as none is."""
        self.masks = [[np.zeros(0, np.bool_) for _ in each.masks if self.lifts] for each in self.bindings]
        self.states = [each.slots(0) for each in self.bindings]
        self.suffixes = [each.slots(leaf) for each in self.bindings]
        self.beside: dict[Any, Array] = {}
        self._segments: RowSegments | None = None
        self._numbers = np.zeros(0, np.int64)
        self._cursor = np.zeros(1, np.int64)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.tree.marks[HELD])

    @property
    def keys(self) -> int:
        """The number of keys that there is room for."""
        return len(self.tree.keys) // tree.KEY

    @property
    def kernels(self) -> Any:
        """The kernels that see no state."""
        return ordering(not kernel_cache.is_uncompiled())

    def folding(self, which: int) -> Any:
        """Return the kernels that fold the states of a binding."""
        binding = self.bindings[which]
        if binding.rule is not None:
            return judging.kernels_of(binding)
        return binding.kernels(folding.FOLDING, "refold", "answer_ranges")

    # ------------------------------------------------------------ rows in

    def insert(self, keys: Array, times: Array, columns: Mapping[str, Column], beside: Mapping[Any, Array]) -> None:
        """Insert rows, sorted by key and time, after those of equal time. O(log n) each at worst, O(1) in order."""
        if not len(keys):
            return
        self.know_keys(int(keys[-1]) + 1)
        self._make_room(len(keys))
        if self._segments is not None:
            self._segments.note_inserted(keys, times)
        for name, column in columns.items():
            if column.valid is not None and self.valid[name] is None:
                self.valid[name] = np.ones(len(self.tree.times), np.bool_)
        masks = [self._masks_of(binding, columns, len(keys)) for binding in self.bindings]
        log = self.log._replace(places=np.empty(len(keys), np.int64))
        codes = [group.coded(columns) for group in self.moving.coded]
        self._cursor[0] = done = 0
        stopped = NO_ROOM
        while stopped != DONE:
            stopped = self.kernels.insert_rows(self.tree, log, keys, times, self._cursor)
            self._carry_out(log, slice(done, int(self._cursor[0])), columns, masks, beside, codes)
            done = int(self._cursor[0])
            if stopped == NO_ROOM:
                self._make_room(len(keys) - done, more=True)
        self.moving.follow(self, keys, times)

    def _masks_of(self, binding: Binding, columns: Mapping[str, Column], count: int) -> tuple[Array, ...]:
        return binding.inputs(columns, count)[len(binding.columns) :] if self.lifts else ()

    def _carry_out(
        self,
        log: Log,
        rows: slice,
        columns: Mapping[str, Column],
        masks: Sequence[Sequence[Array]],
        beside: Mapping[Any, Array],
        codes: Sequence[Array],
    ) -> None:
        """Do to the columns and the states what was done to the trees."""
        places, moves = log.places[rows], int(self.tree.marks[MOVES])
        for name, column in columns.items():
            self._write(self.values[name], log.moves, moves, places, column.values[rows])
            valid = self.valid[name]
            if valid is not None:
                self._write(valid, log.moves, moves, places, True if column.valid is None else column.valid[rows])
        for held, new in zip(self.masks, masks, strict=True):
            for mask, given in zip(held, new, strict=True):
                self._write(mask, log.moves, moves, places, given[rows])
        for name, numbers in beside.items():
            self._write(self.beside[name], log.moves, moves, places, numbers[rows])
            if self._segments is not None:
                self._write(self._segments.beside[name], log.moves, moves, places, numbers[rows])
        for group, numbers in zip(self.moving.coded, codes, strict=True):
            self._write(group.codes, log.moves, moves, places, numbers[rows])
        stale = int(self.tree.marks[STALES])
        if stale:
            for i in range(len(self.bindings)):
                self.folding(i).refold(self.tree, log.stale, stale, self.inputs(i), self.states[i])
            tree.close(self.tree, log.stale[:stale])

    def _write(self, held: Array, moves: Array, count: int, places: Array, new: Any) -> None:
        if count and held.dtype == OBJECT:  # no compiled kernel takes objects
            for to, source in zip(moves[:count:2].tolist(), moves[1:count:2].tolist(), strict=True):
                held[to] = held[source]
        elif count:
            self.kernels.move_values(held.view(f"u{held.dtype.itemsize}"), moves, count)
        held[places] = new

    def evict(self, keys: Array, counts: Array) -> int:
        """Evict the first rows of keys, at most all; return the greatest time gone. Writes how many of each it were."""
        self.moving.leave(self, keys, counts)
        gone = np.empty(len(keys), np.int64)
        latest = int(self.kernels.evict_all(self.tree, keys, counts, gone))  # a plain kernel returns NumPy's
        if self._segments is not None:
            self._segments.note_evicted(keys, gone)
        return latest

    def inputs(self, which: int) -> tuple[Any, ...]:
        """Return what a binding reads: columns and masks, by place."""
        binding = self.bindings[which]
        values = (
            BoxedCells(self.values[name], self.types[name], self.valid[name])
            if binding.boxed(i)
            else read_only(self.values[name])
            for i, name in enumerate(binding.columns)
        )
        return (*values, *map(read_only, self.masks[which]))

    def know_keys(self, count: int) -> None:
        """Have room for the first `count` keys."""
        known = self.keys
        if count > known:
            keys = np.full(tree.KEY * max(count, 2 * known), tree.NONE, np.int64)
            keys[: len(self.tree.keys)] = self.tree.keys
            keys[len(self.tree.keys) + tree.ROWS :: tree.KEY] = 0
            self.tree = self.tree._replace(keys=keys)

    def _make_room(self, rows: int, *, more: bool = False) -> None:
        """Grow the arrays for rows; `more` if they turned out to be too short. Amortised O(1) per row."""
        grown = tree.grown(self.tree, rows, more=more)
        if grown is self.tree:
            return
        self.tree = grown
        places, nodes = len(grown.times), len(grown.nodes) // tree.NODE
        self.values = {name: tree.longer(array, places) for name, array in self.values.items()}
        self.beside = {name: tree.longer(array, places) for name, array in self.beside.items()}
        self.valid = {name: mask if mask is None else tree.longer(mask, places) for name, mask in self.valid.items()}
        self.masks = [[tree.longer(mask, places) for mask in held] for held in self.masks]
        self.states = [_more_states(each, held, nodes) for each, held in zip(self.bindings, self.states, strict=True)]
        for group in self.moving.coded:
            group.codes = tree.longer(group.codes, places)
        if self._segments is not None:
            self._segments.grow(self)

    def add_beside(self, name: Any, numbers: Array) -> None:
        """Give each row a further number, in the order of `rows`. O(n)."""
        held = np.zeros(len(self.tree.times), numbers.dtype)
        held[self.rows()[1]] = numbers
        self.beside[name] = held
        self._segments = None

    def drop_beside(self, names: Collection[str]) -> None:
        """Let go of numbers beside rows."""
        self.beside = {name: held for name, held in self.beside.items() if name not in names}
        self._segments = None

    # ------------------------------------------------------------ rows out

    @property
    def present(self) -> Array:
        """The keys that have rows, ascending."""
        found: Array = np.flatnonzero(self.tree.keys[tree.ROWS :: tree.KEY])
        return found

    def rows(self, keys: Array | None = None) -> tuple[Array, Array]:
        """Return the keys and the places of all rows, or of those of some keys, in order. O(n)."""
        keys = self.present if keys is None else keys
        count = int(self.tree.keys[tree.KEY * keys + tree.ROWS].sum())
        owners, places = np.empty(count, np.int64), np.empty(count, np.int64)
        self.kernels.list_all(self.tree, keys, owners, places)
        return owners, places

    def rows_between(self, low: int, high: int) -> tuple[Array, Array]:
        """Return the keys and the places of the rows in [low, high), in order. O(rows), and O(log n) a key."""
        keys = self.present
        first, last, counts = self.within(keys, np.full(len(keys), low), np.full(len(keys), high))
        return np.repeat(keys, counts), self.listed(first, last)[0]

    def take(self, places: Array) -> dict[str, Column]:
        """Return the columns of some rows. O(rows)."""
        valid = {name: None if held is None else held[places] for name, held in self.valid.items()}
        return {
            name: Column(read_only(values[places]), valid[name], self.types[name])
            for name, values in self.values.items()
        }

    def times_at(self, where: Array) -> Array:
        """Return the times of the rows at positions. O(1) each."""
        times: Array = self.tree.times[self.places_at(where)]
        return times

    def within(self, keys: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
        """Return between which positions the rows in [start, end) of keys are, and how many. O(log n) each."""
        first, last, counts = (np.empty(len(keys), np.int64) for _ in range(3))
        self.kernels.rows_within(self.tree, keys, start, end, first, last, counts)
        return first, last, counts

    def before(self, keys: Array, at: Array) -> Array:
        """Return how many rows of keys are before times. O(log n) each."""
        counts = np.empty(len(keys), np.int64)
        self.kernels.rows_before(self.tree, keys, at, counts)
        return counts

    def around(self, keys: Array, at: Array) -> tuple[Array, Array]:
        """Return the times of the last row up to a time and of the first after it: BEFORE_TIME, END_OF_TIME if none."""
        before, after = np.full(len(keys), BEFORE_TIME), np.empty(len(keys), np.int64)
        self.kernels.times_around(self.tree, keys, at, before, after)
        return before, after

    def latest(self, keys: Array) -> Array:
        """Return the time of the last row of keys, BEFORE_TIME for those without rows. O(1) each."""
        return self.around(keys, np.full(len(keys), END_OF_TIME - 1))[0]

    def places_at(self, where: Array) -> Array:
        """Return the places of the rows at positions. O(1) each."""
        first = self.tree.nodes[(where >> tree.SHIFT) * tree.NODE + tree.BASE]
        places: Array = first + (where & tree.AT)
        return places

    def grown_to_fit(self, arrays: int, find: Callable[..., int], *arguments: Any) -> list[Array]:
        """Return what a kernel finds in the trees: it writes to some arrays, and returns how many, -1 for no room."""
        room = 256
        while True:
            out = [np.empty(room, np.int64) for _ in range(arrays)]
            count = find(self.tree, *arguments, *out)
            if count >= 0:
                return [each[:count] for each in out]
            room *= 4

    def listed(self, first: Array, last: Array) -> tuple[Array, Array, Array]:
        """Return the places of the rows of ranges, each once, and the bounds of the ranges among them. O(rows)."""
        if len(self._numbers) < len(self.tree.times):
            self._numbers = np.zeros(len(self.tree.times), np.int64)
        begins, ends = np.empty(len(first), np.int64), np.empty(len(first), np.int64)
        places = np.empty(1024, np.int64)
        while True:
            count = self.kernels.list_rows(self.tree, first, last, self._numbers, places, begins, ends)
            if count >= 0:
                return places[:count], begins, ends
            places = np.empty(4 * len(places), np.int64)

    def answers(self, which: int, first: Array, last: Array) -> tuple[Array, ...]:
        """Return the outputs of a binding for ranges of rows: see `answer_ranges`."""
        outputs = self.bindings[which].outputs(len(first))
        if len(first):
            run = self.folding(which).answer_ranges
            run(self.tree, self.states[which], self.suffixes[which], self.inputs(which), first, last, outputs)
        return outputs

    # ------------------------------------------------------------ state

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, without what objects refer to."""
        arrays = [*self.tree, *self.values.values(), *self.beside.values(), *self.states]
        arrays += [each for each in self.valid.values() if each is not None]
        arrays += [mask for held in self.masks for mask in held]
        segments = 0 if self._segments is None else self._segments.nbytes
        return int(sum(array.nbytes for array in arrays)) + self.moving.nbytes + segments

    def save(self) -> dict[str, Array]:
        """Return the rows as arrays by name, by key and time."""
        return self.as_arrays(*self.rows())

    def as_arrays(self, keys: Array, places: Array) -> dict[str, Array]:
        """Return some rows as arrays by name. O(rows)."""
        state = {"keys": keys, "times": self.tree.times[places]}
        for name, column in self.take(places).items():
            state[f"value.{name}"] = column.values
            state[f"valid.{name}"] = np.zeros(0, np.bool_) if column.valid is None else column.valid
        return state | {f"beside.{name}": held[places] for name, held in self.beside.items()}

    def save_changes(self) -> tuple[dict[str, Array], list[Segment]]:
        """Return the rows in segments, of which those that changed since the last such save have arrays.

        Few rows are returned as by `save`, and so are states, most of which change as they age.
        """
        if not self.lifts or not has_tables(self):
            self._segments = None
            return self.save(), []
        if self._segments is None:
            self._segments = RowSegments(self)
        return self._segments.save(self)

    def go_on_from(self, known: Segmented) -> None:
        """Note the segments that the rows were loaded from, which need not be written again."""
        self._segments = RowSegments.of(self, known)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the rows by those that `save` returned. O(n)."""
        marks = self.tree.marks
        beside = {name: state[f"beside.{name}"] for name in self.beside}
        RowStore.__init__(
            self,
            self.types,
            self.bindings,
            int(marks[tree.LEAF_SIZE]),
            int(marks[tree.KIDS_SIZE]),
            self.moving.aggregations,
        )
        columns = {}
        for name, kind in self.types.items():
            valid = state[f"valid.{name}"]
            known = len(valid) == len(state["keys"]) and len(valid) > 0
            columns[name] = Column(read_only(state[f"value.{name}"]), valid if known else None, kind)
        self.beside = {name: np.zeros(0, numbers.dtype) for name, numbers in beside.items()}
        self.insert(state["keys"], state["times"], columns, beside)

    def copy(self, beside: Collection[str]) -> RowStore:
        """Return the same rows, with some of the numbers beside them, in arrays of their own. O(n)."""
        made = type(self)(
            self.types,
            self.bindings,
            int(self.tree.marks[tree.LEAF_SIZE]),
            int(self.tree.marks[tree.KIDS_SIZE]),
            self.moving.aggregations,
        )
        made.beside = {name: np.zeros(0, self.beside[name].dtype) for name in beside}
        made.load(self.save())
        made.know_keys(self.keys)
        return made

    def check(self) -> None:
        """Raise `InvariantError` if the trees are inconsistent. O(n)."""
        reason = tree.wrong(self.tree)
        if reason is not None:
            raise InvariantError(reason)
        self.moving.check(self)


def _more_states(binding: Binding, states: Array, count: int) -> Array:
    longer = binding.slots(count)
    longer[: len(states)] = states
    return longer
