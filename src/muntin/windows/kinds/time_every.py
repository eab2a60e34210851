"""Windows of two measures: they end after every `every`-th row and last for a duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME, END_OF_TIME, in_unit_of
from muntin.types import ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Found, SortedRows, between_rows, finding
from muntin.windows.kinds.numbered import ROW_FIELDS
from muntin.windows.lengths import Rows, positive
from muntin.windows.shapes import Density, EdgesFrom


@dataclass(frozen=True, repr=False)
class TimeEvery(Window):
    """The rows of the last `range` up to every `every`-th row of a key: those in (t - range, t]. Created by `sliding`.

    Rows of the very time of the last one that come after it are in the next window.
    """

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the first row of a window is known only when it ends
    measure: ClassVar[Measure] = Measure.MULTI
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.STEPS

    range: Any
    every: Rows

    def __post_init__(self) -> None:
        """Reject a meaningless duration."""
        object.__setattr__(self, "range", positive(self.range, "window.sliding: range"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.range, time, "range"), self.every)

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return (self.range,)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.sliding({self.range!r}, every={self.every!r})"

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return int(self.range)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows. O(n)."""
        first, last = (np.zeros(len(rows.times), np.int64) for _ in range(2))
        bounds = (1 - self.range, 1, 0, BEFORE_TIME + self.range, END_OF_TIME - 1)
        finding().framed_windows(rows.times, rows.ends, rows.times, rows.ends, *bounds, first, last)
        numbers = np.arange(len(rows.times)) - np.repeat(rows.begins, rows.ends - rows.begins)
        chosen = np.flatnonzero((numbers + 1) % self.every.count == 0)
        return between_rows(rows, first[chosen], chosen + 1, numbered=True)

    # ------------------------------------------------------------ streams

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return int(self.range) + delay + lateness

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, 2.0, min(self.every.count, many))

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields of its windows besides start and end, and their types."""
        return ROW_FIELDS
