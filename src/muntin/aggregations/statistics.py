"""Moments: variance and its kin, by merging centred sums (Youngs and Cramer; Chan; Pebay), never sums of squares.

The centred form keeps the digits that `E[x^2] - E[x]^2` loses when the mean is large beside the spread. Names and edge
cases are Spark SQL's: `std` and `var` are of the sample and null for one row, the kurtosis is the excess over 3.
"""

from __future__ import annotations

import math

from muntin.aggregations.define import define, numeric

_MOMENTS = {"n": "f8", "mean": "f8", "m2": "f8"}


@define(state={"n": "f8", "total": "f8", "m2": "f8"}, result="f8", commutative=True)
class _var:
    """The sample variance; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0, 8.0], agg.var("v"), range=2, partial=False).tolist()
    [2.0, 12.5]
    """

    def lift(v):
        return (1.0, float(v), -0.0)

    def combine(a, b):
        # Youngs and Cramer: as stable as merging means, with one division, and none on the chain from sum to sum.
        n = a.n + b.n
        apart = b.total * a.n - a.total * b.n
        return (n, a.total + b.total, a.m2 + (b.m2 + apart * apart / max(a.n * b.n * n, 1.0)))

    def invert(a, b):
        n = a.n - b.n
        total = a.total - b.total
        apart = b.total * n - total * b.n
        m2 = a.m2 - (b.m2 + apart * apart / max(n * b.n * a.n, 1.0))
        return (n, total, m2 if m2 > 0.0 or m2 != m2 else 0.0)

    def neutral():
        return (0.0, 0.0, 0.0)

    def lower(s):
        return s.m2 / (s.n - 1.0) if s.n > 1.0 else None


def _lower_std(s):
    return math.sqrt(s.m2 / (s.n - 1.0)) if s.n > 1.0 else None


def _lower_var_pop(s):
    return s.m2 / s.n + 0.0  # of one row m2 is -0.0


def _lower_std_pop(s):
    return math.sqrt(s.m2 / s.n + 0.0)


var = numeric("var", _var)
std = var.lowered_by(
    "std",
    _lower_std,
    """The sample standard deviation; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0, 11.0], agg.std("v"), range=3, partial=False).round(6).tolist()
    [5.291503]
    """,
)
var_pop = var.lowered_by(
    "var_pop",
    _lower_var_pop,
    """The population variance. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0], agg.var_pop("v"), range=2).tolist()
    [0.0, 1.0]
    """,
)
std_pop = var.lowered_by(
    "std_pop",
    _lower_std_pop,
    """The population standard deviation. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 5.0], agg.std_pop("v"), range=2).tolist()
    [0.0, 2.0]
    """,
)


@define(state={**_MOMENTS, "m3": "f8"}, result="f8", commutative=True)
class _skewness:
    """The skewness, of the population; null where all values are equal. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 1.0, 4.0], agg.skewness("v"), range=3, partial=False).round(6).tolist()
    [0.707107]
    """

    def lift(v):
        return (1.0, float(v), 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / n if n > 0.0 else 0.0
        delta = b.mean - a.mean
        step = delta * share
        cross = delta * a.n * step
        return (
            n,
            a.mean + step,
            a.m2 + b.m2 + cross,
            a.m3 + b.m3 + cross * (delta - 2.0 * step) + 3.0 * (delta * (1.0 - share) * b.m2 - step * a.m2),
        )

    def invert(a, b):
        n = a.n - b.n
        mean = a.mean + (a.mean - b.mean) * b.n / n if n > 0.0 else 0.0
        share = n / a.n
        delta = mean - b.mean
        step = delta * share
        cross = delta * b.n * step
        m2 = a.m2 - b.m2 - cross
        m2 = m2 if m2 > 0.0 or m2 != m2 else 0.0
        m3 = a.m3 - b.m3 - cross * (delta - 2.0 * step) - 3.0 * (delta * (1.0 - share) * m2 - step * b.m2)
        return (n, mean, m2, m3)

    def neutral():
        return (0.0, 0.0, 0.0, 0.0)

    def lower(s):
        return math.sqrt(s.n) * s.m3 / (s.m2 * math.sqrt(s.m2)) if s.m2 > 0.0 or s.m2 != s.m2 else None


@define(state={**_MOMENTS, "m3": "f8", "m4": "f8"}, result="f8", commutative=True)
class _kurtosis:
    """The excess kurtosis, of the population; null where all values are equal. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 2.0, 3.0], agg.kurtosis("v"), range=3, partial=False).round(6).tolist()
    [-1.5]
    """

    def lift(v):
        return (1.0, float(v), 0.0, 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / n if n > 0.0 else 0.0
        rest = 1.0 - share
        delta = b.mean - a.mean
        step = delta * share
        left = delta * rest
        cross = delta * a.n * step
        return (
            n,
            a.mean + step,
            a.m2 + b.m2 + cross,
            a.m3 + b.m3 + cross * (left - step) + 3.0 * (left * b.m2 - step * a.m2),
            a.m4
            + b.m4
            + cross * (left * left - left * step + step * step)
            + 6.0 * (step * step * a.m2 + left * left * b.m2)
            + 4.0 * (left * b.m3 - step * a.m3),
        )

    def invert(a, b):
        n = a.n - b.n
        mean = a.mean + (a.mean - b.mean) * b.n / n if n > 0.0 else 0.0
        share = n / a.n
        delta = mean - b.mean
        step = delta * share
        left = delta * (1.0 - share)
        cross = delta * b.n * step
        m2 = a.m2 - b.m2 - cross
        m2 = m2 if m2 > 0.0 or m2 != m2 else 0.0
        m3 = a.m3 - b.m3 - cross * (left - step) - 3.0 * (left * m2 - step * b.m2)
        m4 = (
            a.m4
            - b.m4
            - cross * (left * left - left * step + step * step)
            - 6.0 * (step * step * b.m2 + left * left * m2)
            - 4.0 * (left * m3 - step * b.m3)
        )
        return (n, mean, m2, m3, m4)

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0)

    def lower(s):
        return s.n * s.m4 / (s.m2 * s.m2) - 3.0 if s.m2 > 0.0 or s.m2 != s.m2 else None


@define(
    state={"n": "f8", "mean_x": "f8", "mean_y": "f8", "m2_x": "f8", "m2_y": "f8", "cross": "f8"},
    result="f8",
    commutative=True,
)
class _covariance:
    """The sample covariance of two columns; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"x": [1.0, 2.0], "y": [1.0, 5.0]}, agg.covariance("x", "y"), range=2, partial=False).tolist()
    [2.0]
    """

    def lift(x, y):
        return (1.0, float(x), float(y), 0.0, 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / n if n > 0.0 else 0.0
        dx = b.mean_x - a.mean_x
        dy = b.mean_y - a.mean_y
        weight = a.n * share
        return (
            n,
            a.mean_x + dx * share,
            a.mean_y + dy * share,
            a.m2_x + b.m2_x + dx * dx * weight,
            a.m2_y + b.m2_y + dy * dy * weight,
            a.cross + b.cross + dx * dy * weight,
        )

    def invert(a, b):
        n = a.n - b.n
        back = b.n / n if n > 0.0 else 0.0
        mean_x = a.mean_x + (a.mean_x - b.mean_x) * back
        mean_y = a.mean_y + (a.mean_y - b.mean_y) * back
        dx = mean_x - b.mean_x
        dy = mean_y - b.mean_y
        weight = b.n * n / a.n
        m2_x = a.m2_x - b.m2_x - dx * dx * weight
        m2_y = a.m2_y - b.m2_y - dy * dy * weight
        return (
            n,
            mean_x,
            mean_y,
            m2_x if m2_x > 0.0 or m2_x != m2_x else 0.0,
            m2_y if m2_y > 0.0 or m2_y != m2_y else 0.0,
            a.cross - b.cross - dx * dy * weight,
        )

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def lower(s):
        return s.cross / (s.n - 1.0) if s.n > 1.0 else None


def _lower_correlation(s):
    spread = math.sqrt(s.m2_x) * math.sqrt(s.m2_y)
    return s.cross / spread if spread > 0.0 or spread != spread else None


covariance = numeric("covariance", _covariance)
correlation = covariance.lowered_by(
    "correlation",
    _lower_correlation,
    """Pearson's correlation of two columns; null where either does not vary. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"x": [1.0, 2.0], "y": [1.0, 5.0]}, agg.correlation("x", "y"), range=2, partial=False).round(9).tolist()
    [1.0]
    """,
)


@define(
    state={"n": "f8", "mean_y": "f8", "mean_x": "f8", "m2_x": "f8", "cross": "f8"},
    result={"slope": "f8", "intercept": "f8"},
    commutative=True,
)
class _linear_regression:
    """The line of least squares, slope and intercept, of y on x: `linear_regression("y", "x")`, as `regr_slope`.

    Null where x does not vary. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"y": [1.0, 3.0, 5.0], "x": [0.0, 1.0, 2.0]}, agg.linear_regression("y", "x"), range=3)[-1].tolist()
    (2.0, 1.0)
    """

    def lift(y, x):
        return (1.0, float(y), float(x), 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / n if n > 0.0 else 0.0
        dy = b.mean_y - a.mean_y
        dx = b.mean_x - a.mean_x
        weight = a.n * share
        return (
            n,
            a.mean_y + dy * share,
            a.mean_x + dx * share,
            a.m2_x + b.m2_x + dx * dx * weight,
            a.cross + b.cross + dx * dy * weight,
        )

    def invert(a, b):
        n = a.n - b.n
        back = b.n / n if n > 0.0 else 0.0
        mean_y = a.mean_y + (a.mean_y - b.mean_y) * back
        mean_x = a.mean_x + (a.mean_x - b.mean_x) * back
        dy = mean_y - b.mean_y
        dx = mean_x - b.mean_x
        weight = b.n * n / a.n
        m2_x = a.m2_x - b.m2_x - dx * dx * weight
        return (n, mean_y, mean_x, m2_x if m2_x > 0.0 or m2_x != m2_x else 0.0, a.cross - b.cross - dx * dy * weight)

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0)

    def lower(s):
        if s.m2_x > 0.0 or s.m2_x != s.m2_x:
            slope = s.cross / s.m2_x
            return (slope, s.mean_y - slope * s.mean_x)
        return None


skewness = numeric("skewness", _skewness)
kurtosis = numeric("kurtosis", _kurtosis)
linear_regression = numeric("linear_regression", _linear_regression)
