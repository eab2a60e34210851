"""Frames around each row, by time and by rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.types import Array, ColumnType
from muntin.windows.frames import closed_word, shown_options
from muntin.windows.kinds.row_frames import RowFrame
from muntin.windows.kinds.time_frames import TimeFrame
from muntin.windows.lengths import Rows, not_negative
from muntin.windows.words import word

_NAME = "window.frame"


@dataclass(frozen=True, repr=False)
class Frame(TimeFrame):
    """One window for each row: [t - before, t + after], where t is the time of the row. Created by `frame`."""

    before: Any
    after: Any
    closed: str = "both"

    def __post_init__(self) -> None:
        """Reject meaningless durations and bounds."""
        object.__setattr__(self, "before", not_negative(self.before, f"{_NAME}: before"))
        object.__setattr__(self, "after", not_negative(self.after, f"{_NAME}: after"))
        closed_word(self.closed, _NAME)

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.before, time, "before"), in_unit_of(self.after, time, "after"), self.closed)

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return self.before, self.after

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row's time."""
        return -int(self.before)

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row's time."""
        return int(self.after)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({self.before!r}, {self.after!r}{shown_options(self.closed, 'both')})"


@dataclass(frozen=True, repr=False)
class FrameOfRows(RowFrame):
    """One window for each row: `before` rows before it, itself, and `after` rows after it. Created by `frame`."""

    before: Rows | None
    after: Rows | None
    closed: str = "both"

    def __post_init__(self) -> None:
        """Reject meaningless bounds."""
        closed_word(self.closed, _NAME)

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row."""
        return 0 if self.before is None else -self.before.count

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row."""
        return 0 if self.after is None else self.after.count

    def bounds_at(self, before: Array, upto: Array) -> tuple[Array, Array]:
        """Return the frames of points: `before` rows, all rows of its time, and `after` rows."""
        since, until = self.held
        return before + since, upto + until - 1

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        before, after = self.before or 0, self.after or 0
        return f"{_NAME}({before!r}, {after!r}{shown_options(self.closed, 'both')})"


@word(lengths=("after",), plain=("closed",), required={"after": "30 minutes"})
def frame(before: Any, after: Any, *, closed: str = "both") -> Frame | FrameOfRows:
    """Return one window for each row, around it: [t - before, t + after], or that many rows before and after it.

    Either may be 0. `closed` says which bounds belong to it: "both", "left", "right" or "neither". A stream emits it
    when the watermark has reached its end.

    >>> from muntin import rows, window
    >>> window.frame("30 minutes", "30 minutes"), window.frame(rows(2), rows(2))
    (window.frame('30 minutes', '30 minutes'), window.frame(rows(2), rows(2)))
    """
    if not isinstance(before, Rows) and not isinstance(after, Rows):
        return Frame(before, after, closed)
    return FrameOfRows(_in_rows(before, "before"), _in_rows(after, "after"), closed)


def _in_rows(bound: Any, name: str) -> Rows | None:
    if isinstance(bound, Rows):
        return bound
    if bound != 0:
        raise InvalidArgumentError(f"{_NAME}: {name} is {bound!r}, and the other bound is in rows; give both in rows")
    return None
