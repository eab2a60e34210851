"""Windows by time whose edges are known: sliding and cumulative ones, and a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.buffer.buffer import Rows
from muntin.streams.buffer.kinds.base import ByKey, Kind, Moment, Windows, keys_of, less, zeros
from muntin.tables.finite import Found, find
from muntin.types import Array
from muntin.windows.times import Cumulative, Sliding


class OwnKind(Kind):
    """A user's windows whose edges are known. A row may be in none of them."""

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        times, inverse = np.unique(new.times, return_inverse=True)
        ends = np.array([self._last_end(int(t)) for t in times], np.int64)[inverse]
        return np.where(new.times >= watermark, ends > new.times, ends > less(watermark, self.lateness))

    def _last_end(self, t: int) -> int:
        """Return the end of the last window that holds a time; the least integer where none does."""
        last, previous, edge = BEFORE_TIME, t, self.definition.next_edge(t)
        while edge is not None:
            for start, end in self.definition.ended(previous, edge):
                if start > t:
                    return last
                last = max(last, end) if t < end else last
            previous, edge = edge, self.definition.next_edge(edge)
        return last

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        settled = self.settled(found.end, moment.before)
        name = (found.start, found.end, zeros(len(found.first)))
        return Windows(found, keys_of(rows, found.first), found.end, settled, name)


class HoppingKind(OwnKind):
    """Sliding and cumulative windows: arithmetic, and windows without rows if they are wanted."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.since = ByKey(END_OF_TIME)
        """The first end of a window of each key, where windows without rows are wanted."""
        self.step = definition.every
        self.ends_at = definition.offset + (definition.range if isinstance(definition, Sliding) else 0)

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        block = self.step if isinstance(self.definition, Sliding) else self.definition.range
        last: Array = new.times - (new.times - self.definition.offset) % block + self.definition.range
        return (new.times >= watermark) | (last > less(watermark, self.lateness))

    def note(self, taken: Rows) -> None:
        if self.plan.emit_empty:
            self.since.lower(taken.keys, self._next_end(taken.times))

    def _next_end(self, times: Array) -> Array:
        """Return the first end of a window after each time."""
        ends: Array = times + self.step - (times - self.ends_at) % self.step
        return ends

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        windows = super().windows(rows, active, moment)
        if not self.plan.emit_empty:
            return windows
        key, end = self._empty(windows, active, moment)
        at = _rows_before(rows, key, end)
        found = windows.found
        key = np.concatenate((windows.key, key))
        end = np.concatenate((found.end, end))
        order = np.lexsort((end, key))
        first, last = (np.concatenate((each, at))[order] for each in (found.first, found.last))
        key, end = key[order], end[order]
        start = end - self.definition.range
        if isinstance(self.definition, Cumulative):
            start = end - 1 - (end - 1 - self.definition.offset) % self.definition.range
        found = Found(first, last, start, end)
        return Windows(found, key, end, self.settled(end, moment.before), (start, end, zeros(len(end))))

    def _empty(self, windows: Windows, active: Array, moment: Moment) -> tuple[Array, Array]:
        """Return the windows without rows that are due and may still change: their keys and ends."""
        first = self.since[active]
        keys, first = active[first < END_OF_TIME], first[first < END_OF_TIME]
        settled = less(moment.before, self.lateness)
        if settled > BEFORE_TIME:
            first = np.maximum(first, self._next_end(np.array([settled]))[0])
        counts = np.maximum(0, (min(moment.watermark, moment.horizon) - first) // self.step + 1)
        key = np.repeat(keys, counts)
        nth = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        end = np.repeat(first, counts) + self.step * nth
        low = min(end.min(initial=0), windows.found.end.min(initial=0))
        width = (max(end.max(initial=0), windows.found.end.max(initial=0)) - low) // self.step + 1
        held = windows.key * width + (windows.found.end - low) // self.step
        empty = ~np.isin(key * width + (end - low) // self.step, held)
        return key[empty], end[empty]

    def wakes_without_rows(self, keys: Array, watermark: int) -> Array:
        if not self.plan.emit_empty or watermark >= END_OF_TIME:
            return super().wakes_without_rows(keys, watermark)
        since = self.since[keys]
        after = self._next_end(np.array([watermark]))[0] if watermark > BEFORE_TIME else BEFORE_TIME
        return np.where(since < END_OF_TIME, np.maximum(since, after), END_OF_TIME)

    def held_keys(self) -> Array:
        return self.since.said()

    def save(self) -> dict[str, Array]:
        return {"since": self.since.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        self.since.values = state["since"].copy()


def _rows_before(rows: Rows, key: Array, time: Array) -> Array:
    """Return for each key and time how many of all the sorted rows are of a lesser key, or of this one and earlier."""
    keys, times = np.concatenate((key, rows.keys)), np.concatenate((time, rows.times))
    is_row = np.arange(len(keys)) >= len(key)
    order = np.lexsort((is_row, times, keys))
    place = np.zeros(len(keys), np.int64)
    place[order] = np.cumsum(is_row[order])
    return place[: len(key)]
