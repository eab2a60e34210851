"""Frames at points, from a buffer of rows: gathers the rows near the points, and finds the frames among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from muntin.arrays.results import Raw
from muntin.columns import concatenated
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.buffer.definition import BufferedDefinition
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.types import Array, ColumnType
from muntin.windows.found import Points, SortedRows
from muntin.windows.held_rows import HeldRows

Bounds = tuple[Array, Array]
"""The first row of each frame, and the row after its last."""
_FEW_ROWS = 1 << 14
"""Up to this many rows one call answers all windows: a call takes longer than copying or folding them."""


def rows_near(
    held: HeldRows, points: AskedPoints, parts: Sequence[BufferedDefinition], time_type: ColumnType
) -> SortedRows:
    """Return the rows that frames at the points may hold. O(log n) per key, plus the rows.

    They reach from the first frame of a key to its last.
    """
    reaches = [part.lookback for part in parts]
    rows = max(each.rows for each in reaches)
    if rows and any(len(part.refused) for part in parts):
        rows = len(held)  # any of them may be rejected, and not count
    back, ahead = max(each.time for each in reaches), max(each.ahead for each in reaches)
    if len(points.keys) == 1:
        time = int(points.times[0])
        place = held.near_key(int(points.keys[0]), time - back, time + ahead, rows)
        near, ends = held.take(place), np.array([place.stop - place.start])
    else:
        first, last = held.near(points.asked_keys, points.first_times - back, points.last_times + ahead, rows)
        near, ends = held.gathered(first, last), np.cumsum(last - first)
    return SortedRows(near.times, ends, near.numbers, near.columns, time_type)


def answered(
    parts: Sequence[BufferedDefinition], rows: Sequence[SortedRows], points: Points
) -> Iterator[FramesAtPoints]:
    """Yield the answers of each definition's frames at points, among its rows."""
    count = sum(len(each.times) for each in rows)
    shared = parts[0].binding.compiled and all(mine is rows[0] for mine in rows)
    if shared and len(points.times) == 1 and count <= _FEW_ROWS:
        at_one = _answered_at_one(parts, rows[0], points)
        if at_one is not None:
            yield at_one
            return
    kinds = [part.kind.definition for part in parts]
    found = [kind.find_at(mine, points) for kind, mine in zip(kinds, rows, strict=True)]
    ends = [kind.ends_at(mine, points, last) for kind, mine, (_, last) in zip(kinds, rows, found, strict=True)]
    answer = _folded if shared and count * len(points.times) <= _FEW_ROWS else _copied
    every = range(len(parts))
    for group in [every] if count <= _FEW_ROWS else [[i] for i in every]:
        aggregates = answer(parts[group[0]], [rows[i] for i in group], [found[i] for i in group])
        yield FramesAtPoints([parts[i].window_id for i in group], aggregates, np.concatenate([ends[i] for i in group]))


def _answered_at_one(parts: Sequence[BufferedDefinition], rows: SortedRows, point: Points) -> FramesAtPoints | None:
    """Return the answers of all frames at a single point, found together; None if one of them counts rows.

    A service asks for one key at a time: skipping calls is what makes it fast.
    """
    kinds = [part.kind.definition for part in parts]
    spans = [kind.span_at(int(point.times[0])) for kind in kinds]
    bounds = [min(max(each, BEFORE_TIME), END_OF_TIME) for span in spans if span is not None for each in span]
    if len(bounds) < 2 * len(parts):
        return None
    places = rows.times.searchsorted(np.array(bounds))
    first = places[::2].copy()
    last = np.maximum(first, places[1::2])
    aggregates = parts[0].fold(rows.columns, rows.times, first, last)
    ends = np.concatenate([kind.ends_at(rows, point, last) for kind in kinds]) if parts[0].asks_for_ends else None
    return FramesAtPoints([part.window_id for part in parts], aggregates, ends)


def _folded(part: BufferedDefinition, rows: Sequence[SortedRows], found: Sequence[Bounds]) -> Mapping[str, Raw]:
    """Return the answers of frames over the same rows, without copying them."""
    first, last = (np.concatenate([each[i] for each in found]) for i in (0, 1))
    return part.fold(rows[0].columns, rows[0].times, first, last)


def _copied(part: BufferedDefinition, rows: Sequence[SortedRows], found: Sequence[Bounds]) -> Mapping[str, Raw]:
    """Return the answers of frames over a copy of the rows for each definition, so that bounds ascend."""
    spans = [_span(*each) for each in found]
    sizes = [span.stop - span.start for span in spans]
    shifts = np.cumsum([0, *sizes[:-1]]) - [span.start for span in spans]
    picked = list(zip(rows, spans, strict=True))
    columns = {name: concatenated([each.columns[name].take(span) for each, span in picked]) for name in rows[0].columns}
    times = np.concatenate([each.times[span] for each, span in picked])
    first, last = (np.concatenate([each[i] + by for each, by in zip(found, shifts, strict=True)]) for i in (0, 1))
    return part.aggregate(columns, times, first, last)


def _span(first: Array, last: Array) -> slice:
    """Return the range of rows of all frames, whose bounds ascend."""
    return slice(int(first[0]), int(last[-1])) if len(first) else slice(0, 0)
