"""Frames that lead each row, by time and by rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.types import Array, ColumnType
from muntin.windows.frames import closed_word, shown_options
from muntin.windows.kinds.row_frames import RowFrame
from muntin.windows.kinds.time_frames import TimeFrame
from muntin.windows.lengths import Rows, not_negative, positive
from muntin.windows.words import word

_NAME = "window.leading"


@dataclass(frozen=True, repr=False)
class Leading(TimeFrame):
    """One window for each row: [t, t + range), where t is the time of the row plus the delay. Created by `leading`."""

    range: Any
    closed: str = "left"
    delay: Any = 0

    def __post_init__(self) -> None:
        """Reject meaningless durations and bounds."""
        object.__setattr__(self, "range", positive(self.range, f"{_NAME}: range"))
        object.__setattr__(self, "delay", not_negative(self.delay, f"{_NAME}: delay"))
        closed_word(self.closed, _NAME)

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.range, time, "range"), self.closed, in_unit_of(self.delay, time, "delay"))

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return self.range, self.delay

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row's time."""
        return int(self.delay)

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row's time."""
        return int(self.delay) + int(self.range)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({self.range!r}{shown_options(self.closed, 'left', delay=self.delay)})"


@dataclass(frozen=True, repr=False)
class LeadingRows(RowFrame):
    """One window for each row: the next `range` rows from it on, or as many as there are. Created by `leading`."""

    range: Rows
    closed: str = "left"
    delay: Rows | None = None

    def __post_init__(self) -> None:
        """Reject meaningless bounds."""
        closed_word(self.closed, _NAME)

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row."""
        return 0 if self.delay is None else self.delay.count

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row."""
        return self.low + self.range.count

    def bounds_at(self, before: Array, upto: Array) -> tuple[Array, Array]:
        """Return the frames of points: they begin with the first row that is not earlier, or that is later."""
        since, until = self.held
        row = before if self.closed in ("left", "both") else upto - 1
        return row + since, row + until

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({self.range!r}{shown_options(self.closed, 'left', delay=self.delay)})"


@word(lengths=("delay",), plain=("closed",))
def leading(range: Any, *, closed: str = "left", delay: Any = 0) -> Leading | LeadingRows:
    """Return one window for each row that begins with it: [t, t + range), or the next `range` rows.

    `closed` says which bounds belong to it: "left", "right", "both" or "neither"; "right" excludes rows with the row's
    own time. With `delay` it begins that long, or that many rows, after its row. A stream emits it when the watermark
    has reached its end.

    >>> from muntin import rows, window
    >>> window.leading("1 hour"), window.leading(rows(10), closed="right")
    (window.leading('1 hour'), window.leading(rows(10), closed='right'))
    """
    if not isinstance(range, Rows):
        return Leading(range, closed, delay)
    if not isinstance(delay, Rows) and delay != 0:
        raise InvalidArgumentError(f"{_NAME}: delay is {delay!r} and the range is {range!r}; give it in rows, too")
    return LeadingRows(range, closed, delay if isinstance(delay, Rows) else None)
