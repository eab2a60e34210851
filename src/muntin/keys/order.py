"""Rows in the order of windows: those of a key together, by time, and by arrival among equal times."""

from __future__ import annotations

from functools import partial

import numpy as np

from muntin.threads import in_threads, shares
from muntin.types import Array


def by_key_and_time(codes: Array, keys: int, times: Array, threads: int = 1) -> tuple[Array | None, Array]:
    """Return the places of sorted rows, and for each of so many keys the row after its last. O(n log n).

    None instead of the places where rows are sorted as they stand. Each thread sorts a part of the rows; where the rows
    of a key begin in each part is known beforehand, from their numbers.

    >>> by_key_and_time(np.array([1, 0, 1]), 2, np.array([9, 5, 3]))
    (array([1, 2, 0]), array([1, 3]))
    """
    parts = shares(0, len(codes), threads)
    ascends = _ascends(times, parts, threads)
    first = None if ascends else _by_time(times, parts, threads)
    if first is not None:
        codes = codes[first]
    counts = np.array(in_threads([partial(_counts, codes[a:b], keys) for a, b in parts], threads))
    ends = np.cumsum(counts.sum(axis=0)).astype(np.int64)
    if _ascends(codes, parts, threads):
        return first, ends
    order = np.empty(len(codes), np.int64)
    before = np.cumsum(counts, axis=0) - counts + (ends - counts.sum(axis=0))  # the rows before those of each part

    def sort(part: int, start: int, stop: int) -> None:
        chosen = codes[start:stop]
        # Of small numbers NumPy sorts bytes, in O(n).
        small = chosen.astype(np.uint16) if keys <= 1 << 16 else chosen
        local = np.argsort(small, kind="stable")
        rows = local + start if first is None else first[start:stop][local]
        if len(parts) == 1:
            order[:] = rows
        else:
            mine = counts[part]
            order[np.arange(stop - start) + np.repeat(before[part] - (np.cumsum(mine) - mine), mine)] = rows

    in_threads([partial(sort, i, *part) for i, part in enumerate(parts)], threads)
    return order, ends


def _counts(codes: Array, keys: int) -> Array:
    return np.bincount(codes, minlength=keys)


def _ascends(values: Array, parts: list[tuple[int, int]], threads: int) -> bool:
    """Say whether no value is less than the one before it, inside of the parts and between them."""

    def within(start: int, stop: int) -> bool:
        start = max(1, start)
        return bool((values[start:stop] >= values[start - 1 : stop - 1]).all())

    return all(in_threads([partial(within, *part) for part in parts], threads))


def _by_time(times: Array, parts: list[tuple[int, int]], threads: int) -> Array:
    """Return the places of sorted times: each part by itself, and then all, which only merges what is sorted."""

    def sort(start: int, stop: int) -> Array:
        return start + np.argsort(times[start:stop], kind="stable")

    order = np.concatenate(in_threads([partial(sort, *part) for part in parts], threads))
    if len(parts) == 1:
        return order
    places: Array = order[np.argsort(times[order], kind="stable")]
    return places


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
