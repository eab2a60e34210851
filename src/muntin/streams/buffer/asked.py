"""Frames at points, from a buffer of rows: the rows near the points are gathered, and the frames found among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from muntin.columns import concatenated
from muntin.streams.buffer.definition import BufferedDefinition
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.types import Array, ColumnType
from muntin.windows.found import Points, SortedRows
from muntin.windows.held_rows import HeldRows

_FEW_ROWS = 1 << 14
"""Up to this many rows are copied for each window, so that one call answers all: that takes longer than to copy."""


def rows_near(
    held: HeldRows, points: AskedPoints, parts: Sequence[BufferedDefinition], time_type: ColumnType
) -> SortedRows:
    """Return the rows that frames at the points may hold, of the keys that are asked of. O(log n) a key, and the rows.

    They go from the first frame of a key to its last.
    """
    reaches = [part.lookback for part in parts]
    rows = max(each.rows for each in reaches)
    if rows and any(len(part.refused) for part in parts):
        rows = len(held)  # any of them may be refused, and not count
    since = points.first_times - max(each.time for each in reaches)
    until = points.last_times + max(each.ahead for each in reaches)
    first, last = held.near(points.asked_keys, since, until, rows)
    near = held.gathered(first, last)
    return SortedRows(near.times, np.cumsum(last - first), near.numbers, near.columns, time_type)


def answered(
    parts: Sequence[BufferedDefinition], rows: Sequence[SortedRows], points: Points
) -> Iterator[FramesAtPoints]:
    """Yield what the frames of each definition hold at points, among its rows."""
    ends = [part.kind.definition.ends_at(points.times) for part in parts]
    for group in _groups(rows, ends):
        found = [parts[i].kind.definition.find_at(rows[i], points) for i in group]
        spans = [_span(*each) for each in found]
        sizes = [span.stop - span.start for span in spans]
        shifts = np.cumsum([0, *sizes[:-1]]) - [span.start for span in spans]
        picked = [(rows[i], span) for i, span in zip(group, spans, strict=True)]
        columns = {
            name: concatenated([each.columns[name].take(span) for each, span in picked]) for name in rows[0].columns
        }
        times = np.concatenate([each.times[span] for each, span in picked])
        first, last = (np.concatenate([each[i] + by for each, by in zip(found, shifts, strict=True)]) for i in (0, 1))
        aggregates = parts[group[0]].aggregate(columns, times, first, last)
        known = [end for i in group if (end := ends[i]) is not None]
        yield FramesAtPoints([parts[i].window_id for i in group], aggregates, np.concatenate(known) if known else None)


def _groups(rows: Sequence[SortedRows], ends: Sequence[Array | None]) -> list[list[int]]:
    """Return which definitions are answered by one call: each by itself, where there are many rows to copy."""
    if sum(len(each.times) for each in rows) > _FEW_ROWS:
        return [[i] for i in range(len(rows))]
    groups = [i for i, each in enumerate(ends) if each is not None], [i for i, each in enumerate(ends) if each is None]
    return [group for group in groups if group]


def _span(first: Array, last: Array) -> slice:
    """Return the rows of all frames, whose bounds ascend."""
    return slice(int(first[0]), int(last[-1])) if len(first) else slice(0, 0)
