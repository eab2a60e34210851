"""What a definition's windows are among the rows of some keys: which there are, when each is due, what tells it apart.

Windows are found as in a finite table. Each kind says when they are due, and how many of a key's first rows no window
needs that may still change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.rows.by_value import as_order
from muntin.types import Array
from muntin.windows.base import Measure, Window
from muntin.windows.edges import Edges
from muntin.windows.found import Found, SortedRows, between_times, python_values
from muntin.windows.shapes import EdgesFrom, Gap

NEVER = END_OF_TIME


@dataclass(frozen=True)
class Windows:
    """The windows of one definition among the rows of some keys."""

    found: Found
    keys: Array
    """Which of the keys each is of, as a place among these."""
    due: Array
    """NEVER for those that are not due before the end."""
    name: tuple[Array, Array, Array]
    """What tells windows of a key apart: two numbers that answers show, and how many of the same come before."""
    number: Array
    """The number of its row, for windows that are final by number; else nothing."""


class Kind(ABC):
    """How a definition's windows are told from rows."""

    for_ever: ClassVar[bool] = False
    """Whether it keeps rows of a key however long it stays silent."""
    lasting: ClassVar[bool] = False
    """Whether when a final window is due may change, so that it must be remembered."""
    by_number: ClassVar[bool] = False
    """Whether the number of a window says whether it is final."""
    always_judged: ClassVar[bool] = False
    """Whether a row may be too late though it is not behind the watermark."""

    def __init__(self, window: Window, plan: Plan) -> None:
        self.window: Any = window
        self.lateness = plan.lateness
        self.slack = max(plan.lateness, self.waits)
        self.emits_empty = plan.emit_empty and window.emits_empty

    @property
    def waits(self) -> int:
        """How long after it is due a window may change at least."""
        return 0

    def found(self, rows: SortedRows) -> Found:
        """Return the windows. O(rows)."""
        found: Found = self.window.find(rows)
        return found

    def windows(self, rows: SortedRows, gone: Array) -> Windows:
        """Return the windows; `gone` is how many rows of each key were evicted. O(rows)."""
        found = self.found(rows)
        keys = found.keys_among(rows)
        nothing = np.zeros(0, np.int64)
        return Windows(found, keys, self.due(found, rows, keys), self.name(found, rows, keys, gone), nothing)

    @abstractmethod
    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return when windows are due."""

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return what tells windows of a key apart: their bounds."""
        return found.start, found.end, np.zeros(len(found.start), np.int64)

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many of each key's first rows nobody needs: those before windows that are not final."""
        sizes = rows.ends - rows.begins
        first = rows.ends.copy()
        alive = ~is_final
        np.minimum.at(first, windows.keys[alive], windows.found.first_rows[alive])
        return np.asarray(np.minimum(first - rows.begins, sizes))

    def wakes(self, rows: SortedRows) -> Array:
        """Return the watermark at which each key must be looked at, besides when windows are due or final."""
        return np.full(len(rows.ends), NEVER)


class Ends(Kind):
    """Windows whose ends a rule tells."""

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return their ends."""
        return found.end

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows nobody needs: none where windows without rows are told from the first row on."""
        if self.emits_empty:
            return np.zeros(len(rows.ends), np.int64)
        return super().needed(windows, rows, is_final, watermark, done)


class Sessions(Kind):
    """Sessions: a row at the end of one belongs to it, and one that is final is remembered while it can be reached."""

    @property
    def waits(self) -> int:
        """A row at the very end of a session belongs to it."""
        return 1

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return their ends."""
        return found.end

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows are of sessions that no row can reach."""
        out_of_reach = windows.found.end <= less(watermark, self.slack + int(self.window.gap))
        return super().needed(windows, rows, out_of_reach, watermark, done)

    def wakes(self, rows: SortedRows) -> Array:
        """Return when the first session is out of reach, at the earliest."""
        wait = 2 * int(self.window.gap) + self.slack
        return np.minimum(rows.times[rows.begins], NEVER - wait) + wait


class GapSessions(Ends):
    """Sessions with a gap for each row: a row at the end of one belongs to it, and any gap may reach a final one."""

    for_ever: ClassVar[bool] = True
    always_judged: ClassVar[bool] = True

    @property
    def waits(self) -> int:
        """A row at the very end of a session belongs to it."""
        return 1

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: no gap tells how long one that is final can be reached."""
        return np.zeros(len(rows.ends), np.int64)


class Steps(Kind):
    """The rows of a duration up to every n-th row."""

    for_ever: ClassVar[bool] = True

    @property
    def waits(self) -> int:
        """A row at the very watermark may be the next n-th one."""
        return 1

    def windows(self, rows: SortedRows, gone: Array) -> Windows:
        """Return the windows, with the numbers of their rows; nothing is evicted, so that none is missing."""
        windows = super().windows(rows, gone)
        found = windows.found
        assert found.rows is not None
        return Windows(found, windows.keys, windows.due, (*found.rows, windows.name[2]), windows.number)

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the times of their last rows."""
        return found.end

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: numbers are those of all rows."""
        return np.zeros(len(rows.ends), np.int64)


class Frames(Kind):
    """Frames by time."""

    @property
    def waits(self) -> int:
        """A row at the time at which a frame is due may be in it."""
        return int(self.window.frame_shape.waits_at_end)

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return their ends, or the times of their rows, if these are later."""
        due: Array = rows.times + self.window.frame_shape.ahead
        return due

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return the times of their rows, and how many rows of that time came before."""
        return rows.times, np.zeros(len(keys), np.int64), _among_equals(keys, rows.times)

    @property
    def _memory(self) -> int:
        shape = self.window.frame_shape
        return int(shape.ahead + shape.back + self.slack)

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows are older than frames of rows to come reach back."""
        if watermark == END_OF_TIME:
            return rows.ends - rows.begins
        old = np.concatenate(([0], np.cumsum(rows.times <= less(watermark, self._memory))))
        return np.asarray(old[rows.ends] - old[rows.begins])

    def wakes(self, rows: SortedRows) -> Array:
        """Return when the first row is too old."""
        return np.minimum(rows.times[rows.begins], NEVER - self._memory) + self._memory


class Lifetimes(Frames):
    """Frames of all rows of a key up to each row: none is ever let go."""

    for_ever: ClassVar[bool] = True

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return their bounds, since deletions move their starts, and how many of equal bounds come before."""
        return found.start, rows.times, _among_equals(keys, found.start, rows.times)

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: later frames hold all rows."""
        return np.zeros(len(rows.ends), np.int64)

    def wakes(self, rows: SortedRows) -> Array:
        """Return nothing: no row is too old."""
        return np.full(len(rows.ends), NEVER)


class FramesOfRows(Kind):
    """Frames by rows: that of a row is known by its number."""

    for_ever: ClassVar[bool] = True
    by_number: ClassVar[bool] = True

    def __init__(self, window: Window, plan: Plan) -> None:
        super().__init__(window, plan)
        shape = self.window.row_shape
        self.ahead, self.back, self.every = max(0, shape.until - 1), max(0, -shape.since), shape.every

    def windows(self, rows: SortedRows, gone: Array) -> Windows:
        """Return the windows, each with its number."""
        windows = super().windows(rows, gone)
        found, keys = windows.found, windows.keys
        assert found.rows is not None
        before = gone[keys]
        found = Found(
            found.first,
            found.last,
            found.start,
            found.end,
            (found.rows[0] + before, found.rows[1] + before),
            found.values,
            found.members,
            found.keys,
            found.at,
        )
        return Windows(found, keys, windows.due, self._named(found, keys, windows.name[0]), windows.name[0])

    def _named(self, found: Found, keys: Array, number: Array) -> tuple[Array, Array, Array]:
        """Return what answers show of windows: the numbers of their rows, and how many others have the same."""
        assert found.rows is not None
        return *found.rows, _among_equals(keys, *found.rows)

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the times of their last rows, or of their own, if these are later."""
        last = np.arange(len(keys)) + self.ahead
        due = np.full(len(keys), NEVER)
        there = last < rows.ends[keys]
        due[there] = rows.times[last[there]]
        return due

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of their rows."""
        nothing = np.zeros(len(keys), np.int64)
        return np.arange(len(keys)) - rows.begins[keys] + gone[keys], nothing, nothing

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows are before the first window that is not final; `done` counts from the rows held."""
        kept = done - self.back - 1
        return np.asarray(np.clip(kept - kept % self.every, 0, rows.ends - rows.begins))


class WindowsOfRows(FramesOfRows):
    """Windows of `range` rows, which begin every `every` rows."""

    def _named(self, found: Found, keys: Array, number: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of their first rows: the last one only tells how full they are."""
        nothing = np.zeros(len(keys), np.int64)
        return number, nothing, nothing

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the times of their last rows, if they are full."""
        is_full = found.last - found.first == self.window.range.count
        return np.where(is_full, rows.times[found.last - 1], NEVER)

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of their first rows."""
        nothing = np.zeros(len(keys), np.int64)
        return found.first - rows.begins[keys] + gone[keys], nothing, nothing


class Counts(Kind):
    """The last rows before each multiple of a duration."""

    for_ever: ClassVar[bool] = True

    def windows(self, rows: SortedRows, gone: Array) -> Windows:
        """Return the windows, with the numbers of their rows."""
        windows = super().windows(rows, gone)
        found, before = windows.found, gone[windows.keys]
        assert found.rows is not None
        numbers = found.rows[0] + before, found.rows[1] + before
        found = Found(found.first, found.last, found.start, found.end, numbers, keys=found.keys)
        return Windows(found, windows.keys, windows.due, (*numbers, np.zeros(len(before), np.int64)), windows.number)

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the multiples before which they end."""
        due: Array = self.window.next_edge(rows.times[found.last - 1])
        return due

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows are before the last ones that are final."""
        settled = less(watermark, self.slack) if watermark < END_OF_TIME else END_OF_TIME
        if BEFORE_TIME < settled < END_OF_TIME:
            settled = int(self.window.next_edge(settled)) - int(self.window.every)
        old = np.concatenate(([0], np.cumsum(rows.times < settled)))
        return np.asarray(np.maximum(0, old[rows.ends] - old[rows.begins] - self.window.range.count))


class Marks(Kind):
    """Windows that end with marked rows."""

    for_ever: ClassVar[bool] = True

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the times of the marks that end them."""
        return np.where(self.window.marks(rows)[found.last - 1], found.end, NEVER)

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return their bounds, and how many of equal bounds come before."""
        which = _among_equals(keys, found.start, found.end)
        return found.start, found.end, which

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return how many rows are before all windows that end when the last final one begins, or later."""
        begins = np.full(len(rows.ends), BEFORE_TIME)
        np.maximum.at(begins, windows.keys[is_final], windows.found.start[is_final])
        return super().needed(windows, rows, windows.found.end < begins[windows.keys], watermark, done)


class Values(Kind):
    """Windows by the values of a column that advances: due when it is beyond them."""

    for_ever: ClassVar[bool] = True
    lasting: ClassVar[bool] = True
    always_judged: ClassVar[bool] = True

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the first times at which the column is beyond them."""
        values, valued = self.window.numbers(rows)
        has_value = np.zeros(len(rows.times), np.bool_)
        has_value[valued] = True
        due = np.full(len(keys), NEVER)
        assert found.values is not None
        for key in np.unique(keys).tolist():
            mine, some = keys == key, np.arange(rows.begins[key], rows.ends[key])
            some = some[has_value[some]]
            order = np.argsort(values[some], kind="stable")
            soonest = np.append(np.minimum.accumulate(rows.times[some][order][::-1])[::-1], NEVER)
            due[mine] = soonest[np.searchsorted(values[some][order], found.values[1][mine])]
        return due

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return their first values."""
        assert found.values is not None
        nothing = np.zeros(len(keys), np.int64)
        return as_order(found.values[0]), nothing, nothing

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: a column that goes back finds older windows."""
        return np.zeros(len(rows.ends), np.int64)


class Code(Kind):
    """Windows between edges that a user's code tells, row by row."""

    for_ever: ClassVar[bool] = True
    lasting: ClassVar[bool] = True
    always_judged: ClassVar[bool] = True

    @property
    def waits(self) -> int:
        """A row at the end of a window may move its edge."""
        return 1

    def windows(self, rows: SortedRows, gone: Array) -> Windows:
        """Return the windows. One call of `on_tuple` for each row, in the order of arrival."""
        spans, dues = [], []
        values = python_values(rows.columns, self.window.columns, len(rows.times))
        arrival = np.asarray(rows.arrival)
        for key, (begin, end) in enumerate(zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)):
            edges = Edges()
            for row in (begin + np.argsort(arrival[begin:end], kind="stable")).tolist():
                named = dict(zip(self.window.columns, values[row], strict=True))
                self.window.on_tuple(int(rows.times[row]), named, edges)
            known, times = list(edges), rows.times[begin:end]
            for low, high in zip([None, *known], [*known, None], strict=True):
                first = 0 if low is None else int(np.searchsorted(times, low, "left"))
                last = len(times) if high is None else int(np.searchsorted(times, high, "left"))
                if first < last:
                    start = int(times[first]) if low is None else low
                    spans.append((key, start, int(times[last - 1]) + 1 if high is None else high))
                    dues.append(NEVER if high is None else high)
        found = between_times(spans, rows)
        keys = np.array([span[0] for span in spans], np.int64)
        nothing = np.zeros(0, np.int64)
        return Windows(found, keys, np.array(dues, np.int64), self.name(found, rows, keys, gone), nothing)

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return nothing: `windows` knows the edges."""
        raise AssertionError("the edges are known where windows are found")

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: all rows tell the edges."""
        return np.zeros(len(rows.ends), np.int64)


class Policies(Kind):
    """Windows of slide policies: one for each row for which the policy leaves one."""

    for_ever: ClassVar[bool] = True

    def due(self, found: Found, rows: SortedRows, keys: Array) -> Array:
        """Return the times of their rows."""
        return found.end

    def name(self, found: Found, rows: SortedRows, keys: Array, gone: Array) -> tuple[Array, Array, Array]:
        """Return their bounds, and how many of equal bounds come before."""
        return found.start, found.end, _among_equals(keys, found.start, found.end)

    def needed(self, windows: Windows, rows: SortedRows, is_final: Array, watermark: int, done: Array) -> Array:
        """Return 0: what a policy leaves depends on all rows before."""
        return np.zeros(len(rows.ends), np.int64)


def kind_for(window: Window) -> type[Kind] | None:
    """Return how the windows of a definition are told; None if nothing here tells them."""
    if window.frame_shape is not None:
        return Lifetimes if window.frame_shape.is_endless else Frames
    if window.row_shape is not None:
        return FramesOfRows if window.is_frame else WindowsOfRows
    if window.time_shape is not None:
        return Sessions if isinstance(window.time_shape, Gap) else Ends
    if window.measure is Measure.POLICY:
        return Policies
    of_edges: dict[EdgesFrom | None, type[Kind]] = {
        EdgesFrom.COUNTS: Counts,
        EdgesFrom.MARKS: Marks,
        EdgesFrom.VALUES: Values,
        EdgesFrom.CODE: Code,
        EdgesFrom.GAPS: GapSessions,
        EdgesFrom.STEPS: Steps,
        EdgesFrom.ZONES: Ends,
    }
    return of_edges.get(window.edges)


def _among_equals(*names: Array) -> Array:
    """Return how many before each have the same numbers; equal ones are next to one another.

    >>> _among_equals(np.array([0, 0, 0, 1]), np.array([5, 7, 7, 7])).tolist()
    [0, 0, 1, 0]
    """
    number = np.arange(len(names[0]))
    again = np.zeros(len(number), np.bool_)
    again[1:] = np.logical_and.reduce([np.diff(name) == 0 for name in names])
    return number - np.maximum.accumulate(np.where(again, 0, number)) if len(number) else number
