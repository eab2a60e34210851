"""Finite tables of changes: which rows survive the deletions among them.

A deletion takes back a row of the same key, time and values, the latest before it, as brackets close the latest that is
open. If no row before it is left it takes the next one after it, since sources may send both in either order:

    rows of equal values    +  +  -  +  -  -  -  +  +
    open after each         1  2  1  2  1  0 -1  0  1     the first row that comes after -1 is taken, and the last stays

So a row survives if more are open after it than at the start, and never fewer later.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.columns import column_of
from muntin.keys.table import key_numbers
from muntin.query.changes import deletions
from muntin.query.query import Query
from muntin.types import Array


def without_deletions(query: Query, data: pa.Table, threads: int = 1) -> tuple[Query, Array | None]:
    """Return a query over the rows that survive, and which rows of a table these are, None for all. O(n log n).

    >>> from muntin import agg, window
    >>> query = Query(window.tumbling(10), {"n": agg.sum("v")}, time="t", changes="op")
    >>> rows = pa.table({"t": [1, 2, 1, 3], "v": [5, 6, 5, 7], "op": ["+I", "+I", "-D", "+I"]})
    >>> without_deletions(query, rows)[1]
    array([1, 3])
    """
    name = query.changes
    if name is None:
        return query, None
    plain = replace(query, changes=None)
    takes = deletions(column_of(data, name), name)
    if not takes.any():
        return plain, None
    numbers, count = key_numbers([column_of(data, each) for each in plain.inputs], data.num_rows, threads)
    return plain, surviving(numbers, count, takes)


def surviving(numbers: Array, count: int, takes: Array) -> Array:
    """Return which rows survive, ascending: `numbers` are equal where all values are, and below `count`. O(n log n).

    >>> surviving(np.array([0, 1, 0, 0, 1]), 2, np.array([False, False, True, False, True]))
    array([3])
    """
    changed = np.zeros(count, np.bool_)
    changed[numbers[takes]] = True
    stays = ~takes
    some = np.flatnonzero(changed[numbers])  # of most values no row is ever deleted
    order = some[np.argsort(numbers[some], kind="stable")]
    sign = np.where(takes[order], -1, 1)
    begins = np.append(True, np.diff(numbers[order]) != 0)
    group = np.cumsum(begins) - 1
    total = np.cumsum(sign)
    opened = total - (total - sign)[begins][group]
    # Apart from one another, so that a minimum from the end on does not pass from one group to the one before.
    apart = opened + group * (2 * len(order) + 1)
    least_from_here = np.minimum.accumulate(apart[::-1])[::-1]
    stays[order] = (sign > 0) & (opened > 0) & (apart == least_from_here)
    return np.flatnonzero(stays)
