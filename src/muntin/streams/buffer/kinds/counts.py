"""Windows by rows: those of fixed numbers, and the last rows before a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.buffer.buffer import Rows
from muntin.streams.buffer.kinds.base import ByKey, Kind, Late, Moment, Windows, begins_of, keys_of, zeros
from muntin.tables.finite import Found, find
from muntin.types import Array


class _Counted(Kind):
    """Windows that number the rows of a key: the rows before those that are kept count, too."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.gone = ByKey()
        """How many rows of each key were let go."""

    def dropped(self, keys: Array, counts: Array) -> None:
        self.gone[keys] = self.gone[keys] + counts

    def held_keys(self) -> Array:
        return self.gone.said()

    def save(self) -> dict[str, Array]:
        return {"gone": self.gone.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        self.gone.values = state["gone"].copy()


class _Numbered(_Counted):
    """Windows of fixed numbers. A late row moves others on, but never those of windows that are settled."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.done = ByKey()
        """How many windows of each key are settled."""

    def settle(self, windows: Windows, settled: Array, watermark: int) -> None:
        if settled.any():
            key = windows.key[settled]
            most = self.done[key]
            np.maximum.at(self.done.values, key, np.maximum(most, windows.name[0][settled] // self.unit + 1))

    unit = 1

    def save(self) -> dict[str, Array]:
        return {**super().save(), "done": self.done.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.done.values = state["done"].copy()

    def held_keys(self) -> Array:
        return np.union1d(super().held_keys(), self.done.said())


class SlidingRowsKind(_Numbered):
    """Windows of so many rows, one every so many."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.length, self.unit = definition.range.count, definition.every.count

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(row: int) -> bool:
            t = int(new.times[row])
            old = gone + bisect_right(times, watermark - self.lateness)
            done = max(0, (old - self.length) // self.unit + 1)
            at = gone + bisect_right(times, t)
            if at < done * self.unit or (self.length == 1 and at == gone + len(times)):
                return False
            insort(times, t)
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        gone = self.gone[rows.present]
        begins = begins_of(rows)
        lowest = -(-gone // self.unit)
        total = gone + rows.ends - begins
        counts = np.maximum(0, -(-total // self.unit) - lowest)
        of = np.repeat(np.arange(len(counts)), counts)
        window = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + lowest[of]
        start = window * self.unit
        first = start - gone[of] + begins[of]
        last = np.minimum(first + self.length, rows.ends[of])
        full = last - first == self.length
        key = rows.present[of]
        bounds = (start, start + last - first)
        found = Found(first, last, rows.times[first], rows.times[last - 1], bounds)
        due = np.where(full, found.end, END_OF_TIME)
        return Windows(found, key, due, window < self.done[key], (start, zeros(len(key)), zeros(len(key))), full)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep the row before the first window that is not settled: it tells which rows are too late."""
        return _from(self.done[rows.present] * self.unit - 1 - self.gone[rows.present], rows)


class TrailingRowsKind(_Numbered):
    """The last so many rows, at each row."""

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(row: int) -> bool:
            t = int(new.times[row])
            done = gone + bisect_right(times, watermark - self.lateness)
            at, total = gone + bisect_right(times, t), gone + len(times)
            if at >= total or done >= total or at + self.definition.range.count - 1 < done:
                return False
            insort(times, t)
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        assert found.rows is not None
        gone = self.gone[rows.keys]
        to_row = found.rows[1] + gone
        from_row = np.maximum(0, to_row - self.definition.range.count)
        found = Found(found.first, found.last, found.start, found.end, (from_row, to_row))
        number = to_row - 1
        settled = number < self.done[rows.keys]
        return Windows(found, rows.keys, found.end, settled, (number, zeros(len(rows)), zeros(len(rows))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        return _from(self.done[rows.present] - self.definition.range.count - self.gone[rows.present], rows)


class RowsEveryKind(_Counted):
    """The last so many rows, at each multiple of a duration."""

    def edge(self, times: Any) -> Any:
        """Return the first multiple after each time."""
        return times - (times - self.definition.offset) % self.definition.every + self.definition.every

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()

        def takes(row: int) -> bool:
            t = int(new.times[row])
            at = bisect_right(times, t)
            edges = (self.edge(each) for each in (t, *times[at:]))
            edge = next((each for each in edges if each + self.lateness > watermark), None)
            if edge is None or at <= bisect_left(times, edge) - self.definition.range.count:
                return False  # there is no open window after it, or the first has enough rows that are later
            times.insert(at, t)
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        assert found.rows is not None
        key = keys_of(rows, found.first)
        to_row = found.rows[1] + self.gone[key]
        from_row = np.maximum(0, to_row - self.definition.range.count)
        found = Found(found.first, found.last, found.start, found.end, (from_row, to_row))
        due = self.edge(found.end)
        return Windows(found, key, due, self.settled(due, moment.before), (from_row, to_row, zeros(len(key))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep as many rows before the first open window as one may hold, and one more."""
        begins = begins_of(rows)
        closed = np.concatenate(([0], np.cumsum(self.settled(self.edge(rows.times), watermark))))
        count = closed[rows.ends] - closed[begins]
        return _from(count - self.definition.range.count, rows)


def _from(number: Array, rows: Rows) -> Array:
    """Return the place of a row of each key, by its number among those that are kept."""
    begins = begins_of(rows)
    places: Array = begins + np.clip(number, 0, rows.ends - begins)
    return places
