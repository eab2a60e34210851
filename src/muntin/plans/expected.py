"""What windows are expected to take before a row has come: how often edges come, how many slices and rows are held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muntin.query.plan import Plan
from muntin.streams.slices.shapes import Shapes
from muntin.streams.slices.slice_set import SliceSet
from muntin.types import ColumnType
from muntin.windows.base import Window
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.own import ContextFree
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

_MOST_EDGES = 1_000_000
_OWN_EDGES = 1_000


def edges_per_tick(windows: Iterable[Window]) -> float | None:
    """Return how many edges windows that share slices have in a unit of time; None where only rows can tell.

    Exact where the edges come around again within a million; of sessions, the most that there can be.

    >>> from muntin import window
    >>> edges_per_tick([window.sliding(10, every=4)]), edges_per_tick([window.session(5)])
    (0.5, 0.2)
    """
    windows = list(windows)
    timed = [each for each in windows if isinstance(each, Sliding | Cumulative)]
    own = [each for each in windows if isinstance(each, ContextFree) and each not in timed]
    gaps = [each.gap for each in windows if isinstance(each, Session)]
    if len(timed) + len(own) + len(gaps) < len(windows):
        return None
    often = _of_progressions(Shapes.of(dict(enumerate(timed)))) if timed else 0.0
    often += sum(_of_own(each) for each in own)
    return min(1.0, often + 1 / min(gaps)) if gaps else often


def _of_progressions(shapes: Shapes) -> float:
    steps = shapes.steps
    period = math.lcm(*steps.tolist())
    span = int(min(period, max(int(steps.min()), _MOST_EDGES / (1 / steps).sum())))
    edges = [np.arange(phase, span, step) for step, phase in zip(steps.tolist(), shapes.phases.tolist(), strict=True)]
    return len(np.unique(np.concatenate(edges))) / span


def _of_own(window: ContextFree) -> float:
    """Walk some edges of a user's own windows, from the epoch on."""
    at, count = 0, 0
    while count < _OWN_EDGES:
        after = window.next_edge(at)
        if after is None:
            return 0.0
        at, count = after, count + 1
    return count / at


def slices_of_window(window: Window, often: float | None) -> int | None:
    """Return how many slices the longest window may have, where edges come so often; None where only rows tell."""
    length = getattr(window, "range", None)
    if often is None or not isinstance(length, int):
        return None
    return max(1, round(length * often))


def time_held(window: Window, delay: int, lateness: int) -> int | None:
    """Return for how long a row may be needed; None where only rows tell.

    That is from when its longest window begins until no row may change it: a window is open until the watermark, which
    is `delay` behind, reaches its end, and then for the lateness.
    """
    if isinstance(window, Sliding | Cumulative | Trailing):
        return int(window.range) + delay + lateness
    if isinstance(window, Session):
        return 2 * int(window.gap) + delay + max(1, lateness)
    return delay + lateness if isinstance(window, SlidingRows | TrailingRows) else None


def rows_held(window: Window) -> int:
    """Return how many of the last rows are needed, whatever their time."""
    return window.range.count if isinstance(window, SlidingRows | TrailingRows) else 0


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
    held = [time_held(each, delay, plan.lateness) for each in plan.windows.values()]
    if often is None or None in held:
        return None
    slices = math.ceil(max(each for each in held if each is not None) * often) + 1
    sizes = [each.slice_bytes for each in sets]
    rooms = [each.room_for(slices) for each in sets]
    total = sum(room * size + KEY_BYTES for room, size in zip(rooms, sizes, strict=True))
    return Slots(slices, sum(sizes), total)


KEY_BYTES = 5 * 8
"""What a key takes in a set of slices, besides these."""
VALUE_BYTES = 2 * 8
"""What a distinct value of a slice takes, where values are kept: itself, and how many rows have it."""


def row_bytes(types: Mapping[str, ColumnType]) -> int:
    """Return the bytes of a row that is kept as it is: key, time, number, and the columns that are read."""
    return 3 * 8 + sum(kind.physical.itemsize for kind in types.values())
