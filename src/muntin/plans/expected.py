"""What windows are expected to take before a row has come: how often edges come, how many slices and rows are held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muntin.query.plan import Plan
from muntin.streams.slices.shapes import fewest
from muntin.streams.slices.slice_set import SliceSet
from muntin.types import ColumnType
from muntin.windows.base import Window
from muntin.windows.shapes import EdgeSource, Gap, KnownEdges, Periodic, Tiling

_MOST_EDGES = 1_000_000
_OWN_EDGES = 1_000


def edges_per_tick(windows: Iterable[Window]) -> float | None:
    """Return how many edges windows that share slices have in a unit of time; None where only rows can tell.

    Exact where the edges come around again within a million; of sessions, the most that there can be.

    >>> from muntin import window
    >>> edges_per_tick([window.sliding(10, every=4)]), edges_per_tick([window.session(5)])
    (0.5, 0.2)
    """
    shapes = [each.time_shape for each in windows]
    if any(each is None for each in shapes):
        return None
    often = _of_progressions([each for each in shapes if isinstance(each, Periodic)])
    often += sum(_of_source(each.source) for each in shapes if isinstance(each, KnownEdges))
    gaps = [each.gap for each in shapes if isinstance(each, Gap)]
    return min(1.0, often + 1 / min(gaps)) if gaps else often


def _of_progressions(shapes: Iterable[Periodic]) -> float:
    steps, phases = fewest(pair for each in shapes for pair in each.progressions)
    if not len(steps):
        return 0.0
    period = math.lcm(*steps.tolist())
    span = int(min(period, max(int(steps.min()), _MOST_EDGES / (1 / steps).sum())))
    edges = [np.arange(phase, span, step) for step, phase in zip(steps.tolist(), phases.tolist(), strict=True)]
    return len(np.unique(np.concatenate(edges))) / span


def _of_source(source: EdgeSource) -> float:
    """Walk some edges of windows that Python tells, from the epoch on."""
    at, count = 0, 0
    while count < _OWN_EDGES:
        after = source.next_edge(at)
        if after is None:
            break
        at, count = after, count + 1
    return count / at if at > 0 else 0.0


def slices_of_window(window: Window, often: float | None) -> int | None:
    """Return how many slices the longest window may have, where edges come so often; None where only rows tell."""
    if often is None or window.longest is None:
        return None
    return max(1, round(window.longest * often))


@dataclass(frozen=True)
class Slots:
    """What the slices of one key take."""

    slices: int
    each: int
    """The bytes of a slice."""
    bytes: int
    """The bytes of a key: a block of slices, some of it free, and a few words."""


def slots_of(sets: Iterable[SliceSet], plan: Plan, delay: int) -> Slots | None:
    """Return what the slices of one key take at most, between pushes; None where only rows tell."""
    often = edges_per_tick(plan.windows.values())
    held = [each.time_held(delay, plan.lateness) for each in plan.windows.values()]
    if often is None or None in held:
        return None
    slices = math.ceil(max(each for each in held if each is not None) * often) + 1
    sizes = [each.slice_bytes for each in sets]
    rooms = [each.room_for(slices) for each in sets]
    total = sum(room * size + KEY_BYTES for room, size in zip(rooms, sizes, strict=True))
    return Slots(slices, sum(sizes), total)


def tiles_of(tilings: Iterable[Tiling]) -> int:
    """Return how many tiles a key has at most, besides rows that are not old enough to be merged. O(windows squared).

    Of each age there are as many as the hops of the windows that reach back so far have multiples.

    >>> tiles_of([Tiling(hop=5, back=65, delay=0), Tiling(hop=10, back=110, delay=0)])
    19
    """
    known = [each for each in tilings if each.hop]  # the others begin with the first tile, whatever it holds
    count, younger = 0.0, 0
    for back in sorted({each.back for each in known}):
        hops = {each.hop for each in known if each.back >= back}
        often = sum(1 / hop for hop in hops if not any(hop % other == 0 for other in hops if other != hop))
        count += (back - younger) * often
        younger = back
    return math.ceil(count) + 1


KEY_BYTES = 5 * 8
"""What a key takes in a set of slices, besides these."""
VALUE_BYTES = 2 * 8
"""What a distinct value of a slice takes, where values are kept: itself, and how many rows have it."""


def row_bytes(types: Mapping[str, ColumnType]) -> int:
    """Return the bytes of a row that is kept as it is: key, time, number, and the columns that are read."""
    return 3 * 8 + sum(kind.physical.itemsize for kind in types.values())
