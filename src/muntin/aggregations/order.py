"""First and last in event order. They carry their time, so that they commute and need no rows to be kept."""

from __future__ import annotations

from muntin.aggregations.define import define
from muntin.aggregations.extremes import above


@define(state={"t": "i8", "v": "v"}, result="v", commutative=True, selective=True)
class first:
    """The first non-null value in event order. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 6, 7], agg.first("v"), range=2).tolist()
    [5, 5, 6]
    """

    def lift(v, *, time):
        return (time, v)

    def combine(a, b):
        return b if b.t < a.t else a

    def lower(s):
        return s.v


@define(state={"t": "i8", "v": "v"}, result="v", commutative=True, selective=True)
class last:
    """The last non-null value in event order. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 6, 7], agg.last("v"), range=2).tolist()
    [5, 6, 7]
    """

    def lift(v, *, time):
        return (time, v)

    def combine(a, b):
        return a if a.t > b.t else b

    def lower(s):
        return s.v


@define(
    state={"low": "v", "high": "v", "first": "v", "last": "v", "t_first": "i8", "t_last": "i8"},
    result={"min": "v", "max": "v", "first": "v", "last": "v"},
    commutative=True,
)
class m4:
    """Minimum, maximum, first and last: what a line chart needs of each pixel column. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 9, 7], agg.m4("v"), range=3).tolist()[-1]
    (5, 9, 5, 7)
    """

    def lift(v, *, time):
        return (v, v, v, v, time, time)

    def combine(a, b):
        b_first = b.t_first < a.t_first
        a_last = a.t_last > b.t_last
        return (
            b.low if above(a.low, b.low) else a.low,
            b.high if above(b.high, a.high) else a.high,
            b.first if b_first else a.first,
            a.last if a_last else b.last,
            b.t_first if b_first else a.t_first,
            a.t_last if a_last else b.t_last,
        )

    def lower(s):
        return (s.low, s.high, s.first, s.last)


@define(state="i8")
class newest_time:
    """The time of the newest row, as an integer. For policies."""

    def lift(*, time):
        return time

    def combine(a, b):
        return b


@define(state={"v": "v", "t": "i8"}, result="i8", selective=True)
class time_of_max:
    """The time of the newest of the greatest values, as an integer; NaN is the greatest. For policies."""

    def lift(v, *, time):
        return (v, time)

    def combine(a, b):
        return a if above(a.v, b.v) else b

    def lower(s):
        return s.t
