"""The least and the greatest, and what came with them. NaN is greater than any number, as in Spark SQL."""

from __future__ import annotations

from typing import Any

from muntin.aggregations.define import by_type, define
from muntin.types import DECIMALS


def above(x: Any, y: Any) -> bool:
    """Say whether x is greater than y, NaN being the greatest."""
    return x > y or (x != x and y == y)


def same(x: Any, y: Any) -> bool:
    """Say whether x and y are equal, NaN being equal to itself."""
    return x == y or (x != x and y != y)


@define(state="v", commutative=True, selective=True)
class max:
    """The greatest value, of any type that has an order. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([3, 1, 2], agg.max("v"), range=2).tolist()
    [3, 3, 2]
    """

    def lift(v):
        return v

    def combine(a, b, *, has_nan):
        return b if b > a or (has_nan and b != b) else a

    def neutral(*, lowest):
        return lowest


@define(state="v", commutative=True, selective=True)
class min:
    """The least value, of any type that has an order. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([3, 1, 2], agg.min("v"), range=2).tolist()
    [3, 1, 1]
    """

    def lift(v):
        return v

    def combine(a, b, *, has_nan):
        return b if b < a or (has_nan and a != a) else a

    def neutral(*, highest):
        return highest


@define(state={"best": "v", "n": "i8"}, result="i8", empty=0, commutative=True)
class max_count:
    """How often the greatest value occurs. 0 for no rows. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([3, 3, 2], agg.max_count("v"), range=3).tolist()
    [1, 2, 2]
    """

    def lift(v):
        return (v, 1)

    def combine(a, b):
        if same(a.best, b.best):
            return (a.best, a.n + b.n)
        return b if above(b.best, a.best) else a

    def lower(s):
        return s.n


@define(state={"best": "v", "n": "i8"}, result="i8", empty=0, commutative=True)
class min_count:
    """How often the least value occurs. 0 for no rows. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([1, 1, 2], agg.min_count("v"), range=3).tolist()
    [1, 2, 2]
    """

    def lift(v):
        return (v, 1)

    def combine(a, b):
        if same(a.best, b.best):
            return (a.best, a.n + b.n)
        return b if above(a.best, b.best) else a

    def lower(s):
        return s.n


@define(state={"key": "by", "t": "i8", "value": "value"}, result="value", commutative=True, selective=True)
class arg_max:
    """The value that came with the greatest key: `arg_max("len", "caller")`. O(1) combine.

    Ties go to the first row in event order. A row is skipped where either column is null.

    >>> from muntin import slide, agg
    >>> slide({"len": [3, 9, 9], "caller": ["a", "b", "c"]}, agg.arg_max("len", "caller"), range=2).tolist()
    ['a', 'b', 'b']
    """

    def lift(by, value, *, time):
        return (by, time, value)

    def combine(a, b):
        if same(a.key, b.key):
            return b if b.t < a.t else a
        return b if above(b.key, a.key) else a

    def lower(s):
        return s.value


@define(state={"key": "by", "t": "i8", "value": "value"}, result="value", commutative=True, selective=True)
class arg_min:
    """The value that came with the least key: `arg_min("len", "caller")`. O(1) combine.

    Ties go to the first row in event order. A row is skipped where either column is null.

    >>> from muntin import slide, agg
    >>> slide({"len": [3, 1, 9], "caller": ["a", "b", "c"]}, agg.arg_min("len", "caller"), range=2).tolist()
    ['a', 'b', 'b']
    """

    def lift(by, value, *, time):
        return (by, time, value)

    def combine(a, b):
        if same(a.key, b.key):
            return b if b.t < a.t else a
        return b if above(a.key, b.key) else a

    def lower(s):
        return s.value


@define(state={"low": "v", "high": "v"}, result="difference", commutative=True)
class _range:
    def lift(v):
        return (v, v)

    def combine(a, b):
        return (
            b.low if above(a.low, b.low) else a.low,
            b.high if above(b.high, a.high) else a.high,
        )

    def widen(s):
        return (s.low, s.high)

    def lower(s):
        return s.high - s.low


@define(state={"low": "v", "high": "v"}, result="i8", commutative=True)
class _integer_range:
    def lift(v):
        return (v, v)

    def combine(a, b):
        return (b.low if b.low < a.low else a.low, b.high if b.high > a.high else a.high)

    def lower(s):
        difference = int(s.high) - int(s.low)
        if difference < 0 or difference > 9223372036854775807:  # it has wrapped around, or would in int64
            raise OverflowError("the range of a window does not fit int64")
        return difference


def _lower_decimal_range(s):
    return DECIMALS.subtract(s.high, s.low)  # the minus of Python rounds to 28 digits, or what the thread has set


range = by_type(
    "range",
    """The greatest value minus the least; a duration for timestamps. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([3, 1, 7], agg.range("v"), range=2).tolist()
    [0, 2, 6]
    """,
    floating=_range,
    integer=_integer_range,
    temporal=_integer_range.returning("difference"),
    duration=_integer_range.returning("difference"),
    decimal=_range.lowered_by("range", _lower_decimal_range).returning("difference"),
)
