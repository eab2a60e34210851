"""Rows of one key that are cut, to be answered in pieces: which windows each piece answers.

Rows are sorted. A window is answered by the piece that first knows all its rows, and by no other: each kind of window
tells which of its windows are final when all rows to come have at least a time, and from which row on the rest need
theirs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muntin.windows.base import Window
from muntin.windows.found import Cut, Found, SortedRows


def answered(definition: Window, rows: SortedRows, since: Cut | None, until: Cut | None) -> tuple[Found, int]:
    """Return the windows of a piece, and how many of its rows they leave out at the beginning.

    The rows of the first key go on from the cut `since`, with those rows before it that are still needed; those of the
    last one are cut at `until`. None: there are no others.
    """
    skipped = 0 if since is None else definition.first_needed(_first_key(rows), since)
    part = rows.after(skipped)
    found = definition.find(part)
    keys = found.keys_among(part)
    chosen = found.all
    if since is not None:
        mine = slice(0, int(np.searchsorted(keys, 0, "right")))
        found = _renumbered(found, mine, since.offset + skipped)
        chosen[mine] = definition.unanswered(found.take(mine), part, since)
    if until is not None:
        mine = slice(int(np.searchsorted(keys, len(part.ends) - 1, "left")), None)
        chosen[mine] &= definition.final(found.take(mine), part, until)
    return (found if chosen.all() else found.take(chosen)), skipped


def _first_key(rows: SortedRows) -> SortedRows:
    size = int(rows.ends[0])
    columns = {name: column.take(slice(0, size)) for name, column in rows.columns.items()}
    return replace(rows, times=rows.times[:size], ends=rows.ends[:1], columns=columns)


def _renumbered(found: Found, mine: slice, offset: int) -> Found:
    if found.rows is None or not offset:
        return found
    moved = tuple(bound.copy() for bound in found.rows)
    for bound in moved:
        bound[mine] += offset
    return replace(found, rows=(moved[0], moved[1]))
