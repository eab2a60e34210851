"""Frames: one window for each row, by time and by rows."""

from __future__ import annotations

from typing import Any

from queries.oracle.results import NEVER, Found, Row

from muntin.windows.kinds.frame import Frame, FrameOfRows
from muntin.windows.kinds.leading import Leading, LeadingRows
from muntin.windows.kinds.lifetime import Lifetime
from muntin.windows.kinds.trailing import Trailing, TrailingRows
from muntin.windows.lengths import Rows

TIME_FRAMES, ROW_FRAMES = Trailing | Leading | Frame | Lifetime, TrailingRows | LeadingRows | FrameOfRows


def frames_by_time(definition: TIME_FRAMES, rows: list[Row]) -> list[Found]:
    found = []
    for row in rows:
        low, high = frame_around(definition, row.time)
        low = rows[0].time if low is None else low
        members = tuple(other for other in rows if in_frame(definition, other.time, low, high))
        name, at = (row.time, peers_before(row, rows)), None if high == row.time else row.time
        found.append(Found(name, low, high, members, max(high, row.time), row=row, at=at))
    return found


def frames_by_rows(definition: ROW_FRAMES, rows: list[Row]) -> list[Found]:
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


def frame_around(definition: Any, at: int) -> tuple[int, int]:
    """Return where the frame of a row begins and ends, by its time or number; None for the first row."""

    def size(length: Any) -> int:
        return length.count if isinstance(length, Rows) else length or 0

    if isinstance(definition, Lifetime):
        return None, at
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
    tiled = getattr(definition, "hop", None) is not None or isinstance(definition, Lifetime)
    after = place >= low if closed in ("left", "both") or tiled else place > low
    return after and (place <= high if closed in ("right", "both") else place < high)


def peers_before(row: Row, rows: list[Row]) -> int:
    """Return how many rows of the same time came before it."""
    return sum(other.time == row.time and other.number < row.number for other in rows)
