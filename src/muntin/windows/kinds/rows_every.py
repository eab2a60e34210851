"""Windows of two measures: they end by time and hold `range` rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
import pyarrow as pa

from muntin.durations import in_unit_of
from muntin.types import Array, ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Cut, Found, SortedRows, between_rows, filled, finding
from muntin.windows.kinds.numbered import ROW_FIELDS
from muntin.windows.lengths import Rows, any_sign, positive, shown_offset
from muntin.windows.shapes import Density, EdgesFrom, Lookback


@dataclass(frozen=True, repr=False)
class RowsEvery(Window):
    """The last `range` rows before each multiple of `every`, plus `offset`. Created by `sliding`.

    If no row has arrived since the previous multiple, there is no new window. The first windows may hold fewer rows.
    """

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the first row of a window is known only when it ends
    measure: ClassVar[Measure] = Measure.MULTI
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.COUNTS
    cuttable: ClassVar[bool] = True

    range: Rows
    every: Any
    offset: Any = 0

    def __post_init__(self) -> None:
        """Reject a meaningless duration."""
        object.__setattr__(self, "every", positive(self.every, "window.sliding: every"))
        object.__setattr__(self, "offset", any_sign(self.offset, "window.sliding: offset"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; of equivalent offsets, the least from 0 on. O(1)."""
        every = in_unit_of(self.every, time, "every")
        return type(self)(self.range, every, in_unit_of(self.offset, time, "offset") % every)

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return self.every, self.offset

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.sliding({self.range!r}, every={self.every!r}{shown_offset(self.offset)})"

    def next_edge(self, times: Any) -> Any:
        """Return the first multiple after each time, when the window that ends with it is known. O(1) each."""
        return times - (times - self.offset) % self.every + self.every

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return 2 * cast("int", self.every)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows. O(n)."""
        shape = (self.range.count, self.every, self.offset)
        first, last = filled(finding().windows_of_last_rows, (rows.times, rows.ends, *shape), 2)
        return between_rows(rows, first, last, numbered=True)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that windows not final at the cut may hold. O(log n)."""
        edge = int(self.next_edge(cut.time)) - self.every
        return max(0, int(np.searchsorted(rows.times, edge, "left")) - self.range.count + 1)

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows hold no row from the cut on. O(windows)."""
        return np.asarray(self.next_edge(found.end) <= cut.time)

    def unanswered(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which windows were not final at an earlier cut. O(windows)."""
        return np.asarray(self.next_edge(found.end) > cut.time)

    @property
    def lookback(self) -> Lookback:
        """A window reaches back by its rows from its end."""
        return Lookback(time=self.every, rows=self.range.count)

    # ------------------------------------------------------------ streams

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, 2.0)

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        return ROW_FIELDS
