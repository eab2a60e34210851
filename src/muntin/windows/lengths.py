"""Lengths of windows as users write them: durations or numbers of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.durations import fitting, in_any_unit, is_unitless
from muntin.errors import InvalidArgumentError
from muntin.types import is_whole

MOST_ROWS = 1 << 60
"""This many, and a few more, fit into the integers of kernels."""


@dataclass(frozen=True)
class Rows:
    """A length in rows, in place of a duration. Created by `rows`."""

    count: int

    def __post_init__(self) -> None:
        """Reject what is not a number of rows."""
        if not is_whole(self.count):
            raise InvalidArgumentError(f"rows({self.count!r}): give a positive integer")
        if self.count < 1:
            raise InvalidArgumentError(f"rows({self.count!r}): a window needs at least one row")
        if self.count > MOST_ROWS:
            raise InvalidArgumentError(f"rows({self.count!r}): no window has more than {MOST_ROWS} rows")
        object.__setattr__(self, "count", int(self.count))

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"rows({self.count})"


def rows(n: int) -> Rows:
    """Return a length of n rows, for windows that count.

    >>> from muntin import rows, window
    >>> window.tumbling(rows(100))
    window.tumbling(rows(100))
    """
    return Rows(n)


def sized(value: Any, what: str) -> int:
    """Return a duration of possibly unknown unit as an integer: unchanged, or in nanoseconds.

    >>> sized(5, "range"), sized("1 microsecond", "range")
    (5, 1000)
    """
    if isinstance(value, Rows):
        raise InvalidArgumentError(
            f"{what} is {value!r}; give a duration like '10 minutes' or '7d', a timedelta or an integer"
        )
    span = in_any_unit(value, what)
    return fitting(span, value, what) if is_unitless(value) else span


def positive(value: Any, what: str) -> Any:
    """Return a duration as written; reject one that is not positive.

    >>> positive("10 minutes", "range")
    '10 minutes'
    """
    if sized(value, what) <= 0:
        raise InvalidArgumentError(f"{what} is {value!r}; it must be positive")
    return int(value) if is_unitless(value) else value


def not_negative(value: Any, what: str) -> Any:
    """Return a duration as written; reject a negative one.

    >>> not_negative(0, "delay")
    0
    """
    if sized(value, what) < 0:
        raise InvalidArgumentError(f"{what} is {value!r}; it must not be negative")
    return int(value) if is_unitless(value) else value


def any_sign(value: Any, what: str) -> Any:
    """Return a duration as written; reject what is not one."""
    sized(value, what)
    return int(value) if is_unitless(value) else value


def steps_fit(range: Any, every: Any, what: str, *, whole: bool = False) -> None:
    """Reject a step longer than the range, or with `whole` one that does not divide it, once both units are known."""
    if is_unitless(range) != is_unitless(every):
        return
    length, step = sized(range, f"{what}: range"), sized(every, f"{what}: every")
    if step > length:
        raise InvalidArgumentError(
            f"{what}: every is {every!r}, longer than the range {range!r}, so that rows between would be in no window; "
            f"give an every of at most {range!r}"
        )
    if whole and length % step:
        raise InvalidArgumentError(f"{what}: every is {every!r}; give one that divides the range, {range!r}")


def shown_offset(offset: Any) -> str:
    """Return an offset as a written argument; an empty string if there is none."""
    return "" if offset == 0 else f", offset={offset!r}"
