"""Calendar windows by the wall clock of a zone that each row names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.columns import Column, boxed
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.types import NULL, Array, ColumnType
from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Found, SortedRows
from muntin.windows.kinds.calendar_periods import Calendar
from muntin.windows.shapes import Density, EdgesFrom


@dataclass(frozen=True, repr=False)
class CalendarByColumn(Window):
    """Windows from the first moment of a period to that of the next, by the zone of each row.

    Rows of a key share a window if it begins and ends at the same moments, whatever their zones are called. Created by
    `calendar(zone_column=...)`.
    """

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.TIME
    splits: ClassVar[bool] = False
    ties_matter: ClassVar[bool] = False
    edges: ClassVar[EdgesFrom] = EdgesFrom.ZONES

    period: str
    zone_column: str
    time: ColumnType | None = field(default=None, compare=False)
    """The type of times, if resolved."""

    def __post_init__(self) -> None:
        """Reject an invalid period, and what is no name."""
        Calendar(self.period)
        if not isinstance(self.zone_column, str) or not self.zone_column:
            raise InvalidArgumentError(
                f"window.calendar: zone_column is {self.zone_column!r}; give the name of a column"
            )

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column of zones."""
        return (self.zone_column,)

    def likely_types(self) -> Mapping[str, pa.DataType]:
        """Return the likely type of zones."""
        return {self.zone_column: pa.string()}

    def resolve(self, time: ColumnType) -> Self:
        """Return it for times of a type; reject integers, whose unit is unknown. O(1)."""
        if time.family != "temporal":
            raise InvalidArgumentError(
                f"{self!r} needs times of a known unit, and the times are {time}; give timestamps or dates"
            )
        return replace(self, time=time)

    @property
    def durations(self) -> tuple[Any, ...]:
        """A day, as a sign that times must have a unit."""
        return ("1 day",)

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"window.calendar({self.period!r}, zone_column={self.zone_column!r})"

    def _of(self, zone: str) -> Calendar:
        """Return the windows of a zone."""
        assert self.time is not None
        return Calendar(self.period, zone).resolve(self.time)

    @property
    def reach(self) -> int:
        """The maximum distance from a row's time to the start or end of a window that holds it."""
        return self._of("UTC").reach

    @property
    def longest(self) -> int:
        """The maximum length of a window."""
        return self._of("UTC").longest

    # ------------------------------------------------------------ zones

    def require_values(self, columns: Mapping[str, Column]) -> None:
        """Reject names that no zone has. O(n)."""
        column = columns[self.zone_column]
        if column.type == NULL:
            return
        if len(column.values) and column.type.family != "other":
            raise ColumnTypeError(
                f"the column {self.zone_column!r} holds {column.type}, and zones are names like 'Europe/Berlin'"
            )
        for name, rows in self._named(column):
            try:
                Calendar(self.period, name)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(
                    f"the column {self.zone_column!r} holds {name!r} in row {int(rows[0])}, and there is no such zone; "
                    "give names like 'Europe/Berlin', and null for rows in no window"
                ) from error

    def _named(self, column: Column) -> list[tuple[str, Array]]:
        """Return the rows of each zone. O(n)."""
        if column.type == NULL or not len(column.values):
            return []
        held = np.arange(len(column.values)) if column.valid is None else np.flatnonzero(column.valid)
        if not len(held):
            return []
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(name, len(numbers)) for name in boxed(column)[held].tolist()], np.int64)
        order = held[np.argsort(codes, kind="stable")]
        bounds = np.cumsum(np.bincount(codes, minlength=len(numbers)))[:-1]
        return list(zip(numbers, np.split(order, bounds), strict=True))

    def spans(self, times: Array, columns: Mapping[str, Column]) -> tuple[Array, Array]:
        """Return the start and the end of each row's window; both 0 for rows without a zone. O(n log n)."""
        start, end = np.zeros(len(times), np.int64), np.zeros(len(times), np.int64)
        for zone, rows in self._named(columns[self.zone_column]):
            windows = self._of(zone)
            end[rows] = windows.next_end(times[rows])
            start[rows] = windows.start_of(end[rows])
        return start, end

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return the windows that hold a row. O(n log n)."""
        start, end = self.spans(rows.times, rows.columns)
        keys = rows.keys
        order = np.lexsort((start, end, keys))
        members = order[start[order] < end[order]]
        keys, start, end = keys[members], start[members], end[members]
        changes = [np.diff(each, prepend=each[:1] - 1) != 0 for each in (keys, start, end)]
        first = np.flatnonzero(np.logical_or.reduce(changes))
        last = np.append(first[1:], len(members)).astype(np.int64)[: len(first)]
        return Found(first, last, start[first], end[first], members=members)

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows: few zones overlap."""
        return Density(many, 1.0)

    # ------------------------------------------------------------ streams

    def time_held(self, delay: int, lateness: int) -> int:
        """Return how long a row may be needed."""
        return self.longest + delay + lateness
