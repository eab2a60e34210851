"""Tiles: trailing frames that begin at multiples of a hop, answered from states instead of rows.

A row is lifted when it arrives. Rows among which no future frame can begin or end are merged into one tile: the finer
the hops of the frames that may still begin there, the shorter the tile. So all windows share tiles, and old ones are as
coarse as the longest window allows.

    time     ......|............|............|......|......|......|..|..|.....  now
    tiles    those of the longest window alone      those of two    each  rows
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregations.failing import in_words
from muntin.aggregators.choose import Chosen
from muntin.arrays.results import Raw
from muntin.arrays.runner import results_by_name
from muntin.columns import Column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import UnsupportedOperationError
from muntin.kernels.mixing import mix
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    combine,
    emit,
    emit_empty,
    hold,
    kernel,
    lift,
    load,
    store,
)
from muntin.query.plan import Plan
from muntin.streams.buffer.definition import BufferedDefinition
from muntin.streams.buffer.tuples import Tuples
from muntin.streams.decisions import NOTHING
from muntin.streams.places import Places
from muntin.streams.strategy import Batch, HeldBatch
from muntin.tables.answers import Answers
from muntin.types import ANY, Array
from muntin.windows.base import Window
from muntin.windows.buffered import less
from muntin.windows.held_rows import HeldRows

_STATE, _CONTENT = "state", "content"
_MARKS = 7
"""How many marks a saved state has; older ones lack when rows were merged, which was at their watermark."""
_FEW = 16
"""How many new rows to wait for before rows are merged into tiles again."""


@kernel
def lift_rows(columns: Columns, times: Ints, states: Slots) -> None:
    """Lift each row into a state of its own."""
    for row in range(len(times)):
        store(states, row, lift(columns, times, row))


@kernel
def fold_tiles(states: Slots, firsts: Ints, lasts: Ints, tiles: Slots) -> None:
    """Fold each non-empty range of states [first, last) into one tile."""
    for i in range(len(firsts)):
        state = hold(load(states, firsts[i]))
        for at in range(firsts[i] + 1, lasts[i]):
            state = combine(state, load(states, at))
        store(tiles, i, state)


@kernel
def answer_frames(states: Slots, front: Slots, firsts: Ints, lasts: Ints, outputs: Outputs) -> None:
    """Answer frames, whose bounds ascend, by two stacks: a front of suffixes, flipped when used up, and a back."""
    back = hold(load(states, 0))
    middle = 0  # the front holds the states before this, each combined with those after it
    end = 0
    for i in range(len(firsts)):
        first = firsts[i]
        last = lasts[i]
        if first == last:
            emit_empty(outputs, i)
        elif first >= middle:
            store(front, last - 1, load(states, last - 1))
            for at in range(last - 2, first - 1, -1):
                store(front, at, combine(load(states, at), load(front, at + 1)))
            middle = last
            end = last
            emit(outputs, i, load(front, first))
        else:
            while end < last:
                back = hold(load(states, end)) if end == middle else combine(back, load(states, end))
                end += 1
            if end > middle:
                emit(outputs, i, combine(load(front, first), back))
            else:
                emit(outputs, i, load(front, first))


@kernel
def fold_frames(states: Slots, firsts: Ints, lasts: Ints, outputs: Outputs) -> None:
    """Answer frames in any order, each separately."""
    for i in range(len(firsts)):
        if firsts[i] == lasts[i]:
            emit_empty(outputs, i)
        else:
            state = hold(load(states, firsts[i]))
            for at in range(firsts[i] + 1, lasts[i]):
                state = combine(state, load(states, at))
            emit(outputs, i, state)


_KERNELS = (lift_rows, fold_tiles, answer_frames, fold_frames)


class Tiles(Tuples):
    """Rows as states, merged as they age. For trailing frames with a hop, of commutative aggregations.

    A key takes as many states as its windows have hops, those of the shorter ones counted once, plus one per row within
    the lateness and the greatest delay. A push takes O(n) time and combines for the n states of the keys it touches.
    """

    keeps = NOTHING

    def __init__(self, plan: Plan) -> None:
        self.binding = plan.bind(plan.aggregates, gaps=True)
        super().__init__(plan)
        content = Column(np.zeros(0, np.uint64), None, ANY)
        nothing = np.zeros(0, np.int64)
        states = Column(self.binding.slots(0), None, ANY)
        self._rows = HeldRows(nothing, nothing, nothing, {_STATE: states, _CONTENT: content})
        self._few = _FEW  # how many rows there may be before they are merged
        self._merged_at = BEFORE_TIME  # the watermark at which rows were last merged

    @property
    def row_bytes(self) -> None:
        """None: rows are merged into tiles."""

    def rows_held(self) -> None:
        """Return None: there are states, not rows."""

    def begin(self, held: HeldBatch) -> None:  # the interface of strategies
        """Return None: begins with the next row."""

    def _part(self, window_id: int, definition: Window, plan: Plan) -> BufferedDefinition:
        return TiledDefinition(window_id, definition.buffered(plan.terms), plan)

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why tiles cannot answer a plan, or None if they can."""
        for each in plan.windows.values():
            if each.tiling is None:
                return f"{each!r} does not begin at multiples of a hop"
        for name, aggregation in plan.aggregates.items():
            if not aggregation.commutative or aggregation.kind == "holistic":
                return f"{name!r} is {aggregation!r}, of which a tile has no state that takes rows in any order"
        if not plan.bind(plan.aggregates, gaps=True).fixed:
            return "a state has no fixed size"
        return None

    @property
    def state_bytes(self) -> int:
        """The bytes of a tile: its key, time, number and content, and its state."""
        return 4 * 8 + self.binding.dtype.itemsize

    def merged_by(self) -> Iterator[Chosen]:
        """Yield the folding of tiles, for all aggregates."""
        yield Chosen(tuple(self.plan.aggregates), "two_stacks", "the frames of a push ascend: O(1) combines a state")

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took."""
        count = len(batch.times)
        states = self.binding.slots(count)
        times = np.ascontiguousarray(batch.times)
        with in_words(self.binding.aggregations, self.binding.types):
            _kernels(self.binding).lift_rows(self.binding.inputs(batch.columns, count), times, states)
        content = mix((batch.arrived + np.arange(count)).astype(np.uint64))
        columns = {_STATE: Column(states, None, ANY), _CONTENT: Column(content, None, ANY)}
        return super().take(Batch(batch.keys, batch.times, columns, batch.arrived), watermark)

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        answers = super().emit(watermark, horizon, early=early)
        if len(self._rows) > self._few and BEFORE_TIME < watermark < END_OF_TIME:
            self._rows = self._tiled(self._rows, watermark)
            self._few = len(self._rows) + max(_FEW, len(self._rows) // 8)
        return answers

    def _tiled(self, rows: HeldRows, watermark: int) -> HeldRows:
        """Return the rows, merging those that every future frame holds together or not at all."""
        begins = np.append(True, np.diff(rows.keys) != 0)
        compactable = np.ones(len(rows), np.bool_)
        for part in self._parts:
            tiling = part.kind.definition.tiling
            open_from = less(watermark, part.kind.slack)  # frames of rows up to here are final
            compactable &= (rows.times <= less(open_from, tiling.delay)) & part.takes_part(rows)
            cells = np.where(rows.times > less(open_from, tiling.back), rows.times // tiling.hop, BEFORE_TIME)
            begins[1:] |= cells[1:] != cells[:-1]
        begins |= ~compactable
        begins[1:] |= ~compactable[:-1]
        first = np.flatnonzero(begins)
        if len(first) == len(rows):
            return rows
        tiles = self.binding.slots(len(first))
        with in_words(self.binding.aggregations, self.binding.types):
            _kernels(self.binding).fold_tiles(_states(rows.columns), first, np.append(first[1:], len(rows)), tiles)
        self._merged_at = watermark
        content = np.add.reduceat(rows.columns[_CONTENT].values, first)
        columns = {_STATE: Column(tiles, None, ANY), _CONTENT: Column(content, None, ANY)}
        return HeldRows(rows.keys[first], rows.times[first], rows.numbers[first], columns)

    def kept_for_ever(self) -> Array:
        """Return no keys: frames by time evict all states in the end."""
        return np.zeros(0, np.int64)

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget nothing: frames by time evict by themselves."""
        return []

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Reject one more definition: it may begin or end within rows already merged.

        So it is answered separately, from the next row on, and shares tiles with others only after a restart.
        """
        raise UnsupportedOperationError(
            f"tiles cannot take {definition!r} on: rows that are merged cannot be told apart where it begins"
        )

    def _first_answered(self, part: BufferedDefinition, kept_from: int) -> int:
        """Return the least time whose frame begins and ends between tiles: an earlier one may hold part of a tile."""
        merged = BEFORE_TIME if self._merged_at == BEFORE_TIME else less(self._merged_at, part.kind.slack - 1)
        return max(super()._first_answered(part, kept_from), merged)

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name."""
        state = super().save()
        return {**state, "marks": np.append(state["marks"], self._merged_at)}

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the states have what belongs to which aggregate."""
        return (Places.of("rows.", self.binding, states=(f"value.{_STATE}",)),)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""
        super().load(state)
        *_, self._merged_at = map(int, state["marks"][:1] if len(state["marks"]) < _MARKS else state["marks"])
        self._few = _FEW


class TiledDefinition(BufferedDefinition):
    """One definition over states."""

    def _content(self, rows: HeldRows) -> Array:
        return rows.columns[_CONTENT].values

    def aggregate(self, columns: Mapping[str, Column], times: Array, first: Array, last: Array) -> Mapping[str, Raw]:
        """Return the aggregates of the states [first, last), both bounds ascending."""
        outputs = self.binding.outputs(len(first))
        states = _states(columns) if len(columns[_STATE].values) else self.binding.slots(1)
        with in_words(self.binding.aggregations, self.binding.types):
            _kernels(self.binding).answer_frames(states, self.binding.slots(len(states)), first, last, outputs)
        return results_by_name(self.binding, outputs)

    def fold(self, columns: Mapping[str, Column], times: Array, first: Array, last: Array) -> Mapping[str, Raw]:
        """Return the aggregates of the states [first, last), in any order. One combine per state of a window."""
        outputs = self.binding.outputs(len(first))
        with in_words(self.binding.aggregations, self.binding.types):
            _kernels(self.binding).fold_frames(_states(columns), first, last, outputs)
        return results_by_name(self.binding, outputs)


def _kernels(binding: Binding) -> Any:
    return binding.kernels(_KERNELS, *(each.__name__ for each in _KERNELS))


def _states(columns: Mapping[str, Column]) -> Array:
    """Return the states of rows as writable arrays, for which kernels are compiled once."""
    states = columns[_STATE].values
    return states if states.flags.writeable else states.copy()
