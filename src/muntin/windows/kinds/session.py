"""Session windows, which last as long as rows follow each other within the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np

from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.types import Array, ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Cut, Found, SortedRows, filled, finding
from muntin.windows.kinds.session_by_column import SessionByColumn
from muntin.windows.lengths import positive
from muntin.windows.shapes import Gap, Lookback
from muntin.windows.words import word


@dataclass(frozen=True, repr=False)
class Session(Window):
    """Windows [first row, last row + gap), like Spark's `session_window`. Created by `session`.

    A row at the very end of a session, a whole gap after its last row, still belongs to it and extends it.
    """

    context: ClassVar[Context] = Context.FORWARD_FREE
    measure: ClassVar[Measure] = Measure.TIME
    splits: ClassVar[bool] = False  # a row can only extend or merge sessions
    ties_matter: ClassVar[bool] = False
    cuttable: ClassVar[bool] = True

    gap: Any

    def __post_init__(self) -> None:
        """Reject a meaningless duration."""
        object.__setattr__(self, "gap", positive(self.gap, "window.session: gap"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.gap, time, "gap"))

    @property
    def durations(self) -> tuple[Any, ...]:
        """The durations as they were written."""
        return (self.gap,)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.session({self.gap!r})"

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return 2 * cast("int", self.gap)

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all sessions. O(n)."""
        first, last = filled(finding().session_windows, (rows.times, rows.ends, self.gap), 2)
        return Found(first, last, rows.times[first], rows.times[last - 1] + self.gap)

    def first_needed(self, rows: SortedRows, cut: Cut) -> int:
        """Return the first of one key's rows that sessions not final at the cut may hold. O(n)."""
        found = self.find(rows)
        open_ones = np.flatnonzero(found.end >= cut.time)
        return int(found.first[open_ones[0]]) if len(open_ones) else len(rows.times)

    def final(self, found: Found, rows: SortedRows, cut: Cut) -> Array:
        """Return which sessions hold no row from the cut on: a row at their very end would be in them. O(windows)."""
        return np.asarray(found.end < cut.time)

    @property
    def lookback(self) -> Lookback:
        """A session reaches back to the last silence longer than its gap."""
        return Lookback(gap=self.gap)

    # ------------------------------------------------------------ streams

    @property
    def time_shape(self) -> Gap:
        """Its gap."""
        return Gap(self.gap)

    @property
    def lead_in(self) -> int:
        """A session that begins within its gap after evicted rows may have been longer."""
        return int(self.gap)

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return 2 * int(self.gap) + delay + max(1, lateness)


@word(first_is_needed=False, plain=("gap_column",))
def session(gap: Any = None, *, gap_column: str | None = None) -> Session | SessionByColumn:
    """Return windows of rows that follow each other within the gap: [first row, last row + gap).

    With `gap_column` each row has a gap of its own, and opens the window [t, t + its gap); windows that meet are one.
    The column holds integers in the unit of the times, or durations. A row whose gap is null or 0 is in no window; a
    negative gap is refused.

    >>> from muntin import Query, agg, window
    >>> window.session("5 minutes").context
    <Context.FORWARD_FREE: 'forward context free'>
    >>> visits = Query(window.session(gap_column="stays"), {"n": agg.count()}, time="t")
    >>> visits.run({"t": [1, 3, 7, 20], "stays": [10, 1, 2, 5]}).select(["window", "n"]).to_pylist()
    [{'window': {'start': 1, 'end': 11}, 'n': 3}, {'window': {'start': 20, 'end': 25}, 'n': 1}]
    """
    if (gap is None) == (gap_column is None):
        raise InvalidArgumentError(
            f"window.session: gap is {gap!r} and gap_column is {gap_column!r}; give one of them: a gap for all rows, "
            "or the column with the gap of each"
        )
    return Session(gap) if gap_column is None else SessionByColumn(gap_column)
