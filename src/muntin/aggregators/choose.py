"""Chooses the aggregator for the windows of an array: the rules of the table, read from the top."""

from __future__ import annotations

from dataclasses import dataclass

from muntin.aggregators.table import TABLE, Entry, Facts, Rule


@dataclass(frozen=True)
class Chosen:
    """An aggregator, what it merges, and why it is chosen."""

    aggregates: tuple[str, ...]
    aggregator: str
    why: str
    when: str = ""
    """Its condition, if that depends on the rows."""

    def __str__(self) -> str:
        """Return it in one line."""
        when = f" {self.when}" if self.when else ""
        return f"{', '.join(self.aggregates)} by {self.aggregator}{when} ({self.why})"


def choose(facts: Facts) -> tuple[Entry, Rule]:
    """Return the aggregator of the first rule that applies, and that rule."""
    return next((entry, rule) for entry, rule in _rules() if rule.applies(facts))


def explained(facts: Facts) -> str:
    """Return all rules as lines, the first one that applies marked.

    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import numpy_type
    >>> print(explained(Facts(bind({"x": agg.max("v")}, {"v": numpy_type("f8")}), 3600, 60.0, 60.0)))
           order_statistics   quantiles of numbers                        the window is kept sorted, O(log n) a row
           distinct_counts    counts of distinct values                   a row counts from where its value came before, O(log n) a row
           recalculate        no row falls into two windows               each row is combined once
           recalculate        windows of one or two rows                  a window is one combine
           subtract_on_evict  states without floats that can be inverted  a row comes in by one combine and leaves by one invert, exactly
           prefix_sums        means and moments of many rows, slide 1     a window is a difference of sums; where digits would be lost, by two_stacks
        -> boundary           eight rows a slide, or more                 a row is combined once, into a slice; a window is three combines of slices
           two_stacks         everything else                             at most three combines a row
    """  # noqa: E501  # it is printed like this
    rules = _rules()
    _, taken = choose(facts)
    name_width = max(len(entry.name) for entry, _ in rules)
    when_width = max(len(rule.when) for _, rule in rules)
    return "\n".join(
        f"    {'->' if rule is taken else '  '} {entry.name:<{name_width}}  {rule.when:<{when_width}}  {rule.why}"
        for entry, rule in rules
    )


def _rules() -> list[tuple[Entry, Rule]]:
    return [(entry, rule) for entry in TABLE.values() for rule in entry.rules]
