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


@define(state="object", result="object", commutative=True, kind="algebraic")
class first_k:
    """The first k non-null values in event order, equal times in order of arrival: `first_k("v", 3)`. O(k) combine.

    The state is at most k pairs of a time and a value, and these may be of any type; as they carry their time, states
    commute and no rows are kept. Null for no rows, as all aggregations but counts.

    >>> from muntin import slide, agg
    >>> slide([5, 6, 7, 8], agg.first_k("v", 2), range=3).tolist()
    [[5], [5, 6], [5, 6], [6, 7]]
    """

    def lift(v, *, time):
        return ((int(time), v),)

    def combine(a, b, *, k):
        both = a + b
        if a and b and b[0][0] < a[-1][0]:
            both = tuple(sorted(both, key=lambda row: row[0]))  # stable: equal times stay in order of arrival
        return both[:k]

    def neutral():
        return ()

    def lower(s):
        return [row[1] for row in s]

    def check(k):
        if k < 1:
            raise ValueError(f"k is {k!r}; at least one value is kept")


@define(state="object", result="object", commutative=True, kind="algebraic")
class last_k:
    """The last k non-null values in event order, the latest last: `last_k("v", 3)`. O(k) combine.

    Equal times are in order of arrival. The state is at most k pairs of a time and a value, and these may be of any
    type; as they carry their time, states commute and no rows are kept. Null for no rows.

    >>> from muntin import slide, agg
    >>> slide([5, 6, 7, 8], agg.last_k("v", 2), range=3).tolist()
    [[5], [5, 6], [6, 7], [7, 8]]
    """

    def lift(v, *, time):
        return ((int(time), v),)

    def combine(a, b, *, k):
        both = a + b
        if a and b and b[0][0] < a[-1][0]:
            both = tuple(sorted(both, key=lambda row: row[0]))  # stable: equal times stay in order of arrival
        return both[-k:]

    def neutral():
        return ()

    def lower(s):
        return [row[1] for row in s]

    def check(k):
        if k < 1:
            raise ValueError(f"k is {k!r}; at least one value is kept")


first_k, last_k = first_k.taking(k=int), last_k.taking(k=int)


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
