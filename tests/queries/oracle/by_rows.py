"""Windows of `range` rows of a key, every `every` rows or at the multiples of a time; of a time every `every` rows."""

from __future__ import annotations

from queries.oracle.results import NEVER, Found, Row

from muntin.windows.kinds.rows_every import RowsEvery
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.time_every import TimeEvery


def sliding_rows(definition: SlidingRows, rows: list[Row]) -> list[Found]:
    found = []
    for first in range(0, len(rows), definition.every.count):
        members = tuple(rows[first : first + definition.range.count])
        full = len(members) == definition.range.count
        due = members[-1].time if full else NEVER
        span = (first, first + len(members))
        found.append(Found(first, members[0].time, members[-1].time, members, due, rows=span, full=full))
    return found


def rows_every(definition: RowsEvery, rows: list[Row]) -> list[Found]:
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


def time_every(definition: TimeEvery, rows: list[Row]) -> list[Found]:
    found = []
    for to_row in range(definition.every.count, len(rows) + 1, definition.every.count):
        end = rows[to_row - 1].time
        members = tuple(row for row in rows[:to_row] if row.time > end - definition.range)
        span = (to_row - len(members), to_row)
        found.append(Found(span, members[0].time, end, members, end, rows=span, slot=to_row))
    return found
