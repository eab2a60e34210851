"""Final aggregation by any aggregator: what merges slices is independent of what cuts them.

The windows of one key and definition ascend, so their slices pass through an in-order structure once, from the first
due window to the last. It is built for each emission: if many windows are due together each takes O(1) combines; a
single one takes no fewer than lazily.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.table import TABLE
from muntin.errors import NotInvertibleError
from muntin.streams.found import Found
from muntin.types import Array


def merger_names() -> list[str]:
    """Return the names of mergers: `lazy` combines all slices of a window, the others are aggregators of the table."""
    return ["lazy", *(entry.name for entry in TABLE.values() if entry.merges != "no")]


def cannot_merge(name: str, binding: Binding) -> str | None:
    """Return why an aggregator cannot merge the slices of a binding, or None if it can."""
    kind = None if name == "lazy" else TABLE[name].kind
    try:
        if kind is not None:
            kind.require_suited(binding)
    except NotInvertibleError as error:
        return str(error)
    return None


def merge_slices(name: str, binding: Binding, states: Array, found: Found, outputs: tuple[Array, ...]) -> None:
    """Answer windows by an aggregator over their slices; those of a key and definition are contiguous and ascend."""
    kind = TABLE[name].kind
    assert kind is not None
    changes = (np.diff(found.keys) != 0) | (np.diff(found.definitions) != 0)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(found.keys)]
    for start, stop in pairwise(cuts):
        longest = int((found.last[start:stop] - found.first[start:stop]).max())
        module, window = kind.over(binding, longest)
        module.slide_slots(window, states, found.first, found.last, start, stop, outputs)
