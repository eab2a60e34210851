"""Pairs (Krishnamurthy, Wu and Franklin): each slide of a window is cut into two slices, at its begin and at an end.

    range 10, every 4     |0   2|4   6|8  10|12 ...    windows [0, 10), [4, 14), ...: no more edges than these

Several windows are cut at the edges of all. A row is combined into one slice; a window is folded from its slices when
it is due.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.query.plan import Plan
from muntin.windows.kinds.context_free import ContextFree
from muntin.windows.kinds.sliding import Sliding
from rivals.fused import Fused
from rivals.in_order import InOrder, Slices


class _Pairs(Slices):
    """Slices between all begins and ends."""

    tree = False

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree], fused: Fused) -> None:
        super().__init__(plan, windows, fused)
        sliding = [each for each in windows.values() if isinstance(each, Sliding)]
        begins = [(each.every, each.offset % each.every) for each in sliding]
        ends = [(each.every, (each.offset + each.range) % each.every) for each in sliding]
        self._every, self._phase = np.array(sorted({*begins, *ends}), np.int64).T

    def _edge_after(self, time: int) -> int:
        return int((time + self._every - (time - self._phase) % self._every).min())


class Pairs(InOrder):
    """Two slices for each slide, merged lazily; rows in order and sliding or tumbling windows only.

    O(1) combines a row; O(slices of the window) to answer one.

    >>> import numpy as np
    >>> from muntin import agg, window
    >>> from muntin.durations import BEFORE_TIME
    >>> from muntin.query.plan import Plan
    >>> from muntin.streams.strategy import Batch
    >>> from muntin.types import INT64
    >>> plan = Plan({0: window.sliding(6, every=4)}, {"n": agg.count()}, {}, INT64, ordered=True)
    >>> strategy = Pairs(plan)
    >>> strategy.take(Batch(np.array([0, 0, 0]), np.array([1, 5, 7]), {}), BEFORE_TIME).tolist()
    [True, True, True]
    >>> [(each.end.tolist(), each.aggregates["n"].to_pylist()) for each in strategy.emit(10, 10)]
    [([2, 6, 10], [1, 2, 2])]
    """

    slices = _Pairs
    kinds = Sliding
    says = "tumbling and sliding windows by time"
    merger = ("lazy", "a window combines its slices when it is due")
