"""Which aggregator runs the windows of an array, and why: one table, read from the top."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from muntin.aggregations.binding import Binding


@dataclass(frozen=True)
class Facts:
    """What the choice depends on."""

    binding: Binding
    longest: int
    """The rows of the longest window."""
    overlap: float
    """In how many windows a row may fall."""


@dataclass(frozen=True)
class Rule:
    """A line of the table."""

    aggregator: str
    applies: Callable[[Facts], bool]
    reason: str


RULES = (
    Rule("order_statistics", lambda f: all(p.sorted for p in f.binding.parts), "it needs the sorted window"),
    Rule("recalculate", lambda f: f.overlap <= 1.0, "no row falls into two windows"),
    Rule("recalculate", lambda f: f.longest <= 2, "the windows are as short as one combine"),
    Rule(
        "subtract_on_evict",
        lambda f: f.binding.invertible and f.binding.exact,
        "invert is exact, and takes a row out for one combine",
    ),
    Rule("two_stacks", lambda _: True, "any associative aggregation, at most three combines a row"),
)


def choose(facts: Facts) -> Rule:
    """Return the first rule that applies."""
    return next(rule for rule in RULES if rule.applies(facts))
