"""Windows by rows: the rows of each key are numbered from 0, by event time and among equal times by arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from muntin.errors import InvalidArgumentError
from muntin.types import ColumnType
from muntin.windows.base import ROW_BOUNDS, Context, Measure, Rows, Window


@dataclass(frozen=True, repr=False)
class SlidingRows(Window):
    """Windows of the rows [k * every, k * every + range), for k from 0 on. Made by `tumbling` and `sliding`."""

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.ROWS
    edges_known: ClassVar[bool] = True  # as row numbers; a row out of order moves what they number

    range: Rows
    every: Rows

    def __post_init__(self) -> None:
        """Refuse a step that leaves rows out."""
        if self.every.count > self.range.count:
            raise InvalidArgumentError(
                f"window.sliding: every is {self.every!r}, longer than the range {self.range!r}, so that rows between "
                f"would be in no window; give an every of at most {self.range!r}"
            )

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return `from_row` and `to_row`. O(1)."""
        return dict.fromkeys(ROW_BOUNDS, pa.int64())

    def __repr__(self) -> str:
        """Show it as it is written."""
        if self.range == self.every:
            return f"window.tumbling({self.range!r})"
        return f"window.sliding({self.range!r}, every={self.every!r})"


@dataclass(frozen=True, repr=False)
class TrailingRows(Window):
    """One window for each row: the last `range` rows up to it, or as many as there are. Made by `trailing`."""

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.ROWS
    edges_known: ClassVar[bool] = True
    each_row: ClassVar[bool] = True

    range: Rows

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return `from_row` and `to_row`. O(1)."""
        return dict.fromkeys(ROW_BOUNDS, pa.int64())

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.trailing({self.range!r})"
