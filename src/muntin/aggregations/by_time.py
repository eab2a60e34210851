"""Means that are weighted by time: how long ago a row is, and how long its value lasts."""

from __future__ import annotations

import numpy as np

from muntin.aggregations.define import define, numeric


def _elapsed(older, newer):
    """Return the time from one moment to another as a float, exact below 2^53; no difference overflows."""
    return ((newer >> 1) - (older >> 1)) * 2.0 + ((newer & 1) - (older & 1))


@define(state={"t": "i8", "weight": "f8", "total": "f8"}, result="f8", commutative=True, durations=("half_life",))
class _ewm_mean:
    """The mean with weights that halve with every `half_life` of age: `ewm_mean("v", half_life="1h")`. O(1) combine.

    Age is counted back from the latest row of the window, which has the weight 1. It is a monoid: the state is the
    latest time, the sum of the weights at that time and the weighted sum, and where two windows are joined the sums of
    the one that ends earlier are scaled down to the latest time of both. Scales are never above 1, so that nothing
    overflows however far apart the times are; a row so old that its weight is no positive float counts no more. With
    integer times, and in windows over arrays without times, where a time is a row's number, give an integer.

    >>> from muntin import slide, agg
    >>> slide([8.0, 0.0, 0.0], agg.ewm_mean("v", half_life=1), range=4, times=[0, 1, 3]).round(3).tolist()
    [8.0, 2.667, 0.727]
    """

    def lift(v, *, time):
        return (time, 1.0, float(v))

    def combine(a, b, *, half_life):
        if a.t < b.t:
            scale = 2.0 ** -(_elapsed(a.t, b.t) / half_life)
            if scale == 0.0:
                return b
            return (b.t, a.weight * scale + b.weight, a.total * scale + b.total)
        scale = 2.0 ** -(_elapsed(b.t, a.t) / half_life)
        if scale == 0.0:
            return a
        return (a.t, a.weight + b.weight * scale, a.total + b.total * scale)

    def lower(s):
        return s.total / s.weight


@define(state={"t_first": "i8", "t_last": "i8", "last": "f8", "area": "f8"}, result="f8")
class _time_weighted_mean:
    """The mean in which each value counts for as long as it lasts: until the next row, the last until the window's end.

    It is a monoid: the state is the times of the first and the last row, the last value, and the area below the values
    between the two; where two windows are joined, the last value of the older lasts until the first row of the newer.
    The area from the last row to the window's end is added when the window is answered, since no state knows that end.
    Trailing windows and windows by rows end with their last row, even if it is skipped; at a point of `over` or `ask`,
    with the point. Aggregators know no end: there the last value lasts no time. What held before the first row is in no
    window, so that time begins with that row. Of rows of equal time the last to arrive lasts. Where no time passes at
    all (one row alone), the last value is the answer. O(1) combine, not commutative.

    >>> from muntin import slide, agg
    >>> slide([1.0, 3.0, 9.0], agg.time_weighted_mean("v"), range=10, times=[0, 5, 6]).round(3).tolist()
    [1.0, 1.0, 1.333]
    >>> slide([1.0, 3.0], agg.time_weighted_mean("v"), range=10, slide=10, times=[0, 5]).tolist()
    [2.0]
    """

    def lift(v, *, time):
        return (time, time, float(v), 0.0)

    def combine(a, b):
        gap = _elapsed(a.t_last, b.t_first)
        lasted = a.last * gap if gap > 0.0 else 0.0
        return (a.t_first, b.t_last, b.last, a.area + lasted + b.area)

    def lower(s, *, end):
        until = s.t_last if end is None else np.maximum(s.t_last, end)
        rest, span = _elapsed(s.t_last, until), _elapsed(s.t_first, until)
        lasted = np.where(rest > 0.0, s.last, 0.0) * rest
        return np.where(span > 0.0, (s.area + lasted) / np.where(span > 0.0, span, 1.0), s.last)


ewm_mean = numeric("ewm_mean", _ewm_mean)
time_weighted_mean = numeric("time_weighted_mean", _time_weighted_mean)
