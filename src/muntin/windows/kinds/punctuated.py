"""Windows that end with marked rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import NULL, Array
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Cut, Found, SortedRows, between_rows, filled, finding
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


@word(first_is_length=False)
def punctuated(column: str) -> Punctuated:
    """Return windows that end with each row whose boolean column is true. That row is the last of its window.

    >>> from muntin import window
    >>> window.punctuated("is_marker").measure
    <Measure.PUNCTUATION: 'punctuation'>
    """
    return Punctuated(column)
