"""Rows in the order of windows: those of a key together, by time, and by arrival among equal times."""

from __future__ import annotations

import numpy as np

from muntin.types import Array


def by_key_and_time(codes: Array, keys: int, times: Array) -> tuple[Array | None, Array]:
    """Return the places of sorted rows, and for each of so many keys the row after its last. O(n log n).

    None instead of the places where rows are sorted as they stand.

    >>> by_key_and_time(np.array([1, 0, 1]), 2, np.array([9, 5, 3]))
    (array([1, 2, 0]), array([1, 3]))
    """
    ends = np.cumsum(np.bincount(codes, minlength=keys)).astype(np.int64)
    ascends = bool((times[1:] >= times[:-1]).all())
    if ascends and bool((codes[1:] >= codes[:-1]).all()):
        return None, ends
    if not ascends:
        return np.lexsort((times, codes)), ends
    # Of small numbers NumPy sorts bytes, in O(n).
    small = codes.astype(np.uint16) if keys <= 1 << 16 else codes
    return np.argsort(small, kind="stable"), ends


def inverse(order: Array | None) -> Array | None:
    """Return for each row its place among the sorted ones; None where it stays where it is. O(n).

    >>> inverse(np.array([1, 2, 0]))
    array([2, 0, 1])
    """
    if order is None:
        return None
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
