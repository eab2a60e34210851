"""Cumulative windows, which grow step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from muntin.types import Array
from muntin.windows.found import Found, SortedRows, filled, finding
from muntin.windows.kinds.periodic import PeriodicWindow
from muntin.windows.lengths import any_sign, positive, shown_offset, steps_fit
from muntin.windows.limits import may_be_many, require_few, spanned
from muntin.windows.shapes import CUMULATIVE
from muntin.windows.words import word


@dataclass(frozen=True, repr=False)
class Cumulative(PeriodicWindow):
    """Windows that grow by `every` until they are `range` long, and then start over. Created by `cumulative`."""

    branch: ClassVar[int] = CUMULATIVE

    def __post_init__(self) -> None:
        """Reject meaningless durations."""
        object.__setattr__(self, "range", positive(self.range, "window.cumulative: range"))
        object.__setattr__(self, "every", positive(self.every, "window.cumulative: every"))
        object.__setattr__(self, "offset", any_sign(self.offset, "window.cumulative: offset"))
        steps_fit(self.range, self.every, "window.cumulative", whole=True)

    @property
    def period(self) -> int:
        """The time after which the pattern of windows repeats."""
        return cast("int", self.range)

    def start_of(self, end: Any) -> Any:
        """Return the starts of the windows with these ends. O(1) each."""
        return end - 1 - (end - 1 - self.offset) % self.range

    def next_edge(self, t: int) -> int:
        """Return the first time after t at which a window begins or ends. Resolved windows only. O(1)."""
        return cast("int", self.next_end(t))

    def with_rows(self, rows: SortedRows) -> Found:
        """Return the windows that hold a row. O(n + windows)."""
        shape = (self.range, self.every, self.offset)
        most = len(rows.times) * (self.range // self.every)
        if may_be_many(most) and may_be_many(spanned(rows.times, rows.begins, rows.ends, self.range, self.every)):
            require_few(self, self._opened(rows), rows.times, rows.arrival)
        first, last, start, end = filled(finding().growing_windows, (rows.times, rows.ends, *shape), 4)
        return Found(first, last, start, end)

    def _opened(self, rows: SortedRows) -> Array:
        """Return for each row the number of windows that hold it and no earlier row: for a period's first row, all."""
        period = (rows.times - self.offset) // self.range
        is_new = rows.is_first
        is_new[1:] |= period[1:] != period[:-1]
        return np.where(is_new, (self.range - (rows.times - self.offset) % self.range - 1) // self.every + 1, 0)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.cumulative({self.range!r}, every={self.every!r}{shown_offset(self.offset)})"


@word(lengths=("every", "offset"), required={"every": "1 minute"})
def cumulative(range: Any, *, every: Any, offset: Any = 0) -> Cumulative:
    """Return growing windows: for "1 day" every "1 hour", [0 h, 1 h), [0 h, 2 h), ... [0 h, 24 h), [24 h, 25 h), ...

    >>> from muntin import window
    >>> window.cumulative("1 day", every="1 hour")
    window.cumulative('1 day', every='1 hour')
    """
    return Cumulative(range, every, offset)
