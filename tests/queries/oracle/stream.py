"""A stream in plain Python: what is emitted after each call, and which rows are late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from queries.oracle.finding import ALL_TIMES
from queries.oracle.frames import ROW_FRAMES, TIME_FRAMES, frame_around
from queries.oracle.query import Query
from queries.oracle.results import NEVER, Found, Result, Row

from muntin import window as w
from muntin.query.query import ProcessingTime
from muntin.windows.kinds.delta import Delta
from muntin.windows.kinds.frame import Frame
from muntin.windows.kinds.leading import Leading
from muntin.windows.kinds.policy import Programmed
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.session_by_column import SessionByColumn
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.time_every import TimeEvery


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
    final: set[Any] = field(default_factory=set)


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
        self.longest = [0] * len(self.windows)
        """The longest gap that rows brought along before this push, of sessions by a column."""
        self.forgotten = [-NEVER] * len(self.windows)
        """The end of the last such session that is final and forgotten, of any key."""
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
        self._note_gaps()
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

    def _final_from(self, definition: Any, due: float) -> float:
        """Return the watermark from which on a window never changes."""
        changes_at_its_end = isinstance(definition, Session | SessionByColumn | TIME_FRAMES | w.ContextAware)
        if isinstance(definition, Leading | Frame) and definition.closed in ("left", "neither"):
            changes_at_its_end = not frame_around(definition, 0)[1]
        return due + max(self.query.lateness, 1 if changes_at_its_end else 0)

    def _note_gaps(self) -> None:
        for (_, window_id), part in self.parts.items():
            definition = self.windows[window_id]
            if isinstance(definition, SessionByColumn):
                gaps = [row.values[definition.gap_column] for row in part.rows]
                self.longest[window_id] = max([self.longest[window_id], *gaps])

    def _forget_sessions(self, window_id: int, part: Part, found: list[Found], watermark: float) -> None:
        """Forget the final sessions of a key that has been silent for the longest gap since."""
        end = max((each.due for each in found), default=NEVER)
        is_over = all(each.place in part.final for each in found)
        if is_over and end + self.longest[window_id] + max(self.query.lateness, 1) <= watermark < NEVER:
            self.forgotten[window_id] = max(self.forgotten[window_id], end)
            part.rows.clear()

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
            is_late = isinstance(definition, SessionByColumn) and row.time < self.watermark
            if is_late and not any(place in part.final for place in before) and row.time <= self.forgotten[window_id]:
                return False
            judged = row.time < self.watermark or isinstance(definition, Delta | w.ContextAware)
            new = (place for place in after if place not in before and judged)
            part.final.update(p for p in new if self._final_from(definition, after[p].due) <= self.watermark)
            if isinstance(definition, TIME_FRAMES | ROW_FRAMES):
                part.rows.append(row)
                return self._has_frame(definition, row, before, after)
        part.rows.append(row)
        return True

    def _has_frame(self, definition: Any, row: Row, before: dict[Any, Found], after: dict[Any, Found]) -> bool:
        """Say whether a row has its own answer: its frame is not final, or the row is not behind the watermark."""
        if row.time >= self.watermark:
            return True
        place, own = next((place, found) for place, found in after.items() if found.row == row)
        if isinstance(definition, ROW_FRAMES):  # numbers stay where they are: what counts is who had this one
            own = before.get(place, own)
        return self._final_from(definition, own.due) > self.watermark

    def _accepts(self, definition: Any, row: Row, before: dict[Any, Found], after: dict[Any, Found]) -> bool:
        holding = {place: found for place, found in after.items() if row in found.members}
        if row.time >= self.watermark and not isinstance(definition, Delta):
            return bool(holding) or isinstance(definition, ALL_TIMES)
        if isinstance(definition, TimeEvery):  # it would move final rows on
            return False
        if isinstance(definition, SlidingRows | ROW_FRAMES):  # it moves others on: what counts is when they were due
            holding = {place: before.get(place, found) for place, found in holding.items()}
        if isinstance(definition, TIME_FRAMES | ROW_FRAMES) and self._has_frame(definition, row, before, after):
            return True
        if not any(found.due + self.query.lateness > self.watermark for found in holding.values()):
            return False
        if not isinstance(definition, Session | SessionByColumn | w.ContextAware):
            return True
        gone = (found for place, found in before.items() if place not in after)
        return all(self._final_from(definition, found.due) > self.watermark for found in gone)

    def _emit(self, watermark: float, early: bool = False) -> list[Result]:
        results = []
        for (key, window_id), part in self.parts.items():
            definition = self.windows[window_id]
            found = self.query.find(definition, part.rows, self.horizon)
            results += self._changes(key, window_id, part, found, watermark, early)
            part.final.update(each.place for each in found if self._final_from(definition, each.due) <= watermark)
            if isinstance(definition, Session) and part.rows:
                youngest = max(row.time for row in part.rows)
                if youngest + 2 * definition.gap + max(self.query.lateness, 1) <= watermark:
                    part.rows.clear()
            if isinstance(definition, SessionByColumn):
                self._forget_sessions(window_id, part, found, watermark)
            if isinstance(definition, Programmed):
                self._judge(part, found, watermark)
        self.watermark = watermark
        return results

    def _judge(self, part: Part, found: list[Found], watermark: float) -> None:
        """Go on from what the policy left at the last row that is final now."""
        ordered = sorted(part.rows, key=lambda row: (row.time, row.number))
        final = [row for row in ordered if not row.judged and row.time + self.query.lateness <= watermark]
        if final:
            left = next((each.members for each in found if each.name == (final[-1].time, final[-1].number)), ())
            part.rows = [replace(row, judged=True) for row in left] + ordered[ordered.index(final[-1]) + 1 :]

    def _changes(
        self, key: tuple[Any, ...], window_id: int, part: Part, found: list[Found], watermark: float, early: bool
    ) -> list[Result]:
        alive = [each for each in found if each.place not in part.final and (each.full or self.query.partial)]
        there = {each.name for each in alive}
        now = {each.name: each for each in alive if each.due <= watermark or (early and each.members)}
        results = []
        for name, last in part.emitted.items():
            waits = last.early and name in there
            if name not in now and not waits and not last.retracted and last.found.place not in part.final:
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
