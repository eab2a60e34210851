"""The durations of a query's streams, in the unit of the time column or of the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.durations import fitting, in_unit_of, is_unitless
from muntin.errors import InvalidArgumentError
from muntin.query.query import ProcessingTime, Query
from muntin.types import INT64, ColumnType, column_type
from muntin.windows.lengths import sized

NANOSECONDS = column_type(pa.timestamp("ns"))
_MICROSECONDS = column_type(pa.timestamp("us"))


@dataclass(frozen=True)
class Timing:
    """When a stream's watermark moves, and when results are early.

    The clock counts nanoseconds; if times are integers, whose unit is unknown, it counts in their unit.
    """

    delay: int
    """The delay of the watermark behind the greatest time seen."""
    idle_after: int | None
    """The time without rows after which the watermark follows the clock."""
    early_by_time: int | None
    """The event time between early results."""
    early_by_clock: int | None
    """The clock's time between early results."""
    forget_after: int | None
    """The event time without rows after which a key is forgotten."""
    clock_per_tick: int
    """The clock's ticks per unit of the time column."""

    @classmethod
    def of(cls, query: Query, time: ColumnType) -> Timing:
        """Return the durations of a query; reject those that do not fit the unit of its times. O(1).

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling("1 hour"), {"n": agg.count()}, watermark="10 seconds", emit_early="1 minute")
        >>> timing = Timing.of(query, column_type(pa.timestamp("s")))
        >>> timing.delay, timing.early_by_time, timing.clock_per_tick
        (10, 60, 1000000000)
        """
        by_number = time.family == "integer"
        clock = time if by_number else NANOSECONDS
        early = query.emit_early
        by_clock = isinstance(early, ProcessingTime)
        return cls(
            delay=fitting(in_unit_of(query.watermark, time, "watermark"), query.watermark, "watermark"),
            idle_after=_positive(query.idle_timeout, clock, "idle_timeout"),
            early_by_time=None if by_clock else _positive(early, time, "emit_early"),
            early_by_clock=_positive(early.duration, clock, "emit_early") if by_clock else None,
            forget_after=_positive(query.forget_after, time, "forget_after"),
            clock_per_tick=1 if by_number else in_unit_of(_one(time), NANOSECONDS, "a tick"),
        )


def _positive(duration: object, unit: ColumnType, what: str) -> int | None:
    if duration is None:
        return None
    span = fitting(in_unit_of(duration, unit, what), duration, what)
    if span <= 0:
        raise InvalidArgumentError(f"{what} is {duration!r}; it must be positive")
    return span


def _one(time: ColumnType) -> str:
    assert time.logical is not None
    unit = "day" if pa.types.is_date32(time.logical) else getattr(time.logical, "unit", "ms")
    return f"1 {({'s': 'second', 'ms': 'millisecond', 'us': 'microsecond', 'ns': 'nanosecond'}).get(unit, unit)}"


def likely_time(query: Query) -> ColumnType:
    """Return the type that times are likely to have: integers where no duration has a unit; else timestamps.

    These are as fine as the durations need.
    """
    sizes = [sized(each, "a duration") for each in _durations(query) if _has_unit(each)]
    if not sizes:
        return INT64
    return _MICROSECONDS if all(size % 1000 == 0 for size in sizes) else NANOSECONDS


def _durations(query: Query) -> Iterator[Any]:
    yield from (query.watermark, query.allowed_lateness, query.idle_timeout, query.forget_after)
    early = query.emit_early
    yield early.duration if isinstance(early, ProcessingTime) else early
    for each in query.windows:
        yield from each.durations


def _has_unit(duration: Any) -> bool:
    """Return whether a duration is more than a number, so that times must be more than integers."""
    return duration is not None and not is_unitless(duration)
