"""Moments: variance and its kin, by merging centred sums (Chan; Pebay), never sums of squares.

The centred form keeps the digits that `E[x^2] - E[x]^2` loses when the mean is large beside the spread. A merge loses
digits too, if the mean is rounded: then the distance of two means is off by the rounding of the means, which may be as
large as the distance. So beside each mean stands what was rounded off it, `low`; the distance is that of the sums of
both. Equal values have equal means, and no variance at all.

Rejected: totals instead of means (Youngs and Cramer), which cost less, but whose products lose the same digits; and
sums around the first value of each window, of which an outlier spoils all windows that begin with it.

Over arrays sums of powers around one number for many windows are cheaper, and as exact where that number is well chosen
(`terms`, `from_sums`, and `lost`, which says where it is not).

Names and edge cases are Spark SQL's: `std` and `var` are of the sample and null for one row, the kurtosis is the excess
over 3.
"""

from __future__ import annotations

import math

from muntin.aggregations.define import define, numeric
from muntin.kernels.runtime import rounded_off

_MOMENTS = {"n": "f8", "mean": "f8", "low": "f8", "m2": "f8"}


def _low(v):
    """Return what is rounded off one value: NaN of what is infinite, so that all that holds it has none."""
    return rounded_off(v) + (float(v) - float(v))


def _from(v, c):
    """Return the distance of a value from a number."""
    return (float(v) - c) + rounded_off(v)


def _moved(mean, low, apart, below, share):
    """Return a mean moved by a share of a distance, and what was rounded off it so far."""
    step = apart * share
    to = mean + step
    return to, low + (below * share + (step - (to - mean)))


def _mean_around(n, c, total):
    """Return the mean of n values whose distances from a number have this sum, and what was rounded off it."""
    return _moved(c, 0.0, total * (1.0 / n), 0.0, 1.0)


def _centred(n, x, y, products):
    """Return a sum of products of distances from two numbers as one of distances from the means."""
    return products - y * (x * (1.0 / n))


def _far_off(n, total, squares, error):
    """Say whether squares around a number lose more than four bits to its distance from the mean, or to their error.

    The error of the total is smaller beside the total's own size, and needs no look.
    """
    return not ((_centred(n, total, total, squares) >= squares * 0.0625) & (error <= squares * 2.0**-40))


def _far_apart(n, x, y, xx, yy, xx_error, yy_error, xy_error):
    """Say whether squares and products around two numbers have lost digits, in either column or between them."""
    shows = not xy_error * xy_error <= (xx * 2.0**-40) * (yy * 2.0**-40)
    return _far_off(n, x, xx, xx_error) | _far_off(n, y, yy, yy_error) | shows


def _never_negative(m2):
    return m2 if m2 > 0.0 or m2 != m2 else 0.0


@define(state=_MOMENTS, result="f8", commutative=True, compensated=False)
class _var:
    """The sample variance; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0, 8.0], agg.var("v"), range=2, partial=False).tolist()
    [2.0, 12.5]
    """

    def lift(v):
        return (1.0, float(v), _low(v), -0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / max(n, 1.0)
        apart, below = b.mean - a.mean, b.low - a.low
        mean, low = _moved(a.mean, a.low, apart, below, share)
        delta = apart + below
        return (n, mean, low, a.m2 + (b.m2 + delta * (delta * (a.n * share))))

    def invert(a, b):
        n = a.n - b.n
        if n <= 0.0:
            return (n, 0.0, 0.0, 0.0)
        mean, low = _moved(a.mean, a.low, a.mean - b.mean, a.low - b.low, b.n / n)
        delta = (mean - b.mean) + (low - b.low)
        return (n, mean, low, _never_negative(a.m2 - (b.m2 + delta * (delta * (b.n * n / a.n)))))

    def neutral():
        return (0.0, 0.0, 0.0, 0.0)

    def lower(s):
        return s.m2 / (s.n - 1.0) if s.n > 1.0 else None

    def terms(v, c):
        d = _from(v, c)
        return (d, d * d)

    def from_sums(n, c, total, squares):
        mean, low = _mean_around(n, c, total)
        return (n, mean, low, _centred(n, total, total, squares))

    def lost(n, total, squares, total_error, squares_error):
        return _far_off(n, total, squares, squares_error)


def _lower_std(s):
    return math.sqrt(s.m2 / (s.n - 1.0)) if s.n > 1.0 else None


def _lower_var_pop(s):
    return s.m2 / s.n + (s.low - s.low)  # of one row that is infinite or NaN only `low` tells


def _lower_std_pop(s):
    return math.sqrt(s.m2 / s.n + (s.low - s.low))


var = numeric("var", _var).known_as("2064a7e798e7c515eb4f55ad60d79375634066242bd446319b4beef6cd8d0b2a")
std = var.lowered_by(
    "std",
    _lower_std,
    """The sample standard deviation; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0, 11.0], agg.std("v"), range=3, partial=False).round(6).tolist()
    [5.291503]
    """,
).known_as("5f39b3939681060c394b34e6141c7382655509b5b370c4864e5096b9a66580be")
var_pop = var.lowered_by(
    "var_pop",
    _lower_var_pop,
    """The population variance. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0], agg.var_pop("v"), range=2).tolist()
    [0.0, 1.0]
    """,
).known_as("41aff4c61697c3ad8e324b6530ead3cc4499d2284a4df99f1b005ddaf73f2c62")
std_pop = var.lowered_by(
    "std_pop",
    _lower_std_pop,
    """The population standard deviation. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 5.0], agg.std_pop("v"), range=2).tolist()
    [0.0, 2.0]
    """,
).known_as("ae13aca9442c066a83614a729fb7e836a8b5e545eaadad9d4219c09361ce2d76")


@define(state={**_MOMENTS, "m3": "f8"}, result="f8", commutative=True, compensated=False)
class _skewness:
    """The skewness, of the population; null where all values are equal. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 1.0, 4.0], agg.skewness("v"), range=3, partial=False).round(6).tolist()
    [0.707107]
    """

    def lift(v):
        return (1.0, float(v), _low(v), 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / max(n, 1.0)
        apart, below = b.mean - a.mean, b.low - a.low
        mean, low = _moved(a.mean, a.low, apart, below, share)
        delta = apart + below
        step, left = delta * share, delta * (a.n / max(n, 1.0))
        cross = delta * (a.n * step)
        m3 = a.m3 + b.m3 + cross * (left - step) + 3.0 * (left * b.m2 - step * a.m2)
        return (n, mean, low, a.m2 + b.m2 + cross, m3)

    def invert(a, b):
        n = a.n - b.n
        if n <= 0.0:
            return (n, 0.0, 0.0, 0.0, 0.0)
        mean, low = _moved(a.mean, a.low, a.mean - b.mean, a.low - b.low, b.n / n)
        delta = (mean - b.mean) + (low - b.low)
        step, left = delta * (n / a.n), delta * (b.n / a.n)
        cross = delta * (b.n * step)
        m2 = _never_negative(a.m2 - b.m2 - cross)
        return (n, mean, low, m2, a.m3 - b.m3 - cross * (left - step) - 3.0 * (left * m2 - step * b.m2))

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0)

    def terms(v, c):
        d = _from(v, c)
        return (d, d * d, d * (d * d))

    def from_sums(n, c, total, squares, cubes):
        shift = total * (1.0 / n)
        mean, low = _mean_around(n, c, total)
        m3 = cubes - shift * (3.0 * squares - 2.0 * (shift * total))
        return (n, mean, low, _centred(n, total, total, squares), m3)

    def lost(n, total, squares, cubes, total_error, squares_error, cubes_error):
        shows = not cubes_error * math.sqrt(n) <= squares * math.sqrt(squares) * 2.0**-38
        return _far_off(n, total, squares, squares_error) | shows

    def lower(s):
        if s.m2 > 0.0 or s.m2 != s.m2:
            return math.sqrt(s.n) * s.m3 / (s.m2 * math.sqrt(s.m2))
        return None if s.low == s.low else math.nan


@define(state={**_MOMENTS, "m3": "f8", "m4": "f8"}, result="f8", commutative=True, compensated=False)
class _kurtosis:
    """The excess kurtosis, of the population; null where all values are equal. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([1.0, 2.0, 3.0], agg.kurtosis("v"), range=3, partial=False).round(6).tolist()
    [-1.5]
    """

    def lift(v):
        return (1.0, float(v), _low(v), 0.0, 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / max(n, 1.0)
        apart, below = b.mean - a.mean, b.low - a.low
        mean, low = _moved(a.mean, a.low, apart, below, share)
        delta = apart + below
        step, left = delta * share, delta * (a.n / max(n, 1.0))
        cross = delta * (a.n * step)
        return (
            n,
            mean,
            low,
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
        if n <= 0.0:
            return (n, 0.0, 0.0, 0.0, 0.0, 0.0)
        mean, low = _moved(a.mean, a.low, a.mean - b.mean, a.low - b.low, b.n / n)
        delta = (mean - b.mean) + (low - b.low)
        step, left = delta * (n / a.n), delta * (b.n / a.n)
        cross = delta * (b.n * step)
        m2 = _never_negative(a.m2 - b.m2 - cross)
        m3 = a.m3 - b.m3 - cross * (left - step) - 3.0 * (left * m2 - step * b.m2)
        m4 = (
            a.m4
            - b.m4
            - cross * (left * left - left * step + step * step)
            - 6.0 * (step * step * b.m2 + left * left * m2)
            - 4.0 * (left * m3 - step * b.m3)
        )
        return (n, mean, low, m2, m3, m4)

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def terms(v, c):
        d = _from(v, c)
        return (d, d * d, d * (d * d), (d * d) * (d * d))

    def from_sums(n, c, total, squares, cubes, fourths):
        shift = total * (1.0 / n)
        mean, low = _mean_around(n, c, total)
        return (
            n,
            mean,
            low,
            _centred(n, total, total, squares),
            cubes - shift * (3.0 * squares - 2.0 * (shift * total)),
            fourths - shift * (4.0 * cubes - shift * (6.0 * squares - 3.0 * (shift * total))),
        )

    def lost(n, total, squares, cubes, fourths, total_error, squares_error, cubes_error, fourths_error):
        error = fourths_error + 4.0 * abs(total * (1.0 / n)) * cubes_error
        shows = not error * n <= squares * squares * 2.0**-37
        return _far_off(n, total, squares, squares_error) | shows

    def lower(s):
        if s.m2 > 0.0 or s.m2 != s.m2:
            return s.n * s.m4 / (s.m2 * s.m2) - 3.0
        return None if s.low == s.low else math.nan


@define(
    state={
        "n": "f8",
        "mean_x": "f8",
        "low_x": "f8",
        "mean_y": "f8",
        "low_y": "f8",
        "m2_x": "f8",
        "m2_y": "f8",
        "cross": "f8",
    },
    result="f8",
    commutative=True,
    compensated=False,
)
class _covariance:
    """The sample covariance of two columns; null for one row. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"x": [1.0, 2.0], "y": [1.0, 5.0]}, agg.covariance("x", "y"), range=2, partial=False).tolist()
    [2.0]
    """

    def lift(x, y):
        return (1.0, float(x), _low(x), float(y), _low(y), 0.0, 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / max(n, 1.0)
        apart_x, below_x = b.mean_x - a.mean_x, b.low_x - a.low_x
        apart_y, below_y = b.mean_y - a.mean_y, b.low_y - a.low_y
        mean_x, low_x = _moved(a.mean_x, a.low_x, apart_x, below_x, share)
        mean_y, low_y = _moved(a.mean_y, a.low_y, apart_y, below_y, share)
        dx, dy = apart_x + below_x, apart_y + below_y
        weighted = dx * (a.n * share)
        return (
            n,
            mean_x,
            low_x,
            mean_y,
            low_y,
            a.m2_x + b.m2_x + dx * weighted,
            a.m2_y + b.m2_y + dy * (dy * (a.n * share)),
            a.cross + b.cross + dy * weighted,
        )

    def invert(a, b):
        n = a.n - b.n
        if n <= 0.0:
            return (n, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        mean_x, low_x = _moved(a.mean_x, a.low_x, a.mean_x - b.mean_x, a.low_x - b.low_x, b.n / n)
        mean_y, low_y = _moved(a.mean_y, a.low_y, a.mean_y - b.mean_y, a.low_y - b.low_y, b.n / n)
        dx = (mean_x - b.mean_x) + (low_x - b.low_x)
        dy = (mean_y - b.mean_y) + (low_y - b.low_y)
        weight = b.n * n / a.n
        return (
            n,
            mean_x,
            low_x,
            mean_y,
            low_y,
            _never_negative(a.m2_x - b.m2_x - dx * (dx * weight)),
            _never_negative(a.m2_y - b.m2_y - dy * (dy * weight)),
            a.cross - b.cross - dy * (dx * weight),
        )

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def terms(x, y, cx, cy):
        dx, dy = _from(x, cx), _from(y, cy)
        return (dx, dy, dx * dx, dy * dy, dx * dy)

    def from_sums(n, cx, cy, x, y, xx, yy, xy):
        mean_x, low_x = _mean_around(n, cx, x)
        mean_y, low_y = _mean_around(n, cy, y)
        m2_x, m2_y, cross = _centred(n, x, x, xx), _centred(n, y, y, yy), _centred(n, x, y, xy)
        return (n, mean_x, low_x, mean_y, low_y, m2_x, m2_y, cross)

    def lost(n, x, y, xx, yy, xy, x_error, y_error, xx_error, yy_error, xy_error):
        return _far_apart(n, x, y, xx, yy, xx_error, yy_error, xy_error)

    def lower(s):
        return s.cross / (s.n - 1.0) if s.n > 1.0 else None


def _lower_correlation(s):
    spread = math.sqrt(s.m2_x) * math.sqrt(s.m2_y)
    return s.cross / spread if spread > 0.0 or spread != spread else None


covariance = numeric("covariance", _covariance).known_as(
    "0dcb15098920ebe616bf821bb2eabf8596f67cba0bc0d9f388a00c70b4415045"
)
correlation = covariance.lowered_by(
    "correlation",
    _lower_correlation,
    """Pearson's correlation of two columns; null where either does not vary. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"x": [1.0, 2.0], "y": [1.0, 5.0]}, agg.correlation("x", "y"), range=2, partial=False).round(9).tolist()
    [1.0]
    """,
).known_as("841bd0669c7ed4fcd14742ffaa2d1309f2b7548f93e0cf5a4f62b32e35657b80")


@define(
    state={"n": "f8", "mean_y": "f8", "low_y": "f8", "mean_x": "f8", "low_x": "f8", "m2_x": "f8", "cross": "f8"},
    result={"slope": "f8", "intercept": "f8"},
    commutative=True,
    compensated=False,
)
class _linear_regression:
    """The line of least squares, slope and intercept, of y on x: `linear_regression("y", "x")`, as `regr_slope`.

    Null where x does not vary. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide({"y": [1.0, 3.0, 5.0], "x": [0.0, 1.0, 2.0]}, agg.linear_regression("y", "x"), range=3)[-1].tolist()
    (2.0, 1.0)
    """

    def lift(y, x):
        return (1.0, float(y), _low(y), float(x), _low(x), 0.0, 0.0)

    def combine(a, b):
        n = a.n + b.n
        share = b.n / max(n, 1.0)
        apart_y, below_y = b.mean_y - a.mean_y, b.low_y - a.low_y
        apart_x, below_x = b.mean_x - a.mean_x, b.low_x - a.low_x
        mean_y, low_y = _moved(a.mean_y, a.low_y, apart_y, below_y, share)
        mean_x, low_x = _moved(a.mean_x, a.low_x, apart_x, below_x, share)
        dy, dx = apart_y + below_y, apart_x + below_x
        weighted = dx * (a.n * share)
        return (
            n,
            mean_y,
            low_y,
            mean_x,
            low_x,
            a.m2_x + b.m2_x + dx * weighted,
            a.cross + b.cross + dy * weighted,
        )

    def invert(a, b):
        n = a.n - b.n
        if n <= 0.0:
            return (n, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        mean_y, low_y = _moved(a.mean_y, a.low_y, a.mean_y - b.mean_y, a.low_y - b.low_y, b.n / n)
        mean_x, low_x = _moved(a.mean_x, a.low_x, a.mean_x - b.mean_x, a.low_x - b.low_x, b.n / n)
        dy = (mean_y - b.mean_y) + (low_y - b.low_y)
        dx = (mean_x - b.mean_x) + (low_x - b.low_x)
        weighted = dx * (b.n * n / a.n)
        m2_x = _never_negative(a.m2_x - b.m2_x - dx * weighted)
        return (n, mean_y, low_y, mean_x, low_x, m2_x, a.cross - b.cross - dy * weighted)

    def neutral():
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def terms(y, x, cy, cx):
        dy, dx = _from(y, cy), _from(x, cx)
        return (dy, dx, dy * dy, dx * dx, dx * dy)

    def from_sums(n, cy, cx, y, x, yy, xx, xy):
        mean_y, low_y = _mean_around(n, cy, y)
        mean_x, low_x = _mean_around(n, cx, x)
        return (n, mean_y, low_y, mean_x, low_x, _centred(n, x, x, xx), _centred(n, x, y, xy))

    def lost(n, y, x, yy, xx, xy, y_error, x_error, yy_error, xx_error, xy_error):
        return _far_apart(n, x, y, xx, yy, xx_error, yy_error, xy_error)

    def lower(s):
        if s.m2_x > 0.0 or s.m2_x != s.m2_x:
            slope = s.cross / s.m2_x
            return (slope, s.mean_y - slope * s.mean_x)
        return None if s.low_x == s.low_x else (math.nan, math.nan)


skewness = numeric("skewness", _skewness).known_as("b9520ce255553398f08f9a2f6b3eda6606a8ddb4f76e1cb30908e7be43ed83a0")
kurtosis = numeric("kurtosis", _kurtosis).known_as("ebb9bed35988dd03eaaa2502a5fd9b9b75187c763cef4c9e7fdf7af97d827444")
linear_regression = numeric("linear_regression", _linear_regression).known_as(
    "0b5313f7a0d56934d8973d27230c6dadcc8d0698ad781a32bac2a2337098123f"
)
