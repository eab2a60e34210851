"""Windows by time whose ends can be enumerated, so that those without rows can be emitted too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from muntin.types import Array
from muntin.windows.found import Cut, Found, SortedRows
from muntin.windows.kinds.context_free import ContextFree
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

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return self.longest + delay + lateness
