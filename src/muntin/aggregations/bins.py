"""Counts of values between edges."""

from __future__ import annotations

import decimal
import math
from itertools import pairwise
from typing import Any

import numpy as np

from muntin.aggregations.define import define, numeric_or_temporal
from muntin.errors import ColumnTypeError
from muntin.types import OBJECT, ColumnType, physical_value


def _counts(bins: int) -> Any:
    return {"counts": ("i8", bins)}


def _result(edges: tuple[Any, ...]) -> Any:
    return ("i8", len(edges) + 1)


def _bins(edges: tuple[Any, ...]) -> int:
    return len(edges) + 1


def _read_edges(edges: Any) -> tuple[Any, ...]:
    """Return edges as a tuple of Python's numbers, times or durations that ascend."""
    if isinstance(edges, str | bytes) or not hasattr(edges, "__iter__"):
        raise TypeError(f"edges is {edges!r}; give a list of ascending values, such as [0, 10, 100]")
    read = tuple(each.item() if isinstance(each, np.number | np.bool_) else each for each in edges)
    if not read:
        raise ValueError("edges is empty; give at least one value, such as [0]")
    for each in read:
        if each is None or each != each or isinstance(each, str | bytes):
            raise ValueError(f"edges has {each!r}, which is neither a number nor a time")
    for low, high in pairwise(read):
        if not low < high:
            raise ValueError(f"edges has {high!r} behind {low!r}; they must ascend, each once")
    return read


def _bounds(edges: tuple[Any, ...], types: tuple[ColumnType, ...]) -> Any:
    """Return edges as the kernel compares them with values of a column, exactly."""
    (kind,) = types
    if kind.family in ("temporal", "duration"):
        return np.array([physical_value(each, kind, "edges") for each in edges], np.int64)
    for each in edges:
        if not isinstance(each, int | float | decimal.Decimal):
            raise ColumnTypeError(f"histogram of a column of {kind}: edges has {each!r}, and must have numbers")
    if kind.physical == OBJECT:  # 0.1 is the decimal 0.1, not the float nearest to it
        return tuple(decimal.Decimal(str(each)) for each in edges)
    if kind.family == "floating":
        return np.array([float(each) for each in edges])
    return _whole_bounds(edges, np.dtype(np.uint64 if kind.physical == np.uint64 else np.int64))


def _whole_bounds(edges: tuple[Any, ...], dtype: np.dtype[Any]) -> Any:
    """Return the least integers that are not below the edges; edges above all integers need none."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return np.array([math.ceil(each) if each > low else low for each in edges if each <= high], dtype)


def _bin_of(v, bounds):
    """Return the number of edges at or below a value; NaN is above all."""
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) // 2
        if v < bounds[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@define(state=_counts, result=_result, empty=0, commutative=True, derived={"bins": _bins, "bounds": _bounds})
class _histogram:
    """How many values lie between edges: `histogram("v", edges=[0, 10, 100])`. len(edges) + 1 counts, zeros for none.

    The first counts the values below all edges, then one each from an edge up to the next, which is not part of it,
    and the last one those from the last edge on; NaN is greater than any number. Nulls are skipped. Edges are numbers,
    or times for columns of these, in ascending order. O(len(edges)) combine, invertible.

    >>> from muntin import slide, agg
    >>> slide([-5, 0, 9, 10, 100], agg.histogram("v", edges=[0, 10, 100]), range=5)[-1].tolist()
    [1, 2, 1, 1]
    """

    def lift(v, *, bins, bounds):
        counts = np.zeros(bins, np.int64)
        counts[_bin_of(v, bounds)] = 1
        return (counts,)

    def combine(a, b):
        return (a.counts + b.counts,)

    def invert(a, b):
        return (a.counts - b.counts,)

    def neutral(*, bins):
        return (np.zeros(bins, np.int64),)

    def lower(s):
        return s.counts


histogram = numeric_or_temporal("histogram", _histogram).reading(edges=_read_edges)
