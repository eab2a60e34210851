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
    step: float
    """The rows from one window to the next, on average."""
    rankable: bool = True
    """Whether the values are numbers that can be sorted as they are."""


@dataclass(frozen=True)
class Rule:
    """A line of the table."""

    aggregator: str
    applies: Callable[[Facts], bool]
    when: str
    why: str


@dataclass(frozen=True)
class Chosen:
    """An aggregator, what it merges, and why it was chosen."""

    aggregates: tuple[str, ...]
    aggregator: str
    why: str
    when: str = ""
    """What must hold for it, where that depends on the rows."""

    def __str__(self) -> str:
        """Say it in one line."""
        when = f" {self.when}" if self.when else ""
        return f"{', '.join(self.aggregates)} by {self.aggregator}{when} ({self.why})"


RULES = (
    Rule(
        "order_statistics",
        lambda f: f.rankable and all(part.sorted for part in f.binding.parts),
        "quantiles of numbers",
        "the window is kept sorted, O(log n) a row",
    ),
    Rule("recalculate", lambda f: f.overlap <= 1.0, "no row falls into two windows", "each row is combined once"),
    Rule("recalculate", lambda f: f.longest <= 2, "windows of one or two rows", "a window is one combine"),
    Rule(
        "subtract_on_evict",
        lambda f: f.binding.invertible and f.binding.exact,
        "states without floats that can be inverted",
        "a row comes in by one combine and leaves by one invert, exactly",
    ),
    Rule(
        "boundary",
        lambda f: f.step >= 8.0,
        "eight rows a slide, or more",
        "a row is combined once, into a slice; a window is three combines of slices",
    ),
    Rule("two_stacks", lambda _: True, "everything else", "at most three combines a row"),
)


def choose(facts: Facts) -> Rule:
    """Return the first rule that applies."""
    return next(rule for rule in RULES if rule.applies(facts))


def explained(facts: Facts) -> str:
    """Return the table, the first rule that applies marked in it.

    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import numpy_type
    >>> print(explained(Facts(bind({"x": agg.max("v")}, {"v": numpy_type("f8")}), 3600, 60.0, 60.0)))
           order_statistics   quantiles of numbers                        the window is kept sorted, O(log n) a row
           recalculate        no row falls into two windows               each row is combined once
           recalculate        windows of one or two rows                  a window is one combine
           subtract_on_evict  states without floats that can be inverted  a row comes in by one combine and leaves by one invert, exactly
        -> boundary           eight rows a slide, or more                 a row is combined once, into a slice; a window is three combines of slices
           two_stacks         everything else                             at most three combines a row
    """  # noqa: E501  # it is printed like this
    taken = choose(facts)
    widths = [
        max(len(text) for text in column) for column in zip(*((r.aggregator, r.when) for r in RULES), strict=True)
    ]
    return "\n".join(
        f"    {'->' if rule is taken else '  '} {rule.aggregator:<{widths[0]}}  {rule.when:<{widths[1]}}  {rule.why}"
        for rule in RULES
    )
