"""Orders rows for windows: by key, then time, ties by arrival."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from muntin.columns import read_only
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.vocabulary import Ints, index, kernel
from muntin.threads import in_threads, shares
from muntin.types import Array

_MANY = 1 << 16
"""From this many rows on keys are counted rather than sorted: the kernel takes an eighth of the time, once compiled."""


@kernel
def order_by_key(keys: Ints, places: Ints, order: Ints) -> None:
    """Write the stable order of rows by key. `places` has an entry per key, all 0."""
    for row in range(len(keys)):
        places[index(keys[index(row)])] += 1
    total = 0
    for key in range(len(places)):
        count = places[index(key)]
        places[index(key)] = total
        total += count
    for row in range(len(keys)):
        key = keys[index(row)]
        order[index(places[index(key)])] = row
        places[index(key)] += 1


@cache
def _counting(compiled: bool) -> Any:
    return kernel_cache.load(standalone(order_by_key, counted=False), compiled=compiled)


def _stable_order(codes: Array, keys: int) -> Array:
    """Return the stable order of numbers below `keys`. O(n + keys) for many."""
    if len(codes) >= _MANY and keys <= len(codes):
        order = np.empty(len(codes), np.int64)
        module = _counting(not kernel_cache.is_uncompiled())
        module.order_by_key(read_only(codes), np.zeros(keys, np.int64), order)
        return order
    # NumPy radix-sorts small numbers, in O(n).
    return np.argsort(codes.astype(np.uint16) if keys <= 1 << 16 else codes, kind="stable")


def by_key_and_time(codes: Array, keys: int, times: Array, threads: int = 1) -> tuple[Array | None, Array]:
    """Return the places of sorted rows, and the row after the last of each of `keys` keys. O(n log n).

    None instead of the places if rows are already sorted. Each thread sorts a part of the rows; the start of a key's
    rows in each part is known in advance, from their counts.

    >>> by_key_and_time(np.array([1, 0, 1]), 2, np.array([9, 5, 3]))
    (array([1, 2, 0]), array([1, 3]))
    """
    parts = shares(0, len(codes), threads)
    if keys == 1:
        return None if _ascends(times, parts, threads) else _by_time(times, parts, threads), np.array([len(times)])
    stays = _ascends(times, parts, threads) or _ascends_by_key(codes, times, parts, threads)
    first = None if stays else _by_time(times, parts, threads)
    if first is not None:
        codes = codes[first]
    counts = np.array(in_threads([partial(_counts, codes[a:b], keys) for a, b in parts], threads))
    ends = np.cumsum(counts.sum(axis=0)).astype(np.int64)
    if _ascends(codes, parts, threads):
        return first, ends
    if len(parts) == 1:
        local = _stable_order(codes, keys)
        return local if first is None else first[local], ends
    order = np.empty(len(codes), np.int64)
    before = np.cumsum(counts, axis=0) - counts + (ends - counts.sum(axis=0))  # rows before those of each part

    def sort(part: int, start: int, stop: int) -> None:
        local = _stable_order(codes[start:stop], keys)
        rows = local + start if first is None else first[start:stop][local]
        mine = counts[part]
        order[np.arange(stop - start) + np.repeat(before[part] - (np.cumsum(mine) - mine), mine)] = rows

    in_threads([partial(sort, i, *part) for i, part in enumerate(parts)], threads)
    return order, ends


def _counts(codes: Array, keys: int) -> Array:
    return np.bincount(codes, minlength=keys)


def _ascends_by_key(codes: Array, times: Array, parts: list[tuple[int, int]], threads: int) -> bool:
    """Return whether rows are sorted by key and time, as from Spark and many files."""

    def within(start: int, stop: int) -> bool:
        start = max(1, start)
        later = times[start:stop] >= times[start - 1 : stop - 1]
        return bool((later | (codes[start:stop] != codes[start - 1 : stop - 1])).all())

    return _ascends(codes, parts, threads) and all(in_threads([partial(within, *part) for part in parts], threads))


def _ascends(values: Array, parts: list[tuple[int, int]], threads: int) -> bool:
    """Return whether no value is less than the previous one, within parts and between them."""

    def within(start: int, stop: int) -> bool:
        start = max(1, start)
        return bool((values[start:stop] >= values[start - 1 : stop - 1]).all())

    return all(in_threads([partial(within, *part) for part in parts], threads))


def _by_time(times: Array, parts: list[tuple[int, int]], threads: int) -> Array:
    """Return the places of sorted times: sorts each part, then all, which only merges sorted runs."""

    def sort(start: int, stop: int) -> Array:
        return start + np.argsort(times[start:stop], kind="stable")

    order = np.concatenate(in_threads([partial(sort, *part) for part in parts], threads))
    if len(parts) == 1:
        return order
    places: Array = order[np.argsort(times[order], kind="stable")]
    return places


def inverse(order: Array | None) -> Array | None:
    """Return the place of each row among the sorted ones; None if already sorted. O(n).

    >>> inverse(np.array([1, 2, 0]))
    array([2, 0, 1])
    """
    if order is None:
        return None
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places
