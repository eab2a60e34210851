"""The laws of aggregations, as a test that anyone can run on their own: `laws.check(my_aggregation("v"))`.

An aggregator may bracket, reorder or take apart the rows of a window in any way that the laws allow; one that
breaks a law it claims gives wrong answers that no error announces. `check` looks for a counter-example and shows it.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import PlainAlgebra, plain_algebra
from muntin.aggregators.states import close
from muntin.errors import ColumnTypeError, InvalidArgumentError, LawError
from muntin.types import value_type

TOLERANCE = 1e-9
ROUNDING = 1e-12
_SAMPLES: dict[str, tuple[Any, ...]] = {
    "floats": (0.0, 1.0, -1.0, 2.5, -7.25, 3.0, 1e3, -1e3, 0.125, 42.0, 1.0, 2.5),
    "integers": (0, 1, -1, 2, 7, -13, 40, 1000, -1000, 3, 1, 2),
    "booleans": (True, False, True, True, False),
    "strings": ("a", "b", "ab", "", "z", "a"),
}


def check(aggregation: Aggregation, values: Iterable[Any] | None = None, *, rounds: int = 60, seed: int = 0) -> None:
    """Test every law that the aggregation claims, on generated values and on those given; raise `LawError`.

    Laws: combine is associative; the neutral element changes nothing; `commutative` states commute; `invert` removes
    what was added; a `selective` combine returns one of its arguments. Floats are compared up to the rounding of the
    largest number in the states involved. `values` are single values, or tuples for several columns. A failing case
    prints its seed. O(rounds) combines.

    >>> from muntin import agg
    >>> check(agg.sum("v"))
    >>> @agg.define(state="f8", commutative=True)
    ... class difference:
    ...     def lift(v):
    ...         return v
    ...     def combine(a, b):
    ...         return a - b
    >>> check(difference("v"))
    Traceback (most recent call last):
        ...
    muntin.errors.LawError: agg.difference('v') is not associative: ...
    """
    tested = False
    for rows in _row_sets(aggregation, values):
        kinds = tuple(value_type(value) for value in rows[0])
        try:
            algebra = plain_algebra(aggregation, kinds)
            _Laws(aggregation, algebra, rows, random.Random(seed), seed).all(rounds)
        except (ColumnTypeError, TypeError, ValueError):
            if values is not None:
                raise
            continue  # this aggregation does not take generated values of this type
        tested = True
    if not tested:
        raise LawError(f"{aggregation} took none of the generated values; give some with values=")


def _row_sets(aggregation: Aggregation, values: Iterable[Any] | None) -> list[list[tuple[Any, ...]]]:
    if not isinstance(aggregation, Aggregation):
        raise InvalidArgumentError(f"laws are those of an aggregation, such as agg.max('v'); got {aggregation!r}")
    width = len(aggregation.columns)
    if values is not None:
        # What a value has for where= decides which rows are lifted, not how.
        return [[tuple(v)[:width] if len(aggregation.reads) != 1 else (v,) for v in values]]
    shuffle = random.Random(width)
    sets = []
    for sample in _SAMPLES.values():
        columns = [sample] + [shuffle.sample(sample, len(sample)) for _ in range(width - 1)]
        sets.append(list(zip(*columns[:width], strict=True)) if width else [()] * len(sample))
    return sets


class _Laws:
    """The laws on one set of values."""

    def __init__(
        self,
        aggregation: Aggregation,
        algebra: PlainAlgebra,
        rows: Sequence[tuple[Any, ...]],
        chance: random.Random,
        seed: int,
    ) -> None:
        self.aggregation = aggregation
        self.algebra = algebra
        self.rows = rows
        self.chance = chance
        self.seed = seed

    def all(self, rounds: int) -> None:
        """Test every law, each round on three neighbouring windows."""
        for _ in range(rounds):
            parts = self._windows()
            self._associative(*parts)
            self._neutral(parts[0])
            if self.aggregation.commutative:
                self._commutative(parts[0], parts[1])
            if self.aggregation.invertible:
                self._invertible(parts[0], parts[1])
            if self.aggregation.selective:
                self._selective(parts[0], parts[1])

    def _windows(self) -> tuple[Any, Any, Any]:
        """Return the states of three windows that follow each other in time."""
        time = self.chance.randint(-100, 100)
        states = []
        for _ in (1, 2, 3):
            state = None
            for _ in range(self.chance.randint(1, 4)):
                # Distinct times: rows of equal time have only their order of arrival, which no state can commute.
                time += self.chance.randint(1, 3)
                lifted = self.algebra.lift(*self.chance.choice(self.rows), time)
                state = lifted if state is None else self.algebra.combine(state, lifted)
            states.append(state)
        return states[0], states[1], states[2]

    def _associative(self, a: Any, b: Any, c: Any) -> None:
        combine = self.algebra.combine
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        self._same(left, right, "is not associative", "(a+b)+c", "a+(b+c)", a=a, b=b, c=c)

    def _neutral(self, a: Any) -> None:
        if self.algebra.neutral is None:
            return
        e, combine = self.algebra.neutral(), self.algebra.combine
        problem = "has a neutral element that changes a state"
        self._same(combine(e, a), a, problem, "e+a", "a", a=a, e=e)
        self._same(combine(a, e), a, problem, "a+e", "a", a=a, e=e)

    def _commutative(self, a: Any, b: Any) -> None:
        ab, ba = self.algebra.combine(a, b), self.algebra.combine(b, a)
        self._same(ab, ba, "claims to be commutative, and is not", "a+b", "b+a", a=a, b=b)

    def _invertible(self, a: Any, b: Any) -> None:
        assert self.algebra.invert is not None
        both = self.algebra.combine(a, b)
        problem = "has an invert that does not take out what was put in"
        self._same(self.algebra.invert(both, a), b, problem, "both-a", "b", a=a, b=b, both=both)

    def _selective(self, a: Any, b: Any) -> None:
        ab = self.algebra.combine(a, b)
        if not (_close(ab, a, (a, b)) or _close(ab, b, (a, b))):
            self._fail("claims to be selective, and made something new", f"a+b={ab}", a=a, b=b)

    def _same(self, x: Any, y: Any, problem: str, x_name: str, y_name: str, **given: Any) -> None:
        if not _close(x, y, (x, y, *given.values())):
            self._fail(problem, f"{x_name}={x}, {y_name}={y}", **given)

    def _fail(self, problem: str, found: str, **given: Any) -> None:
        example = ", ".join(f"{name}={_shown(state)}" for name, state in given.items())
        raise LawError(f"{self.aggregation} {problem}: for {example}, {_shown(found)} (seed {self.seed})")


def _shown(state: Any) -> str:
    """Show a state without the generated name of its type."""
    return re.sub(r"_P\d+\(", "(", re.sub(r"np\.\w+\(([^()]*)\)", r"\1", str(state)))


def _close(x: Any, y: Any, among: Sequence[Any]) -> bool:
    """Compare two states; a float may be off by the rounding of the largest one in the states at hand."""
    return close(x, y, TOLERANCE, max((_largest(state) for state in among), default=0.0) * ROUNDING)


def _largest(state: Any) -> float:
    if isinstance(state, tuple | list):
        return max((_largest(part) for part in state), default=0.0)
    if isinstance(state, np.ndarray) and state.dtype.kind == "f":
        return _largest(state.tolist())
    if isinstance(state, float | np.floating) and math.isfinite(state):
        return abs(float(state))
    return 0.0
