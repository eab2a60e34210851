"""Which aggregations run together, as one state in one pass."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding

Bind = Callable[[Mapping[str, Aggregation]], Binding]
"""Fuses aggregations over columns whose types it knows."""


def _not_apart(_name: str, _binding: Binding) -> Hashable:
    return None


def run_together(
    aggregations: Mapping[str, Aggregation], bind: Bind, apart: Callable[[str, Binding], Hashable] = _not_apart
) -> list[dict[str, Aggregation]]:
    """Return aggregations in groups, each of which is fused into one state. O(aggregations).

    Compiled ones are not held up by those that run as plain Python, and ones whose states are objects get Python values
    where all others get numbers. `apart` tells what else must be equal within a group, for one aggregation by itself.

    >>> from functools import partial
    >>> from muntin import agg
    >>> from muntin.aggregations.binding import bind
    >>> from muntin.types import INT64
    >>> asked = {"n": agg.count(), "all": agg.collect("v"), "high": agg.max("v")}
    >>> [list(group) for group in run_together(asked, partial(bind, types={"v": INT64}))]
    [['n', 'high'], ['all']]
    """
    groups: dict[Hashable, dict[str, Aggregation]] = {}
    for name, each in aggregations.items():
        alone = bind({name: each})
        groups.setdefault((alone.compiled, alone.lifts_objects, apart(name, alone)), {})[name] = each
    return list(groups.values())
