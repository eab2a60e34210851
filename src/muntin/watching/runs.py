"""Rows of one series in time order, cut into slices, and an aggregator over these.

        rows     |- 256 -|- 256 -|- 256 -|- 256 -|- 91 -|
        leaves   low,high low,high low,high low,high        a FlatFat: one leaf for each whole slice

The lowest and highest value of a range of rows come from the aggregator for whole slices, and from the rows themselves
at its two ends.
"""

from __future__ import annotations

import numpy as np

from muntin import aggregations as agg
from muntin.aggregators import FlatFat
from muntin.types import Array

SLICE = 256
"""Rows per slice: a leaf then takes an eighth of a byte per row, and an end of a range costs 128 rows on average."""

_FEW_SLICES = 8
"""Ranges of up to this many slices are read row by row, which is faster than gathering their ends."""


class Run:
    """Sorted rows, to which later ones are appended. 16 bytes per row, and less than one for the slices."""

    def __init__(self, times: Array, values: Array) -> None:
        self._rows = 0
        self._times, self._values = np.empty(0, np.int64), np.empty(0, np.float64)
        self._slices = FlatFat({"low": agg.min("low"), "high": agg.max("high")}, dtype="f8", nullable=False)
        self.append(times, values)

    def __len__(self) -> int:
        """Return the number of rows. O(1)."""
        return self._rows

    @property
    def times(self) -> Array:
        """The times, ascending."""
        return self._times[: self._rows]

    @property
    def values(self) -> Array:
        """The values, in the order of the times."""
        return self._values[: self._rows]

    def append(self, times: Array, values: Array) -> None:
        """Append rows, sorted, none of them before the last one. Amortised O(1) per row."""
        end = self._rows + len(times)
        self._times, self._values = _grown(self._times, self._rows, end), _grown(self._values, self._rows, end)
        self._times[self._rows : end], self._values[self._rows : end] = times, values
        self._rows = end
        known, whole = len(self._slices), end // SLICE
        if known < whole:
            parts = self._values[known * SLICE : whole * SLICE].reshape(-1, SLICE)
            lows_and_highs = {"low": parts.min(axis=1), "high": parts.max(axis=1)}
            self._slices.bulk_insert(np.arange(known, whole), lows_and_highs)

    def extremes(self, begins: Array, ends: Array) -> tuple[Array, Array]:
        """Return the lowest and the highest value of the rows [begin, end) of consecutive ranges.

        None is empty, and each begins where the previous one ends. O(log n) combines and 256 rows for each; O(rows) if
        they have few rows in all.
        """
        if not len(begins) or ends[-1] - begins[0] <= _FEW_SLICES * SLICE * len(begins):
            return _extremes_of_rows(self._values, begins, ends)
        first, last = -(-begins // SLICE), ends // SLICE
        whole = first < last
        low, high = np.full(len(begins), np.inf), np.full(len(begins), -np.inf)
        if whole.any():
            found = self._slices.range_queries(first[whole], last[whole] - 1)
            low[whole], high[whole] = found["low"], found["high"]
        # A range with whole slices has an end before and one after them; any other is a single end.
        edges = (begins, np.where(whole, first * SLICE, ends)), (np.where(whole, last * SLICE, ends), ends)
        for begin, end in edges:
            _fold_rows(self._values, begin, end, low, high)
        return low, high


def _extremes_of_rows(values: Array, begins: Array, ends: Array) -> tuple[Array, Array]:
    """Return the lowest and the highest value of consecutive ranges, from their rows alone."""
    if not len(begins):
        return np.empty(0), np.empty(0)
    rows, at = values[begins[0] : ends[-1]], begins - begins[0]
    return np.minimum.reduceat(rows, at), np.maximum.reduceat(rows, at)


def _fold_rows(values: Array, begins: Array, ends: Array, low: Array, high: Array) -> None:
    """Lower `low` and raise `high` by the rows [begin, end) of each range; some may be empty. O(rows in all)."""
    held = np.flatnonzero(begins < ends)
    if not len(held):
        return
    lengths = ends[held] - begins[held]
    at = np.cumsum(lengths) - lengths
    gathered = values[np.arange(int(lengths.sum())) + np.repeat(begins[held] - at, lengths)]
    low[held] = np.minimum(low[held], np.minimum.reduceat(gathered, at))
    high[held] = np.maximum(high[held], np.maximum.reduceat(gathered, at))


def _grown(array: Array, used: int, needed: int) -> Array:
    """Return the array with room for `needed` entries: itself, or a copy at least half as large again."""
    if needed <= len(array):
        return array
    grown = np.empty(max(needed, len(array) + len(array) // 2), array.dtype)
    grown[:used] = array[:used]
    return grown
