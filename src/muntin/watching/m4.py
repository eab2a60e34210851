"""M4: the first, last, lowest and highest row of each pixel column, which draw the same line as all rows.

All rows of a column share its x, so the line between the first and the last of them is one vertical stroke from the
lowest to the highest; the lines to the adjacent columns begin at the last and end at the first. So a line of any number
of rows needs only those four values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from muntin.errors import InvalidArgumentError
from muntin.types import Array

Point = tuple[int, float]
"""A time and a value."""


def pixel_edges(lo: int, hi: int, width: int) -> Array:
    """Return the least time of each of `width` pixel columns over [lo, hi), and `hi`: width + 1 integers.

    Column c holds the times t with floor((t - lo) * width / (hi - lo)) = c.

    >>> pixel_edges(0, 10, 4).tolist()
    [0, 3, 5, 8, 10]
    """
    if hi <= lo or width < 1:
        raise InvalidArgumentError(f"there are no pixels in times [{lo}, {hi}) of {width} columns")
    quotient, rest = divmod(int(hi) - int(lo), width)
    columns = np.arange(width + 1)
    return int(lo) + quotient * columns - (-rest * columns) // width  # in two parts, so that no product overflows


@dataclass(frozen=True)
class Frame:
    """What a chart of `width` pixels shows of the times [lo, hi): an entry per column with rows."""

    lo: int
    hi: int
    width: int
    columns: Array
    counts: Array
    """The number of rows of each column."""
    first_time: Array
    first: Array
    last_time: Array
    last: Array
    low: Array
    high: Array
    before: Point | None = None
    """The last row before `lo`, from which the line comes."""
    after: Point | None = None
    """The first row from `hi` on, to which it leads."""

    @classmethod
    def empty(cls, lo: int, hi: int, width: int) -> Self:
        """Return a frame without rows."""
        ints, floats = np.empty(0, np.int64), np.empty(0, np.float64)
        return cls(lo, hi, width, ints, ints, ints, floats, ints, floats, floats, floats)

    def merged(self, newer: Frame) -> Frame:
        """Return the frame of the rows of both; rows of this one precede those of equal time. O(width)."""
        if not len(self.columns) and self.before is None and self.after is None:
            return newer
        columns = np.union1d(self.columns, newer.columns)
        mine, theirs = self._spread(columns), newer._spread(columns)
        begins = theirs.first_time < mine.first_time
        ends = theirs.last_time >= mine.last_time
        return Frame(
            self.lo,
            self.hi,
            self.width,
            columns=columns,
            counts=mine.counts + theirs.counts,
            first_time=np.where(begins, theirs.first_time, mine.first_time),
            first=np.where(begins, theirs.first, mine.first),
            last_time=np.where(ends, theirs.last_time, mine.last_time),
            last=np.where(ends, theirs.last, mine.last),
            low=np.minimum(mine.low, theirs.low),
            high=np.maximum(mine.high, theirs.high),
            before=_later(self.before, newer.before),
            after=_earlier(self.after, newer.after),
        )

    def _spread(self, columns: Array) -> Frame:
        """Return the entries for a superset of the columns; missing ones get neutral entries."""
        at = np.searchsorted(columns, self.columns)

        def spread(values: Array, missing: float) -> Array:
            out = np.full(len(columns), missing, values.dtype)
            out[at] = values
            return out

        end = np.iinfo(np.int64)
        return Frame(
            self.lo,
            self.hi,
            self.width,
            columns=columns,
            counts=spread(self.counts, 0),
            first_time=spread(self.first_time, end.max),
            first=spread(self.first, np.nan),
            last_time=spread(self.last_time, end.min),
            last=spread(self.last, np.nan),
            low=spread(self.low, np.inf),
            high=spread(self.high, -np.inf),
        )

    # ------------------------------------------------------------ drawing

    def line(self) -> tuple[Array, Array]:
        """Return the x (in pixels from the left; the middle of a column is a half) and y of the line to draw.

        Four points per column, and one before and one after, at their true distance. O(width).
        """
        x = np.repeat(self.columns + 0.5, 4)
        y = np.stack([self.first, self.low, self.high, self.last], axis=1).reshape(-1)
        scale = self.width / (self.hi - self.lo)
        before = [((self.before[0] - self.lo) * scale, self.before[1])] if self.before else []
        after = [((self.after[0] - self.lo) * scale, self.after[1])] if self.after else []
        left, right = (np.array(points, np.float64).reshape(-1, 2) for points in (before, after))
        return np.concatenate([left[:, 0], x, right[:, 0]]), np.concatenate([left[:, 1], y, right[:, 1]])


def _later(older: Point | None, newer: Point | None) -> Point | None:
    """Return the later of two rows; of equal times the one that arrived later."""
    if older is None or newer is None:
        return older or newer
    return newer if newer[0] >= older[0] else older


def _earlier(older: Point | None, newer: Point | None) -> Point | None:
    """Return the earlier of two rows; of equal times the one that arrived earlier."""
    if older is None or newer is None:
        return older or newer
    return newer if newer[0] < older[0] else older


def thinned(x: Array, y: Array, lo: float, hi: float, width: int) -> Array:
    """Return the points of a line needed to draw it: those that M4 keeps of each pixel column. O(n log n).

    For points that change, such as revised windows, and are few enough to sort.

    >>> x, y = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 1.5]), np.array([5.0, 9.0, 6.0, 1.0, 4.0, 2.0])
    >>> thinned(x, y, 0.0, 2.0, width=2).tolist()
    [0, 1, 3, 4, 5]
    """
    columns = np.clip(np.floor((x - lo) * (width / (hi - lo))), -1, width)
    by_time, by_value = np.argsort(columns, kind="stable"), np.lexsort((y, columns))
    return np.unique(np.concatenate([_firsts_and_lasts(columns, order) for order in (by_time, by_value)]))


def _firsts_and_lasts(columns: Array, order: Array) -> Array:
    """Return the first and the last point of each column, in an order by columns."""
    changes = columns[order[1:]] != columns[order[:-1]]
    edge = np.ones(1, np.bool_)
    begins, ends = np.concatenate([edge, changes]), np.concatenate([changes, edge])
    found: Array = order[(begins | ends)[: len(order)]]
    return found
