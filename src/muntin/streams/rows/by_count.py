"""The last rows before each multiple of a duration, over rows in order: they end by time, and count rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, Moment
from muntin.streams.rows.per_key import PerKey
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.shapes import EdgesFrom


class ByCount(CutWindows):
    """One definition of the last rows before each multiple; their order is the number of the row after them.

    A late row moves all rows behind it on by one, and so the windows that end behind it hold others.
    """

    window: Any
    counts = (*CutWindows.counts, "arrived")
    how: ClassVar[str] = (
        "a window is a range of row numbers, found by the multiple before which it ends in O(log n); a late row "
        "revises the windows that hold others"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._count: int = self.window.range.count
        self._steps = np.array([self.window.every, self.window.offset], np.int64)
        self._arrival = f"{window_id}.arrival"
        self.arrived = 0
        """How many rows have come."""
        self._gone = PerKey()
        """How many rows of each key were evicted."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether it counts the rows before multiples of a duration."""
        return window.edges is EdgesFrom.COUNTS

    @property
    def beside(self) -> Mapping[str, type]:
        """A number for each row: another last row tells that a window holds others, though it counts as many."""
        return {self._arrival: np.int64} if self.remembers else {}

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a window that may change, REFUSED for the rest."""
        verdicts = np.full(len(rows.times), OWN, np.int8)
        settled = self.late_until(watermark)
        if rows.least >= watermark or rows.least > settled:
            return verdicts
        late = np.flatnonzero((rows.times < watermark) & (rows.times <= settled))
        found = np.empty(len(late), np.int64)
        limits = np.array([settled, self._count], np.int64)
        store.kernels.judge_counted(store.tree, rows.keys[late], rows.times[late], self._steps, limits, found)
        verdicts[late] = found
        return verdicts

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the numbers of admitted rows."""
        if not self.remembers:
            return {}
        self.arrived += len(rows.times)
        return {self._arrival: np.arange(self.arrived - len(rows.times), self.arrived)}

    def evicted(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Count the evicted rows."""
        self._gone[keys] = self._gone[keys] + counts

    # ------------------------------------------------------------ windows

    def _last_multiple(self, time: int) -> int:
        """Return the last multiple not after a time: windows up to it end by then."""
        return int(self.window.next_edge(time)) - int(self.window.every) if time > BEFORE_TIME else BEFORE_TIME

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the rows from which on windows are due, or hold others than before."""
        earliest = np.full(len(fresh.keys), self._last_multiple(self.looked_at))
        begins = np.concatenate(([0], fresh.ends))[:-1]
        has_new = begins < fresh.ends
        first = self.window.next_edge(fresh.times[begins[has_new]]) - self.window.every
        earliest[has_new] = np.minimum(earliest[has_new], first)
        low = self._gone[fresh.keys] + store.before(fresh.keys, earliest) + 1
        return Spans(fresh.keys, low, np.full(len(low), END_OF_TIME))

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end with some row or a later one. O(log n) each."""
        gone = self._gone[spans.keys]
        until = END_OF_TIME if self._early else moment.watermark
        which, edge, to = store.grown_to_fit(
            3, store.kernels.find_counted, spans.keys, spans.low - gone - 1, self._steps, until
        )
        keys, gone = spans.keys[which], gone[which]
        number = gone + to
        bounds = np.maximum(0, number - self._count), number
        first, last = bounds[0] - gone, to.copy()
        np.maximum(first, 0, out=first)
        store.kernels.at_ranks(store.tree, keys, first, last)
        content = store.beside[self._arrival][store.places_at(last - 1)] if self.remembers else number
        is_final = edge <= self.settled(moment.before)
        start, end = store.times_at(first), store.times_at(last - 1)
        return Cuts(keys, first, last, start, end, edge, number, content, bounds, bounds, is_final=is_final)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that may change; look at a key when one is due or final."""
        over = watermark == END_OF_TIME
        settled = END_OF_TIME if over else self._last_multiple(self.settled(watermark))
        np.minimum(needed, np.maximum(0, store.before(keys, np.full(len(keys), settled)) - self._count), out=needed)
        if over:
            return
        for last, wait in ((self._last_multiple(watermark), 0), (settled, self.slack)):
            _, following = store.around(keys, np.full(len(keys), max(last, BEFORE_TIME + 1) - 1))
            there = following < END_OF_TIME
            wake[there] = np.minimum(wake[there], self.window.next_edge(following[there]) + wait)

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
