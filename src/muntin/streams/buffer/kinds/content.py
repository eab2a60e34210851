"""Windows by what rows say: markers, slide policies, a column that advances."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.buffer.buffer import Rows
from muntin.streams.buffer.kinds.base import Kind, Late, Moment, Windows, begins_of, keys_of, less, zeros
from muntin.tables.finite import find, numbers_of
from muntin.types import Array


class PunctuatedKind(Kind):
    """Windows that end with a marker."""

    def _marks(self, rows: Rows) -> Array:
        column = rows.columns[self.definition.column]
        marks: Array = column.values != 0
        return marks if column.valid is None else marks & column.valid

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times, marks, ends = held.times.tolist(), self._marks(held).tolist(), self._marks(new)

        def takes(row: int) -> bool:
            t = int(new.times[row])
            at = bisect_right(times, t)
            marker = next((i for i in range(at, len(times)) if marks[i]), None)
            if ends[row] or (marker is not None and times[marker] + self.lateness <= watermark):
                return False
            times.insert(at, t)
            marks.insert(at, False)
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        key = keys_of(rows, found.first)
        marked = self._marks(rows)[found.last - 1] if len(key) else np.zeros(0, np.bool_)
        due = np.where(marked, found.end, END_OF_TIME)
        old = (rows.numbers[found.last - 1] < moment.fresh) | (found.end < moment.before) if len(key) else marked
        order = np.arange(len(key))
        again = np.zeros(len(key), np.bool_)
        if len(key):
            same = (np.diff(key) == 0) & (np.diff(found.start) == 0) & (np.diff(found.end) == 0)
            again[1:] = same
        which = order - np.maximum.accumulate(np.where(again, 0, order)) if len(key) else order
        return Windows(found, key, due, self.settled(due, moment.before) & old, (found.start, found.end, which))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep the last marker that is settled, to know what is before it; and all windows that ended at its time."""
        found = windows.found
        of = np.searchsorted(rows.present, windows.key)
        opened = np.full(len(rows.ends), END_OF_TIME)
        np.minimum.at(opened, of[~settled], found.start[~settled])
        first = rows.ends - 1
        near = found.end >= opened[of]
        np.minimum.at(first, of[near], found.first[near])
        np.minimum.at(first, of[~settled], np.maximum(found.first[~settled] - 1, begins_of(rows)[of[~settled]]))
        return first


class ProgrammedKind(Kind):
    """Windows of a policy. It goes on from what it left at the last row that is settled, and never asks further back.

    The rows of a key are those: the window of the last settled row, which the policy has judged, and all rows after it.
    """

    forgets = True

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self._judged = zeros(0)  # how many rows of each key the policy had judged, when windows were last looked at

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        rows = held

        def takes(row: int) -> bool:
            nonlocal rows
            at = int(np.searchsorted(rows.times, new.times[row], "right"))
            judged = int(np.searchsorted(rows.times, less(watermark, self.lateness), "right"))
            if at == 0 and judged:
                return False
            after = rows.with_rows(new.take(slice(row, row + 1)))
            found = find(self.definition, replace(self.sorted_rows(after), judged=np.array([judged + 1])))
            if not ((found.first <= at) & (at < found.last)).any():
                return False
            rows = after
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        old = (rows.numbers < moment.fresh) | (rows.times < moment.before)
        self._judged = _counts(rows, old & self.settled(rows.times, moment.before))
        found = find(self.definition, replace(self.sorted_rows(rows), judged=self._judged))
        row = found.last - 1
        settled = np.zeros(len(row), np.bool_)
        return Windows(found, rows.keys[row], found.end, settled, (found.end, rows.numbers[row], zeros(len(row))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep what the policy left at the last row that is settled now; if none is, what it left before."""
        count = _counts(rows, self.settled(rows.times, watermark))
        begins = begins_of(rows)
        last = np.maximum(begins + count - 1, 0)
        found = windows.found
        left = np.arange(1, len(rows) + 1)  # nothing, unless there is a window
        left[found.last - 1] = found.first
        return np.where(count > self._judged, left[last] if len(rows) else last, begins)


def _counts(rows: Rows, which: Array) -> Array:
    """Return for each key how many of its rows are among these."""
    total = np.concatenate(([0], np.cumsum(which)))
    counts: Array = total[rows.ends] - total[begins_of(rows)]
    return counts


class DeltaKind(Kind):
    """Windows by value. They are due when the column is beyond them, and settled by the greatest value that is old."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.born_settled: set[tuple[int, Any]] = set()
        """Windows that rows of this push brought about when they were settled already, by key and from_value."""
        steps = (definition.range, definition.every, definition.offset)
        floats = plan.types[definition.column].family == "floating" or any(isinstance(each, float) for each in steps)
        self.number: Any = np.float64 if floats else np.int64
        self.range, self.every, self.offset = (self.number(each) for each in steps)

    def _values(self, rows: Rows) -> tuple[Array, Array]:
        """Return the values of the column, and the places of the rows that have one."""
        values, held = numbers_of(self.definition.column, rows.columns)
        return values.astype(self.number), held

    def _last_end(self, values: Any) -> Any:
        return (values - self.offset) // self.every * self.every + self.offset + self.range

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        values, valued = self._values(new)
        old_values, old_valued = self._values(held)
        is_old = less(watermark, self.lateness)
        old = old_valued[held.times[old_valued] <= is_old]
        beyond = dict(zip(*_greatest(held.keys[old], old_values[old]), strict=True))
        taken = np.zeros(len(new), np.bool_)
        if not (new.times[valued] <= is_old).any() and self._all_beyond(new.keys[valued], values[valued], beyond):
            taken[valued] = True
            return taken
        for row in valued.tolist():
            key, value = int(new.keys[row]), values[row]
            most = beyond.get(key)
            taken[row] = most is None or self._last_end(value) > most
            if taken[row] and most is not None and value < most:
                here = old_values[np.intersect1d(old_valued, np.arange(len(held))[held.of_key(key)])].tolist()
                here += [values[i] for i in valued if i < row and taken[i] and new.keys[i] == key]
                self._note_born_settled(key, value, most, here)
            if taken[row] and new.times[row] <= is_old:
                beyond[key] = value if most is None else max(most, value)
        return taken

    def _all_beyond(self, keys: Array, values: Array, beyond: Mapping[int, Any]) -> bool:
        """Say whether no value is less than the greatest old one of its key."""
        return all(values[keys == key].min(initial=most) >= most for key, most in beyond.items())

    def _note_born_settled(self, key: int, value: Any, most: Any, here: list[Any]) -> None:
        """Note the windows that hold a value, and none that is here, but end by the greatest old one."""
        for low in self._holding(value):
            if low + self.range <= most and not any(low <= each < low + self.range for each in here):
                self.born_settled.add((key, low))

    def _holding(self, value: Any) -> list[Any]:
        """Return the from_values of the windows that hold a value."""
        number = (value - self.offset - self.range) // self.every + 1
        lows = []
        while number * self.every <= value - self.offset:
            lows.append(number * self.every + self.offset)
            number += 1
        return lows

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        assert found.values is not None
        at = found.first if found.members is None else found.members[found.first]
        key = keys_of(rows, at)
        low, high = (each.astype(self.number) for each in found.values)
        values, valued = self._values(rows)
        due = np.full(len(key), END_OF_TIME)
        settled = np.zeros(len(key), np.bool_)
        old = less(moment.before, self.lateness)
        for each in np.unique(key):
            mine, own = np.flatnonzero(key == each), valued[rows.keys[valued] == each]
            order = own[np.argsort(values[own], kind="stable")]
            soonest = np.append(np.minimum.accumulate(rows.times[order][::-1])[::-1], END_OF_TIME)
            due[mine] = soonest[np.searchsorted(values[order], high[mine])]
            known = own[(rows.numbers[own] < moment.fresh) & (rows.times[own] <= old)]
            if len(known):
                settled[mine] = high[mine] <= values[known].max()
        for i in range(len(key)) if self.born_settled else ():
            settled[i] |= (int(key[i]), low[i]) in self.born_settled
        name = low.view(np.int64) if low.dtype == np.float64 else low
        return Windows(found, key, due, settled, (name, zeros(len(key)), zeros(len(key))))

    def settle(self, windows: Windows, settled: Array, watermark: int) -> None:
        self.born_settled = set()

    def save(self) -> dict[str, Array]:
        keys, lows = [key for key, _ in self.born_settled], [low for _, low in self.born_settled]
        return {"born_key": np.array(keys, np.int64), "born_low": np.array(lows, self.number)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.born_settled = set(zip(state["born_key"].tolist(), state["born_low"].tolist(), strict=True))


def _greatest(keys: Array, values: Array) -> tuple[list[int], list[Any]]:
    """Return keys that ascend, each once, and the greatest value of each."""
    if not len(keys):
        return [], []
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[begins].tolist(), np.maximum.reduceat(values, begins).tolist()
