"""Exact quantiles, modes and distinct counts, whose states grow with the window; the k greatest and the k least."""

from __future__ import annotations

import math

from muntin.aggregations.define import by_type, define
from muntin.aggregations.extremes import same


@define(state="sorted", result="f8", commutative=True)
class _quantile:
    def lower(s, *, q):
        at = (len(s) - 1) * q
        low = int(at)
        below, above = float(s[low]), float(s[min(low + 1, len(s) - 1)])
        if at == low or above == below:  # infinite ones have no difference
            return below
        apart, share = above - below, at - low
        return below + apart * share if math.isfinite(apart) else below * (1.0 - share) + above * share

    def check(q):
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"q is {q!r}; a quantile lies between 0 and 1")


@define(state="sorted", result="f8", commutative=True)
class _median:
    def lower(s):
        n = len(s)
        if n % 2 == 1:
            return float(s[n // 2])
        below, above = float(s[n // 2 - 1]), float(s[n // 2])
        middle = (below + above) / 2.0
        return middle if math.isfinite(middle) else below * 0.5 + above * 0.5  # of two giants


quantile = by_type(
    "quantile",
    """The exact quantile, linearly interpolated between neighbours, like Spark's `percentile`: `quantile("v", 0.9)`.

    O(log n) per row over arrays; its state is the sorted window, and a combine merges in O(n).

    >>> from muntin import slide, agg
    >>> slide([1, 2, 3, 4], agg.quantile("v", 0.25), range=4).tolist()
    [1.0, 1.25, 1.5, 1.75]
    """,
    floating=_quantile,
    integer=_quantile,
    boolean=_quantile,
    decimal=_quantile,
).known_as("5ed64e79592ec2496c7e5080773aa1968ab55ec6d6eaf76ec8f28d9c6161b92e")
median = by_type(
    "median",
    """The exact median. O(log n) per row over arrays; its state is the sorted window, and a combine merges in O(n).

    >>> from muntin import slide, agg
    >>> slide([1, 2, 9], agg.median("v"), range=3).tolist()
    [1.0, 1.5, 2.0]
    """,
    floating=_median,
    integer=_median,
    boolean=_median,
    decimal=_median,
).known_as("31b64402b4459afa8ec086c5572916a87389e1cfadd43fa5c805cd9970db4407")


@define(state="sorted", result="v", commutative=True)
class _mode:
    def lower(s):
        n = len(s)
        best, most, begin = s[0], 0, 0
        while n - begin > most:  # no longer run fits behind that
            value = s[begin]
            last, step = begin, 1
            while last + step < n and same(s[last + step], value):
                last += step
                step *= 2
            end = min(last + step, n)
            while last + 1 < end:  # s[last] is equal, s[end] is not
                middle = (last + end) // 2
                if same(s[middle], value):
                    last = middle
                else:
                    end = middle
            if end - begin > most:
                best, most = value, end - begin
            begin = end
        return best - best if best == 0 else best  # one zero, whichever came


mode = by_type(
    "mode",
    """The most frequent value, of any type that has an order; of equally frequent ones the least. Null for no rows.

    NaN is one value, greater than any number, and so are 0.0 and -0.0, as in Spark. An answer takes O(d log n) for d
    distinct values among n, O(log n) per row over arrays; the state is the sorted window, which medians and quantiles
    of the same column share, and a combine merges in O(n).

    >>> from muntin import slide, agg
    >>> slide([2, 1, 1, 2], agg.mode("v"), range=4).tolist()
    [2, 1, 1, 1]
    """,
    **dict.fromkeys(("floating", "integer", "boolean", "decimal", "temporal", "duration", "other"), _mode),
)


@define(state="distinct", result="i8", empty=0, commutative=True)
class count_distinct:
    """The exact number of distinct values, of any type. 0 for none. Nulls are skipped.

    NaN is one value, and so are 0.0 and -0.0, as in Spark and DuckDB. O(log n) a row over arrays and frames. In slices
    it is the distinct values: numbers and times as sorted runs, others as sets, and a combine is O(n). Where an error
    of a percent will do, `agg.hyperloglog` has a state of a fixed size.

    >>> from muntin import slide, agg
    >>> slide(["a", "b", "a", "c"], agg.count_distinct("v"), range=3).tolist()
    [1, 2, 2, 3]
    """


@define(state="object", result="object", commutative=True, kind="algebraic")
class top_k:
    """The k greatest values, greatest first: `top_k("v", 3)`. O(k log k) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 9, 7, 1], agg.top_k("v", 2), range=3).tolist()
    [[5], [9, 5], [9, 7], [9, 7]]
    """

    def lift(v):
        return (v,)

    def combine(a, b, *, k):
        # NaN is the greatest, and equal to itself.
        return tuple(sorted(a + b, key=lambda x: (x != x, 0 if x != x else x), reverse=True)[:k])

    def neutral():
        return ()

    def lower(s):
        return list(s)

    def check(k):
        if k < 1:
            raise ValueError(f"k is {k!r}; at least one value is kept")


top_k = top_k.taking(k=int)


@define(state="object", result="object", commutative=True, kind="algebraic")
class bottom_k:
    """The k least values, least first: `bottom_k("v", 3)`. NaN is greater than any number. O(k log k) combine.

    >>> from muntin import slide, agg
    >>> slide([5, 9, 7, 1], agg.bottom_k("v", 2), range=3).tolist()
    [[5], [5, 9], [5, 7], [1, 7]]
    """

    def lift(v):
        return (v,)

    def combine(a, b, *, k):
        return tuple(sorted(a + b, key=lambda x: (x != x, 0 if x != x else x))[:k])

    def neutral():
        return ()

    def lower(s):
        return list(s)

    def check(k):
        if k < 1:
            raise ValueError(f"k is {k!r}; at least one value is kept")


bottom_k = bottom_k.taking(k=int)
