"""The base of windows by rows. The rows of each key are numbered from 0, by event time and then by arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from muntin.types import Array, ColumnType
from muntin.windows.base import ROW_BOUNDS, Context, Measure, Window
from muntin.windows.buffered import BufferedWindows, ByKey, Terms, Windows, begins_of
from muntin.windows.held_rows import HeldRows
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


class BufferedRowNumbers(BufferedWindows):
    """Windows that number the rows of a key, over kept rows: evicted rows count too."""

    def __init__(self, definition: Any, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.gone = ByKey()
        """The number of evicted rows of each key."""

    def dropped(self, keys: Array, counts: Array) -> None:
        self.gone[keys] = self.gone[keys] + counts

    def forget_keys(self, keys: Array) -> None:
        self.gone.unset(keys)

    def held_keys(self) -> Array:
        return self.gone.keys()

    def save(self) -> dict[str, Array]:
        return {"gone": self.gone.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        self.gone.values = state["gone"].copy()


class BufferedFixedNumbers(BufferedRowNumbers):
    """Windows of fixed row numbers. A late row shifts others, but never those of final windows."""

    unit = 1
    """The rows from one window to the next."""

    def __init__(self, definition: Any, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.done = ByKey()
        """The number of final windows of each key."""

    def finalize(self, windows: Windows, final: Array, watermark: int) -> None:
        if final.any():
            key = windows.key[final]
            most = self.done[key]
            np.maximum.at(self.done.values, key, np.maximum(most, windows.name[0][final] // self.unit + 1))

    def save(self) -> dict[str, Array]:
        return {**super().save(), "done": self.done.values.copy()}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.done.values = state["done"].copy()

    def forget_keys(self, keys: Array) -> None:
        super().forget_keys(keys)
        self.done.unset(keys)

    def held_keys(self) -> Array:
        return np.union1d(super().held_keys(), self.done.keys())


def from_row(number: Array, rows: HeldRows) -> Array:
    """Return the place of a row of each key, by its number among the kept ones."""
    begins = begins_of(rows)
    places: Array = begins + np.clip(number, 0, rows.ends - begins)
    return places
