"""The base of sliding and cumulative windows: both end at every multiple of a step."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from muntin.durations import in_unit_of
from muntin.types import Array, ColumnType
from muntin.windows.kinds.enumerated import EnumeratedWindow
from muntin.windows.shapes import Density, Periodic


@dataclass(frozen=True, repr=False)
class PeriodicWindow(EnumeratedWindow):
    """Windows that end at each multiple of `every`, plus `offset` and `range`."""

    branch: ClassVar[int]
    """How kernels compute the start of a window from its end."""

    range: Any
    every: Any
    offset: Any = 0

    @property
    @abstractmethod
    def period(self) -> int:
        """The time after which the pattern of windows repeats."""

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; of equivalent offsets, the least from 0 on. O(1)."""
        resolved = type(self)(in_unit_of(self.range, time, "range"), in_unit_of(self.every, time, "every"))
        return type(self)(resolved.range, resolved.every, in_unit_of(self.offset, time, "offset") % resolved.period)

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return self.range, self.every, self.offset

    @property
    def longest(self) -> int:
        """The maximum length of a window."""
        return cast("int", self.range)

    def next_end(self, times: Any) -> Any:
        """Return the first window end after each time. O(1) each."""
        return times + self.every - (times - self.offset - self.range) % self.every

    def last_end(self, times: Any) -> Any:
        """Return the end of the last window that holds each time. O(1) each."""
        return times - (times - self.offset) % self.period + self.range

    def ends(self, first: int, until: int) -> Array:
        """Return all window ends in [first, until], where `first` is one. O(1) each."""
        return np.arange(first, until + 1, self.every, dtype=np.int64)

    def count_ends(self, first: int, until: int) -> int:
        """Return the number of window ends in [first, until], where `first` is one. O(1)."""
        return cast("int", max(0, (until - first) // self.every + 1))

    @property
    def time_shape(self) -> Periodic:
        """Its edges as progressions."""
        return Periodic(self.branch, self.range, self.every, self.offset)

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, -(-self.range // self.every))
