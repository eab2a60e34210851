"""Booleans and bits."""

from __future__ import annotations

from muntin.aggregations.define import by_type, define


@define(state={"n": "i8", "trues": "i8"}, result="?", commutative=True)
class all:
    """Whether every value is true. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([True, False, True], agg.all("v"), range=2).tolist()
    [True, False, False]
    """

    def lift(v):
        return (1, 1 if v else 0)

    def combine(a, b):
        return (a.n + b.n, a.trues + b.trues)

    def invert(a, b):
        return (a.n - b.n, a.trues - b.trues)

    def neutral():
        return (0, 0)

    def lower(s):
        return s.trues == s.n


@define(state="i8", result="?", commutative=True)
class any:
    """Whether some value is true. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([True, False, False], agg.any("v"), range=2).tolist()
    [True, True, False]
    """

    def lift(v):
        return 1 if v else 0

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a - b

    def neutral():
        return 0

    def lower(s):
        return s > 0


@define(state="v", commutative=True)
class _bit_and:
    def lift(v):
        return v

    def combine(a, b):
        return a & b


@define(state="v", commutative=True)
class _bit_or:
    def lift(v):
        return v

    def combine(a, b):
        return a | b

    def neutral():
        return 0


@define(state="v", commutative=True)
class _bit_xor:
    def lift(v):
        return v

    def combine(a, b):
        return a ^ b

    def invert(a, b):
        return a ^ b

    def neutral():
        return 0


bit_and = by_type(
    "bit_and",
    """The bitwise and of integers or booleans. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([6, 3, 1], agg.bit_and("v"), range=2).tolist()
    [6, 2, 1]
    """,
    integer=_bit_and,
    boolean=_bit_and,
)
bit_or = by_type(
    "bit_or",
    """The bitwise or of integers or booleans. O(1) combine.

    >>> from muntin import slide, agg
    >>> slide([6, 3, 1], agg.bit_or("v"), range=2).tolist()
    [6, 7, 3]
    """,
    integer=_bit_or,
    boolean=_bit_or,
)
bit_xor = by_type(
    "bit_xor",
    """The bitwise exclusive or of integers or booleans. O(1) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([6, 3, 1], agg.bit_xor("v"), range=2).tolist()
    [6, 5, 2]
    """,
    integer=_bit_xor,
    boolean=_bit_xor,
)
