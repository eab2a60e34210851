"""Durations as users write them: Spark's words, short forms, timedeltas, or integers in the unit of the time column.

"10 minutes", "1 hour 30 minutes", "10min", "1h30min", "250ms", "7d", "2w". There is no "1m": polars reads it as a
minute, and pandas' `rolling` as a month. Months and years have no fixed length; `window.calendar` has them.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import InvalidArgumentError
from muntin.types import INT64, ColumnType, column_type

END_OF_TIME = 2**63 - 1
"""The watermark of a stream that is closed: every window is due."""
BEFORE_TIME = -(2**63)
"""The watermark of a stream that has seen no row."""

_FINEST = column_type(pa.timestamp("ns"))
NANOSECONDS = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "week": 604_800_000_000_000,
}
"""How long each unit is."""
_UNITS = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_NUMPY_UNITS = {**_UNITS, "m": "minute", "h": "hour", "D": "day", "W": "week"}
_SHORT = {**_UNITS, "min": "minute", "h": "hour", "d": "day", "w": "week"}
UNIT_OF = _SHORT | {form: unit for unit in NANOSECONDS for form in (unit, f"{unit}s")}
"""The unit that a word means, in lower case: "min", "minute", "minutes"."""
_CALENDAR = {"mo", "month", "months", "q", "quarter", "quarters", "y", "year", "years"}
_UNDERSTOOD = f"the units are {', '.join(f'{unit} ({short})' for short, unit in reversed(_SHORT.items()))}"
_TERM = re.compile(r"\s*([+-]?\d{1,40}(?:\.\d{1,40})?)\s*([a-zA-Z]+)\s*")


def parse_duration(text: str) -> int:
    """Return the nanoseconds of a duration such as "10 minutes", "1 hour 30 minutes" or "1h30min". O(length).

    >>> parse_duration("1 minute 30 seconds") // 10**9, parse_duration("7d") // 10**9
    (90, 604800)
    """
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total, at = 0, 0
    for term in _TERM.finditer(rest):
        if term.start() != at:
            break
        whole, _, fraction = term[1].partition(".")
        scaled = int(whole + fraction) * _nanoseconds(term[2], text)
        if scaled % 10 ** len(fraction):
            raise InvalidArgumentError(f"{text!r} is no whole number of nanoseconds")
        total += scaled // 10 ** len(fraction)
        at = term.end()
    if at != len(rest) or not at:
        raise InvalidArgumentError(f"{text!r} is no duration; write it like '10 minutes', '1h30min' or '7d'")
    return total


def _nanoseconds(unit: str, text: str) -> int:
    word = unit.lower()
    if word in UNIT_OF:
        return NANOSECONDS[UNIT_OF[word]]
    if word == "m":
        raise InvalidArgumentError(f"{text!r}: 'm' may mean minutes or months; write 'min' for minutes")
    if word in _CALENDAR:
        raise InvalidArgumentError(
            f"{text!r}: months and years differ in length; say days, weeks or hours, or use window.calendar"
        )
    raise InvalidArgumentError(f"{text!r}: {unit!r} is no unit; {_UNDERSTOOD}")


def in_unit_of(duration: Any, time: ColumnType, what: str) -> int:
    """Return a duration in the unit of a time column; `what` names it in errors.

    >>> from muntin.types import column_type
    >>> in_unit_of("2 minutes", column_type(pa.timestamp("s")), "range")
    120
    """
    if isinstance(duration, int | np.integer) and not isinstance(duration, bool | np.timedelta64):
        return int(duration)
    nanoseconds = _in_nanoseconds(duration, what)
    if time.family not in ("temporal", "duration"):
        raise InvalidArgumentError(
            f"{what} is {duration!r}, but the times are integers: give it as an integer in their unit"
        )
    unit = NANOSECONDS[_unit(time)]
    if nanoseconds % unit:
        raise InvalidArgumentError(
            f"{what} is {duration!r}, which is no whole number of the times' unit, {_unit(time)}s"
        )
    return nanoseconds // unit


def _in_nanoseconds(duration: Any, what: str) -> int:
    if isinstance(duration, str):
        return parse_duration(duration)
    if isinstance(duration, datetime.timedelta):
        microseconds = duration.days * 86_400_000_000 + duration.seconds * 1_000_000 + duration.microseconds
        return microseconds * 1_000 + int(getattr(duration, "nanoseconds", 0))  # those of pandas
    if isinstance(duration, np.timedelta64) and np.datetime_data(duration.dtype)[0] in _NUMPY_UNITS:
        unit_name, count = np.datetime_data(duration.dtype)
        return int(duration.astype(np.int64)) * count * NANOSECONDS[_NUMPY_UNITS[unit_name]]
    raise InvalidArgumentError(
        f"{what} is {duration!r}; give a duration like '10 minutes' or '7d', a timedelta or an integer"
    )


def spelled(duration: Any) -> Any:
    """Return a duration in the one spelling that equal ones share: an integer as it is, all else in Spark's words.

    >>> spelled("5000ms"), spelled(datetime.timedelta(seconds=90)), spelled("0h"), spelled(90)
    ('5 seconds', '1 minute 30 seconds', '0 seconds', 90)
    """
    if is_unitless(duration):
        return int(duration)
    rest = _in_nanoseconds(duration, "a duration")
    sign, rest, words = "-" if rest < 0 else "", abs(rest), []
    for unit, length in reversed(NANOSECONDS.items()):
        count, rest = divmod(rest, length)
        if count:
            words.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
    return " ".join(words) or "0 seconds"


def fitting(span: int, duration: Any, what: str) -> int:
    """Return a duration in the unit of the times; refuse one that int64 cannot hold.

    >>> fitting(5, "5 seconds", "watermark")
    5
    """
    if not BEFORE_TIME < span <= END_OF_TIME:
        raise InvalidArgumentError(f"{what} is {duration!r}, which is more than int64 can hold")
    return span


def in_any_unit(duration: Any, what: str) -> int:
    """Return a duration whose unit may be unknown as an integer: as it is, or in nanoseconds.

    >>> in_any_unit(5, "range"), in_any_unit("1 microsecond", "range")
    (5, 1000)
    """
    return in_unit_of(duration, INT64 if is_unitless(duration) else _FINEST, what)


def is_unitless(duration: Any) -> bool:
    """Say whether a duration is an integer, in a unit that only the time column tells."""
    return isinstance(duration, int | np.integer) and not isinstance(duration, np.timedelta64)


def _unit(time: ColumnType) -> str:
    assert time.logical is not None
    return "day" if pa.types.is_date32(time.logical) else _UNITS[getattr(time.logical, "unit", "ms")]


def less(watermark: int, span: int) -> int:
    """Return a watermark less a span; the least integer, before all time, stays."""
    return max(BEFORE_TIME, watermark - span)
