"""Windows by a column that grows with time: an odometer, a counter, an invoice number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.columns import Column
from muntin.durations import END_OF_TIME
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import INT64, NULL, Array, ColumnType, is_finite_number
from muntin.windows.base import VALUE_BOUNDS, Context, Measure, Window
from muntin.windows.buffered import BufferedWindows, Moment, Terms, Windows, keys_of, less, zeros
from muntin.windows.found import Found, SortedRows, filled, finding
from muntin.windows.held_rows import HeldRows
from muntin.windows.limits import may_be_many, opened, require_few
from muntin.windows.shapes import Density, EdgesFrom
from muntin.windows.words import word

_EXACT = 2.0**53
"""The number of windows from zero on that floats can count exactly."""


@dataclass(frozen=True, repr=False)
class Delta(Window):
    """Windows of the rows whose value is in [from, from + range), one at each multiple of `every`, plus `offset`.

    Created by `delta`. The column must not decrease as event time advances.
    """

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.DELTA
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.VALUES
    edges_known: ClassVar[bool] = True  # as values of the column
    splits: ClassVar[bool] = False

    column: str
    range: int | float
    every: int | float
    offset: int | float = 0

    def __post_init__(self) -> None:
        """Reject meaningless steps."""
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgumentError(f"window.delta: the column is {self.column!r}; give its name")
        for name in ("range", "every", "offset"):
            value = getattr(self, name)
            if not is_finite_number(value):
                raise InvalidArgumentError(
                    f"window.delta: {name} is {value!r}; give a number, in the unit of column {self.column!r}"
                )
            if value <= 0 and name != "offset":
                raise InvalidArgumentError(f"window.delta: {name} is {value!r}; it must be positive")
            object.__setattr__(self, name, value.item() if isinstance(value, np.number) else value)
        if self.every > self.range:
            raise InvalidArgumentError(
                f"window.delta: every is {self.every!r}, longer than the range {self.range!r}, so that rows between "
                f"would be in no window; give an every of at most {self.range!r}"
            )

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The growing column."""
        return (self.column,)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        every = "" if self.every == self.range else f", every={self.every!r}"
        offset = "" if self.offset == 0 else f", offset={self.offset!r}"
        return f"window.delta({self.column!r}, {self.range!r}{every}{offset})"

    @property
    def steps(self) -> tuple[int | float, int | float, int | float]:
        """The range, the step and the offset."""
        return self.range, self.every, self.offset

    def is_whole(self, column: ColumnType) -> bool:
        """Return whether windows of a column of this type have integer bounds, rather than floats."""
        return column.family == "integer" and all(isinstance(step, int) for step in self.steps)

    def numbers(self, rows: Any) -> tuple[Array, Array]:
        """Return the values of the column, and the rows that have one."""
        return self._numbers(rows.columns[self.column])

    def _numbers(self, column: Column) -> tuple[Array, Array]:
        if column.type != NULL and column.type.family not in ("integer", "floating"):
            raise ColumnTypeError(f"column {self.column!r} is to advance, so it must hold numbers, not {column.type}")
        held = np.ones(len(column.values), np.bool_) if column.valid is None else column.valid
        if column.values.dtype.kind == "f":
            held = held & ~np.isnan(column.values)
        return column.values, np.flatnonzero(held)

    def require_values(self, columns: Mapping[str, Column]) -> None:
        """Reject values so large that windows there cannot be distinguished, or overflow int64. O(n)."""
        values, held = self._numbers(columns[self.column])
        values = values[held]
        if not len(values):
            return
        if self._is_exact(values):
            reach = self.range + self.every + abs(self.offset)
            low, high = (int(each) for each in (values.min(), values.max()))
            if low - reach >= -(2**63) and high + reach < 2**63:
                return
            far = np.array([not -(2**63) <= each - reach <= each + reach < 2**63 for each in values.tolist()])
        else:
            far = ~(np.abs(values.astype(np.float64) - self.offset) + self.range < self.every * _EXACT)
            if not far.any():
                return
        row = int(np.argmax(far))
        raise InvalidArgumentError(
            f"the column {self.column!r} holds {values[row]} in row {held[row]}, so far out that {self!r} cannot tell "
            "windows there apart; leave the row out, or make the value null"
        )

    def _is_exact(self, values: Array) -> bool:
        """Return whether windows of these values have integer bounds."""
        return values.dtype.kind != "f" and all(isinstance(step, int) for step in self.steps)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows that hold a row: by value alone, so rows need not be contiguous. O(n log n)."""
        values, held = self.numbers(rows)
        key = np.searchsorted(rows.ends, held, "right")
        order = held[np.lexsort((values[held], key))]
        ends = np.searchsorted(held, rows.ends).astype(np.int64)
        kind = np.dtype(np.int64 if self._is_exact(values) else np.float64)
        scalars = tuple(np.array(self.steps, kind))
        if may_be_many(len(order) * (self.range / self.every)):
            is_first = np.append(True, np.diff(key) != 0)[: len(order)]
            counts = opened(values[order], is_first, *self.steps)
            require_few(self, counts, rows.times[order], np.asarray(rows.arrival)[order])
        first, last, low = filled(finding().hopping_windows, (values[order].astype(kind), ends, *scalars), 3, kind)
        bounds = (low, low + scalars[0])
        if np.array_equal(order, np.arange(len(rows.times))):
            return Found(first, last, rows.times[first], rows.times[last - 1], values=bounds)
        members = [np.sort(order[a:b]) for a, b in zip(first, last, strict=True)]
        chosen = np.concatenate([*members, np.zeros(0, np.int64)]).astype(np.int64)
        last = np.cumsum(last - first)
        first = np.concatenate(([0], last[:-1])).astype(np.int64) if len(last) else last
        return Found(
            first, last, rows.times[chosen[first]], rows.times[chosen[last - 1]], values=bounds, members=chosen
        )

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedDelta(self, terms)

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, math.ceil(self.range / self.every))

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        kind = pa.int64() if self.is_whole(types.get(self.column, INT64)) else pa.float64()
        return dict.fromkeys(VALUE_BOUNDS, kind)


@word(first_is_length=False, plain=("range", "every", "offset"))
def delta(column: str, range: float, *, every: float | None = None, offset: float = 0) -> Delta:
    """Return windows by the values of a growing column: [k * every, k * every + range) for integers k.

    Without `every` they follow one another. Rows whose column is null or NaN are in none.

    >>> from muntin import window
    >>> window.delta("odometer", 100.0, every=10.0)
    window.delta('odometer', 100.0, every=10.0)
    """
    return Delta(column, range, range if every is None else every, offset)


class BufferedDelta(BufferedWindows):
    """Windows by value. They are due when the column is beyond them, and final by the greatest old value."""

    definition: Delta

    def __init__(self, definition: Delta, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.born_final: set[tuple[int, Any]] = set()
        """Windows that were already final when rows of this push created them, by key and from_value."""
        steps = (definition.range, definition.every, definition.offset)
        floats = terms.types[definition.column].family == "floating" or any(isinstance(each, float) for each in steps)
        self.number: Any = np.float64 if floats else np.int64
        self.range, self.every, self.offset = (self.number(each) for each in steps)

    def _values(self, rows: HeldRows) -> tuple[Array, Array]:
        """Return the values of the column, and the places of the rows that have one."""
        values, held = self.definition.numbers(rows)
        return values.astype(self.number), held

    def _last_end(self, values: Any) -> Any:
        return (values - self.offset) // self.every * self.every + self.offset + self.range

    def takes(self, new: HeldRows, held: HeldRows, watermark: int) -> Array:
        values, valued = self._values(new)
        old_values, old_valued = self._values(held)
        is_old = less(watermark, self.lateness)
        old = old_valued[held.times[old_valued] <= is_old]
        beyond = dict(zip(*_greatest(held.keys[old], old_values[old]), strict=True))
        taken = np.zeros(len(new), np.bool_)
        if not (new.times[valued] <= is_old).any() and self._all_beyond(new.keys[valued], values[valued], beyond):
            taken[valued] = True
            return taken
        for row in valued.tolist():
            key, value = int(new.keys[row]), values[row]
            most = beyond.get(key)
            taken[row] = most is None or self._last_end(value) > most
            if taken[row] and most is not None and value < most:
                here = old_values[np.intersect1d(old_valued, np.arange(len(held))[held.of_key(key)])].tolist()
                here += [values[i] for i in valued if i < row and taken[i] and new.keys[i] == key]
                self._note_born_final(key, value, most, here)
            if taken[row] and new.times[row] <= is_old:
                beyond[key] = value if most is None else max(most, value)
        return taken

    def _all_beyond(self, keys: Array, values: Array, beyond: Mapping[int, Any]) -> bool:
        """Return whether every value is at least the greatest old one of its key."""
        return all(values[keys == key].min(initial=most) >= most for key, most in beyond.items())

    def _note_born_final(self, key: int, value: Any, most: Any, here: list[Any]) -> None:
        """Record the windows that hold a value, and none of `here`, but end by the greatest old one."""
        for low in self._holding(value):
            if low + self.range <= most and not any(low <= each < low + self.range for each in here):
                self.born_final.add((key, low))

    def _holding(self, value: Any) -> list[Any]:
        """Return the from_values of the windows that hold a value."""
        number = (value - self.offset - self.range) // self.every + 1
        lows = []
        while number * self.every <= value - self.offset:
            lows.append(number * self.every + self.offset)
            number += 1
        return lows

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        found = self.definition.find(self.sorted_rows(rows))
        assert found.values is not None
        at = found.first if found.members is None else found.members[found.first]
        key = keys_of(rows, at)
        low, high = (each.astype(self.number) for each in found.values)
        values, valued = self._values(rows)
        due = np.full(len(key), END_OF_TIME)
        final = np.zeros(len(key), np.bool_)
        old = less(moment.before, self.lateness)
        for each in np.unique(key):
            mine, own = np.flatnonzero(key == each), valued[rows.keys[valued] == each]
            order = own[np.argsort(values[own], kind="stable")]
            soonest = np.append(np.minimum.accumulate(rows.times[order][::-1])[::-1], END_OF_TIME)
            due[mine] = soonest[np.searchsorted(values[order], high[mine])]
            known = own[(rows.numbers[own] < moment.fresh) & (rows.times[own] <= old)]
            if len(known):
                final[mine] = high[mine] <= values[known].max()
        for i in range(len(key)) if self.born_final else ():
            final[i] |= (int(key[i]), low[i]) in self.born_final
        name = low.view(np.int64) if low.dtype == np.float64 else low
        return Windows(found, key, due, final, (name, zeros(len(key)), zeros(len(key))))

    def finalize(self, windows: Windows, final: Array, watermark: int) -> None:
        self.born_final = set()

    def save(self) -> dict[str, Array]:
        keys, lows = [key for key, _ in self.born_final], [low for _, low in self.born_final]
        return {"born_key": np.array(keys, np.int64), "born_low": np.array(lows, self.number)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.born_final = set(zip(state["born_key"].tolist(), state["born_low"].tolist(), strict=True))


def _greatest(keys: Array, values: Array) -> tuple[list[int], list[Any]]:
    """Return the distinct keys, ascending, and the greatest value of each."""
    if not len(keys):
        return [], []
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[begins].tolist(), np.maximum.reduceat(values, begins).tolist()
