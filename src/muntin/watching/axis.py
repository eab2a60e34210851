"""Times on a chart's axis: milliseconds since 1970 for dates and timestamps, the numbers themselves for integers."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnTypeError
from muntin.types import Array

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY = 86_400


@dataclass(frozen=True)
class Axis:
    """Converts the times of a column (`ticks`, int64) to places on the x axis, and back."""

    name: str
    is_time: bool
    """Whether places are milliseconds of a calendar; else they are the numbers of the column."""
    ticks_per_second: float

    @classmethod
    def of(cls, kind: pa.DataType, name: str) -> Axis:
        """Return the axis for a type of times.

        >>> Axis.of(pa.timestamp("us"), "ts").places(np.array([1_500]))
        array([1.5])
        """
        if pa.types.is_integer(kind):
            return cls(name, False, 1.0)
        if pa.types.is_timestamp(kind):
            return cls(name, True, float(_PER_SECOND[kind.unit]))
        if pa.types.is_date32(kind):
            return cls(name, True, 1 / _DAY)
        if pa.types.is_date64(kind):
            return cls(name, True, 1_000.0)
        raise ColumnTypeError(
            f"the time column {name!r} holds {kind}; a chart needs timestamps, dates or integers: cast it"
        )

    @property
    def _ticks_per_place(self) -> float:
        return self.ticks_per_second / 1_000 if self.is_time else 1.0

    def ticks(self, column: pa.ChunkedArray | pa.Array) -> Array:
        """Return a column without nulls as integers. O(n)."""
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if pa.types.is_date32(whole.type):
            whole = whole.cast(pa.int32())
        return np.asarray(pc.cast(whole, pa.int64()).to_numpy(zero_copy_only=False), np.int64)

    def places(self, ticks: Array) -> Array:
        """Return the places of times on the axis."""
        return np.asarray(ticks, np.float64) / self._ticks_per_place

    def place(self, tick: int) -> float:
        """Return the place of one time on the axis."""
        return tick / self._ticks_per_place

    def tick(self, place: float) -> int:
        """Return the time at a place, rounded down."""
        return math.floor(place * self._ticks_per_place)

    def seconds(self, ticks: int) -> float | None:
        """Return a length of time in seconds; None if the length of a tick is unknown."""
        return ticks / self.ticks_per_second if self.is_time else None

    def text(self, tick: int) -> str:
        """Return a time as readable text.

        >>> Axis.of(pa.timestamp("ms"), "ts").text(1_500), Axis.of(pa.int64(), "t").text(7)
        ('1970-01-01 00:00:01.500', '7')
        """
        if not self.is_time:
            return str(tick)
        micros = round(self.place(tick) * 1_000)
        try:
            found = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)  # noqa: DTZ001  # UTC
        except OverflowError:
            return str(tick)
        precision = "seconds" if not found.microsecond else "milliseconds"
        return found.isoformat(" ", precision)
