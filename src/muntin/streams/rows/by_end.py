"""Windows by time that a rule tells, over rows in order: for queries that want those without rows, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept, owners
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.per_key import PerKey
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.shapes import EdgesFrom


class ByEnd(CutWindows):
    """One definition of windows whose ends a rule tells; their order is that of the ends."""

    window: Any
    how: ClassVar[str] = (
        "a window is a range of times, found by its end in O(log n), whether it holds rows or not; a late row revises "
        "the windows that hold it"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._emits_empty = plan.emit_empty
        self._since = PerKey(END_OF_TIME)
        """The end of each key's first window."""
        self._known_since = PerKey(END_OF_TIME)
        """The same when windows were last emitted: a row before that brings windows without rows, too."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether its ends can be told for any time."""
        return window.edges is EdgesFrom.RULE

    @property
    def may_fail(self) -> bool:
        """Windows without rows may be too many."""
        return self._emits_empty

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a window that may change, REFUSED for the rest."""
        open_from = self.late_until(watermark)
        own = (rows.times >= watermark) | (self.window.last_end(rows.times) > open_from)
        return np.where(own, OWN, REFUSED)

    def took(self, store: RowStore, rows: Batch) -> None:
        """Note where the windows of each key begin."""
        self._since.lower(rows.keys, self.window.next_end(rows.times))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Note where the windows of each key begin."""
        super().begin(store, watermark)
        keys, places = store.rows()
        self._since.lower(keys, self.window.next_end(store.tree.times[places]))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the ends that were reached, and those of windows with new rows."""
        late = owners(fresh), self.window.next_end(fresh.times), self.window.last_end(fresh.times)
        spans = Spans.merged(store.kernels, self.due_now(fresh, moment), late, self._earlier(fresh.keys))
        # No window with rows ends after the last one that holds the latest row, and none without after the horizon.
        latest = store.latest(spans.keys)
        high = np.full(len(latest), BEFORE_TIME)
        held = latest > BEFORE_TIME
        high[held] = self.window.last_end(latest[held])
        high = np.minimum(spans.high, np.maximum(high, self._last_empty(moment)))
        low = np.maximum(spans.low, self._since[spans.keys])
        return Spans(spans.keys, low, high).nonempty()

    def _earlier(self, keys: Array) -> tuple[Array, Array, Array]:
        """Return the ends before those that keys began with until now."""
        since, known = self._since[keys], self._known_since[keys]
        self._known_since[keys] = since
        return keys, since, known - 1

    def _last_empty(self, moment: Moment) -> int:
        return min(moment.watermark, moment.horizon) if self._emits_empty else BEFORE_TIME

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end in some stretches. O(log n) each."""
        keys, end = self._ends(spans, len(store))
        start = self.window.start_of(end)
        first, last, counts = store.within(keys, start, end)
        kept = (counts > 0) | (end <= self._last_empty(moment))
        is_final = end <= self.settled(moment.before)
        return Cuts(keys, first, last, start, end, end, end, counts, is_final=is_final).take(kept)

    def _ends(self, spans: Spans, rows: int) -> tuple[Array, Array]:
        """Return the keys and ends of all windows that end in some stretches; reject many more than there are rows."""
        none = np.zeros(0, np.int64)
        if not len(spans.keys):
            return none, none
        least, most = int(self.window.next_end(int(spans.low.min()) - 1)), int(spans.high.max())
        known = none
        if least <= most:
            self.window.require_few(self.window.count_ends(least, most), most)
            known = self.window.ends(least, most)
        begins = np.searchsorted(known, spans.low)
        counts = np.searchsorted(known, spans.high, "right") - begins
        # Each row may have windows of its own: only those without rows are limited.
        self.window.require_few(int(counts.sum()) - rows, most)
        nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(spans.keys, counts), known[np.repeat(begins, counts) + nth]

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that are not final; look at a key at the next end."""
        if watermark == END_OF_TIME:
            return
        settled = self.settled(watermark)
        oldest = int(self.window.start_of(self.window.next_end(settled))) if settled > BEFORE_TIME else BEFORE_TIME
        np.minimum(needed, store.before(keys, np.full(len(keys), oldest)), out=needed)
        after = self.window.next_end(watermark) if watermark > BEFORE_TIME else BEFORE_TIME
        since = self._since[keys]
        np.minimum(wake, np.where(since < END_OF_TIME, np.maximum(since, after), END_OF_TIME), out=wake)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the windows of keys."""
        super().forget(keys)
        self._since.unset(keys)
        self._known_since.unset(keys)

    def held_keys(self) -> Array:
        """Return the keys that have windows."""
        return np.union1d(super().held_keys(), self._since.keys())

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and where those of a key begin."""
        return {**super().kept, "since": self._since}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        super().load(state)
        self._known_since.values = self._since.values.copy()
