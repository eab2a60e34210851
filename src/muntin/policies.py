"""Slide policies: which of the oldest rows must go, as a plain Python function.

A policy looks at two things, the whole window and its oldest part, and says whether that part must go. What it sees of
each are the answers of some aggregations, which need not be those that the window reports:

    @policies.define(total=agg.sum("v"), newest=agg.last("v"))
    def at_most_ten(whole, old):
        return whole.total - old.total + old.newest > 10

keeps the newest rows that sum to at most ten. It is compiled like an aggregation, and `MonoidTree(..., policy=p)` asks
it after every insert: about the oldest row first, then about longer parts, in strides that double and then halve, so
that any number of rows is let go for O(log n) questions.

That search is right for a *monotone* policy: one that says yes to a part says yes to every shorter one. A policy that
is not says so with `thorough=True`; then the parts that end where a subtree ends are all tried, and the longest one
with a yes goes. A policy that claims to be monotone, keeps the oldest row and would let the whole window go,
contradicts itself: that is seen at no cost, and `PolicyWarning` is given once for each window.

To a part in which all values of a column are null an aggregation says 0, or what it says of no rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from muntin import aggregations as agg
from muntin.aggregations import order
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import SlideCondition, SlideRule
from muntin.durations import in_unit_of
from muntin.errors import DefinitionError, InvalidArgumentError
from muntin.kernels.source import Function, capture, stable_text
from muntin.types import ColumnType, is_finite_number, numpy_type

newest_time: Any = order.newest_time
time_of_max: Any = order.time_of_max
_FINEST = numpy_type("M8[ns]")


@dataclass(frozen=True)
class Clause:
    """What a policy asks: a function of what its aggregations say of the whole window and of its oldest part."""

    name: str
    function: Function
    aggregations: Mapping[str, Aggregation]
    spans: Mapping[str, Any] = field(default_factory=dict)
    """Keyword-only parameters of the function that are durations, and are filled in in the unit of the times."""

    def slide(self, time: ColumnType, prefix: str) -> SlideCondition:
        """Return what a kernel is generated with, for times of this type; `prefix` begins names of aggregations."""
        spans = {name: in_unit_of(span, time, f"{self.name}: {name}") for name, span in self.spans.items()}
        return SlideCondition(self.function, spans, {name: f"policy.{prefix}{name}" for name in self.aggregations})

    @cached_property
    def meaning(self) -> str:
        """Everything that decides what it says. A duration counts, not how it is written."""
        spans = {
            name: span if isinstance(span, int) else (in_unit_of(span, _FINEST, f"{self.name}: {name}"), "ns")
            for name, span in self.spans.items()
        }
        seen = [(name, each.fingerprint, each.columns) for name, each in self.aggregations.items()]
        return f"{self.function.identity}{stable_text(spans)}{seen}"


@dataclass(frozen=True)
class Policy:
    """A slide policy. Created by `define`, or by one of the functions below."""

    name: str
    conditions: tuple[Clause, ...]
    joined: str = "{0}"
    """How the answers of the conditions are joined, as an expression of their numbers: `({0} or {1})`."""
    thorough: bool = False

    def _by_condition(self) -> list[tuple[str, Clause]]:
        """Return the conditions, each with what begins the names of its aggregations; nothing if there is but one."""
        several = len(self.conditions) > 1
        return [(f"{i}." if several else "", each) for i, each in enumerate(self.conditions)]

    @cached_property
    def aggregations(self) -> dict[str, Aggregation]:
        """What it looks at, by name."""
        held = self._by_condition()
        return {f"{prefix}{name}": agg for prefix, each in held for name, agg in each.aggregations.items()}

    @property
    def spans(self) -> dict[str, Any]:
        """The durations that it names."""
        return {f"{prefix}{name}": span for prefix, each in self._by_condition() for name, span in each.spans.items()}

    @cached_property
    def named(self) -> dict[str, Aggregation]:
        """Its aggregations, under names that no aggregation of a window has."""
        return {f"policy.{name}": each for name, each in self.aggregations.items()}

    def rule(self, time: ColumnType) -> SlideRule:
        """Return what a kernel is generated with, for times of this type."""
        conditions = tuple(each.slide(time, prefix) for prefix, each in self._by_condition())
        return SlideRule(conditions, self.joined, self.thorough)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides what it says. A duration counts, not how it is written.

        >>> at_most_duration("1 minute").fingerprint == at_most_duration("60 seconds").fingerprint
        True
        >>> at_most_rows(5).fingerprint == at_most_rows(6).fingerprint
        False
        """
        text = "".join(each.meaning for each in self.conditions) + str(self.thorough)
        text += self.joined if len(self.conditions) > 1 else ""  # one condition has the hash that it always had
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        """Show its name."""
        return f"<policy {self.name}>"


def define(
    *, thorough: bool = False, spans: Mapping[str, Any] | None = None, **aggregations: Aggregation
) -> Callable[[Callable[..., Any]], Policy]:
    """Return a policy from a function of (whole, old), which sees the answers of these aggregations by name.

    `spans` are durations ("1 hour"), passed to keyword-only parameters of the function in the unit of the times.
    `thorough`: the policy may keep a part and evict a longer one; every insert then takes O(log n) combines.

    >>> from muntin import agg, aggregators, policies
    >>> @policies.define(total=agg.sum("v"), newest=agg.last("v"))
    ... def at_most_ten(whole, old):
    ...     return whole.total - old.total + old.newest > 10
    >>> window = aggregators.MonoidTree(agg.max("v"), policy=at_most_ten)
    >>> window.bulk_insert(range(4), [2, 2, 3, 3])
    >>> window.query(), len(window)
    (3, 4)
    >>> window.insert(4, 4)
    >>> window.query(), len(window)
    (4, 3)
    """

    def decorate(function: Callable[..., Any]) -> Policy:
        name = function.__name__
        captured = capture(function, name)
        if len(captured.arguments) != 2:
            raise DefinitionError(f"the policy {name} must take (whole, old), not {len(captured.arguments)} parameters")
        if set(captured.keywords) != set(spans or {}):
            raise DefinitionError(f"the policy {name} has keyword-only parameters, and spans= does not name just these")
        if not aggregations:
            raise DefinitionError(f"the policy {name} needs an aggregation to look at, such as n=agg.count()")
        for key, each in aggregations.items():
            if not isinstance(each, Aggregation):
                raise DefinitionError(f"the policy {name} needs aggregations, such as agg.sum('v'); {key} is {each!r}")
        return Policy(name, (Clause(name, captured, dict(aggregations), dict(spans or {})),), thorough=thorough)

    return decorate


def any_of(*policies: Policy) -> Policy:
    """Evict what any of these policies evicts: the window keeps to all of them.

    >>> from muntin import agg, aggregators, policies
    >>> short = policies.any_of(policies.at_most_rows(3), policies.sum_at_most("v", 10))
    >>> window = aggregators.MonoidTree(agg.collect("v"), policy=short, compiled=False)
    >>> window.bulk_insert(range(5), [1, 2, 3, 4, 5])
    >>> window.query()
    [4, 5]
    """
    return _joined("any_of", "or", policies)


def all_of(*policies: Policy) -> Policy:
    """Evict what all of these policies evict: the window keeps to one of them.

    >>> from muntin import agg, aggregators, policies
    >>> long = policies.all_of(policies.at_most_rows(3), policies.sum_at_most("v", 10))
    >>> window = aggregators.MonoidTree(agg.collect("v"), policy=long, compiled=False)
    >>> window.bulk_insert(range(5), [1, 2, 3, 4, 5])
    >>> window.query()
    [3, 4, 5]
    """
    return _joined("all_of", "and", policies)


def _joined(name: str, word: str, policies: tuple[Policy, ...]) -> Policy:
    """Return one policy with the conditions of several. It is monotone if they are."""
    strange = [each for each in policies if not isinstance(each, Policy)]
    if strange or not policies:
        given = repr(strange[0]) if strange else "nothing"
        raise InvalidArgumentError(f"policies.{name} joins policies, such as policies.at_most_rows(100); got {given}")
    if len(policies) == 1:
        return policies[0]
    terms: list[str] = []
    conditions: list[Clause] = []
    for each in policies:
        numbers = range(len(conditions), len(conditions) + len(each.conditions))
        terms.append(each.joined.format(*(f"{{{i}}}" for i in numbers)))
        conditions += each.conditions
    shown = f"{name}({', '.join(each.name for each in policies)})"
    thorough = any(each.thorough for each in policies)
    return Policy(shown, tuple(conditions), f"({f' {word} '.join(terms)})", thorough)


# ---------------------------------------------------------------- built in


def at_most_rows(n: int) -> Policy:
    """Keep the newest n rows.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree(agg.sum("v"), policy=policies.at_most_rows(2), compiled=False)
    >>> window.bulk_insert(range(4), [1, 2, 3, 4])
    >>> window.query()
    7
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise InvalidArgumentError(f"a window keeps at least one row; got {n!r}")

    @define(n=agg.count())
    def at_most_rows(whole: Any, old: Any) -> Any:
        return whole.n - old.n >= n

    return at_most_rows


def at_most_duration(duration: Any) -> Policy:
    """Keep the rows of the last `duration`: those later than the newest time less the duration.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree(agg.sum("v"), policy=policies.at_most_duration(10), compiled=False)
    >>> window.bulk_insert([0, 5, 12], [1, 2, 4])
    >>> window.query(), window.oldest
    (6, 5)
    """
    if (duration if isinstance(duration, int) else in_unit_of(duration, _FINEST, "at_most_duration")) <= 0:
        raise InvalidArgumentError(f"a window keeps at least its newest row, for a positive duration; got {duration!r}")

    @define(newest=newest_time(), spans={"duration": duration})
    def at_most_duration(whole: Any, old: Any, *, duration: int) -> Any:
        return whole.newest - old.newest >= duration

    return at_most_duration


def sum_at_most(column: str, most: float) -> Policy:
    """Keep the newest rows whose sum is at most this. Monotone where no value is negative, infinite or NaN.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree(agg.max("v"), policy=policies.sum_at_most("v", 10))
    >>> window.bulk_insert(range(5), [2, 2, 3, 3, 4])
    >>> window.query(), len(window)
    (4, 3)
    """
    if not is_finite_number(most):
        raise InvalidArgumentError(f"a sum is at most a number; got {most!r}")

    @define(total=agg.sum(column), newest=agg.last(column))
    def sum_at_most(whole: Any, old: Any) -> Any:
        return whole.total - old.total + old.newest > most

    return sum_at_most


def since_maximum(column: str) -> Policy:
    """Drop what is older than the current maximum: no later answer of `max` can come from it.

    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree(agg.max("v"), policy=policies.since_maximum("v"), compiled=False)
    >>> window.bulk_insert(range(5), [5, 1, 7, 2, 3])
    >>> window.query(), len(window)
    (7, 3)
    """

    @define(n=agg.count(column), highest=time_of_max(column), newest=newest_time())
    def since_maximum(whole: Any, old: Any) -> Any:
        return whole.n > 0 and old.newest < whole.highest

    return since_maximum


def since_longest_run(column: str) -> Policy:
    """Drop what is older than the longest increasing run.

    >>> from muntin import agg, aggregators, policies
    >>> run = agg.longest_increasing_run("v")
    >>> window = aggregators.MonoidTree(run, policy=policies.since_longest_run("v"), compiled=False)
    >>> window.bulk_insert(range(5), [9, 1, 2, 3, 0])
    >>> window.query().length, len(window)
    (3, 4)
    """

    @define(run=agg.longest_increasing_run(column), newest=newest_time())
    def since_longest_run(whole: Any, old: Any) -> Any:
        return whole.run.length > 0 and old.newest < whole.run.start

    return since_longest_run


def steady_mean(column: str, delta: float = 0.002) -> Policy:
    """Drop the older part when its mean differs from that of the rest by more than chance explains.

    An adaptive window in the spirit of ADWIN: the bound is Bernstein's, for a variance that is estimated from the
    window, and errs with probability `delta` or so. Not monotone: each insert tries O(log n) cuts.

    >>> import numpy as np
    >>> from muntin import agg, aggregators, policies
    >>> window = aggregators.MonoidTree(agg.mean("v"), policy=policies.steady_mean("v"), compiled=False)
    >>> window.bulk_insert(range(400), np.repeat([0.0, 1.0], 200))
    >>> window.query() > 0.95
    True
    """
    if not is_finite_number(delta) or not 0 < delta < 1:
        raise InvalidArgumentError(f"delta is a probability between 0 and 1; got {delta!r}")

    @define(n=agg.count(column), mean=agg.mean(column), spread=agg.var_pop(column), thorough=True)
    def steady_mean(whole: Any, old: Any) -> Any:
        rest = whole.n - old.n
        if rest < 1 or old.n < 1:
            return False
        newer = (whole.n * whole.mean - old.n * old.mean) / rest
        size = 1.0 / (1.0 / old.n + 1.0 / rest)
        surprise = math.log(2.0 * math.log(whole.n + 2.0) / delta)
        bound = math.sqrt(2.0 / size * whole.spread * surprise) + 2.0 / (3.0 * size) * surprise
        return abs(old.mean - newer) > bound

    return steady_mean
