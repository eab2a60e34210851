"""States by the values of a column: what `agg.per` keeps, for any inner aggregation.

A row is only noted, and joining two states only notes both: O(1). They are merged when an answer is due, or when there
is more to merge than the greater part holds, so that a row costs O(1) merges, amortised, however many groups there are.
Merged, a state is a dictionary of values to places, and the inner states in one array: rows and states are folded by
kernels of the inner aggregation, compiled where that compiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.aggregations.examples import example_type
from muntin.columns import Column, read_column
from muntin.errors import AggregationOverflowError, ColumnTypeError
from muntin.kernels.vocabulary import Columns, Ints, Outputs, Slots, combine, emit, kernel, lift, load, store
from muntin.objects import Packed, Stored
from muntin.types import ANY, OBJECT, Array, ColumnType, column_type

_FEW = 256
"""How many rows and groups are noted before they are merged."""


@kernel
def fold_groups(columns: Columns, times: Ints, places: Ints, fresh: Any, states: Slots) -> None:
    """Fold rows, in order, into the groups at these places; `fresh` marks those that have no row yet."""
    for row in range(len(places)):
        at = places[row]
        state = lift(columns, times, row)
        if fresh[at]:
            fresh[at] = False
            store(states, at, state)
        else:
            store(states, at, combine(load(states, at), state))


@kernel
def merge_groups(states: Slots, others: Slots, places: Ints, held: int, older: bool) -> None:
    """Merge other groups into those at these places, of which the first `held` have a state; or are they `older`?"""
    for i in range(len(places)):
        at = places[i]
        if at >= held:
            store(states, at, load(others, i))
        elif older:
            store(states, at, combine(load(others, i), load(states, at)))
        else:
            store(states, at, combine(load(states, at), load(others, i)))


@kernel
def emit_groups(states: Slots, count: int, outputs: Outputs) -> None:
    """Write the answers of the first `count` groups."""
    for i in range(count):
        emit(outputs, i, load(states, i))


_KERNELS = (fold_groups, merge_groups, emit_groups)
_ENTRIES = ("fold_groups", "merge_groups", "emit_groups")


class Row(NamedTuple):
    """A row that has not been folded."""

    value: Any
    cells: tuple[Any, ...]
    time: int


class Merged(NamedTuple):
    """Groups with their states; never changed once others can see it."""

    places: dict[Any, int]
    states: Array
    """With room for more."""


class Groups(Packed):
    """A state: a row, two neighbouring states, or groups that are merged."""

    __slots__ = ("content", "cost", "greatest", "owner")

    def __init__(self, owner: Grouping, content: Any, cost: int, greatest: int) -> None:
        self.owner = owner
        self.content = content
        self.cost = cost
        """How many rows and groups there are to merge."""
        self.greatest = greatest
        """How many of these are groups of the greatest part that is merged already."""

    def plain(self) -> Any:
        """Return the values and their states, by value."""
        return self.owner.packed(self)


class Grouping:
    """Groups of one inner aggregation, by a column: makes, joins and answers states."""

    def __init__(
        self,
        inner: Aggregation,
        column: str,
        kind: ColumnType,
        types: dict[str, ColumnType],
        time: ColumnType | None,
        most: int,
    ) -> None:
        if kind.logical is not None and pa.types.is_nested(kind.logical):
            raise ColumnTypeError(
                f"agg.per of column {column!r}: it holds {kind}, which tells no groups apart; take a field of it, or "
                "its text"
            )
        self.inner = inner
        self.column = column
        self.kind = kind
        self.types = types
        self.most = most
        self.binding: Binding = bind({"result": inner}, types, time=time)
        self.floating = kind.family == "floating" or kind.logical is None

    @property
    def type(self) -> ColumnType:
        """The type of the answers."""
        value, result = self.kind.logical, self._result_type()
        if value is None or pa.types.is_null(result):
            return ANY
        return column_type(pa.list_(pa.struct([("value", value), ("result", result)])))

    def _result_type(self) -> pa.DataType:
        (result,) = self.binding.results
        kinds = tuple(self.types[column] for column in self.inner.columns)
        return result.logical or example_type(self.inner, kinds)

    @property
    def _kernels(self) -> Any:
        return self.binding.kernels(_KERNELS, *_ENTRIES)

    # ------------------------------------------------------------ states

    def row(self, value: Any, cells: tuple[Any, ...], time: int) -> Groups:
        """Return the state of one row. O(1)."""
        if self.floating and isinstance(value, float):
            value = value + 0.0 if value == value else math.nan  # one zero, and one NaN: it equals itself in a dict
        return Groups(self, Row(value, cells, time), 1, 0)

    def none(self) -> Groups:
        """Return the state of no rows."""
        return Groups(self, Merged({}, self.binding.slots(0)), 0, 0)

    def combine(self, older: Any, newer: Any) -> Groups:
        """Return the state of two neighbouring windows. Amortised O(1) merges for each row; O(groups) at worst."""
        a, b = self._known(older), self._known(newer)
        if not a.cost or not b.cost:
            return b if b.cost else a
        both = Groups(self, (a, b), a.cost + b.cost, max(a.greatest, b.greatest))
        noted = both.cost - both.greatest
        # Near `most` earlier, so that too many values are an error of the call that brings them.
        if noted > max(_FEW, both.greatest) or (both.cost > self.most and noted > self.most >> 6):
            self.merged(both)
        return both

    def _known(self, state: Any) -> Groups:
        """Return a state as this object knows it, where it was read from a snapshot."""
        if state is None:  # of a window that began before the aggregation was asked for
            return self.none()
        if isinstance(state, Stored):
            if state.made is None:
                state.made = self._read(state.values)
            state = state.made
        assert isinstance(state, Groups)
        return state

    def merged(self, state: Any) -> Merged:
        """Return the groups of a state, merged once and for all. O(rows and groups noted)."""
        state = self._known(state)
        if isinstance(state.content, Merged):
            return state.content
        merger = _Merger(self)
        for part in _parts(state):
            merger.add(part)
        found = merger.merged()
        state.cost = state.greatest = len(found.places)
        state.content = found
        return found

    def require_few(self, groups: int) -> None:
        """Reject more groups than a state may have."""
        if groups > self.most:
            raise AggregationOverflowError(
                f"agg.per: the column {self.column!r} has {groups:,} distinct values in a window, and most is "
                f"{self.most:,}; give a greater most=, or leave rows out by where="
            )

    # ------------------------------------------------------------ rows and states in bulk

    def fold(self, rows: Sequence[Row], places: Array, fresh: Array, states: Array) -> None:
        """Fold rows into the groups at these places. O(rows) combines."""
        columns = {name: self._column(name, [row.cells[i] for row in rows]) for i, name in enumerate(self.inner.reads)}
        inputs = self.binding.inputs(columns, len(rows))
        times = np.fromiter((row.time for row in rows), np.int64, len(rows))
        self._kernels.fold_groups(inputs, times, places, fresh, states)

    def _column(self, name: str, cells: list[Any]) -> Column:
        kind = self.types[name]
        if kind.logical is not None:
            return read_column(pa.array(cells, kind.logical), name)
        values = np.empty(len(cells), OBJECT)
        values[:] = cells
        return Column(values, np.array([cell is not None for cell in cells]), kind)

    def merge(self, states: Array, others: Array, places: Array, held: int, *, older: bool) -> None:
        """Merge other groups into those at these places. A combine for each of the others."""
        self._kernels.merge_groups(states, others, places, held, older)

    # ------------------------------------------------------------ answers

    def lower(self, state: Any, top: int | None) -> list[dict[str, Any]]:
        """Return the value and the result of each group, in order: by result downwards with `top`, else by value."""
        found = self.merged(state)
        outputs = self.binding.outputs(len(found.places))
        self._kernels.emit_groups(found.states, len(found.places), outputs)
        ((results, valid),) = self.binding.raw_results(outputs)
        values = list(found.places)
        chosen = np.arange(len(values)) if top is None else _greatest(results, valid, top)
        answers = self._answers(results, valid, chosen)
        pairs = [(values[i], answer) for i, answer in zip(chosen.tolist(), answers, strict=True)]
        pairs.sort(key=lambda pair: _rank(pair[0]))
        if top is not None:
            pairs.sort(key=lambda pair: _rank(pair[1]), reverse=True)  # stable: equal ones stay by value
        return [{"value": value, "result": result} for value, result in pairs[:top]]

    def _answers(self, results: Array, valid: Array | None, chosen: Array) -> list[Any]:
        (result,) = self.binding.results
        found: list[Any] = result.array(results[chosen], None if valid is None else valid[chosen]).to_pylist()
        return found

    # ------------------------------------------------------------ plain values

    def packed(self, state: Groups) -> Any:
        """Return the values of a state and their states, by value: bytes where these have a fixed size. O(groups)."""
        found = self.merged(state)
        values = sorted(found.places, key=_rank)
        states = found.states[[found.places[value] for value in values]] if values else self.binding.slots(0)
        held = states.view(np.uint8).copy() if self.binding.fixed else list(states)
        return (values, held, self._signature)

    def shown(self, state: Groups) -> Any:
        """Return the values of a state and their states as Python values, by value. O(groups)."""
        found = self.merged(state)
        values = sorted(found.places, key=_rank)
        return values, [found.states[found.places[value]] for value in values]

    @property
    def _signature(self) -> tuple[str, ...]:
        return tuple(map(str, self.types.values()))

    def _read(self, plain: Any) -> Groups:
        values, held, signature = plain
        states = self.binding.slots(len(values))
        places = {value if value == value else math.nan: i for i, value in enumerate(values)}
        if tuple(signature) != self._signature and not self.inner.definition.nulls:
            self._fold_nulls(states)  # of a column that held nothing but nulls, which has a type only now
        elif self.binding.fixed:
            states.view(np.uint8)[:] = held
        else:
            states[:] = [self._revived(each) for each in held]
        return Groups(self, Merged(places, states), len(values), len(values))

    def _fold_nulls(self, states: Array) -> None:
        """Write the states of groups whose rows are null to the inner aggregation."""
        rows = [Row(None, (None,) * len(self.inner.reads), 0)] * len(states)
        self.fold(rows, np.arange(len(states)), np.ones(len(states), np.bool_), states)

    def _revived(self, state: Any) -> Any:
        """Return an object state that was read, with plain tuples turned into records again."""
        module = self.binding.uncompiled.kernels(())
        records = [
            getattr(module, f"_p{k}_state")(value) if part.fields is not None and not part.scalar else value
            for (k, part), value in zip(self.binding.states, state, strict=False)
        ]
        return module._S(*records, *state[len(records) :])

    def adopted(self, state: Any, convert: Any) -> Groups:
        """Return a state of another grouping, whose inner states `convert` turns into those of this one. O(groups)."""
        state = state.made if isinstance(state, Stored) and state.made is not None else state
        if isinstance(state, Stored) or not state.cost:
            return self._known(state) if isinstance(state, Stored) else self.none()
        found = state.owner.merged(state)
        states = convert(found.states[: len(found.places)])
        return Groups(self, Merged(dict(found.places), states), len(states), len(states))


class _Merger:
    """Merges the parts of a state, from the oldest on, into groups of its own."""

    def __init__(self, owner: Grouping) -> None:
        self.owner = owner
        self.places: dict[Any, int] = {}
        self.states = owner.binding.slots(0)
        self.rows: list[Row] = []

    def add(self, part: Row | Merged) -> None:
        """Take the next part."""
        if isinstance(part, Row):
            self.rows.append(part)
            return
        self._fold_rows()
        if len(part.places) > len(self.places):
            self._swap(part)
        else:
            self._merge(part.places, part.states, older=False)

    def merged(self) -> Merged:
        """Return what all parts make."""
        self._fold_rows()
        return Merged(self.places, self.states)

    def _swap(self, part: Merged) -> None:
        """Go on with a copy of a greater part, into which the groups so far are merged."""
        places, states = self.places, self.states
        self.places, self.states = dict(part.places), part.states.copy()
        self._merge(places, states, older=True)

    def _merge(self, others: dict[Any, int], states: Array, *, older: bool) -> None:
        held = len(self.places)
        places = self._places_of(others, len(others))
        if len(others):
            self.owner.merge(self.states, states, places, held, older=older)

    def _fold_rows(self) -> None:
        rows, self.rows = self.rows, []
        if rows:
            held = len(self.places)
            places = self._places_of((row.value for row in rows), len(rows))
            fresh = np.ones(len(self.places), np.bool_)
            fresh[:held] = False
            self.owner.fold(rows, places, fresh, self.states)

    def _places_of(self, values: Any, count: int) -> Array:
        """Return the places of values, with room for new ones."""
        places = self.places
        found = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int64, count)
        self.owner.require_few(len(places))
        if len(places) > len(self.states):
            room = self.owner.binding.slots(2 * len(places))
            room[: len(self.states)] = self.states
            self.states = room
        return found


def _parts(state: Groups) -> Iterator[Row | Merged]:
    """Yield the rows and the merged groups of a state, from the oldest on."""
    todo = [state]
    while todo:
        content = todo.pop().content
        if isinstance(content, Row | Merged):
            yield content
        else:
            older, newer = content
            todo += (newer, older)


def _greatest(results: Array, valid: Array | None, top: int) -> Array:
    """Return the places of the `top` greatest results and of all that equal the least of these. O(n)."""
    known = np.arange(len(results)) if valid is None else np.flatnonzero(valid)
    if len(known) < top or results.dtype.kind not in "biuf" or results.ndim > 1:
        return np.arange(len(results))
    numbers = results[known]
    least = np.partition(numbers, len(numbers) - top)[len(numbers) - top]  # NaN is sorted behind all numbers
    chosen: Array = known[(numbers != numbers) | (numbers >= least)]
    return chosen


def _rank(value: Any) -> Any:
    """Return what a value is ordered by: null first, NaN last, the parts of structs and lists one by one."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(map(_rank, value.values())))
    if isinstance(value, list | tuple):
        return (1, tuple(map(_rank, value)))
    return (2,) if value != value else (1, value)
