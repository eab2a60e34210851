"""Aggregations for which the order of the rows is the point."""

from __future__ import annotations

import math

from muntin.aggregations.define import define


@define(
    state={
        "n": "i8",
        "first": "v",
        "last": "v",
        "head": "i8",
        "head_end": "i8",
        "tail": "i8",
        "tail_start": "i8",
        "best": "i8",
        "best_start": "i8",
        "best_end": "i8",
    },
    result={"start": "time", "end": "time", "length": "i8"},
)
class longest_increasing_run:
    """The longest run of strictly increasing neighbours: the times of its first and last row, and its length.

    The earliest of equally long runs. O(1) combine, not commutative.

    >>> from muntin import slide, agg
    >>> slide([5, 1, 2, 3, 0], agg.longest_increasing_run("v"), range=5).tolist()[-1]
    (1, 3, 3)
    """

    def lift(v, *, time):
        return (1, v, v, 1, time, 1, time, 1, time, time)

    def combine(a, b):
        joined = a.last < b.first
        best, start, end = a.best, a.best_start, a.best_end
        if joined and a.tail + b.head > best:
            best, start, end = a.tail + b.head, a.tail_start, b.head_end
        if b.best > best:
            best, start, end = b.best, b.best_start, b.best_end
        through_a = joined and a.head == a.n
        through_b = joined and b.tail == b.n
        return (
            a.n + b.n,
            a.first,
            b.last,
            a.n + b.head if through_a else a.head,
            b.head_end if through_a else a.head_end,
            a.tail + b.n if through_b else b.tail,
            a.tail_start if through_b else b.tail_start,
            best,
            start,
            end,
        )

    def lower(s):
        return (s.best_start, s.best_end, s.best)


@define(state="object", result="object")
class concat:
    """Join the values as strings, in event order: `concat("word", " ")`. O(length) combine, not commutative.

    >>> from muntin import slide, agg
    >>> slide(["a", "b", "c"], agg.concat("v", "-"), range=2).tolist()
    ['a', 'a-b', 'b-c']
    """

    def lift(v):
        return str(v)

    def combine(a, b, *, separator=""):
        return a + separator + b


concat = concat.taking(separator=str)


@define(state="object", result="object")
class collect:
    """All non-null values, a list in event order. O(n) combine, invertible by counting.

    >>> from muntin import slide, agg
    >>> slide([1, 2, 3], agg.collect("v"), range=2).tolist()
    [[1], [1, 2], [2, 3]]
    """

    def lift(v):
        return (v,)

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a[len(b) :]

    def neutral():
        return ()

    def lower(s):
        return list(s)


@define(state="object", result="object")
class collect_distinct:
    """The distinct non-null values, a list in the order in which they first came; NaN is one value. O(n) combine.

    >>> from muntin import slide, agg
    >>> slide([1, 2, 1], agg.collect_distinct("v"), range=3).tolist()[-1]
    [1, 2]
    """

    def lift(v):
        return (v,)

    def combine(a, b):
        return tuple(dict.fromkeys(v if v == v else math.nan for v in a + b))  # an object equals itself in a dict

    def neutral():
        return ()

    def lower(s):
        return list(s)


collect_distinct = collect_distinct.known_as("84a64a5635a9a74249dce1a3aff561db3fe5630d53f2eb1be9fcc68e94c61320")
