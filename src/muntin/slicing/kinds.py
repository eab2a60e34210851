"""What each kind of window asks of a buffer of rows: which it takes, when its windows are due, and what it needs.

A window is due at a time: it is emitted when the watermark reaches that. It is settled when the watermark has gone on
by the allowed lateness: it never changes again. A row that is not behind the lateness is taken by most kinds without a
question; one that is goes the slow way, and is asked about one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.slicing.buffer import Rows
from muntin.slicing.finite import Found, SortedRows, find, numbers_of, python_values
from muntin.slicing.strategy import BEFORE_TIME, END_OF_TIME, Plan
from muntin.types import Array
from muntin.windows.advancing import Delta
from muntin.windows.base import Window
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.mixed import RowsEvery
from muntin.windows.own import ContextAware, ContextFree, Edges
from muntin.windows.programmed import Programmed
from muntin.windows.punctuation import Punctuated
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

Late = Callable[[int, int], bool]
"""Takes a late row of one key, by its time and its place among the new rows, or refuses it."""


@dataclass(frozen=True)
class Moment:
    """When windows are looked at."""

    before: int
    """The watermark up to now: what was settled by it stays as it is."""
    watermark: int
    horizon: int
    """The greatest time seen, or told of."""
    fresh: int
    """The number of the first row that came since windows were last looked at."""


@dataclass(frozen=True)
class Windows:
    """The windows of one definition among the rows of some keys."""

    found: Found
    key: Array
    due: Array
    settled: Array
    """Those that were settled before."""
    name: tuple[Array, Array, Array]
    full: Array | None = None
    """Which windows by rows are full; all, if None."""

    @property
    def first_rows(self) -> Array:
        """The first row of each window."""
        found = self.found
        return found.first if found.members is None else found.members[found.first]


class Kind:
    """One definition over a buffer. This one is for windows that hold every row and end after it."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        self.definition = definition
        self.plan = plan
        self.lateness = plan.lateness
        self.slack = plan.lateness
        """For how long after it was due a window may change."""

    # ------------------------------------------------------------ rows

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        """Return which of the new rows, in the order of time, are taken; `held` are those that were."""
        taken = self.punctual(new, watermark)
        slow = np.flatnonzero(~taken)
        slow = slow[np.argsort(new.keys[slow], kind="stable")]
        for group in np.split(slow, np.flatnonzero(np.diff(new.keys[slow])) + 1):
            if len(group):
                key = int(new.keys[group[0]])
                late = self.late(key, held.take(held.of_key(key)), new, watermark)
                for row in group:
                    taken[row] = late(int(new.times[row]), int(row))
        return taken

    def punctual(self, new: Rows, watermark: int) -> Array:
        """Return which rows are taken without a question."""
        return (new.times >= watermark) | (new.times > _less(watermark, self.lateness))

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        """Return what takes or refuses the late rows of a key, in the order of time."""
        raise NotImplementedError

    def note(self, taken: Rows) -> None:
        """Note something of rows that were taken."""

    # ------------------------------------------------------------ windows

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        """Return the windows of the sorted rows of the keys that are active."""
        raise NotImplementedError

    def sorted_rows(self, rows: Rows) -> SortedRows:
        """Return the rows as `find` takes them."""
        return SortedRows(rows.times, rows.ends, rows.numbers, rows.columns, self.plan.time_type, partial=True)

    def settled(self, due: Array, watermark: int) -> Array:
        """Return which windows never change again at a watermark."""
        return due <= _less(watermark, self.slack) if watermark < END_OF_TIME else np.ones(len(due), np.bool_)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Return for each key that has rows the first that is still needed."""
        first = rows.ends.copy()
        alive = ~settled & (windows.found.first < windows.found.last)
        if alive.any():
            key = np.searchsorted(rows.present, windows.key[alive])
            np.minimum.at(first, key, windows.first_rows[alive])
        return first

    def wakes(self, rows: Rows, first: Array, watermark: int) -> Array:
        """Return for each key that has rows when some can be let go though no window settles; END_OF_TIME: never."""
        return np.full(len(rows.ends), END_OF_TIME)

    def wakes_without_rows(self, keys: Array, watermark: int) -> Array:
        """Return for each key when it has windows though no row comes."""
        return np.full(len(keys), END_OF_TIME)

    # ------------------------------------------------------------ state

    def dropped(self, keys: Array, counts: Array) -> None:
        """Note how many rows of keys were let go."""

    def settle(self, windows: Windows, settled: Array, watermark: int) -> None:
        """Note what is settled now."""

    def held_keys(self) -> Array:
        """Return keys of which something is known besides rows."""
        return np.zeros(0, np.int64)

    def save(self) -> dict[str, Array]:
        """Return the state as arrays by name."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


def _less(watermark: int, span: int) -> int:
    return max(BEFORE_TIME, watermark - span)


def _keys_of(rows: Rows, first: Array) -> Array:
    return rows.keys[first] if len(first) else first


def _none(count: int) -> Array:
    return np.zeros(count, np.int64)


def _peers(rows: Rows) -> Array:
    """Return for each row how many rows of its key and time are before it."""
    if not len(rows):
        return rows.keys
    begins = np.append(True, (np.diff(rows.keys) != 0) | (np.diff(rows.times) != 0))
    place = np.arange(len(rows))
    return place - np.maximum.accumulate(np.where(begins, place, 0))


class _ByKey:
    """A number for each key, zero unless said."""

    def __init__(self, default: int = 0) -> None:
        self.default = default
        self.values = np.zeros(0, np.int64)

    def __getitem__(self, keys: Array) -> Array:
        self._grow(keys)
        return self.values[keys]

    def __setitem__(self, keys: Array, values: Array) -> None:
        self._grow(keys)
        self.values[keys] = values

    def lower(self, keys: Array, values: Array) -> None:
        self._grow(keys)
        np.minimum.at(self.values, keys, values)

    def said(self) -> Array:
        return np.flatnonzero(self.values != self.default)

    def _grow(self, keys: Array) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.values):
            more = np.full(max(size, 2 * len(self.values)) - len(self.values), self.default, np.int64)
            self.values = np.concatenate((self.values, more))


# ---------------------------------------------------------------- edges known by time


class _Own(Kind):
    """A user's windows whose edges are known. A row may be in none of them."""

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        times, inverse = np.unique(new.times, return_inverse=True)
        ends = np.array([self._last_end(int(t)) for t in times], np.int64)[inverse]
        return np.where(new.times >= watermark, ends > new.times, ends > _less(watermark, self.lateness))

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
        name = (found.start, found.end, _none(len(found.first)))
        return Windows(found, _keys_of(rows, found.first), found.end, settled, name)


class _Hopping(_Own):
    """Sliding and cumulative windows: arithmetic, and windows without rows if they are wanted."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.since = _ByKey(END_OF_TIME)
        """The first end of a window of each key, where windows without rows are wanted."""
        self.step = definition.every
        self.ends_at = definition.offset + (definition.range if isinstance(definition, Sliding) else 0)

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        block = self.step if isinstance(self.definition, Sliding) else self.definition.range
        last = new.times - (new.times - self.definition.offset) % block + self.definition.range
        return (new.times >= watermark) | (last > _less(watermark, self.lateness))

    def note(self, taken: Rows) -> None:
        if self.plan.emit_empty:
            self.since.lower(taken.keys, self._next_end(taken.times))

    def _next_end(self, times: Array) -> Array:
        """Return the first end of a window after each time."""
        return times + self.step - (times - self.ends_at) % self.step

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
        return Windows(found, key, end, self.settled(end, moment.before), (start, end, _none(len(end))))

    def _empty(self, windows: Windows, active: Array, moment: Moment) -> tuple[Array, Array]:
        """Return the windows without rows that are due and may still change: their keys and ends."""
        first = self.since[active]
        keys, first = active[first < END_OF_TIME], first[first < END_OF_TIME]
        settled = _less(moment.before, self.lateness)
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


# ---------------------------------------------------------------- by time, as rows come


class _Sessions(Kind):
    """Sessions. A row may come at the very end of one; and a settled one must be known while a row could join it."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.memory = 2 * definition.gap + self.slack

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gap = self.definition.gap

        def takes(t: int, row: int) -> bool:
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
        name = (found.start, found.end, _none(len(found.first)))
        settled = self.settled(found.end, moment.before)
        return Windows(found, _keys_of(rows, found.first), found.end, settled, name)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        return np.minimum(super().needed(rows, windows, settled, watermark), _newer(rows, watermark, self.memory))

    def wakes(self, rows: Rows, first: Array, watermark: int) -> Array:
        return _when_older(rows, first, watermark, self.memory)


def _newer(rows: Rows, watermark: int, memory: int) -> Array:
    """Return for each key its first row that is not older than so much."""
    old = rows.times <= _less(watermark, memory)
    total = np.concatenate(([0], np.cumsum(old)))
    begins = np.concatenate(([0], rows.ends[:-1])).astype(np.int64) if len(rows.ends) else rows.ends
    return begins + total[rows.ends] - total[begins]


def _when_older(rows: Rows, first: Array, watermark: int, memory: int) -> Array:
    """Return for each key when its first row that is kept is older than so much."""
    if not len(rows):
        return rows.ends
    when = rows.times[np.minimum(first, rows.ends - 1)] + memory
    return np.where((first < rows.ends) & (when > watermark), when, END_OF_TIME)


class _Trailing(Kind):
    """One window for each row, that reaches back in time."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.memory = definition.range + self.slack

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times

        def takes(t: int, row: int) -> bool:
            oldest = max(t, watermark - self.lateness + 1)
            at = int(np.searchsorted(times, oldest))
            return at < len(times) and bool(times[at] < t + self.definition.range)

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        name = (found.end, _peers(rows), _none(len(rows)))
        return Windows(found, rows.keys, found.end, self.settled(found.end, moment.before), name)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        return np.minimum(super().needed(rows, windows, settled, watermark), _newer(rows, watermark, self.memory))

    def wakes(self, rows: Rows, first: Array, watermark: int) -> Array:
        return _when_older(rows, first, watermark, self.memory)


# ---------------------------------------------------------------- by rows


class _Counted(Kind):
    """Windows that number the rows of a key: the rows before those that are kept count, too."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.gone = _ByKey()
        """How many rows of each key were let go."""

    def dropped(self, keys: Array, counts: Array) -> None:
        self.gone[keys] = self.gone[keys] + counts

    def begins(self, rows: Rows) -> Array:
        """Return for each key the place of its first row."""
        return np.concatenate(([0], rows.ends[:-1])).astype(np.int64) if len(rows.ends) else rows.ends

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
        self.done = _ByKey()
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


class _SlidingRows(_Numbered):
    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.length, self.unit = definition.range.count, definition.every.count

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(t: int, row: int) -> bool:
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
        begins = self.begins(rows)
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
        return Windows(found, key, due, window < self.done[key], (start, _none(len(key)), _none(len(key))), full)

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep the row before the first window that is not settled: it tells which rows are too late."""
        fence = self.done[rows.present] * self.unit - 1 - self.gone[rows.present]
        return self.begins(rows) + np.clip(fence, 0, rows.ends - self.begins(rows))


class _TrailingRows(_Numbered):
    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()
        gone = int(self.gone[np.array([key])][0])

        def takes(t: int, row: int) -> bool:
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
        return Windows(found, rows.keys, found.end, settled, (number, _none(len(rows)), _none(len(rows))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        fence = self.done[rows.present] - self.definition.range.count - self.gone[rows.present]
        return self.begins(rows) + np.clip(fence, 0, rows.ends - self.begins(rows))


class _RowsEvery(_Counted):
    def edge(self, times: Any) -> Any:
        """Return the first multiple after each time."""
        return times - (times - self.definition.offset) % self.definition.every + self.definition.every

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times = held.times.tolist()

        def takes(t: int, row: int) -> bool:
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
        key = _keys_of(rows, found.first)
        to_row = found.rows[1] + self.gone[key]
        from_row = np.maximum(0, to_row - self.definition.range.count)
        found = Found(found.first, found.last, found.start, found.end, (from_row, to_row))
        due = self.edge(found.end)
        return Windows(found, key, due, self.settled(due, moment.before), (from_row, to_row, _none(len(key))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        """Keep as many rows before the first open window as one may hold, and one more."""
        begins = self.begins(rows)
        closed = np.concatenate(([0], np.cumsum(self.settled(self.edge(rows.times), watermark))))
        count = closed[rows.ends] - closed[begins]
        return begins + np.clip(count - self.definition.range.count, 0, rows.ends - begins)


# ---------------------------------------------------------------- by what rows say


class _Punctuated(Kind):
    def _marks(self, rows: Rows) -> Array:
        column = rows.columns[self.definition.column]
        marks = column.values != 0
        return marks if column.valid is None else marks & column.valid

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        times, marks, ends = held.times.tolist(), self._marks(held).tolist(), self._marks(new)

        def takes(t: int, row: int) -> bool:
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
        key = _keys_of(rows, found.first)
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
        np.minimum.at(first, of[~settled], np.maximum(found.first[~settled] - 1, _first_of(rows)[of[~settled]]))
        return first


def _first_of(rows: Rows) -> Array:
    return np.concatenate(([0], rows.ends[:-1])).astype(np.int64) if len(rows.ends) else rows.ends


class _Programmed(Kind):
    """Windows of a policy. It may look at any row again when a late one comes, so that all are kept."""

    def late(self, key: int, held: Rows, new: Rows, watermark: int) -> Late:
        rows = held

        def takes(t: int, row: int) -> bool:
            nonlocal rows
            after = rows.with_rows(new.take(slice(row, row + 1)))
            at = int(np.searchsorted(rows.times, t, "right"))
            found = find(self.definition, self.sorted_rows(after))
            holding = (found.first <= at) & (at < found.last) & (found.end + self.lateness > watermark)
            if not holding.any():
                return False
            rows = after
            return True

        return takes

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        found = find(self.definition, self.sorted_rows(rows))
        row = found.last - 1
        old = (rows.numbers[row] < moment.fresh) | (found.end < moment.before)
        settled = self.settled(found.end, moment.before) & old
        return Windows(found, rows.keys[row], found.end, settled, (found.end, _peers(rows)[row], _none(len(row))))

    def needed(self, rows: Rows, windows: Windows, settled: Array, watermark: int) -> Array:
        return _first_of(rows)


class _Delta(Kind):
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

    def _last_end(self, values: Array) -> Array:
        return (values - self.offset) // self.every * self.every + self.offset + self.range

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        taken = np.zeros(len(new), np.bool_)
        values, valued = self._values(new)
        old_values, old_valued = self._values(held)
        old = old_valued[held.times[old_valued] <= _less(watermark, self.lateness)]
        beyond = dict(zip(*_greatest(held.keys[old], old_values[old]), strict=True))
        for row in valued:
            key, value = int(new.keys[row]), values[row]
            most = beyond.get(key)
            taken[row] = most is None or self._last_end(value) > most
            if not taken[row]:
                continue
            if most is not None and value < most:
                mine = held.of_key(key)
                here = [old_values[i] for i in old_valued if mine.start <= i < mine.stop]
                here += [values[i] for i in valued if i < row and taken[i] and new.keys[i] == key]
                lows = [low for low in self._holding(value) if low + self.range <= most]
                new_lows = [low for low in lows if not any(low <= each < low + self.range for each in here)]
                self.born_settled |= {(key, low) for low in new_lows}
            if new.times[row] <= _less(watermark, self.lateness):
                beyond[key] = value if most is None else max(most, value)
        return taken

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
        key = _keys_of(rows, at)
        low, high = (each.astype(self.number) for each in found.values)
        values, valued = self._values(rows)
        due = np.full(len(key), END_OF_TIME)
        settled = np.zeros(len(key), np.bool_)
        old = _less(moment.before, self.lateness)
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
        return Windows(found, key, due, settled, (name, _none(len(key)), _none(len(key))))

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


# ---------------------------------------------------------------- a user's own, by the rows


class _Aware(Kind):
    """Windows between edges that rows bring. The edges are kept for ever, and so are the windows that are settled."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.edges: dict[int, Edges] = {}
        self.closed: dict[int, set[tuple[int, int]]] = {}

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
        taken = np.ones(len(new), np.bool_)
        names = tuple(self.definition.columns)
        values = [dict(zip(names, row, strict=True)) for row in python_values(new.columns, names, len(new))]
        for row in range(len(new)):
            key, t = int(new.keys[row]), int(new.times[row])
            before = self.edges.get(key, Edges())
            after = Edges(before)
            self.definition.on_tuple(t, values[row], after)
            if t >= watermark or self._accepts(key, t, after, watermark):
                self.edges[key] = after
            else:
                taken[row] = False
        return taken

    def _accepts(self, key: int, t: int, edges: Edges, watermark: int) -> bool:
        end = edges.after(t)
        if end is not None and end + self.lateness <= watermark:
            return False
        for start, stop in self.closed.get(key, ()):
            within = edges.before(stop - 1)  # a window is changed by an edge less at its sides, or one more inside
            if stop not in edges or (within is not None and within != start):
                return False
        return True

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
        parts = []
        begin = 0
        for key, end in zip(rows.present.tolist(), rows.ends.tolist(), strict=True):
            edges = np.array(list(self.edges.get(key, Edges())), np.int64)
            times = rows.times[begin:end]
            segment = np.searchsorted(edges, times, "right")
            first = np.flatnonzero(np.diff(segment, prepend=-1))
            last = np.append(first[1:], len(times))
            segment = segment[first]
            open_ended = segment == len(edges)
            padded = np.append(edges, 0)
            start = np.where(segment == 0, times[first], padded[segment - 1])
            stop = np.where(open_ended, times[last - 1] + 1, padded[segment])
            due = np.where(open_ended, END_OF_TIME, stop)
            parts.append((np.full(len(first), key), begin + first, begin + last, start, stop, due))
            begin = end
        columns = zip(*parts, strict=True) if parts else [(_none(0),)] * 6
        key, first, last, start, stop, due = (np.concatenate(each).astype(np.int64) for each in columns)
        found = Found(first, last, start, stop)
        return Windows(found, key, due, self.settled(due, moment.before), (start, stop, _none(len(key))))

    def settle(self, windows: Windows, settled: Array, watermark: int) -> None:
        now = settled & ~windows.settled
        found = windows.found
        for key, start, end in zip(windows.key[now], found.start[now], found.end[now], strict=True):
            self.closed.setdefault(int(key), set()).add((int(start), int(end)))

    def held_keys(self) -> Array:
        return np.array(sorted(self.edges), np.int64)

    def save(self) -> dict[str, Array]:
        edges = [(key, t) for key, times in self.edges.items() for t in times]
        closed = [(key, *span) for key, spans in self.closed.items() for span in sorted(spans)]
        return {
            "known": np.array(list(self.edges), np.int64),
            "edges": np.array(edges, np.int64).reshape(-1),
            "closed": np.array(closed, np.int64).reshape(-1),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        edges, closed = state["edges"].reshape(-1, 2), state["closed"].reshape(-1, 3)
        self.edges = {int(key): Edges(edges[edges[:, 0] == key, 1].tolist()) for key in state["known"]}
        self.closed = {}
        for key, start, end in closed.tolist():
            self.closed.setdefault(key, set()).add((start, end))


_KINDS: tuple[tuple[Any, type[Kind]], ...] = (
    (Sliding | Cumulative, _Hopping),
    (ContextFree, _Own),
    (Session, _Sessions),
    (Trailing, _Trailing),
    (SlidingRows, _SlidingRows),
    (TrailingRows, _TrailingRows),
    (RowsEvery, _RowsEvery),
    (Punctuated, _Punctuated),
    (Programmed, _Programmed),
    (Delta, _Delta),
    (ContextAware, _Aware),
)


def kind_of(definition: Window, plan: Plan) -> Kind:
    """Return what a definition asks of a buffer."""
    for windows, kind in _KINDS:
        if isinstance(definition, windows):
            return kind(definition, plan)
    raise NotImplementedError(f"there is no way to keep the rows of {definition!r}")
