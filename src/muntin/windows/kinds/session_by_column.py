"""Session windows whose gap each row brings along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.columns import Column
from muntin.durations import NANOSECONDS, UNIT_OF
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import NULL, Array, ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Found, SortedRows, filled, finding
from muntin.windows.shapes import EdgesFrom

_LONGEST = 1 << 61
"""A longer gap is refused: sums of times and gaps must fit int64."""


@dataclass(frozen=True, repr=False)
class SessionByColumn(Window):
    """Windows that rows open from their time for as long as a column says; those that meet are one.

    Created by `session(gap_column=...)`. A row at the very end of a session still belongs to it.
    """

    context: ClassVar[Context] = Context.FORWARD_FREE
    measure: ClassVar[Measure] = Measure.TIME
    splits: ClassVar[bool] = False  # a row can only extend or merge sessions
    ties_matter: ClassVar[bool] = False
    edges: ClassVar[EdgesFrom] = EdgesFrom.GAPS

    gap_column: str
    time: ColumnType | None = field(default=None, compare=False)
    """The type of times, if resolved."""

    def __post_init__(self) -> None:
        """Reject what is no name."""
        if not isinstance(self.gap_column, str) or not self.gap_column:
            raise InvalidArgumentError(f"window.session: gap_column is {self.gap_column!r}; give the name of a column")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column of gaps."""
        return (self.gap_column,)

    def likely_types(self) -> Mapping[str, pa.DataType]:
        """Return the likely type of gaps."""
        return {self.gap_column: pa.int64()}

    def resolve(self, time: ColumnType) -> Self:
        """Return it for times of a type. O(1)."""
        return replace(self, time=time)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.session(gap_column={self.gap_column!r})"

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the end of its window."""
        return _LONGEST

    # ------------------------------------------------------------ gaps

    def gaps(self, columns: Mapping[str, Column]) -> Array:
        """Return the gap of each row in the unit of the times; 0 for rows in no session. O(n)."""
        column = columns[self.gap_column]
        if column.type == NULL:
            return np.zeros(len(column.values), np.int64)
        factor, divisor = self._scale(column.type)
        values = column.values.astype(np.int64, copy=False)
        gaps = values // divisor * factor
        return gaps if column.valid is None else np.where(column.valid, gaps, 0)

    def _scale(self, kind: ColumnType) -> tuple[int, int]:
        """Return by what to multiply and to divide values, for the unit of the times."""
        assert self.time is not None
        if kind.family == "integer":
            return 1, 1
        if kind.family != "duration" or self.time.family != "temporal":
            wanted = "durations or integers" if self.time.family == "temporal" else "integers, as the times are"
            raise ColumnTypeError(
                f"the column {self.gap_column!r} holds {kind}, and gaps are {wanted}, in the unit of the times"
            )
        mine, theirs = _nanoseconds(kind), _nanoseconds(self.time)
        return max(1, mine // theirs), max(1, theirs // mine)

    def require_values(self, columns: Mapping[str, Column]) -> None:
        """Reject negative gaps, those that are too long, and those finer than the times. O(n)."""
        column = columns[self.gap_column]
        if column.type == NULL or not len(column.values):
            return
        factor, divisor = self._scale(column.type)
        values, valid = column.values, True if column.valid is None else column.valid
        for wrong, why in (
            (values < 0, "and a gap is not negative: rows in no session have null or 0"),
            (values > _LONGEST // factor, f"and a gap is at most {_LONGEST} in the unit of the times"),
            (values % divisor != 0, "which is finer than the times are: round it to their unit"),
        ):
            found = np.flatnonzero(wrong & valid)
            if len(found):
                row = int(found[0])
                raise InvalidArgumentError(f"the column {self.gap_column!r} holds {values[row]} in row {row}, {why}")

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all sessions. O(n)."""
        gaps = self.gaps(rows.columns)
        times, ends, members = rows.times, rows.ends, None
        if not gaps.all():
            members = np.flatnonzero(gaps)
            times, gaps = times[members], gaps[members]
            ends = np.searchsorted(members, ends).astype(np.int64)
        first, last, stop = filled(finding().spanned_windows, (times, gaps, ends), 3)
        return Found(first, last, times[first], stop, members=members)


def _nanoseconds(kind: ColumnType) -> int:
    """Return how long the unit of times or durations is."""
    return NANOSECONDS["day"] if pa.types.is_date32(kind.logical) else NANOSECONDS[UNIT_OF[kind.logical.unit]]  # type: ignore[union-attr]
