"""Cuts inside one key's rows: which windows each piece answers.

Rows are sorted. A window is answered by the first piece that has all its rows, and by no other: each kind of window
tells which of its windows are final once all later rows have at least a given time, and the first row that the others
need.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muntin.windows.base import Window
from muntin.windows.found import Cut, Found, SortedRows


def answered(definition: Window, rows: SortedRows, since: Cut | None, until: Cut | None) -> tuple[Found, int]:
    """Return the windows of a piece, and how many of its first rows they skip.

    The rows of the first key continue from the cut `since`, and include the rows before it that are still needed; those
    of the last key are cut at `until`. None: no cut.
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
