"""Dates and timestamps that stand in an expression, in the forms that Spark's SQL reads."""

from __future__ import annotations

import datetime
import re

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_DATE = r"(\d{4})-(\d{1,2})(?:-(\d{1,2}))?"
_TIME = r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d{0,3})?)?"
_ZONE = r"\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?"
_WHOLE_DATE = re.compile(rf"{_DATE}(?:[ T].*)?", re.DOTALL)
_INSTANT = re.compile(rf"{_DATE}(?:[ T]{_TIME}{_ZONE})?")


def date_of(text: str) -> int | None:
    """Return a date as days since 1970; None if the text is none.

    >>> date_of("1970-01-03"), date_of("1969-12-31 23:59"), date_of("2024-02-30"), date_of("soon")
    (2, -1, None, None)
    """
    found = _WHOLE_DATE.fullmatch(text.strip())
    return None if found is None else _days(found)


def instant_of(text: str, *, zoned: bool = True) -> int | None:
    """Return a timestamp as microseconds since 1970 in UTC; None if the text is none, or has a zone and must not.

    >>> instant_of("1970-01-01 00:00:01.5"), instant_of("1970-01-01T01:00:00+01:00"), instant_of("1969-12-31")
    (1500000, 0, -86400000000)
    """
    found = _INSTANT.fullmatch(text.strip())
    if found is None or (found[8] is not None and not zoned):
        return None
    days = _days(found)
    hour, minute, second = (int(each or 0) for each in found.groups()[3:6])
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    micros = int((found[7] or "").ljust(6, "0"))
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - _offset(found[8])
    return seconds * 1_000_000 + micros


def _days(found: re.Match[str]) -> int | None:
    try:
        return datetime.date(int(found[1]), int(found[2]), int(found[3] or 1)).toordinal() - _EPOCH
    except ValueError:
        return None


def _offset(zone: str | None) -> int:
    """Return the seconds by which a zone is ahead of UTC."""
    if zone in (None, "Z", "UTC"):
        return 0
    assert zone is not None
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits, "0") if len(digits) <= 2 else (digits[:-2], digits[-2:])
    return (1 if zone[0] == "+" else -1) * (int(hours) * 3600 + int(minutes) * 60)
