"""Frames over arrays: one window per row, over the rows of its key, in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import windows
from muntin.arrays.spans import Span, any_times, positive_count, spans_of_rows
from muntin.columns import Column
from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.keys.order import by_key_and_time, placed
from muntin.keys.table import key_numbers
from muntin.types import INT64, Array
from muntin.windows.base import Window
from muntin.windows.found import SortedRows


def framed(
    columns: Mapping[str, Column],
    rows: int,
    keys: Sequence[pa.ChunkedArray],
    times: Column | None,
    range: Any,
    closed: str,
    threads: int = 1,
) -> tuple[dict[str, Column], Span, Array | None]:
    """Return the columns grouped by key, the frame of each row, and the place of each row. O(n log n).

    >>> from muntin.columns import read_column
    >>> times = read_column(np.array([3, 1, 2]), "t")
    >>> _, span, places = framed({}, 3, [pa.chunked_array([["a", "b", "a"]])], times, 2, "left")
    >>> span.rows(), places
    ((array([0, 0, 2]), array([0, 1, 2])), array([1, 2, 0]))
    """
    codes, count = key_numbers(list(keys), rows, threads)
    stamps = np.arange(rows, dtype=np.int64) if times is None else any_times(times)
    kind = INT64 if times is None else times.type
    places, ends = by_key_and_time(codes, count, stamps, threads)
    if places is not None:
        columns = {name: placed(column, places, threads) for name, column in columns.items()}
        stamps = placed(Column(stamps, None, kind), places, threads).values
    frame = _frame(range, closed, times, stamps)
    found = frame.find(SortedRows(stamps, ends, stamps, {}, kind))
    time_type = None if times is None else kind
    span = spans_of_rows(found.first, found.last, stamps, time_type, trailing=True, ends=found.end)
    return dict(columns), span, places


def _frame(range: Any, closed: str, times: Column | None, stamps: Array) -> Window:
    if times is None:
        return windows.trailing(windows.rows(positive_count(range, "range")), closed=closed)
    length = in_unit_of(range, times.type, "range")
    lifetime = int(stamps.max()) - int(stamps.min()) if len(stamps) else 0
    # A longer one holds no more rows, and may overflow the kernels' integers.
    length = min(length, lifetime + 2)
    if length >= 2**63:
        raise InvalidArgumentError(f"the times span {lifetime}, and the range as much: more than int64 can hold")
    return windows.trailing(length, closed=closed).resolve(times.type)
