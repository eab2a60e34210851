"""Raw rows as they arrive: a series per key, the watermark, and the rows behind it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.columns import missing
from muntin.durations import in_unit_of
from muntin.errors import ColumnTypeError
from muntin.types import Array, column_type
from muntin.watching.axis import Axis
from muntin.watching.keyed import Keys
from muntin.watching.series import Series

_MOST_MARKS = 5_000
"""The number of late rows marked on the axis: the last ones."""


class Rows:
    """The rows of a folder or a stream: one numeric column over time, by key."""

    def __init__(self, time: str, column: str, key: Sequence[str] = (), watermark: Any = None) -> None:
        self.time, self.column = time, column
        self.keys = Keys(key)
        self.series: list[Series] = []
        """The rows of each key, by its number."""
        self.axis: Axis | None = None
        self.count = 0
        self.skipped = 0
        """Rows that no chart shows: their time or value is null, or the value is not finite."""
        self.late = 0
        self.late_marks: deque[int] = deque(maxlen=_MOST_MARKS)
        """The times of the last rows that arrived behind the watermark."""
        self.oldest: int | None = None
        self.newest: int | None = None
        self._watermark = watermark
        self._delay = 0

    @property
    def watermark(self) -> int | None:
        """The greatest time seen minus the delay; None without a delay or rows."""
        return None if self._watermark is None or self.newest is None else self.newest - self._delay

    @property
    def span(self) -> tuple[int, int] | None:
        """The least and the greatest time of all rows; None if there are none. O(1): sorts no series."""
        return None if self.oldest is None or self.newest is None else (self.oldest, self.newest)

    def add(self, table: pa.Table) -> None:
        """Take rows, in any order. O(rows)."""
        self._require(table)
        kind = table.schema.field(self.time).type
        if self.axis is None:
            self.axis = Axis.of(kind, self.time)
            if self._watermark is not None:
                self._delay = in_unit_of(self._watermark, column_type(kind), "watermark")
        values = table[self.column].cast(pa.float64(), safe=False)
        shown = pc.and_(pc.is_valid(table[self.time]), pc.fill_null(pc.is_finite(values), False))
        self.count += table.num_rows
        if not pc.all(shown).as_py():
            self.skipped += table.num_rows - pc.sum(shown).as_py()
            table, values = table.filter(shown), values.filter(shown)
        if table.num_rows:
            self._add(table, self.axis.ticks(table[self.time]), values.to_numpy())

    def _require(self, table: pa.Table) -> None:
        for name in (self.time, self.column, *self.keys.names):
            if name not in table.column_names:
                raise missing(name, table.column_names)
        kind = table.schema.field(self.column).type
        number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
        if not any(test(kind) for test in number):
            raise ColumnTypeError(f"the column {self.column!r} holds {kind}; a chart needs numbers: choose another one")

    def _add(self, table: pa.Table, times: Array, values: Array) -> None:
        self._mark_late(times)
        numbers = self.keys.numbers(table)
        while len(self.series) < len(self.keys.texts):
            self.series.append(Series())
        if len(self.series) == 1:
            self.series[0].add(times, values)
            return
        order = np.argsort(numbers, kind="stable")
        numbers, times, values = numbers[order], times[order], values[order]
        cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        for begin, end in pairwise(cuts):
            self.series[int(numbers[begin])].add(times[begin:end], values[begin:end])

    def _mark_late(self, times: Array) -> None:
        """Mark rows behind the watermark at their arrival; then advance it, and the span."""
        if self.watermark is not None:
            behind = times[times < self.watermark]
            self.late += len(behind)
            self.late_marks.extend(behind[-_MOST_MARKS:].tolist())
        least, most = int(times.min()), int(times.max())
        self.oldest = least if self.oldest is None else min(least, self.oldest)
        self.newest = most if self.newest is None else max(most, self.newest)
