"""Windows by a column that grows with time: an odometer, a counter, an invoice number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.columns import Column
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import INT64, NULL, Array, ColumnType, is_finite_number
from muntin.windows.base import VALUE_BOUNDS, Context, Measure, Window
from muntin.windows.found import Found, SortedRows, filled, finding
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
