"""Frames: one window per row, between two bounds relative to it, as in SQL's `RANGE` and `ROWS BETWEEN`."""

from __future__ import annotations

from typing import Any, Protocol

from muntin.errors import InvalidArgumentError

CLOSED = ("right", "left", "both", "neither")
"""Which bounds a frame includes, as in pandas and polars."""


class FrameBounds(Protocol):
    """The bounds of frames. Resolved frames only."""

    closed: str
    """Which of its bounds it includes."""

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row, in the unit of the times or in rows."""

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row."""

    @property
    def held(self) -> tuple[int, int]:
        """The bounds as [since, until), relative to its row."""


def closed_word(closed: Any, what: str, known: tuple[str, ...] = CLOSED) -> None:
    """Reject an unknown value of `closed`."""
    if not isinstance(closed, str) or closed not in known:
        raise InvalidArgumentError(f"{what}: closed is {closed!r}; it is one of {', '.join(known)}")


def half_open(low: int, high: int, closed: str) -> tuple[int, int]:
    """Return the integer bounds of a frame as a half-open interval, without the upper one.

    >>> half_open(-10, 0, "right"), half_open(-10, 0, "left"), half_open(-10, 0, "both")
    ((-9, 1), (-10, 0), (-10, 1))
    """
    return low + (closed in ("right", "neither")), high + (closed in ("right", "both"))


def shown_options(closed: str, default: str, **others: Any) -> str:
    """Return the options of a frame as written arguments, without defaults."""
    words = {} if closed == default else {"closed": closed}
    words |= {name: value for name, value in others.items() if value is not None and value != 0}
    return "".join(f", {name}={value!r}" for name, value in words.items())
