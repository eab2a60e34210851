"""The base of windows by rows. The rows of each key are numbered from 0, by event time and then by arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from muntin.types import ColumnType
from muntin.windows.base import ROW_BOUNDS, Context, Measure, Window
from muntin.windows.lengths import Rows
from muntin.windows.shapes import Lookback

ROW_FIELDS: Mapping[str, pa.DataType] = dict.fromkeys(ROW_BOUNDS, pa.int64())
"""The fields of windows by rows besides start and end."""


@dataclass(frozen=True, repr=False)
class NumberedWindow(Window):
    """Windows of `range` rows with fixed numbers. A row out of order shifts the numbers."""

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.ROWS
    edges_known: ClassVar[bool] = True  # as row numbers
    cuttable: ClassVar[bool] = True

    range: Rows

    @property
    def lookback(self) -> Lookback:
        """A window reaches back by its rows."""
        return Lookback(rows=self.range.count)

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return delay + lateness

    @property
    def rows_held(self) -> int:
        """How many of the last rows are needed, whatever their time."""
        return self.range.count

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        return ROW_FIELDS
