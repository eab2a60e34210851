"""A query in plain Python, and its complete answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from queries.oracle.by_time import empty
from queries.oracle.finding import find
from queries.oracle.frames import ROW_FRAMES, TIME_FRAMES
from queries.oracle.results import NEVER, Found, Result, Row, aggregate

from muntin.durations import in_unit_of
from muntin.types import INT64, ColumnType
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.policy import Programmed
from muntin.windows.kinds.sliding import Sliding
from muntin.windows.kinds.sliding_rows import SlidingRows


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
        found = find(definition, sorted(rows, key=lambda row: (row.time, row.number)), self.time_type)
        if self.emit_empty and isinstance(definition, Sliding | Cumulative):
            found += empty(definition, found, horizon)
        return found


def complete_answer(
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


def latest(query: Query, results: Iterable[Result]) -> list[Result]:
    """Return the last word on each window, as the complete answer has it: no retracted ones, and all of revision 0."""
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
