"""Slices by time rather than by key, for callers that write state repeatedly and want to write only what is new.

New rows fall into new slices. By key these lie scattered among older ones, and everything moves; by time they come
after all existing slices, and evicted ones before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.types import Array

_LENGTHS = "generations"
"""The number of slices between each two edges, in a set saved by time."""
_SET = ("keys", "sizes", "low", "high", "states", "merges")
_OF_SLICES = ("first", "last", "count", "skip", "tag", "states")


def by_time(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays with every set of slices saved by `SliceSet.save` in time order. O(slices).

    >>> saved = {"keys": [4, 7], "sizes": [2, 1], "low": [0, 5, 5], "high": [5, 9, 9], "states": [1, 2, 3]}
    >>> found = by_time({name: np.array(each) for name, each in saved.items()} | {"merges": np.zeros(1)})
    >>> found["low"], found["generations"], found["key"], found["states"]
    (array([0, 5]), array([1, 2]), array([4, 4, 7]), array([1, 2, 3]))
    """
    out = dict(arrays)
    for prefix in _prefixes(arrays, _SET):
        low, high = arrays[f"{prefix}low"], arrays[f"{prefix}high"]
        order = _ascending(low)  # stable: the slices of a key stay in their order
        low, high = low[order], high[order]
        new = np.ones(len(low), np.bool_)
        new[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        begins = np.flatnonzero(new)
        keys = np.repeat(out.pop(f"{prefix}keys"), out.pop(f"{prefix}sizes"))
        out[f"{prefix}key"] = keys[order]
        out[f"{prefix}low"], out[f"{prefix}high"] = low[begins], high[begins]
        out[f"{prefix}{_LENGTHS}"] = np.diff(np.append(begins, len(low)))
        _reorder(out, prefix, order)
    return out


def by_key(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays as they were before `by_time`; leaves those that were never by time unchanged. O(slices)."""
    out = dict(arrays)
    for prefix in _prefixes(arrays, (_LENGTHS,)):
        lengths, keys = out.pop(f"{prefix}{_LENGTHS}"), out.pop(f"{prefix}key")
        order = _ascending(keys)
        out[f"{prefix}keys"], out[f"{prefix}sizes"] = np.unique(keys, return_counts=True)
        for name in ("low", "high"):
            out[prefix + name] = np.repeat(out[prefix + name], lengths)[order]
        _reorder(out, prefix, order)
    return out


def _prefixes(arrays: Mapping[str, Array], names: tuple[str, ...]) -> Iterator[str]:
    """Yield the prefix of each set of arrays with these names; there may be several sets."""
    for each in arrays:
        prefix = each.removesuffix(names[0])
        if prefix != each and all(prefix + name in arrays for name in names):
            yield prefix


def _reorder(arrays: dict[str, Array], prefix: str, order: Array) -> None:
    for name in _OF_SLICES:
        if prefix + name in arrays:
            arrays[prefix + name] = _taken(arrays[prefix + name], order)


def _taken(array: Array, order: Array) -> Array:
    if array.dtype.hasobject or array.dtype.names is None:
        return array[order]
    # As bytes: NumPy copies records field by field.
    plain = np.ascontiguousarray(array).view(np.dtype((np.void, array.dtype.itemsize)))
    return plain[order].view(array.dtype)


def _ascending(values: Array) -> Array:
    """Return the stable order of integers. O(n) if few are distinct."""
    distinct = np.sort(pc.unique(pa.array(values)).to_numpy())
    if len(distinct) > 1 << 16:
        return np.argsort(values, kind="stable")
    ranks = np.searchsorted(distinct, values).astype(np.uint16)  # NumPy sorts 16 bits in linear time
    return np.argsort(ranks, kind="stable")
