"""The rows of a duration up to every n-th row, over rows in order: they end by a number and last for a time.

A row at the very watermark may be the next n-th one, and so there may be further windows that end there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.per_key import PerKey
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import KEY, ROWS
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.shapes import EdgesFrom


class ByStep(CutWindows):
    """One definition of the rows of a duration up to every n-th one; their order is the number of the row after them.

    A late row moves all rows behind it on by one, and so each window that ends behind it has another last row. A row is
    late for good when its time is final: the numbers of the rows up to there never change.
    """

    window: Any
    counts = (*CutWindows.counts, "arrived")
    waits_at_end: ClassVar[int] = 1
    how: ClassVar[str] = (
        "a window ends with a row number, and its first row is found by time in O(log n); a late row revises the "
        "windows that end behind it"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._range: int = self.window.range
        self._every: int = self.window.every.count
        self._arrival = f"{window_id}.arrival"
        self.arrived = 0
        """How many rows have come."""
        self._gone = PerKey()
        """How many rows of each key were evicted."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether it ends with every n-th row and lasts for a duration."""
        return window.edges is EdgesFrom.STEPS

    @property
    def beside(self) -> Mapping[str, type]:
        """A number for each row: another last row tells that a window holds others, though its bounds are the same."""
        return {self._arrival: np.int64} if self.remembers else {}

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows whose number may change, REFUSED for those that would move final rows on."""
        is_late = (rows.times < watermark) & (rows.times <= less(watermark, self.lateness))
        return np.where(is_late, REFUSED, OWN).astype(np.int8)

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the numbers of admitted rows."""
        if not self.remembers:
            return {}
        self.arrived += len(rows.times)
        return {self._arrival: np.arange(self.arrived - len(rows.times), self.arrived)}

    def evicted(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Count the evicted rows."""
        self._gone[keys] = self._gone[keys] + counts

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held, which are numbered from 0."""
        super().begin(store, watermark)
        if self.remembers:
            self.arrived = len(store)
            store.beside[self._arrival][store.rows()[1]] = np.arange(len(store))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the rows from which on windows are due, or hold others than before."""
        seen = self.looked_at + 1 if self.looked_at > BEFORE_TIME else BEFORE_TIME
        earliest = np.full(len(fresh.keys), seen)
        begins = np.concatenate(([0], fresh.ends))[:-1]
        has_new = begins < fresh.ends
        earliest[has_new] = np.minimum(earliest[has_new], fresh.times[begins[has_new]])
        low = self._gone[fresh.keys] + store.before(fresh.keys, earliest) + 1
        return Spans(fresh.keys, low, np.full(len(low), END_OF_TIME))

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end with some row or a later one. O(log n) each."""
        until = END_OF_TIME if self._early else moment.watermark
        keys, number = self._ends(store, spans, until)
        gone = self._gone[keys]
        last = number - gone
        tail, after = last - 1, last.copy()
        store.kernels.at_ranks(store.tree, keys, tail, after)
        end = store.times_at(tail)
        first = store.before(keys, end - self._range + 1)
        bounds = gone + first, number
        store.kernels.at_ranks(store.tree, keys, first, last)
        content = store.beside[self._arrival][store.places_at(tail)] if self.remembers else number
        is_final = end <= self.settled(moment.before)
        return Cuts(
            keys, first, last, store.times_at(first), end, end, number, content, bounds, bounds, is_final=is_final
        )

    def _ends(self, store: RowStore, spans: Spans, until: int) -> tuple[Array, Array]:
        """Return the keys of windows, and the numbers of the rows after them, up to a time."""
        upto = (
            store.tree.keys[KEY * spans.keys + ROWS] if until == END_OF_TIME else self._upto(store, spans.keys, until)
        )
        low = -(-spans.low // self._every)
        counts = np.maximum(0, (self._gone[spans.keys] + upto) // self._every - low + 1)
        nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(spans.keys, counts), (np.repeat(low, counts) + nth) * self._every

    def _upto(self, store: RowStore, keys: Array, time: int) -> Array:
        """Return how many rows of keys are held that are not later than a time."""
        return store.before(keys, np.full(len(keys), time + 1)) if time > BEFORE_TIME else np.zeros(len(keys), np.int64)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that may change; look at a key when a row is due or final."""
        settled = self.settled(watermark)
        if watermark == END_OF_TIME:
            return
        oldest = less(less(settled, self._range), -1)
        np.minimum(needed, store.before(keys, np.full(len(keys), oldest)), out=needed)
        for last, wait in ((watermark, 0), (settled, self.slack)):
            _, following = store.around(keys, np.full(len(keys), last))
            there = following < END_OF_TIME
            wake[there] = np.minimum(wake[there], following[there] + wait)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Number the rows of keys from 0 on."""
        super().forget(keys)
        self._gone.unset(keys)

    def held_keys(self) -> Array:
        """Return the keys whose rows are numbered."""
        return np.union1d(super().held_keys(), self._gone.keys())

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and how many rows of each key were evicted."""
        return {**super().kept, "gone": self._gone}
