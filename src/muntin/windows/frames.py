"""Frames: one window for each row, between two bounds that move with it, as in SQL's `RANGE` and `ROWS BETWEEN`."""

from __future__ import annotations

from typing import Any, Protocol

from muntin.errors import InvalidArgumentError

CLOSED = ("right", "left", "both", "neither")
"""Which bounds of a frame belong to it, as in pandas and polars."""


class FrameBounds(Protocol):
    """What frames tell of their bounds. Resolved frames only."""

    closed: str
    """Which of its bounds belong to it."""

    @property
    def low(self) -> int:
        """Where a frame begins, from its row on: in the unit of the times, or in rows."""

    @property
    def high(self) -> int:
        """Where a frame ends, from its row on."""

    @property
    def held(self) -> tuple[int, int]:
        """The bounds such that what lies in [since, until) from its row on is in it."""


def closed_word(closed: Any, what: str, known: tuple[str, ...] = CLOSED) -> None:
    """Refuse what does not say which bounds belong to a frame."""
    if not isinstance(closed, str) or closed not in known:
        raise InvalidArgumentError(f"{what}: closed is {closed!r}; it is one of {', '.join(known)}")


def half_open(low: int, high: int, closed: str) -> tuple[int, int]:
    """Return the bounds of a frame of integers such that the lower one belongs to it, and the upper one does not.

    >>> half_open(-10, 0, "right"), half_open(-10, 0, "left"), half_open(-10, 0, "both")
    ((-9, 1), (-10, 0), (-10, 1))
    """
    return low + (closed in ("right", "neither")), high + (closed in ("right", "both"))


def shown_options(closed: str, default: str, **others: Any) -> str:
    """Return the options of a frame as arguments are written, without those that say nothing."""
    words = {} if closed == default else {"closed": closed}
    words |= {name: value for name, value in others.items() if value is not None and value != 0}
    return "".join(f", {name}={value!r}" for name, value in words.items())
