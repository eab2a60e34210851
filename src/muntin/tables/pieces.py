"""Sorted rows in pieces, one for each thread: between two keys where they can be cut, else inside of a key.

    rows of keys   aaaaaa bbbb cccccccccccccccccccccccccccc ddd
    pieces        | a b c c c c        | c c c c c c c d    |
                                  (---- with the rows before the cut that its windows need

A piece answers the windows that are final at its end and were not at its beginning, as the chunks of sorted_rows.py do;
so each window is answered once, and pieces one after the other give the order of the whole.
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
"""Fewer rows than that are not worth a thread."""
MOST_TWICE = 0.5
"""Which part of a piece may be rows that the one before it has, too."""


def worth_it(rows: int, threads: int) -> int:
    """Return how many of the threads that were asked for are worth their start. O(1)."""
    return max(1, min(threads, rows // LEAST_ROWS))


@dataclass(frozen=True)
class Piece:
    """Rows of some keys, the first and the last of which may be cut."""

    rows: SortedRows
    first_key: int
    """The number of the first one of its keys."""
    since: Cut | None = None
    until: Cut | None = None

    def find(self, window: Window) -> tuple[Found, SortedRows]:
        """Return the windows that it answers, and the rows that they count. O(rows and windows)."""
        found, skipped = cuts.answered(window, self.rows, self.since, self.until)
        return found, self.rows.after(skipped)


def pieces_of(rows: SortedRows, window: Window, threads: int) -> list[Piece]:
    """Return the rows in at most as many pieces as there are threads. O(keys), nothing is copied.

    Where windows cannot be cut, or reach so far back that most of a piece would be read twice, cuts are between keys.
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
    """Return where to cut, near a row: at the end of a key, unless that is far off and the key can be cut."""
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
    """Return the cut before a row of the key that begins at a row."""
    return Cut(int(rows.times[place - 1]), place - begin)


def _part(rows: SortedRows, start: int, stop: int) -> SortedRows:
    """Return the rows [start, stop), the first of which is that of a key. O(keys)."""
    inside = slice(int(np.searchsorted(rows.ends, start, "right")), int(np.searchsorted(rows.ends, stop, "left")) + 1)
    part = slice(start, stop)
    fields: dict[str, Any] = {
        "times": rows.times[part],
        "ends": np.minimum(rows.ends[inside], stop) - start,
        "arrival": rows.arrival[part],
        "columns": {name: column.take(part) for name, column in rows.columns.items()},
    }
    return replace(rows, **fields)
