"""Final aggregation by any aggregator: what merges slices is independent of what cuts them.

The windows of one key and definition ascend, so that their slices go through an in-order structure once, from the first
window that is due to the last. It is built anew for each emission: of many windows that are due together each takes
O(1) combines, and a single one no fewer than lazily.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators import (
    BaseIntervals,
    Boundary,
    Daba,
    Fiba,
    FlatFit,
    LogMonoidTree,
    MonoidTree,
    Recalculate,
    SlickDeque,
    SubtractOnEvict,
    TwoStacks,
)
from muntin.aggregators.ring import RingAggregator
from muntin.aggregators.slick_deque import half_for
from muntin.errors import NotInvertibleError
from muntin.streams.records import Found
from muntin.types import Array

BUILT_ANEW: dict[str, type[RingAggregator | Fiba]] = {
    "recalculate": Recalculate,
    "subtract_on_evict": SubtractOnEvict,
    "two_stacks": TwoStacks,
    "daba": Daba,
    "flat_fit": FlatFit,
    "slick_deque": SlickDeque,
    "base_intervals": BaseIntervals,
    "boundary": Boundary,
    "log_monoid_tree": LogMonoidTree,
    "monoid_tree": MonoidTree,
    "fiba": Fiba,
}
MERGERS = ("lazy", "flat_fat", *BUILT_ANEW)
"""What can merge slices: `lazy` combines all slices of a window, `flat_fat` keeps a tree over those of each key."""


def cannot_merge(name: str, binding: Binding) -> str | None:
    """Return why an aggregator cannot merge the slices of a binding, or None if it can."""
    try:
        if name == "slick_deque":
            half_for(dict(zip(binding.names, binding.aggregations, strict=True)))
        elif name == "subtract_on_evict" and not binding.invertible:
            return f"{', '.join(map(str, binding.aggregations))} cannot be inverted"
    except NotInvertibleError as error:
        return str(error)
    return None


def merge_slices(name: str, binding: Binding, states: Array, found: Found, outputs: tuple[Array, ...]) -> None:
    """Answer windows, those of a key and definition ascending and together, by an aggregator over their slices."""
    kind = BUILT_ANEW[name]
    changes = (np.diff(found.keys) != 0) | (np.diff(found.definitions) != 0)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(found.keys)]
    for start, stop in pairwise(cuts):
        longest = int((found.last[start:stop] - found.first[start:stop]).max())
        module, window = kind.over(binding, longest)
        module.slide_slots(window, states, found.first, found.last, start, stop, outputs)
