"""Windows that end with marked rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.durations import END_OF_TIME
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import NULL, Array
from muntin.windows.base import Context, Measure, Window
from muntin.windows.buffered import BufferedWindows, Late, Moment, Terms, Windows, begins_of, keys_of
from muntin.windows.found import Cut, Found, SortedRows, between_rows, filled, finding
from muntin.windows.held_rows import HeldRows
from muntin.windows.shapes import EdgesFrom
from muntin.windows.words import word


@dataclass(frozen=True, repr=False)
class Punctuated(Window):
    """Windows of the rows after one marker, up to and including the next. Created by `punctuated`."""

    context: ClassVar[Context] = Context.FORWARD_FREE
    measure: ClassVar[Measure] = Measure.PUNCTUATION
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.MARKS
    cuttable: ClassVar[bool] = True

    column: str

    def __post_init__(self) -> None:
        """Reject what is not a column name."""
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgumentError(f"window.punctuated: the column is {self.column!r}; give its name")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The marker column."""
        return (self.column,)

    def likely_types(self) -> Mapping[str, pa.DataType]:
        """Return the likely types of its columns, for an `explain` without a schema."""
        return {self.column: pa.bool_()}

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.punctuated({self.column!r})"

    def marks(self, rows: Any) -> Array:
        """Return which rows end a window; reject a column that is not boolean."""
        column = rows.columns[self.column]
        if column.type != NULL and column.type.family != "boolean":
            raise ColumnTypeError(
                f"column {self.column!r} marks where windows end; it must be boolean, not {column.type}"
            )
        marks: Array = column.values != 0
        return marks if column.valid is None else column.valid & marks

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows. O(n)."""
        marks = self.marks(rows).astype(np.int64)
        first, last = filled(finding().marked_windows, (marks, rows.ends), 2)
        return between_rows(rows, first, last, numbered=False)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(n)."""
        marks = np.flatnonzero(self.marks(rows)[: cut.row - cut.offset])
        return int(marks[-1]) + 1 if len(marks) else 0

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows end with a marker. O(windows)."""
        return np.asarray(self.marks(rows)[found.last - 1])

    # ------------------------------------------------------------ streams

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedPunctuated(self, terms)


@word(first_is_length=False)
def punctuated(column: str) -> Punctuated:
    """Return windows that end with each row whose boolean column is true. That row is the last of its window.

    >>> from muntin import window
    >>> window.punctuated("is_marker").measure
    <Measure.PUNCTUATION: 'punctuation'>
    """
    return Punctuated(column)


class BufferedPunctuated(BufferedWindows):
    """Windows that end with a marker, over kept rows."""

    definition: Punctuated

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        times, marks, ends = held.times.tolist(), self.definition.marks(held).tolist(), self.definition.marks(new)

        def takes(row: int) -> bool:
            t = int(new.times[row])
            at = bisect_right(times, t)
            marker = next((i for i in range(at, len(times)) if marks[i]), None)
            if ends[row] or (marker is not None and times[marker] + self.lateness <= watermark):
                return False
            times.insert(at, t)
            marks.insert(at, False)
            return True

        return takes

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        found = self.definition.find(self.sorted_rows(rows))
        key = keys_of(rows, found.first)
        marked = self.definition.marks(rows)[found.last - 1] if len(key) else np.zeros(0, np.bool_)
        due = np.where(marked, found.end, END_OF_TIME)
        old = (rows.numbers[found.last - 1] < moment.fresh) | (found.end < moment.before) if len(key) else marked
        order = np.arange(len(key))
        again = np.zeros(len(key), np.bool_)
        if len(key):
            same = (np.diff(key) == 0) & (np.diff(found.start) == 0) & (np.diff(found.end) == 0)
            again[1:] = same
        which = order - np.maximum.accumulate(np.where(again, 0, order)) if len(key) else order
        return Windows(found, key, due, self.final(due, moment.before) & old, (found.start, found.end, which))

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        """Keep the last final marker, to know what is before it, and all windows that ended at its time."""
        found = windows.found
        of = np.searchsorted(rows.present, windows.key)
        opened = np.full(len(rows.ends), END_OF_TIME)
        np.minimum.at(opened, of[~final], found.start[~final])
        first = rows.ends - 1
        near = found.end >= opened[of]
        np.minimum.at(first, of[near], found.first[near])
        np.minimum.at(first, of[~final], np.maximum(found.first[~final] - 1, begins_of(rows)[of[~final]]))
        return first
