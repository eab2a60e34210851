"""Frames that trail each row: by time, by rows, and in tiles."""

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

_NAME = "window.trailing"


@dataclass(frozen=True, repr=False)
class Trailing(TimeFrame):
    """One window for each row: (t - range, t], where t is the time of the row less the delay. Created by `trailing`."""

    range: Any
    closed: str = "right"
    delay: Any = 0
    hop: Any = None

    def __post_init__(self) -> None:
        """Reject meaningless durations and bounds."""
        object.__setattr__(self, "range", positive(self.range, f"{_NAME}: range"))
        object.__setattr__(self, "delay", not_negative(self.delay, f"{_NAME}: delay"))
        closed_word(self.closed, _NAME)
        if self.hop is not None:
            object.__setattr__(self, "hop", positive(self.hop, f"{_NAME}: hop"))
            if self.closed not in ("right", "left"):
                raise InvalidArgumentError(
                    f"{_NAME}: closed is {self.closed!r}, and a frame with a hop begins with a multiple of it, which "
                    "always belongs to it; give 'right' or 'left', for its end"
                )

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        hop = None if self.hop is None else in_unit_of(self.hop, time, "hop")
        delay = in_unit_of(self.delay, time, "delay")
        return type(self)(in_unit_of(self.range, time, "range"), self.closed, delay, hop)

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return tuple(each for each in (self.range, self.delay, self.hop) if each is not None)

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row's time."""
        return -int(self.delay) - int(self.range)

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row's time."""
        return -int(self.delay)

    @property
    def tile(self) -> int:
        """The step whose multiples begin frames."""
        return int(self.hop or 0)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({self.range!r}{shown_options(self.closed, 'right', delay=self.delay, hop=self.hop)})"


@dataclass(frozen=True, repr=False)
class TrailingRows(RowFrame):
    """One window for each row: the last `range` rows up to it, or as many as there are. Created by `trailing`."""

    range: Rows
    closed: str = "right"
    delay: Rows | None = None

    def __post_init__(self) -> None:
        """Reject meaningless bounds."""
        closed_word(self.closed, _NAME)

    @property
    def low(self) -> int:
        """The start of a frame, relative to its row."""
        return self.high - self.range.count

    @property
    def high(self) -> int:
        """The end of a frame, relative to its row."""
        return 0 if self.delay is None else -self.delay.count

    def bounds_at(self, before: Array, upto: Array) -> tuple[Array, Array]:
        """Return the frames of points: they end with the last row that is not later, or that is earlier."""
        since, until = self.held
        row = upto - 1 if self.closed in ("right", "both") else before
        return row + since, row + until

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"{_NAME}({self.range!r}{shown_options(self.closed, 'right', delay=self.delay)})"


@word(lengths=("delay", "hop"), plain=("closed",))
def trailing(range: Any, *, closed: str = "right", delay: Any = 0, hop: Any = None) -> Trailing | TrailingRows:
    """Return one window for each row that ends with it: (t - range, t], or the last `range` rows.

    `closed` says which bounds belong to it: "right", "left", "both" or "neither", as in pandas and polars; "left"
    excludes rows with the row's own time. With `delay` it ends that long, or that many rows, before its row. With `hop`
    it begins at the last multiple of the hop at or before t - range: up to one hop longer, so that a stream need not
    keep old rows one by one. Rows of equal time share the window by time, and each has its own result; a window without
    rows has one too.

    >>> from muntin import rows, window
    >>> window.trailing("1 hour"), window.trailing(rows(1000), closed="left")
    (window.trailing('1 hour'), window.trailing(rows(1000), closed='left'))
    >>> window.trailing("30 days", delay="10 minutes", hop="5 minutes")
    window.trailing('30 days', delay='10 minutes', hop='5 minutes')
    """
    if not isinstance(range, Rows):
        return Trailing(range, closed, delay, hop)
    if hop is not None:
        raise InvalidArgumentError(f"{_NAME}: hop is {hop!r} and the range is {range!r}; only durations have a hop")
    if not isinstance(delay, Rows) and delay != 0:
        raise InvalidArgumentError(f"{_NAME}: delay is {delay!r} and the range is {range!r}; give it in rows, too")
    return TrailingRows(range, closed, delay if isinstance(delay, Rows) else None)
