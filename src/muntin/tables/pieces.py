"""Sorted rows in pieces, one per thread: cut between two keys if possible, else inside a key.

    rows of keys   aaaaaa bbbb cccccccccccccccccccccccccccc ddd
    pieces        | a b c c c c        | c c c c c c c d    |
                                  (---- with the rows before the cut that its windows need

A piece answers the windows that are final at its end and were not at its start, like the chunks of sorted_rows.py; so
each window is answered once, and the concatenated pieces have the order of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.tables import cuts
from muntin.threads import shares
from muntin.windows.base import Window
from muntin.windows.found import Cut, Found, SortedRows

LEAST_ROWS = 1 << 15
"""Fewer rows are not worth a thread."""
MOST_TWICE = 0.5
"""The fraction of a piece's rows that may also be in the previous piece."""


def worth_it(rows: int, threads: int) -> int:
    """Return how many of the requested threads are worth starting. O(1)."""
    return max(1, min(threads, rows // LEAST_ROWS))


@dataclass(frozen=True)
class Piece:
    """Rows of some keys; the first and the last key may be cut."""

    rows: SortedRows
    first_key: int
    """The number of its first key."""
    since: Cut | None = None
    until: Cut | None = None

    def find(self, window: Window) -> tuple[Found, SortedRows]:
        """Return the windows that it answers, and the rows that they index. O(rows and windows)."""
        found, skipped = cuts.answered(window, self.rows, self.since, self.until)
        return found, self.rows.after(skipped)


def pieces_of(rows: SortedRows, window: Window, threads: int) -> list[Piece]:
    """Return the rows in at most `threads` pieces. O(keys), no copy.

    If windows cannot be cut, or reach so far back that most of a piece would be read twice, cuts are between keys.
    """
    parts = shares(0, len(rows.times), threads)
    if len(parts) == 1:
        return [Piece(rows, 0)]
    size = parts[0][1]
    if rows.emit_empty and rows.horizon is None:
        rows = replace(rows, horizon=int(rows.times.max()))
    places = [_place(rows, window, start, size) for start, _ in parts[1:]]
    bounds = sorted({0, *places, len(rows.times)})
    return [_piece(rows, start, stop) for start, stop in pairwise(bounds)]


def _place(rows: SortedRows, window: Window, wanted: int, size: int) -> int:
    """Return where to cut near row `wanted`: at the end of a key, unless that is far off and the key can be cut."""
    key = int(np.searchsorted(rows.ends, wanted, "right"))
    begin, end = (int(rows.ends[key - 1]) if key else 0), int(rows.ends[key])
    near = begin if wanted - begin <= end - wanted else end
    if abs(near - wanted) <= size // 16 or not window.cuttable:
        return near
    whole = _part(rows, begin, wanted)
    needed = window.first_needed(whole, _cut(rows, begin, wanted))
    return wanted if wanted - begin - needed <= MOST_TWICE * size else near


def _piece(rows: SortedRows, start: int, stop: int) -> Piece:
    key = int(np.searchsorted(rows.ends, start, "right"))
    begin = int(rows.ends[key - 1]) if key else 0
    last = int(np.searchsorted(rows.ends, stop - 1, "right"))
    since = _cut(rows, begin, start) if start > begin else None
    until = None
    if stop < rows.ends[last]:
        until = _cut(rows, int(rows.ends[last - 1]) if last else 0, stop)
    return Piece(_part(rows, begin, stop), key, since, until)


def _cut(rows: SortedRows, begin: int, place: int) -> Cut:
    """Return the cut before row `place` of the key that begins at row `begin`."""
    return Cut(int(rows.times[place - 1]), place - begin)


def _part(rows: SortedRows, start: int, stop: int) -> SortedRows:
    """Return the rows [start, stop), which start with the first row of a key. O(keys)."""
    inside = slice(int(np.searchsorted(rows.ends, start, "right")), int(np.searchsorted(rows.ends, stop, "left")) + 1)
    part = slice(start, stop)
    fields: dict[str, Any] = {
        "times": rows.times[part],
        "ends": np.minimum(rows.ends[inside], stop) - start,
        "arrival": rows.arrival[part],
        "columns": {name: column.take(part) for name, column in rows.columns.items()},
    }
    return replace(rows, **fields)
