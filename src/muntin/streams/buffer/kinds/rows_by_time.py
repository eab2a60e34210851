"""Windows by time that follow the rows: sessions, and those that trail each row."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.buffer.buffer import Rows
from muntin.streams.buffer.kinds.base import Kind, Late, Moment, Windows, begins_of, keys_of, less, peers, zeros
from muntin.tables.finite import find
from muntin.types import Array


class SessionKind(Kind):
    """Sessions. A row may come at the very end of one; and a settled one must be known while a row could join it.

    So the last settled one before a session that is not settled stays, and where there is none, until a row that could
    reach it would itself be too late: then the key begins anew.
    """

    forgets: ClassVar[bool] = True

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.memory = 2 * definition.gap + self.slack

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gap = self.definition.gap

        def takes(row: int) -> bool:
            t = int(new.times[row])
            at = bisect_right(times, t)
            last, after = t, at
            while after < len(times) and times[after] <= last + gap:
                last, after = times[after], after + 1
            if last + gap + self.lateness <= watermark:
                return False
            joins_left = at > 0 and t <= times[at - 1] + gap
            inside = joins_left and at < len(times) and times[at] <= times[at - 1] + gap
            if joins_left and not inside and times[at - 1] + gap + self.slack <= watermark:
                return False
            times.insert(at, t)
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        name = (found.start, found.end, zeros(len(found.first)))
        settled = self.settled(found.end, moment.before)
        return Windows(found, keys_of(rows, found.first), found.end, settled, name)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        if not len(rows):
            return rows.ends
        begins = np.searchsorted(windows.key, rows.present)
        ends = np.searchsorted(windows.key, rows.present, "right")
        total = np.concatenate(([0], np.cumsum(settled)))
        kept = windows.first_rows[begins + np.maximum(total[ends] - total[begins] - 1, 0)]
        return np.where(rows.times[rows.ends - 1] > less(watermark, self.memory), kept, rows.ends)

    def wakes(self, rows: Rows, first: Array, watermark: int) -> Array:
        if not len(rows):
            return rows.ends
        when = rows.times[rows.ends - 1] + self.memory
        return np.where((first < rows.ends) & (when > watermark), when, END_OF_TIME)


def newer(rows: Rows, watermark: int, memory: int) -> Array:
    """Return for each key its first row that is not older than so much."""
    old = rows.times <= less(watermark, memory)
    total = np.concatenate(([0], np.cumsum(old)))
    begins = begins_of(rows)
    return begins + total[rows.ends] - total[begins]


def when_older(rows: Rows, first: Array, watermark: int, memory: int) -> Array:
    """Return for each key when its first row that is kept is older than so much."""
    if not len(rows):
        return rows.ends
    when = rows.times[np.minimum(first, rows.ends - 1)] + memory
    return np.where((first < rows.ends) & (when > watermark), when, END_OF_TIME)


class TrailingKind(Kind):
    """One window for each row, that reaches back in time."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.memory = definition.range + self.slack

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times

        def takes(row: int) -> bool:
            t = int(new.times[row])
            oldest = max(t, watermark - self.lateness + 1)
            at = int(np.searchsorted(times, oldest))
            return at < len(times) and bool(times[at] < t + self.definition.range)

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        name = (found.end, peers(rows), zeros(len(rows)))
        return Windows(found, rows.keys, found.end, self.settled(found.end, moment.before), name)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        return np.minimum(super().needed(rows, windows, settled, watermark), newer(rows, watermark, self.memory))

    def wakes(self, rows: Rows, first: Array, watermark: int) -> Array:
        return when_older(rows, first, watermark, self.memory)
