"""Windows by the wall clock of a zone that each row names, over rows in order: rows of several may lie between others.

The start and the end of its window are kept beside each row. A window that is due reads the rows between these, and
takes its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.shapes import EdgesFrom

Span = tuple[int, int]
"""The end and the start of a window."""


class OpenWindows:
    """The windows of all keys that hold a row and may change, by their ends."""

    def __init__(self) -> None:
        self.of: dict[int, list[Span]] = {}

    def add(self, key: int, start: int, end: int) -> None:
        """Note that a window holds a row. O(log n) and a move if it is new."""
        known = self.of.setdefault(key, [])
        at = bisect_left(known, (end, start))
        if at == len(known) or known[at] != (end, start):
            insort(known, (end, start))

    def between(self, key: int, low: int, high: int) -> list[Span]:
        """Return the windows that end in [low, high]."""
        known = self.of.get(key, [])
        return known[bisect_left(known, (low, BEFORE_TIME)) : bisect_right(known, (high, END_OF_TIME))]

    def next_end(self, key: int, after: int) -> int:
        """Return the first end after a time, END_OF_TIME if there is none."""
        known = self.of.get(key, [])
        at = bisect_right(known, (after, END_OF_TIME))
        return known[at][0] if at < len(known) else END_OF_TIME

    def close(self, key: int, until: int) -> None:
        """Let go of windows that end by a time."""
        known = self.of.get(key, [])
        del known[: bisect_right(known, (until, END_OF_TIME))]
        if not known:
            self.of.pop(key, None)

    def oldest(self, key: int) -> int:
        """Return the first start of all windows, END_OF_TIME if there is none. O(windows)."""
        return min((start for _, start in self.of.get(key, [])), default=END_OF_TIME)

    @property
    def nbytes(self) -> int:
        """The bytes of all windows, about."""
        return 16 * sum(map(len, self.of.values()))

    def save(self) -> dict[str, Array]:
        """Return all windows with their keys."""
        rows = [(key, *span) for key, spans in sorted(self.of.items()) for span in spans]
        table = np.array(rows, np.int64).reshape(-1, 3)
        return {name: table[:, i].copy() for i, name in enumerate(("keys", "ends", "starts"))}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace all windows."""
        self.of = {}
        for key, end, start in zip(*(state[name].tolist() for name in ("keys", "ends", "starts")), strict=True):
            self.of.setdefault(key, []).append((end, start))


class ByZone(CutWindows):
    """One definition of windows by the wall clocks of rows; their order is that of their ends."""

    window: Any
    for_ever: bool = False
    how: ClassVar[str] = (
        "each row has the window of its zone; one that is due or changed reads the rows between its start and its end, "
        "those of other zones too"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._names = f"{window_id}.start", f"{window_id}.end"
        self._open = OpenWindows()
        self._changed: list[tuple[int, int]] = []
        """The keys and ends of windows with new rows."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether rows name their zones."""
        return window.edges is EdgesFrom.ZONES

    @property
    def may_fail(self) -> bool:
        """A time may be outside the years that a calendar can tell."""
        return True

    @property
    def beside(self) -> Mapping[str, type]:
        """The start and the end of each row's window."""
        return dict.fromkeys(self._names, np.int64)

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a window that may change, REFUSED for the rest, and for those without a zone."""
        start, end = self.window.spans(rows.times, rows.columns)
        is_late = (rows.times < watermark) & (end <= less(watermark, self.lateness))
        own = (start < end) & ~is_late
        windows = np.unique(np.stack([each[own] for each in (rows.keys, start, end)], axis=1), axis=0)
        for key, low, high in windows.tolist():
            self._open.add(key, low, high)
            self._changed.append((key, high))
        return np.where(own, OWN, REFUSED).astype(np.int8)

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the starts and ends of admitted rows."""
        return dict(zip(self._names, self.window.spans(rows.times, rows.columns), strict=True))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held."""
        super().begin(store, watermark)
        keys, places = store.rows()
        held = Batch(keys, store.tree.times[places], store.take(places))
        for name, numbers in self.numbers(held, keys).items():
            store.beside[name][places] = numbers
        self._open = OpenWindows()
        self.admit(store, held, BEFORE_TIME)
        self._changed = []
        for key in store.present.tolist():
            self._open.close(key, self.settled(watermark))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the ends that were reached, and those of windows with new rows."""
        changed, self._changed = np.array(self._changed, np.int64).reshape(-1, 2), []
        of_rows = changed[:, 0], changed[:, 1], changed[:, 1]
        return Spans.merged(store.kernels, self.due_now(fresh, moment), of_rows)

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end in some stretches. O(log n) each, and O(1) for each row between their bounds."""
        until = END_OF_TIME if moment.early or self._early else moment.watermark
        found = [
            (key, *span)
            for key, low, high in zip(*(each.tolist() for each in spans), strict=True)
            for span in self._open.between(key, low, min(high, until))
        ]
        table = np.array(found, np.int64).reshape(-1, 3)
        keys, end, start = (table[:, i].copy() for i in range(3))
        first, last, _ = store.within(keys, start, end)
        places, first, last = self._own(store, first, last, start, end)
        is_final = end <= self.settled(moment.before)
        return Cuts(keys, first, last, start, end, end, end, last - first, is_final=is_final, places=places)

    def _own(self, store: RowStore, first: Array, last: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
        """Return the places of the rows of windows, one after the other, and the bounds of each among these."""
        listed, begins, ends = store.listed(first, last)
        counts = ends - begins
        which = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = listed[np.repeat(begins, counts) + nth]
        low, high = (store.beside[name][places] for name in self._names)
        mine = (low == start[which]) & (high == end[which])
        after = np.cumsum(np.bincount(which[mine], minlength=len(counts))).astype(np.int64)
        return places[mine], np.concatenate(([0], after))[:-1].astype(np.int64), after

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of windows that are not final; look at a key at the next end."""
        settled = self.settled(watermark)
        oldest = np.full(len(keys), BEFORE_TIME)
        for i, key in enumerate(keys.tolist()):
            self._open.close(key, settled)
            oldest[i] = self._open.oldest(key)
            due, final = self._open.next_end(key, watermark), self._open.next_end(key, settled)
            wake[i] = min(wake[i], due, min(final, END_OF_TIME - self.slack) + self.slack)
        np.minimum(needed, store.before(keys, oldest), out=needed)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the windows of keys."""
        super().forget(keys)
        for key in keys.tolist():
            self._open.of.pop(key, None)

    def held_keys(self) -> Array:
        """Return the keys that have windows."""
        return np.union1d(super().held_keys(), np.array(sorted(self._open.of), np.int64))

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and those that hold rows."""
        return {**super().kept, "open": self._open}
