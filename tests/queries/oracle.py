"""A whole query in plain Python: what `run` and `stream` must answer, found with lists and nothing clever.

Every window is found anew from all rows, after every call; each aggregate is folded from scratch. Nothing here knows of
slices, and nothing is shared with the engines. Where the contract is silent this file decides, and these are the
decisions:

Rows
  1. The rows of a key are in the order of event time, and those of equal time in the order of arrival.
  2. The rows of one push are judged by the watermark before it, in the order of event time. One watermark serves all
     keys.
  3. A row that is not behind the watermark is never late: it enters every window it belongs to. (But for delta windows,
     where the column has gone back.)
  4. Each window definition judges for itself. What one takes may be too late for another; a row that none takes is
     late. So is one that belongs to no window at all (null in the column of a query of delta windows alone).

Windows
  5. A window is *due* at a time: it is emitted when the watermark reaches that. It is *settled* when the watermark
     reaches due + allowed lateness: it then never changes again, whatever comes. By kind, with what tells one window
     of a definition from another (a row that moves what is not in brackets makes a revision, not another window):
       tumbling, sliding, cumulative    due at its end                       (start, end)
       one's own, session               due at its end                       (start, end)
       frames by time                   due at its end, or the row's time,
                                        whichever is later                   (the row's time, which row of that time)
       frames by rows                   due at the time of the row, or of
                                        its last row, if that comes later    (the number of the row)
       by rows                          due at the time of its last row      (from_row)
       the last n rows every d          due at the multiple of d             (from_row, to_row)
       delta                            due at the first time at which the
                                        column is at to_value or beyond      (from_value)
       punctuated                       due at its end, the marker's time    (start, end, which of these)
       policy                           due at the row's time                (end, which row of that time)
  6. Sessions are Spark's: a row exactly one gap after the last one still belongs to the session. Hence a row may come
     at the watermark for a session, or a frame by time, that ended there: with no lateness these settle one tick
     later, but for frames that end after their rows, and whose end is not in them.
  7. A late row is taken where some window that would hold it is not settled. A window that it would be in and that is
     settled is left as it was emitted, without the row. A session is only joined if that changes no settled session.
     A late row makes no new window that would be settled at once: the frame of a late row itself, for example, while
     the frames of later rows that are not settled hold it. Such a row is late: it has no answer of its own. Nor does
     any row make such a delta window, or such a context-aware one: these may lie in the past though the row does not.
  8. A late row moves the numbers of all rows after it, so that every window by rows that ends after it changes, is
     emitted again if it was emitted, and keeps its from_row. Settled ones stay as they were. The numbers of rows that
     only settled windows hold never change: a row before the first row of the first window that is not settled is
     late.
  9. An emitted window is emitted again if other rows are in it than were, or its row has another time, whether or not
     the answer differs; once for each call, however many rows came. A window that is no more, or no longer due, is
     retracted; that too is a revision, and so is its return.
 10. At the end (`run`, `close`) windows are emitted that never became due, but for windows by rows that are not full;
     with `partial` these too, and their to_row is that of the rows there are. Frames, by rows as by time, and the last
     n rows every d, are full from the first row on. A frame that holds no row is emitted like any other.
 11. With `emit_empty`, windows whose edges are known by time (tumbling, sliding, cumulative) are emitted without rows
     too: for each key from the first window that holds a row of it to the last that ends by the greatest time seen
     (of any key, or of `advance`).
 12. Cumulative windows [k * range, k * range + j * every) are emitted for each j from the first that holds a row on.
 13. The last n rows every d: a multiple of d at which no row has come since the one before gives no new window. Rows
     at the multiple itself come after it. start and end are the times of the first and last row.
 14. Delta windows are aligned as time windows are: [k * every + offset, that + range). Rows are in them by value
     alone, so that a column that goes back, against the promise, finds the older windows, or is late for them. Null
     and NaN are in no window.
 15. A marker ends its window and is the last row in it: as with a trigger on the element that says "end". Null is no
     marker. The rows after the last marker are a window that is not due until the end.
 16. A policy is asked after each row, in event order: the longest oldest part that it lets go, goes. A window that it
     leaves empty is not emitted. A late row is as if it had come in order: all later windows are found anew. But the
     policy goes on from what it left at the last row whose window is settled: what it let go by then never comes back,
     it is not asked about those rows again, a late row among them is one of them, and one before them is late.
 17. Context-aware windows lie between neighbouring edges. Before the first edge a window begins with its first row;
     after the last it is not due until the end, and ends one tick after its last row. `on_tuple` sees the rows taken,
     in the order in which they were taken.
 18. Late rows can carry a session back to one that is settled, which they must not change. So that one is remembered
     for as long as the key has a session after it, or rows that could reach it: two gaps, and the lateness or one tick,
     after the last row of the key its sessions are forgotten, and the key begins anew.

Before and without rows
 19. With `emit_early` windows that hold rows are also emitted before they are due, whenever the greatest time seen (or
     the clock, for `ProcessingTime`) has moved on by so much since the last time. It is counted from the first push
     with rows on, and looked at in every call but `close`. An early window is emitted
     again, at the next such time or when it is due, only if other rows are in it than were. One that is no more, such
     as a session that has grown, is retracted at once. Windows by rows that are not full are emitted early only with
     `partial`.
 20. With `idle_timeout`, once no row has come for so long by the clock, event time goes on with the clock: the
     watermark is the greatest time seen less `watermark`, plus what has passed since the last row came. It is looked at
     before anything else in every call but `close`, and what is due by it is emitted before the rows of a push are
     judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from muntin import window as w
from muntin.durations import in_unit_of
from muntin.kernels.source import Function
from muntin.policies import Policy
from muntin.query.query import ProcessingTime
from muntin.testing.oracle import recompute
from muntin.types import INT64, ColumnType
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.delta import Delta
from muntin.windows.kinds.frame import Frame, FrameOfRows
from muntin.windows.kinds.leading import Leading, LeadingRows
from muntin.windows.kinds.policy import Programmed
from muntin.windows.kinds.punctuated import Punctuated
from muntin.windows.kinds.rows_every import RowsEvery
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.sliding import Sliding
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.trailing import Trailing, TrailingRows
from muntin.windows.lengths import Rows

NEVER = math.inf
TIME_FRAMES, ROW_FRAMES = Trailing | Leading | Frame, TrailingRows | LeadingRows | FrameOfRows
ALL_TIMES = (
    Sliding | Cumulative | Session | TIME_FRAMES | SlidingRows | ROW_FRAMES | RowsEvery | Punctuated | Programmed
)
"""Definitions of which every row has some window, that is due no earlier than the row."""


@dataclass(frozen=True)
class Row:
    """A row with its number in the order of arrival."""

    time: int
    number: int
    values: Mapping[str, Any] = field(compare=False)
    judged: bool = field(default=False, compare=False)
    """Whether a policy has left it, and is not asked about it again."""


@dataclass(frozen=True)
class Result:
    """A row of the answer."""

    key: tuple[Any, ...]
    window_id: int
    start: int | None
    end: int | None
    aggregates: Mapping[str, Any]
    revision: int = 0
    retracted: bool = False
    rows: tuple[int, int] | None = None
    """from_row and to_row."""
    values: tuple[Any, Any] | None = None
    """from_value and to_value."""
    at: int | None = None
    """The time of its row, where a frame does not end with that."""
    name: Any = field(default=None, compare=False, repr=False)
    """What tells the window from others of its definition, where that is known."""


@dataclass(frozen=True)
class Found:
    """One window and the rows in it."""

    name: Any
    """What tells it from others of its definition, for the user."""
    start: int | None
    end: int | None
    members: tuple[Row, ...]
    due: float
    rows: tuple[int, int] | None = None
    values: tuple[Any, Any] | None = None
    full: bool = True
    row: Row | None = None
    """Its row, of a frame."""
    at: int | None = None
    slot: Any = None
    """What tells it from others for the query whether it is settled: the name, unless said."""

    @property
    def place(self) -> Any:
        return self.name if self.slot is None else self.slot


@dataclass(frozen=True)
class Query:
    """What is asked; the same words as `muntin.Query`, and the type of the time column."""

    windows: Sequence[Any]
    aggregates: Mapping[str, Any]
    key: Sequence[str] = ()
    time: str = "t"
    watermark: Any = 0
    allowed_lateness: Any = 0
    partial: bool = False
    emit_empty: bool = False
    time_type: ColumnType = INT64
    idle_timeout: Any = None
    emit_early: Any = None

    @property
    def resolved(self) -> list[Any]:
        return [each.resolve(self.time_type) for each in self.windows]

    @property
    def delay(self) -> int:
        return in_unit_of(self.watermark, self.time_type, "watermark")

    @property
    def lateness(self) -> int:
        return in_unit_of(self.allowed_lateness, self.time_type, "allowed_lateness")

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def answers(self, members: Iterable[Row]) -> dict[str, Any]:
        return {name: aggregate(each, members) for name, each in self.aggregates.items()}

    def result(self, key: tuple[Any, ...], window_id: int, found: Found, revision: int = 0) -> Result:
        span = {"rows": found.rows, "values": found.values, "at": found.at}
        answers = self.answers(found.members)
        return Result(key, window_id, found.start, found.end, answers, revision, **span, name=found.name)

    def find(self, definition: Any, rows: Sequence[Row], horizon: float) -> list[Found]:
        if not rows:
            return []
        found = find(definition, sorted(rows, key=lambda row: (row.time, row.number)), self)
        if self.emit_empty and isinstance(definition, Sliding | Cumulative):
            found += empty(definition, found, horizon)
        return found


def aggregate(aggregation: Any, members: Iterable[Row]) -> Any:
    """Fold the rows from scratch."""
    names = aggregation.reads

    def value(row: Row) -> Any:
        return row.values[names[0]] if len(names) == 1 else tuple(row.values[name] for name in names)

    return recompute(aggregation, [(row.time, value(row)) for row in members])


def final(
    windows: Sequence[Any],
    aggregates: Mapping[str, Any],
    key: Sequence[str],
    time: str,
    rows: Iterable[Mapping[str, Any]],
    **options: Any,
) -> list[Result]:
    """Return what `run` must answer for a finite table, whose rows may be in any order."""
    query = Query(windows, aggregates, key, time, **options)
    ordered = sorted((Row(row[time], i, row) for i, row in enumerate(rows)), key=lambda row: row.time)
    horizon = max((row.time for row in ordered), default=-NEVER)
    results = []
    for each in dict.fromkeys(query.key_of(row.values) for row in ordered):
        of_key = [row for row in ordered if query.key_of(row.values) == each]
        for window_id, definition in enumerate(query.resolved):
            found = query.find(definition, of_key, horizon)
            results += [query.result(each, window_id, one) for one in found if one.full or query.partial]
    return results


# ---------------------------------------------------------------- where windows are


@singledispatch
def find(definition: Any, rows: list[Row], query: Query) -> list[Found]:
    """Return the windows of the sorted rows of one key, those that hold a row."""
    raise NotImplementedError(definition)


def by_time(spans: Iterable[tuple[int, int]], rows: list[Row]) -> list[Found]:
    found = []
    for start, end in spans:
        members = tuple(row for row in rows if start <= row.time < end)
        if members:
            found.append(Found((start, end), start, end, members, end))
    return found


def sliding_spans(definition: Sliding, low: int, high: float) -> list[tuple[int, int]]:
    """Return the windows that hold a time from low to high."""
    start = low - (low - definition.offset) % definition.every
    while start - definition.every + definition.range > low:
        start -= definition.every
    spans = []
    while start <= high:
        spans.append((start, start + definition.range))
        start += definition.every
    return spans


def cumulative_spans(definition: Cumulative, low: int, high: float) -> list[tuple[int, int]]:
    start = low - (low - definition.offset) % definition.range
    spans = []
    while start <= high:
        ends = (start + (j + 1) * definition.every for j in range(definition.range // definition.every))
        spans += [(start, end) for end in ends if end > low]
        start += definition.range
    return spans


@find.register
def _(definition: Sliding, rows: list[Row], query: Query) -> list[Found]:
    return by_time(sliding_spans(definition, rows[0].time, rows[-1].time), rows)


@find.register
def _(definition: Cumulative, rows: list[Row], query: Query) -> list[Found]:
    return by_time(cumulative_spans(definition, rows[0].time, rows[-1].time), rows)


def empty(definition: Any, found: list[Found], horizon: float) -> list[Found]:
    """Return the windows without rows, from the first with one to the last that ends by the horizon."""
    spans = sliding_spans if isinstance(definition, Sliding) else cumulative_spans
    first = min(row.time for each in found for row in each.members)
    held = {each.name for each in found}
    candidates = (span for span in spans(definition, first, horizon) if span[1] <= horizon)
    return [Found(span, *span, (), span[1]) for span in candidates if span not in held]


@find.register
def _(definition: w.ContextFree, rows: list[Row], query: Query) -> list[Found]:
    spans: list[tuple[int, int]] = []
    previous, last = rows[0].time, rows[-1].time
    while (edge := definition.next_edge(previous)) is not None:
        ended = list(definition.ended(previous, edge))
        if any(start > last for start, _ in ended):
            break
        spans += ended
        previous = edge
    return by_time(spans, rows)


@find.register
def _(definition: Session, rows: list[Row], query: Query) -> list[Found]:
    groups: list[list[Row]] = []
    for row in rows:
        if groups and row.time <= groups[-1][-1].time + definition.gap:
            groups[-1].append(row)
        else:
            groups.append([row])
    ends = [group[-1].time + definition.gap for group in groups]
    return [
        Found((group[0].time, end), group[0].time, end, tuple(group), end)
        for group, end in zip(groups, ends, strict=True)
    ]


@find.register
def _(definition: TIME_FRAMES, rows: list[Row], query: Query) -> list[Found]:
    found = []
    for row in rows:
        low, high = frame_around(definition, row.time)
        members = tuple(other for other in rows if in_frame(definition, other.time, low, high))
        name, at = (row.time, peers_before(row, rows)), None if high == row.time else row.time
        found.append(Found(name, low, high, members, max(high, row.time), row=row, at=at))
    return found


def frame_around(definition: Any, at: int) -> tuple[int, int]:
    """Return where the frame of a row begins and ends, by its time or number."""

    def size(length: Any) -> int:
        return length.count if isinstance(length, Rows) else length or 0

    if isinstance(definition, Frame | FrameOfRows):
        return at - size(definition.before), at + size(definition.after)
    if isinstance(definition, Leading | LeadingRows):
        return at + size(definition.delay), at + size(definition.delay) + size(definition.range)
    high = at - size(definition.delay)
    low = high - size(definition.range)
    hop = getattr(definition, "hop", None)
    return (low // hop * hop if hop else low), high


def in_frame(definition: Any, place: int, low: int, high: int) -> bool:
    closed = definition.closed
    tiled = getattr(definition, "hop", None) is not None
    after = place >= low if closed in ("left", "both") or tiled else place > low
    return after and (place <= high if closed in ("right", "both") else place < high)


def peers_before(row: Row, rows: list[Row]) -> int:
    """Return how many rows of the same time came before it."""
    return sum(other.time == row.time and other.number < row.number for other in rows)


@find.register
def _(definition: SlidingRows, rows: list[Row], query: Query) -> list[Found]:
    found = []
    for first in range(0, len(rows), definition.every.count):
        members = tuple(rows[first : first + definition.range.count])
        full = len(members) == definition.range.count
        due = members[-1].time if full else NEVER
        span = (first, first + len(members))
        found.append(Found(first, members[0].time, members[-1].time, members, due, rows=span, full=full))
    return found


@find.register
def _(definition: ROW_FRAMES, rows: list[Row], query: Query) -> list[Found]:
    found = []
    for i, row in enumerate(rows):
        low, high = frame_around(definition, i)
        numbers = [n for n in range(low, high + 1) if in_frame(definition, n, low, high)]
        members = tuple(rows[n] for n in numbers if 0 <= n < len(rows))
        first = min(len(rows), max(0, numbers[0] if numbers else low + 1))
        last = numbers[-1] if numbers else high - (definition.closed == "neither")
        due = row.time if last <= i else rows[last].time if last < len(rows) else NEVER
        start, end = (members[0].time, members[-1].time) if members else (None, None)
        span, at = (first, first + len(members)), None if last == i else row.time
        found.append(Found(i, start, end, members, due, rows=span, row=row, at=at))
    return found


@find.register
def _(definition: RowsEvery, rows: list[Row], query: Query) -> list[Found]:
    found = []

    def edge(t: int) -> int:
        return t - (t - definition.offset) % definition.every + definition.every

    for due in sorted({edge(row.time) for row in rows}):
        to_row = sum(row.time < due for row in rows)
        from_row = max(0, to_row - definition.range.count)
        members = tuple(rows[from_row:to_row])
        span = (from_row, to_row)
        found.append(Found(span, members[0].time, members[-1].time, members, due, rows=span, slot=due))
    return found


@find.register
def _(definition: Delta, rows: list[Row], query: Query) -> list[Found]:
    valued = [(row, row.values[definition.column]) for row in rows]
    valued = [(row, value) for row, value in valued if value is not None and value == value]
    low: dict[Any, Any] = {}
    for _, value in valued:
        k = math.floor((value - definition.offset) / definition.every) + 1
        while k * definition.every + definition.offset + definition.range > value:
            start = k * definition.every + definition.offset
            if start <= value:
                low[k] = start
            k -= 1
    found = []
    for start in sorted(low.values()):
        end = start + definition.range
        members = tuple(row for row, value in valued if start <= value < end)
        due = min((row.time for row, value in valued if value >= end), default=NEVER)
        found.append(Found(start, members[0].time, members[-1].time, members, due, values=(start, end)))
    return found


@find.register
def _(definition: Punctuated, rows: list[Row], query: Query) -> list[Found]:
    found: list[Found] = []
    members: list[Row] = []

    def add(due: float) -> None:
        start, end = members[0].time, members[-1].time
        which = sum((each.start, each.end) == (start, end) for each in found)
        found.append(Found((start, end, which), start, end, tuple(members), due))
        members.clear()

    for row in rows:
        members.append(row)
        if row.values[definition.column]:
            add(row.time)
    if members:
        add(NEVER)
    return found


@find.register
def _(definition: Programmed, rows: list[Row], query: Query) -> list[Found]:
    goes = plain_policy(definition.policy, query.time_type)
    members = [row for row in rows if row.judged]
    found = []
    for row in rows[len(members) :]:
        members.append(row)
        gone = max((n for n in range(1, len(members) + 1) if goes(members, members[:n])), default=0)
        members = members[gone:]
        if members:
            name = (row.time, row.number)
            found.append(Found(name, members[0].time, row.time, tuple(members), row.time))
    return found


def plain_policy(policy: Policy, time: ColumnType) -> Callable[[list[Row], list[Row]], bool]:
    """Return a policy as a function of two lists of rows."""
    function = runnable(policy.function)
    spans = {name: in_unit_of(span, time, name) for name, span in policy.spans.items()}

    def seen(members: list[Row]) -> SimpleNamespace:
        answers = {name: aggregate(each, members) for name, each in policy.aggregations.items()}
        return SimpleNamespace(**{name: 0 if answer is None else answer for name, answer in answers.items()})

    return lambda whole, old: bool(function(seen(whole), seen(old), **spans))


def runnable(function: Function) -> Any:
    """Return a captured function as one to call."""
    space = {name: runnable(each) if isinstance(each, Function) else each for name, each in function.outer.items()}
    exec(function.text, space)
    return space[function.name]


@find.register
def _(definition: w.ContextAware, rows: list[Row], query: Query) -> list[Found]:
    edges = w.Edges()
    for row in sorted(rows, key=lambda row: row.number):
        definition.on_tuple(row.time, {name: row.values[name] for name in definition.columns}, edges)
    between = [-NEVER, *edges, NEVER]
    found = []
    for low, high in pairwise(between):
        members = tuple(row for row in rows if low <= row.time < high)
        if members:
            start = members[0].time if low == -NEVER else int(low)
            end = members[-1].time + 1 if high == NEVER else int(high)
            found.append(Found((start, end), start, end, members, high))
    return found


# ---------------------------------------------------------------- streams


@dataclass
class Emitted:
    """What was last said of a window."""

    found: Found
    revision: int = 0
    retracted: bool = False
    early: bool = False


@dataclass
class Part:
    """All that is known of one key and one window definition."""

    rows: list[Row] = field(default_factory=list)
    emitted: dict[Any, Emitted] = field(default_factory=dict)
    settled: set[Any] = field(default_factory=set)


class Stream:
    """What `stream` must emit after each call."""

    def __init__(self, query: Query, clock: Callable[[], int] = lambda: 0) -> None:
        self.query = query
        self.clock = clock
        self.came = 0
        self.last_early: float | None = None
        self.windows = query.resolved
        self.watermark = -NEVER
        self.seen = -NEVER
        self.horizon = -NEVER
        self.parts: dict[tuple[tuple[Any, ...], int], Part] = {}
        self.late: list[Mapping[str, Any]] = []
        self.arrived = 0
        self.taken = 0

    def push(self, rows: Iterable[Mapping[str, Any]]) -> list[Result]:
        """Take rows, and return what is due or has changed."""
        idle = self._idle()
        arrived = [Row(row[self.query.time], self.arrived + i, row) for i, row in enumerate(rows)]
        self.arrived += len(arrived)
        late = []
        for row in sorted(arrived, key=lambda row: row.time):
            key = self.query.key_of(row.values)
            if not sum(self._take(key, i, row) for i in range(len(self.windows))):
                late.append(row)
        self.late += [row.values for row in sorted(late, key=lambda row: row.number)]
        self.seen = max([self.seen, *(row.time for row in arrived)])
        self.horizon = max(self.horizon, self.seen)
        if arrived:
            self.came = self.clock()
        return idle + self._emit(max(self.watermark, self.seen - self.query.delay), self._is_early())

    def advance(self, watermark: int) -> list[Result]:
        """Say that no row before this time is expected any more."""
        idle = self._idle()
        self.horizon = max(self.horizon, watermark)
        return idle + self._emit(max(self.watermark, watermark), self._is_early())

    def tick(self) -> list[Result]:
        """Do what is due by the clock."""
        return self._idle() + self._emit(self.watermark, self._is_early())

    def _idle(self) -> list[Result]:
        timeout = self.query.idle_timeout
        waited = self.clock() - self.came
        if timeout is None or self.seen == -NEVER or waited < timeout:
            return []
        watermark = self.seen - self.query.delay + waited
        if watermark <= self.watermark:
            return []
        self.horizon = max(self.horizon, watermark)
        return self._emit(watermark, self._is_early())

    def _is_early(self) -> bool:
        span = self.query.emit_early
        if span is None:
            return False
        by_clock = isinstance(span, ProcessingTime)
        now = self.clock() if by_clock else self.seen
        if self.last_early is None and self.seen > -NEVER:
            self.last_early = now
        if self.last_early is None or now - self.last_early < (span.duration if by_clock else span):
            return False
        self.last_early = now
        return True

    def close(self) -> list[Result]:
        """Return all that is left."""
        return self._emit(NEVER)

    def is_behind(self, row: Mapping[str, Any]) -> bool:
        """Say whether a row would come after the lateness allowed: only of such rows may something be missing."""
        time = row[self.query.time]
        return time < self.watermark and time + self.query.lateness <= self.watermark

    def _settles(self, definition: Any, due: float) -> float:
        """Return the watermark from which on a window never changes."""
        changes_at_its_end = isinstance(definition, Session | TIME_FRAMES | w.ContextAware)
        if isinstance(definition, Leading | Frame) and definition.closed in ("left", "neither"):
            changes_at_its_end = not frame_around(definition, 0)[1]
        return due + max(self.query.lateness, 1 if changes_at_its_end else 0)

    def _take(self, key: tuple[Any, ...], window_id: int, row: Row) -> bool:
        """Take a row, where a window can; return whether it is not late."""
        part = self.parts.setdefault((key, window_id), Part())
        definition = self.windows[window_id]
        row = replace(row, number=self.taken)
        self.taken += 1
        if isinstance(definition, Programmed) and row.time + self.query.lateness <= self.watermark > row.time:
            row = replace(row, judged=True)
            if any(each.judged for each in part.rows) and all(row.time < each.time for each in part.rows):
                return False
        if row.time + self.query.lateness <= self.watermark or not isinstance(definition, ALL_TIMES):
            before = {found.place: found for found in self.query.find(definition, part.rows, self.horizon)}
            after = {found.place: found for found in self.query.find(definition, [*part.rows, row], self.horizon)}
            if not self._accepts(definition, row, before, after):
                return False
            judged = row.time < self.watermark or isinstance(definition, Delta | w.ContextAware)
            new = (place for place in after if place not in before and judged)
            part.settled.update(p for p in new if self._settles(definition, after[p].due) <= self.watermark)
            if isinstance(definition, TIME_FRAMES | ROW_FRAMES):
                part.rows.append(row)
                return self._has_frame(definition, row, before, after)
        part.rows.append(row)
        return True

    def _has_frame(self, definition: Any, row: Row, before: dict[Any, Found], after: dict[Any, Found]) -> bool:
        """Say whether a row has its own answer: its frame is not settled, or the row is not behind the watermark."""
        if row.time >= self.watermark:
            return True
        place, own = next((place, found) for place, found in after.items() if found.row == row)
        if isinstance(definition, ROW_FRAMES):  # numbers stay where they are: what counts is who had this one
            own = before.get(place, own)
        return self._settles(definition, own.due) > self.watermark

    def _accepts(self, definition: Any, row: Row, before: dict[Any, Found], after: dict[Any, Found]) -> bool:
        holding = {place: found for place, found in after.items() if row in found.members}
        if row.time >= self.watermark and not isinstance(definition, Delta):
            return bool(holding) or isinstance(definition, ALL_TIMES)
        if isinstance(definition, SlidingRows | ROW_FRAMES):  # it moves others on: what counts is when they were due
            holding = {place: before.get(place, found) for place, found in holding.items()}
        if isinstance(definition, TIME_FRAMES | ROW_FRAMES) and self._has_frame(definition, row, before, after):
            return True
        if not any(found.due + self.query.lateness > self.watermark for found in holding.values()):
            return False
        if not isinstance(definition, Session | w.ContextAware):
            return True
        gone = (found for place, found in before.items() if place not in after)
        return all(self._settles(definition, found.due) > self.watermark for found in gone)

    def _emit(self, watermark: float, early: bool = False) -> list[Result]:
        results = []
        for (key, window_id), part in self.parts.items():
            definition = self.windows[window_id]
            found = self.query.find(definition, part.rows, self.horizon)
            results += self._changes(key, window_id, part, found, watermark, early)
            part.settled.update(each.place for each in found if self._settles(definition, each.due) <= watermark)
            if isinstance(definition, Session) and part.rows:
                youngest = max(row.time for row in part.rows)
                if youngest + 2 * definition.gap + max(self.query.lateness, 1) <= watermark:
                    part.rows.clear()
            if isinstance(definition, Programmed):
                self._judge(part, found, watermark)
        self.watermark = watermark
        return results

    def _judge(self, part: Part, found: list[Found], watermark: float) -> None:
        """Go on from what the policy left at the last row that is settled now."""
        ordered = sorted(part.rows, key=lambda row: (row.time, row.number))
        settled = [row for row in ordered if not row.judged and row.time + self.query.lateness <= watermark]
        if settled:
            left = next((each.members for each in found if each.name == (settled[-1].time, settled[-1].number)), ())
            part.rows = [replace(row, judged=True) for row in left] + ordered[ordered.index(settled[-1]) + 1 :]

    def _changes(
        self, key: tuple[Any, ...], window_id: int, part: Part, found: list[Found], watermark: float, early: bool
    ) -> list[Result]:
        alive = [each for each in found if each.place not in part.settled and (each.full or self.query.partial)]
        there = {each.name for each in alive}
        now = {each.name: each for each in alive if each.due <= watermark or (early and each.members)}
        results = []
        for name, last in part.emitted.items():
            waits = last.early and name in there
            if name not in now and not waits and not last.retracted and last.found.place not in part.settled:
                last.revision, last.retracted = last.revision + 1, True
                result = self.query.result(key, window_id, last.found, last.revision)
                nothing = dict.fromkeys(self.query.aggregates)
                results.append(replace(result, aggregates=nothing, retracted=True))
        for name, each in now.items():
            last = part.emitted.get(name)
            if last is None:
                part.emitted[name] = Emitted(each)
            elif last.retracted or (last.found.members, last.found.at) != (each.members, each.at):
                part.emitted[name] = Emitted(each, last.revision + 1)
            else:
                last.early = last.early and each.due > watermark
                continue
            part.emitted[name].early = each.due > watermark
            results.append(self.query.result(key, window_id, each, part.emitted[name].revision))
        return results


def latest(query: Query, results: Iterable[Result]) -> list[Result]:
    """Return the last word on each window, without those retracted, all as revision 0: to compare with `final`."""
    last = {(r.key, r.window_id, visible_name(query, r) if r.name is None else r.name): r for r in results}
    return [replace(result, revision=0) for result in last.values() if not result.retracted]


def visible_name(query: Query, result: Result) -> Any:
    """Return what tells a window from the others, as far as the answer shows it.

    Of windows with a result for each row (frames, policies), those of rows of equal time look alike, and so do frames
    by rows that hold the same ones.
    """
    definition = query.windows[result.window_id]
    if isinstance(definition, SlidingRows):
        assert result.rows is not None
        return result.rows[0]
    if isinstance(definition, TIME_FRAMES | Programmed):
        return result.end
    if isinstance(definition, ROW_FRAMES):
        return result.at, result.rows
    return result.rows or result.values or (result.start, result.end)
