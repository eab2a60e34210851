"""Where the rows of one key are cut, to be answered in pieces: what the next piece needs, and which windows it answers.

Rows are sorted. A window is answered by the piece that first knows all its rows, and by no other: each definition says
which windows are settled when all rows to come have at least a time, and from which row on the rest need theirs.
Definitions that are not named here cannot be cut: they need all rows of a key at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from muntin.tables.finite import Found, SortedRows, find
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.mixed import RowsEvery
from muntin.windows.punctuation import Punctuated
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

CUTTABLE = (Sliding, Cumulative, Trailing, Session, SlidingRows, TrailingRows, RowsEvery, Punctuated)
"""The definitions whose windows need not all rows of a key."""


@dataclass(frozen=True)
class Cut:
    """A place between two rows of a key."""

    time: int
    """No row before it is later than this, and none after it is earlier."""
    row: int
    """How many rows of the key lie before it."""
    offset: int = 0
    """How many rows of the key lie before the first one at hand."""


def answered(definition: Window, rows: SortedRows, since: Cut | None, until: Cut | None) -> tuple[Found, int]:
    """Return the windows of a piece, and how many of its rows they leave out at the beginning.

    The rows of the first key go on from the cut `since`, with those rows before it that are still needed; those of the
    last one are cut at `until`. None: there are no others.
    """
    skipped = 0 if since is None else needed(definition, _first_key(rows), since)
    part = rows.after(skipped)
    found = find(definition, part)
    keys = found.keys if found.keys is not None else np.searchsorted(part.ends, _first_rows(found), "right")
    chosen = np.ones(len(found.first), np.bool_)
    if since is not None:
        mine = slice(0, int(np.searchsorted(keys, 0, "right")))
        found = _renumbered(found, mine, since.offset + skipped)
        chosen[mine] = unanswered(definition, _windows(found, mine), part, since)
    if until is not None:
        mine = slice(int(np.searchsorted(keys, len(part.ends) - 1, "left")), None)
        chosen[mine] &= settled(definition, _windows(found, mine), part, until)
    return (found if chosen.all() else _windows(found, chosen)), skipped


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


def _windows(found: Found, chosen: slice | Array) -> Found:
    """Return some of the windows."""
    return Found(
        found.first[chosen],
        found.last[chosen],
        found.start[chosen],
        found.end[chosen],
        None if found.rows is None else (found.rows[0][chosen], found.rows[1][chosen]),
        None if found.values is None else (found.values[0][chosen], found.values[1][chosen]),
        found.members,
        None if found.keys is None else found.keys[chosen],
    )


def _first_rows(found: Found) -> Array:
    return found.first if found.members is None else found.members[found.first]


# ---------------------------------------------------------------- from which row on rows are needed


@singledispatch
def needed(definition: Window, rows: SortedRows, cut: Cut) -> int:
    """Return the first of one key's rows that windows which were not settled at the cut may hold. O(log n)."""
    return 0


@needed.register(Sliding)
@needed.register(Cumulative)
@needed.register(Trailing)
def _(definition: Sliding | Cumulative | Trailing, rows: SortedRows, cut: Cut) -> int:
    return int(np.searchsorted(rows.times, cut.time - definition.range, "right"))


@needed.register
def _(definition: Session, rows: SortedRows, cut: Cut) -> int:
    found = find(definition, rows)
    open_ones = np.flatnonzero(found.end >= cut.time)
    return int(found.first[open_ones[0]]) if len(open_ones) else len(rows.times)


@needed.register
def _(definition: SlidingRows, rows: SortedRows, cut: Cut) -> int:
    every = definition.every.count
    return every * max(0, (cut.row - definition.range.count) // every + 1) - cut.offset


@needed.register
def _(definition: TrailingRows, rows: SortedRows, cut: Cut) -> int:
    return max(0, cut.row - definition.range.count + 1 - cut.offset)


@needed.register
def _(definition: RowsEvery, rows: SortedRows, cut: Cut) -> int:
    edge = int(_next_edge(definition, cut.time)) - definition.every
    return max(0, int(np.searchsorted(rows.times, edge, "left")) - definition.range.count + 1)


@needed.register
def _(definition: Punctuated, rows: SortedRows, cut: Cut) -> int:
    marks = np.flatnonzero(_marks(definition, rows)[: cut.row - cut.offset])
    return int(marks[-1]) + 1 if len(marks) else 0


# ---------------------------------------------------------------- which windows are answered where


@singledispatch
def settled(definition: Window, found: Found, rows: SortedRows, cut: Cut) -> Array:
    """Return which windows hold no row from the cut on. O(windows)."""
    return np.zeros(len(found.first), np.bool_)


@settled.register(Sliding)
@settled.register(Cumulative)
def _(definition: Sliding | Cumulative, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(found.end <= cut.time)


@settled.register(Trailing)
@settled.register(Session)
def _(definition: Trailing | Session, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(found.end < cut.time)  # a row of just that time is in it, too


@settled.register
def _(definition: SlidingRows, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(found.last - found.first == definition.range.count)


@settled.register
def _(definition: TrailingRows, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.ones(len(found.first), np.bool_)


@settled.register
def _(definition: RowsEvery, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(_next_edge(definition, found.end) <= cut.time)


@settled.register
def _(definition: Punctuated, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(_marks(definition, rows)[found.last - 1])


@singledispatch
def unanswered(definition: Window, found: Found, rows: SortedRows, cut: Cut) -> Array:
    """Return which windows were not settled at a cut before. Of most the rows at hand hold no others. O(windows)."""
    return np.ones(len(found.first), np.bool_)


@unanswered.register(Sliding)
@unanswered.register(Cumulative)
def _(definition: Sliding | Cumulative, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(found.end > cut.time)


@unanswered.register
def _(definition: Trailing, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(found.end >= cut.time)


@unanswered.register
def _(definition: TrailingRows, found: Found, rows: SortedRows, cut: Cut) -> Array:
    assert found.rows is not None
    return np.asarray(found.rows[1] > cut.row)


@unanswered.register
def _(definition: RowsEvery, found: Found, rows: SortedRows, cut: Cut) -> Array:
    return np.asarray(_next_edge(definition, found.end) > cut.time)


def _next_edge(definition: RowsEvery, time: Any) -> Any:
    """Return the time by which the window is known that ends with a row of this time."""
    return time - (time - definition.offset) % definition.every + definition.every


def _marks(definition: Punctuated, rows: SortedRows) -> Array:
    column = rows.columns[definition.column]
    marks = column.values != 0
    return np.asarray(marks if column.valid is None else column.valid & marks)
