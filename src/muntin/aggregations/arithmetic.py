"""Counts, sums, means and products.

Sums of integers are exact: two limbs of 32 and 64 bits hold them, and only a final result that does not fit int64 is an
error. Sums of floats carry the rounding error of every addition beside the sum (Neumaier's sum as a monoid): over a
window of n values the result is off by at most u|S| + (nu)^2 * sum|x|, u = 2^-53, however long the stream has run.
Where a sum of finite values is beyond the largest float it is off by at most nu * sum|x|, and comes back if they do.
"""

from __future__ import annotations

import math

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.define import by_type, define, numeric
from muntin.types import DECIMALS

LIMB = 0xFFFFFFFF


@define(state="i8", result="i8", empty=0, commutative=True)
class count_rows:
    """Count rows, null or not."""

    def lift():
        return 1

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a - b

    def neutral():
        return 0


@define(state="i8", result="i8", empty=0, commutative=True)
class count_values:
    """Count the rows where the column is not null."""

    def lift(v):
        return 1

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a - b

    def neutral():
        return 0


def count(column: str | None = None, *, skip_nan: bool = False, where: str | None = None) -> Aggregation:
    """Count rows, or the non-null values of a column. 0 for none. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 6, 7], agg.count(), range=2).tolist()
    [1, 2, 2]
    """
    if column is None:
        return count_rows(where=where)
    return count_values(column, skip_nan=skip_nan, where=where)


@define(state="v", result="decimal", commutative=True, kind="distributive")
class _decimal_sum:
    def lift(v):
        return v

    def combine(a, b):
        return DECIMALS.add(a, b)

    def invert(a, b):
        return DECIMALS.subtract(a, b)


@define(state={"n": "i8", "high": "i8", "low": "i8"}, result="f8", commutative=True)
class _integer_mean:
    def lift(v):
        return (1, int(v) >> 32, int(v) & LIMB)

    def combine(a, b):
        low = a.low + b.low
        return (a.n + b.n, a.high + b.high + (low >> 32), low & LIMB)

    def invert(a, b):
        low = a.low - b.low
        return (a.n - b.n, a.high - b.high + (low >> 32), low & LIMB)

    def neutral():
        return (0, 0, 0)

    def lower(s):
        return (s.high * 4294967296.0 + s.low) / s.n


def _small(total, error):
    """Return a sum of floats divided by 2^64."""
    return total if error != error else total * 2.0**-64 + error * 2.0**-64


def _giant(n, small):
    """Return the state of n rows whose sum is 2^64 times this, as a 2^64th where it is no float: the error is NaN then.

    Values yet to come may bring such a sum back, and a mean is a float however large the sum. Meanwhile every addition
    is rounded.
    """
    total = small * 2.0**64
    return (n, total, 0.0) if math.isfinite(total) else (n, small, math.nan)


@define(state={"n": "f8", "total": "f8", "error": "f8"}, result="f8", commutative=True)
class _float_mean:
    def lift(v):
        return (1.0, v, -0.0)

    def combine(a, b):
        total = a.total + b.total
        part = total - a.total
        error = a.error + (b.error + ((a.total - (total - part)) + (b.total - part)))
        if error != error:  # the total is no float
            return _giant(a.n + b.n, _small(a.total, a.error) + _small(b.total, b.error))
        return (a.n + b.n, total, error)

    def invert(a, b):
        total = a.total - b.total
        part = total - a.total
        error = a.error - b.error + ((a.total - (total - part)) - (b.total + part))
        if error != error:
            return _giant(a.n - b.n, _small(a.total, a.error) - _small(b.total, b.error))
        return (a.n - b.n, total, error)

    def neutral():
        return (0.0, 0.0, 0.0)

    def widen(s):
        return (s.n, s.high * 4294967296.0 + s.low, 0.0)

    def lower(s):
        exact = s.error == s.error
        return (s.total + s.error if exact else s.total) / s.n * (1.0 if exact else 2.0**64)

    def terms(v, c):
        return (v,)  # not v - c, which would be rounded

    def from_sums(n, c, total):
        return (n, total, 0.0)

    def lost(n, total, error):
        return not error <= abs(total) * 2.0**-54


@define(state={"n": "i8", "total": "v"}, result="decimal mean", commutative=True)
class _decimal_mean:
    def lift(v):
        return (1, v)

    def combine(a, b):
        return (a.n + b.n, DECIMALS.add(a.total, b.total))

    def invert(a, b):
        return (a.n - b.n, DECIMALS.subtract(a.total, b.total))

    def lower(s):
        return DECIMALS.divide(s.total, int(s.n))


mean = by_type(
    "mean",
    """The arithmetic mean, float64. O(1) combine, invertible.

    For decimals of `p` digits, `s` of them after the point, it is a decimal as in Spark SQL: with four more digits
    after the point, at most 38 in all, and rounded half up.

    >>> from muntin import slide, agg
    >>> slide([1.0, 2.0, 6.0], agg.mean("v"), range=2).tolist()
    [1.0, 1.5, 4.0]
    """,
    floating=_float_mean.known_as("1c13bdd12abee395df33bf9c8a0e8e640c509312724005272e3f805828193765"),
    integer=_integer_mean,
    boolean=_integer_mean,
    decimal=_decimal_mean,
)


def _lower_integer_sum(s):
    if s.high < -2147483648 or s.high > 2147483647:
        raise OverflowError("the sum of a window does not fit int64")
    return (s.high << 32) + s.low


def _lower_float_sum(s):
    return s.total + s.error if s.error == s.error else s.total * 2.0**64  # see _giant


# Sums have the state of means, count included: in one query both need it only once, and alone it costs next to nothing.
_integer_sum = _integer_mean.lowered_by("sum", _lower_integer_sum, kind="distributive").returning("i8")
_float_sum = _float_mean.lowered_by("sum", _lower_float_sum, kind="distributive").known_as(
    "a11b2041322b20b9e00fe092deedd6f1ca0aaff6a2a1223b115e102527c628b6"
)
sum = by_type(
    "sum",
    """Sum a column: int64 for integers and booleans, float64 for floats, exact for decimals.

    For decimals of `p` digits it is a decimal of `p + 10`, at most 38, as in Spark SQL. A sum that does not fit int64,
    or that decimal, is an error. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1, 2, 3], agg.sum("v"), range=2).tolist()
    [1, 3, 5]
    """,
    integer=_integer_sum,
    boolean=_integer_sum,
    floating=_float_sum,
    duration=_integer_sum.returning("v"),
    decimal=_decimal_sum,
)


@define(state="f8", result="f8", commutative=True)
class _product:
    """The product, in float64 as in Spark SQL. O(1) combine; not invertible (a zero cannot be divided out).

    >>> from muntin import slide, agg
    >>> slide([2, 3, 4], agg.product("v"), range=2).tolist()
    [2.0, 6.0, 12.0]
    """

    def lift(v):
        return float(v)

    def combine(a, b):
        return a * b

    def neutral():
        return 1.0


@define(
    state={"n": "i8", "zeros": "i8", "negatives": "i8", "total": "f8", "error": "f8"}, result="f8", commutative=True
)
class _geometric_mean:
    """The geometric mean, by logarithms. O(1) combine, invertible.

    A window that holds a negative value has no geometric mean: NaN. One that holds a zero, and no negative value, is 0.

    >>> from muntin import slide, agg
    >>> slide([2.0, 8.0, 0.0], agg.geometric_mean("v"), range=2).round(12).tolist()
    [2.0, 4.0, 0.0]
    """

    def lift(v):
        x = float(v)
        if x == 0.0:
            return (1, 1, 0, 0.0, 0.0)
        if x < 0.0:
            return (1, 0, 1, 0.0, 0.0)
        return (1, 0, 0, math.log(x), -0.0)

    def combine(a, b):
        total = a.total + b.total
        part = total - a.total
        error = (a.total - (total - part)) + (b.total - part)
        return (a.n + b.n, a.zeros + b.zeros, a.negatives + b.negatives, total, a.error + (b.error + error))

    def invert(a, b):
        total = a.total - b.total
        part = total - a.total
        error = (a.total - (total - part)) - (b.total + part)
        return (a.n - b.n, a.zeros - b.zeros, a.negatives - b.negatives, total, a.error - b.error + error)

    def neutral():
        return (0, 0, 0, 0.0, 0.0)

    def lower(s):
        if s.negatives > 0:
            return math.nan
        if s.zeros > 0:
            return 0.0
        total = s.total + s.error if math.isfinite(s.error) else s.total
        return math.exp(total / s.n)


product = numeric("product", _product)
geometric_mean = numeric("geometric_mean", _geometric_mean)
