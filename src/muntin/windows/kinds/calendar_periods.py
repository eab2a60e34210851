"""Calendar windows: days, weeks, months, quarters and years by the wall clock of a time zone.

A window begins with the first moment of a local day: if clocks skip midnight, the moment after the change; if midnight
comes twice, the first of both. Periods are numbered, and `zoneinfo` finds the first moments of those that the times
span.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from muntin.durations import END_OF_TIME, in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.types import Array, ColumnType
from muntin.windows.found import Found, SortedRows
from muntin.windows.kinds.enumerated import EnumeratedWindow
from muntin.windows.shapes import Density

_PERIOD = re.compile(r"\s*(?:(\d+)\s*)?(?:(day|week|month|quarter|year)s?|(d|w|mo|q|y))\s*", re.IGNORECASE)
_SHORT = {"d": "day", "w": "week", "mo": "month", "q": "quarter", "y": "year"}
_DAYS = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}
"""The maximum days of each."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_EPOCH = datetime.date(1970, 1, 1)
_MONDAY = -3
"""The Monday of the week of the epoch, as days since the epoch."""
_FIRST, _LAST = datetime.date(2, 1, 1), datetime.date(9998, 12, 31)
"""The range of days for times. Calendars have a year more, so that windows have room to begin and end."""
_BEFORE, _AFTER = datetime.date(1, 1, 2), datetime.date(9999, 12, 30)
"""The bounds of windows that would exceed the calendar."""
_DAWN = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, repr=False)
class Calendar(EnumeratedWindow):
    """Windows from the first moment of a period to that of the next, by a zone's wall clock. Created by `calendar`."""

    period: str
    zone: str = "UTC"
    ticks: int = field(default=0, compare=True)
    """Once resolved: the ticks per second, or negative, the seconds per tick; 0 before."""

    def __post_init__(self) -> None:
        """Reject an invalid period or zone."""
        _parsed(self.period)
        if not isinstance(self.zone, str):
            raise _no_zone(self.zone)
        _zone(self.zone)

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; reject integers, whose unit is unknown. O(1)."""
        if time.family != "temporal":
            raise InvalidArgumentError(
                f"{self!r} needs times of a known unit, and the times are {time}; give timestamps or dates"
            )
        if pa.types.is_date(time.logical):  # a date is already a day of the wall clock, whatever the zone
            ticks = -86_400 if pa.types.is_date32(time.logical) else 1_000
            return type(self)(self.period, "UTC", ticks)
        return type(self)(self.period, self.zone, in_unit_of("1 second", time, "a second"))

    @property
    def durations(self) -> tuple[Any, ...]:
        """A day, as a sign that times must have a unit."""
        return ("1 day",)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        zone = "" if self.zone == "UTC" else f", zone={self.zone!r}"
        return f"window.calendar({self.period!r}{zone})"

    # ------------------------------------------------------------ edges

    @property
    def longest(self) -> int:
        """The maximum length of a window: its days, and one more for clocks put back."""
        count, unit = _parsed(self.period)
        return self._in_ticks((count * _DAYS[unit] + 1) * 86_400)

    def next_edge(self, t: int) -> int | None:
        """Return the first time after t at which a window begins or ends. Resolved windows only. O(1), amortised.

        >>> import pyarrow as pa
        >>> from muntin import window
        >>> from muntin.types import column_type
        >>> days = window.calendar("1 day", zone="Europe/Berlin").resolve(column_type(pa.timestamp("s")))
        >>> spring = 1_711_839_600  # 2024-03-31 00:00, a day of 23 hours
        >>> (days.next_edge(spring) - spring) / 3600
        23.0
        """
        return None if self._days(t) > (_LAST - _EPOCH).days else int(self.next_end(t))

    def next_end(self, times: Any) -> Any:
        """Return the first window end after each time. O(log n) each."""
        if not np.size(times):
            return times
        edges = self._around(int(np.min(times)), int(np.max(times)))
        return edges[np.searchsorted(edges, times, "right")]

    def last_end(self, times: Any) -> Any:
        """Return the end of the window that holds each time. O(log n)."""
        return self.next_end(times)

    def ends(self, first: int, until: int) -> Array:
        """Return all window ends in [first, until]. O(log n), plus O(1) each."""
        edges = self._around(first, max(first, until))
        return edges[np.searchsorted(edges, first) : np.searchsorted(edges, until, "right")]

    def start_of(self, end: Any) -> Any:
        """Return the starts of the windows with these ends. O(log n)."""
        if not np.size(end):
            return end
        edges = self._around(int(np.min(end)) - 1, int(np.max(end)))
        return edges[np.searchsorted(edges, end) - 1]

    def _around(self, low: int, high: int) -> Array:
        """Return the edges from the last one at or before `low` to the first after `high`, and some more."""
        count, unit = _parsed(self.period)
        first, last = (_number(self._day(each), count, unit) for each in (low, high))
        edges = _edges(self.zone, count, unit, first - 1, last + 2)
        if self.ticks < 0:
            return edges // -self.ticks
        most = END_OF_TIME // self.ticks  # nanoseconds end in 2262
        return np.clip(edges, -most, most) * self.ticks

    def _day(self, time: int) -> datetime.date:
        """Return a day at most one off the local day of a time, whatever the zone."""
        days = self._days(time)
        if not (_FIRST - _EPOCH).days <= days <= (_LAST - _EPOCH).days:
            raise InvalidArgumentError(f"{self!r}: the time {time} is outside the years 2 to 9998, which it can tell")
        return _EPOCH + datetime.timedelta(days)

    def _days(self, time: int) -> int:
        seconds = time // self.ticks if self.ticks > 0 else time * -self.ticks
        return seconds // 86_400

    def _in_ticks(self, seconds: int) -> int:
        return seconds * self.ticks if self.ticks > 0 else seconds // -self.ticks

    # ------------------------------------------------------------ finite tables

    def with_rows(self, rows: SortedRows) -> Found:
        """Return the windows that hold a row. O(n log n) in the number of edges."""
        if not len(rows.times):
            return Found(*4 * (rows.times,))
        edges = self._around(int(rows.times.min()), int(rows.times.max()))
        place = np.searchsorted(edges, rows.times, "right")
        keys = rows.keys
        first = np.flatnonzero(np.diff(place, prepend=-1) | np.diff(keys, prepend=-1))
        last = np.append(first[1:], len(place))
        return Found(first, last, edges[place[first] - 1], edges[place[first]], keys=keys[first])

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows: they do not overlap."""
        return Density(many, 1.0)


def _parsed(period: Any) -> tuple[int, str]:
    """Return the count and unit of a period."""
    found = _PERIOD.fullmatch(period) if isinstance(period, str) else None
    if found is None or (found[1] is not None and int(found[1]) < 1):
        raise InvalidArgumentError(
            f"window.calendar: the period is {period!r}; give a number of days, weeks, months, quarters or years, such "
            "as '1 month', '1mo' or '2w'"
        )
    return int(found[1] or 1), found[2].lower() if found[2] else _SHORT[found[3].lower()]


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise _no_zone(name) from error


def _no_zone(zone: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"window.calendar: there is no zone {zone!r}; give a name like 'Europe/Berlin' (on a machine without time "
        f"zones, pip install tzdata brings them)"
    )


# ---------------------------------------------------------------- counting periods


def _number(day: datetime.date, count: int, unit: str) -> int:
    """Return the number of the period of a day."""
    if unit in _MONTHS:
        return (day.year * 12 + day.month - 1) // (count * _MONTHS[unit])
    days = (day - _EPOCH).days
    return days // count if unit == "day" else (days - _MONDAY) // (7 * count)


def _first_day(number: int, count: int, unit: str) -> datetime.date:
    """Return the first day of a period, or the last day of the calendar on that side."""
    if unit in _MONTHS:
        year, month = divmod(number * count * _MONTHS[unit], 12)
        return datetime.date(year, month + 1, 1) if 1 < year <= 9999 else _BEFORE if year <= 1 else _AFTER
    days = number * count if unit == "day" else number * 7 * count + _MONDAY
    return _EPOCH + datetime.timedelta(min(max(days, (_BEFORE - _EPOCH).days), (_AFTER - _EPOCH).days))


@lru_cache(256)
def _edges(zone: str, count: int, unit: str, first: int, last: int) -> Array:
    """Return the first moments of some periods in seconds, without duplicates: a whole day may have been skipped."""
    days = (_first_day(number, count, unit) for number in range(first, last + 1))
    return np.unique(np.array([_first_moment(day, zone) for day in days], np.int64))


@lru_cache(1 << 14)
def _first_moment(day: datetime.date, name: str) -> int:
    """Return the first second of a local day."""
    zone = _zone(name)
    midnight = datetime.datetime.combine(day, datetime.time(), zone)
    moment = _moment(midnight)
    if _local(moment, zone) == midnight.replace(tzinfo=None):
        return moment
    # Clocks skip midnight: by the offset after the change it would fall before the change, by the earlier one after.
    before, after = _moment(midnight.replace(fold=1)), moment
    offset = _offset(after, zone)
    while after - before > 1:
        middle = (before + after) // 2
        before, after = (before, middle) if _offset(middle, zone) == offset else (middle, after)
    return after


def _moment(local: datetime.datetime) -> int:
    """Return the seconds since the epoch of a local time."""
    return int((local - _DAWN).total_seconds())


def _local(moment: int, zone: ZoneInfo) -> datetime.datetime:
    """Return the local time of a moment in the zone."""
    return (_DAWN + datetime.timedelta(seconds=moment)).astimezone(zone).replace(tzinfo=None)


def _offset(moment: int, zone: ZoneInfo) -> datetime.timedelta | None:
    return (_DAWN + datetime.timedelta(seconds=moment)).astimezone(zone).utcoffset()
