"""Windows by time whose ends can be enumerated, so that those without rows can be emitted too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.types import Array
from muntin.windows.buffered import BufferedWindows, ByKey, Moment, Terms, Windows, less, zeros
from muntin.windows.found import Cut, Found, SortedRows
from muntin.windows.held_rows import HeldRows
from muntin.windows.kinds.context_free import BufferedContextFree, ContextFree
from muntin.windows.limits import may_be_many, too_many
from muntin.windows.shapes import EdgesFrom, Lookback


class EnumeratedWindow(ContextFree):
    """Windows that a rule computes for whole arrays of times at once."""

    cuttable: ClassVar[bool] = True
    emits_empty: ClassVar[bool] = True
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.RULE

    @property
    @abstractmethod
    def longest(self) -> int:
        """The maximum length of a window."""

    @abstractmethod
    def next_end(self, times: Any) -> Any:
        """Return the first window end after each time."""

    @abstractmethod
    def last_end(self, times: Any) -> Any:
        """Return the end of the last window that holds each time."""

    @abstractmethod
    def ends(self, first: int, until: int) -> Array:
        """Return all window ends in [first, until], where `first` is one."""

    def count_ends(self, first: int, until: int) -> int:
        """Return the number of window ends in [first, until], where `first` is one."""
        return len(self.ends(first, until))

    def require_few(self, windows: int, until: int) -> None:
        """Reject more windows, most of them without rows, than one call may find. O(1)."""
        if may_be_many(windows):
            raise too_many(self, windows, f"they hold no row, and go on up to the time {until}")

    @abstractmethod
    def start_of(self, end: Any) -> Any:
        """Return the starts of the windows with these ends."""

    @abstractmethod
    def with_rows(self, rows: SortedRows) -> Found:
        """Return the windows that hold a row."""

    # ------------------------------------------------------------ edges

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        """Yield the windows whose end is in (previous, watermark], by their ends. Resolved windows only. O(1) each.

        >>> from muntin import window
        >>> list(window.sliding(10, every=5).ended(12, 20))
        [(5, 15), (10, 20)]
        >>> list(window.cumulative(20, every=10).ended(0, 40))
        [(0, 10), (0, 20), (20, 30), (20, 40)]
        """
        end = int(self.next_end(previous))
        while end <= watermark:
            yield int(self.start_of(end)), end
            end = int(self.next_end(end))

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return 2 * self.longest

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows that hold a row, and those that hold none if the query wants them. O(n + windows)."""
        found = self.with_rows(rows)
        return self._with_empty(found, rows) if rows.emit_empty else found

    def _with_empty(self, found: Found, rows: SortedRows) -> Found:
        """Add the windows without rows: of each key from its first one up to the greatest time of all."""
        youngest = int(rows.times.max()) if len(rows.times) else 0
        horizon = youngest if rows.horizon is None else rows.horizon
        keys = np.searchsorted(rows.ends, found.first, "right")
        ends: list[Array] = []
        total = 0
        for part, _, _ in rows.of_each_key(keys):
            lowest, highest = int(found.end[part][0]), max(int(found.end[part][-1]), horizon)
            total += self.count_ends(lowest, highest)
            self.require_few(total, horizon)
            ends.append(self.ends(lowest, highest))
        key = np.repeat(np.unique(keys), [len(each) for each in ends])
        end = np.concatenate([*ends, np.zeros(0, np.int64)]).astype(np.int64)
        start = self.start_of(end)
        first, last = rows.between(key, start, end)
        kept = (first < last) | (end <= horizon)
        return Found(first[kept], last[kept], start[kept], end[kept], keys=key[kept])

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(log n)."""
        return int(np.searchsorted(rows.times, cut.time - self.longest, "right"))

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on. O(windows)."""
        return np.asarray(found.end <= cut.time)

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        return np.asarray(found.end > cut.time)

    @property
    def lookback(self) -> Lookback:
        """A window reaches back by its length."""
        return Lookback(time=self.longest)

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedEnumerated(self, terms)

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return self.longest + delay + lateness


class BufferedEnumerated(BufferedContextFree):
    """Windows that a rule computes, over kept rows; including those without rows, if wanted."""

    definition: EnumeratedWindow

    def __init__(self, definition: EnumeratedWindow, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.since = ByKey(END_OF_TIME)
        """The first window end of each key, if windows without rows are wanted."""

    def takes(self, new: HeldRows, held: HeldRows, watermark: int) -> Array:
        last: Array = self.definition.last_end(new.times)
        return (new.times >= watermark) | (last > less(watermark, self.lateness))

    def note(self, taken: HeldRows) -> None:
        if self.terms.emit_empty:
            self.since.lower(taken.keys, self.definition.next_end(taken.times))

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        windows = super().windows(rows, active, moment)
        if not self.terms.emit_empty:
            return windows
        key, end = self._empty(windows, active, moment)
        at = _rows_before(rows, key, end)
        found = windows.found
        key = np.concatenate((windows.key, key))
        end = np.concatenate((found.end, end))
        order = np.lexsort((end, key))
        first, last = (np.concatenate((each, at))[order] for each in (found.first, found.last))
        key, end = key[order], end[order]
        start = self.definition.start_of(end)
        found = Found(first, last, start, end)
        return Windows(found, key, end, self.final(end, moment.before), (start, end, zeros(len(end))))

    def _empty(self, windows: Windows, active: Array, moment: Moment) -> tuple[Array, Array]:
        """Return the windows without rows that are due and may still change: their keys and ends."""
        first = self.since[active]
        keys, first = active[first < END_OF_TIME], first[first < END_OF_TIME]
        final = less(moment.before, self.lateness)
        if final > BEFORE_TIME:
            first = np.maximum(first, self.definition.next_end(final))
        until = min(moment.watermark, moment.horizon)
        known = zeros(0)
        if len(first):
            self.definition.require_few(self.definition.count_ends(int(first.min()), until), until)
            known = self.definition.ends(int(first.min()), until)
        begins = np.searchsorted(known, first)  # each is one of them, or after all
        counts = len(known) - begins
        self.definition.require_few(int(counts.sum()), until)
        key = np.repeat(keys, counts)
        nth = np.arange(len(key)) - np.repeat(np.cumsum(counts) - counts, counts)
        end = known[np.repeat(begins, counts) + nth]
        places = np.unique(np.concatenate((known, windows.found.end)))
        held = windows.key * len(places) + np.searchsorted(places, windows.found.end)
        empty = ~np.isin(key * len(places) + np.searchsorted(places, end), held)
        return key[empty], end[empty]

    def wakes_without_rows(self, keys: Array, watermark: int) -> Array:
        if not self.terms.emit_empty or watermark >= END_OF_TIME:
            return super().wakes_without_rows(keys, watermark)
        since = self.since[keys]
        after = self.definition.next_end(watermark) if watermark > BEFORE_TIME else BEFORE_TIME
        return np.where(since < END_OF_TIME, np.maximum(since, after), END_OF_TIME)

    def forget_keys(self, keys: Array) -> None:
        self.since.unset(keys)

    def held_keys(self) -> Array:
        return self.since.keys()

    def save(self) -> dict[str, Array]:
        return {"since": self.since.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        self.since.values = state["since"].copy()


def _rows_before(rows: HeldRows, key: Array, time: Array) -> Array:
    """Return for each key and time how many of the sorted rows come before: lesser keys, or this key and earlier."""
    keys, times = np.concatenate((key, rows.keys)), np.concatenate((time, rows.times))
    is_row = np.arange(len(keys)) >= len(key)
    order = np.lexsort((is_row, times, keys))
    place = np.zeros(len(keys), np.int64)
    place[order] = np.cumsum(is_row[order])
    return place[: len(key)]
