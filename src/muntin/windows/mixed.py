"""Windows of two measures: they end by time and hold a number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from muntin.durations import in_unit_of
from muntin.types import ColumnType
from muntin.windows.base import ROW_BOUNDS, Context, Measure, Rows, Window, any_sign, positive


@dataclass(frozen=True, repr=False)
class RowsEvery(Window):
    """The last `range` rows before each multiple of `every`, plus `offset`. Made by `sliding`.

    A multiple that no row has come for since the one before gives no new window. In the first windows there may be
    fewer rows.
    """

    context: ClassVar[Context] = Context.FORWARD_AWARE  # which row begins a window is known when it ends
    measure: ClassVar[Measure] = Measure.MULTI

    range: Rows
    every: Any
    offset: Any = 0

    def __post_init__(self) -> None:
        """Refuse a duration that means nothing."""
        object.__setattr__(self, "every", positive(self.every, "window.sliding: every"))
        object.__setattr__(self, "offset", any_sign(self.offset, "window.sliding: offset"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; of the offsets that mean the same, the least from 0 on. O(1)."""
        every = in_unit_of(self.every, time, "every")
        return type(self)(self.range, every, in_unit_of(self.offset, time, "offset") % every)

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return `from_row` and `to_row`. O(1)."""
        return dict.fromkeys(ROW_BOUNDS, pa.int64())

    def __repr__(self) -> str:
        """Show it as it is written."""
        offset = "" if self.offset == 0 else f", offset={self.offset!r}"
        return f"window.sliding({self.range!r}, every={self.every!r}{offset})"
