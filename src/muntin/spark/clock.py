"""Event time in Spark: timestamps of microseconds in, a watermark of whole milliseconds out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.durations import in_unit_of
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import ColumnType

_DAY = 86_400_000
_EARLIEST = 1 << 45
"""Spark's watermark starts at 0 and is never negative. Integers may be: they are shifted up by this, the year 3084."""


@dataclass(frozen=True)
class Clock:
    """Converts the times of a column (`ticks`) to Spark timestamps, and Spark's watermark back.

    A tick of a timestamp is a microsecond, of a date a day, of integers a millisecond. Spark's watermark is in
    milliseconds, from 1970 on.
    """

    kind: str
    """"timestamp", "date" or "integer"."""
    name: str

    @classmethod
    def of(cls, time: ColumnType, name: str) -> Clock:
        """Return the clock of a time column."""
        logical = time.logical
        if time.family == "integer":
            return cls("integer", name)
        if logical is not None and pa.types.is_timestamp(logical) and logical.unit == "us":
            return cls("timestamp", name)
        if logical is not None and pa.types.is_date32(logical):
            return cls("date", name)
        raise ColumnTypeError(
            f"the time column {name!r} holds {time}; on Spark it is a timestamp, a date or an integer"
        )

    def micros(self, ticks: int) -> int:
        """Return a time as a Spark timestamp.

        >>> Clock("date", "day").micros(1), Clock("timestamp", "ts").micros(5)
        (86400000000, 5)
        """
        if self.kind == "timestamp":
            return ticks
        if self.kind == "date":
            return ticks * _DAY * 1000
        if not -_EARLIEST < ticks < (1 << 53):
            raise InvalidArgumentError(
                f"the time column {self.name!r} holds the integer {ticks}, and Spark's watermark reaches from "
                f"{-_EARLIEST} to {1 << 53}; cast the column to a timestamp"
            )
        return (ticks + _EARLIEST) * 1000

    def ticks(self, watermark: int) -> int | None:
        """Return Spark's watermark, in milliseconds, as a time of the column; None before there is one.

        >>> Clock("timestamp", "ts").ticks(7), Clock("date", "day").ticks(86_400_001), Clock("date", "day").ticks(0)
        (7000, 1, None)
        """
        if watermark <= 0:
            return None
        if self.kind == "timestamp":
            return watermark * 1000
        return watermark // _DAY if self.kind == "date" else watermark - _EARLIEST

    def millis(self, ticks: int) -> int:
        """Return a watermark, given as a time of the column, in Spark's milliseconds.

        >>> clock = Clock("integer", "t")
        >>> clock.ticks(clock.millis(-5))
        -5
        """
        return self.micros(ticks) // 1000

    def delay(self, duration: Any, time: ColumnType) -> str:
        """Return the delay of a watermark as Spark takes it, rounded up to whole milliseconds."""
        return f"{self.delay_in_millis(duration, time)} milliseconds"

    def delay_in_millis(self, duration: Any, time: ColumnType) -> int:
        """Return the delay of a watermark in whole milliseconds."""
        ticks = in_unit_of(duration, time, "watermark")
        return {"timestamp": -(-ticks // 1000), "date": ticks * _DAY, "integer": ticks}[self.kind]
