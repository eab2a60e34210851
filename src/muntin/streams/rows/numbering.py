"""Values as integers, so that one kind of multiset holds values of any type.

Numbers are their own bits, turned so that they have the order of the numbers. Other values need an integer beside each
row: decimals have their digits, and of those that are only told apart each gets the next number when it first comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import bind
from muntin.columns import Column, all_valid
from muntin.kernels.runtime import as_token
from muntin.streams.rows.multisets import LOWEST
from muntin.streams.sorted_runs.order_keys import OrderKeys
from muntin.streams.sorted_runs.runs import Values, keeps_runs
from muntin.types import DECIMALS, Array, ColumnType

TURNED, TOP, LEAST, GREATEST, NAN, SKIPS_NAN, ONE_ZERO = range(7)
"""How values become integers of the same order: the bits flipped in negative ones, and in all; what lies outside of
LEAST and GREATEST is NAN, which may be skipped. ONE_ZERO: -0.0 is 0.0."""
_AS_THEY_ARE = np.array([0, 0, LOWEST, ~LOWEST, 0, 0, 0], np.int64)
_SPARE = 1 << 12
_MOST_DIGITS = 18
"""So many digits fit into an integer."""


class Numbers:
    """Integers that stand for the values of a column of numbers: their bits, turned where that keeps the order."""

    def __init__(self, kind: ColumnType, values: Values) -> None:
        self.keys = OrderKeys(kind.physical)
        negative, top = self.keys.turned.tolist()
        least, greatest, nan = LOWEST, ~LOWEST, 0
        if is_float := kind.physical.kind == "f":
            least, greatest, nan = self.keys.of(np.array([-np.inf, np.inf, np.nan], kind.physical)).tolist()
        flags = is_float and values.skip_nan, is_float and values.distinct
        self.order = np.array([negative, top, least, greatest, nan, *flags], np.int64)

    def bits(self, held: Array) -> Array:
        """Return the values that are held, as integers."""
        kind = "u1" if held.dtype.kind == "b" else f"i{held.dtype.itemsize}" if held.dtype.kind == "f" else held.dtype
        return held.view("i8" if held.dtype == np.uint64 else kind)

    def value(self, number: int) -> Any:
        """Return the value that an integer stands for."""
        negative, top = self.keys.turned.tolist()
        word = np.array([number ^ ((number >> 63) & negative) ^ top], np.int64)
        return word.view(self.keys.kind.dtype)[0]


class Tokens:
    """Integers for the distinct values of a column of objects, in the order in which they first came."""

    def __init__(self, kind: ColumnType, values: Values) -> None:
        self.order = _AS_THEY_ARE
        self._known: dict[Any, int] = {}

    def of(self, column: Column) -> Array:
        """Return the integers of values, nulls among them. O(n)."""
        known = self._known
        return np.array([known.setdefault(as_token(value), len(known)) for value in column.values], np.int64)

    def outgrown(self, rows: int) -> bool:
        """Return whether most of them stand for values that no row has any more."""
        return len(self._known) > 2 * rows + _SPARE

    def forget(self) -> None:
        """Begin anew."""
        self._known.clear()


class Unscaled:
    """The digits of decimals that have no more than 18 of them."""

    def __init__(self, kind: ColumnType, values: Values) -> None:
        self.order = _AS_THEY_ARE
        assert kind.logical is not None
        self._scale = kind.logical.scale

    def of(self, column: Column) -> Array:
        """Return the integers of values. O(n)."""
        valid = all_valid(len(column.values)) if column.valid is None else column.valid
        numbers = [
            int(value.scaleb(self._scale, DECIMALS)) if ok else 0
            for value, ok in zip(column.values, valid, strict=True)
        ]
        return np.array(numbers, np.int64)

    def value(self, number: int) -> Any:
        """Return the value that an integer stands for."""
        return Decimal(number).scaleb(-self._scale, DECIMALS)

    def outgrown(self, rows: int) -> bool:
        """Return False: nothing is remembered."""
        return False


Coding: TypeAlias = Tokens | Unscaled
Numbering: TypeAlias = Numbers | Coding


def numbering_for(aggregation: Aggregation, types: Mapping[str, ColumnType]) -> type[Numbering] | None:
    """Return what makes integers of the values that an aggregation reads; None if it cannot be answered from these.

    >>> from muntin import agg
    >>> from muntin.types import ANY, FLOAT64
    >>> types = {"v": FLOAT64, "name": ANY}
    >>> each = agg.median("v"), agg.count_distinct("name"), agg.sum("v"), agg.collect("v")
    >>> [numbering_for(one, types) for one in each][2:], numbering_for(each[1], types).__name__
    ([None, None], 'Tokens')
    """
    if keeps_runs(aggregation, types):
        return Numbers
    if len(aggregation.columns) != 1 or aggregation.kind != "holistic":
        return None
    part, kind = bind({"it": aggregation}, types, nullable=False).parts[0], types[aggregation.columns[0]]
    if "lift" in part.functions and not part.distinct:
        return None
    if part.distinct:
        return None if aggregation.skip_nan else Tokens
    small = kind.family == "decimal" and kind.logical is not None and kind.logical.precision <= _MOST_DIGITS
    return Unscaled if part.sorted and small else None
