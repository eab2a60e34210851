"""Rows taken back from slices: the inverse of their states takes out what a row put in, so that no row is kept.

A slice only knows how many rows it has. A deletion is trusted: it takes back a row of its slice as long as there is
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.columns import mask_of
from muntin.errors import UnsupportedOperationError
from muntin.kernels.vocabulary import Columns, Ints, Slots, index, invert, kernel, lift, load, store
from muntin.streams.blocks import Blocks
from muntin.streams.blocks import Slices as Arrays
from muntin.streams.strategy import Batch
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.kernels.generate import Part
    from muntin.query.plan import Plan


@kernel
def take_rows_back(slots: Ints, columns: Columns, times: Ints, states: Slots) -> None:
    """Take rows out of the states of their slices."""
    for row in range(len(slots)):
        slot = slots[index(row)]
        store(states, slot, invert(load(states, slot), lift(columns, times, row)))


def is_exact_sum(part: Part) -> bool:
    """Return whether what is taken out of a state leaves no trace: it holds no float, or the rounding errors of a sum.

    A sum with its errors is off by at most u|S| + (nu)^2 * sum|x|, where rows that went count as well. The powers of
    variances would keep the error of the largest value that ever was in them.
    """
    fields = part.fields or ()
    if [field.name for field in fields] == ["n", "total", "error"] and "from_sums" in part.functions:
        return True
    return bool(fields) and all(field.dtype.kind in "iub" for field in fields)


def require_finite(plan: Plan, batch: Batch) -> None:
    """Reject the deletion of an infinite value or NaN from a sum of floats: nothing takes it out again."""
    assert batch.takes is not None
    goes = np.flatnonzero(batch.takes)
    for aggregation in plan.aggregates.values():
        for name in aggregation.columns:
            if batch.columns[name].values.dtype.kind != "f":
                continue
            column = batch.columns[name].take(goes)
            where = None if aggregation.where is None else batch.columns[aggregation.where].take(goes)
            bad = np.flatnonzero(
                mask_of([column], aggregation.skip_nan, len(goes), where) & ~np.isfinite(column.values)
            )
            if len(bad):
                raise UnsupportedOperationError(
                    f"row {goes[bad[0]]} takes back {column.values[bad[0]]} in column {name!r}, which cannot be "
                    f"subtracted from {aggregation!r}; keep the rows, with stream(strategy='changelog'), or leave "
                    "such values out"
                )


def slots_of(slices: Arrays, blocks: Blocks, keys: Array, times: Array) -> Array:
    """Return the slot of the slice that holds each time, -1 where there is none. O(log n) each."""
    slots = np.full(len(keys), -1, np.int64)
    known = np.flatnonzero(keys < len(blocks.base))
    keys, times = keys[known], times[known]
    begin = blocks.base[keys] + blocks.head[keys]
    low, high = begin.copy(), begin + blocks.size[keys]
    while True:
        is_open = low < high
        if not is_open.any():
            break
        middle = (low + high) >> 1
        later = np.zeros(len(keys), np.bool_)
        later[is_open] = slices.low[middle[is_open]] > times[is_open]
        high = np.where(is_open & later, middle, high)
        low = np.where(is_open & ~later, middle + 1, low)
    found = np.flatnonzero(low > begin)
    found = found[times[found] < slices.high[low[found] - 1]]
    slots[known[found]] = low[found] - 1
    return slots


def matched(slots: Array, counts: Array) -> Array:
    """Return which deletions find a row: of those of a slot as many as it has rows, the first ones. O(m log m).

    >>> matched(np.array([1, 0, 1, -1]), np.array([5, 1])).tolist()
    [True, True, False, False]
    """
    order = np.argsort(slots, kind="stable")
    ranks = np.arange(len(slots))
    begins = np.append(True, np.diff(slots[order]) != 0)[: len(slots)]
    nth = np.empty(len(slots), np.int64)
    nth[order] = ranks - np.maximum.accumulate(np.where(begins, ranks, 0))
    has: Array = np.zeros(len(slots), np.bool_)
    there = slots >= 0
    has[there] = nth[there] < counts[slots[there]]
    return has


def changed_within(changed: tuple[Array, Array], keys: Array, start: Array, end: Array) -> Array:
    """Return which windows [start, end) of keys hold a time at which rows came or went. O(log n) each.

    >>> changed = np.array([1, 0]), np.array([5, 9])
    >>> changed_within(changed, np.array([0, 1]), np.array([0, 0]), np.array([9, 9])).tolist()
    [False, True]
    """
    order = np.lexsort((changed[1], changed[0]))
    known, times = changed[0][order], changed[1][order]
    low, high = np.searchsorted(known, keys, "left"), np.searchsorted(known, keys, "right")
    return np.asarray(_first_from(times, low, high, start) < _first_from(times, low, high, end))


def _first_from(times: Array, low: Array, high: Array, at: Array) -> Any:
    """Return the first place of [low, high) whose time is `at` or later. O(log n) each."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        is_open = low < high
        middle = (low + high) >> 1
        earlier = np.zeros(len(low), np.bool_)
        earlier[is_open] = times[middle[is_open]] < at[is_open]
        low = np.where(is_open & earlier, middle + 1, low)
        high = np.where(is_open & ~earlier, middle, high)
    return low
