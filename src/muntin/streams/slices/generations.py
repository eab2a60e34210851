"""Slices by time rather than by key, for callers that write state repeatedly and want to write only what is new.

New rows fall into new slices. By key these lie scattered among older ones, and everything moves; by time they come
after all existing slices, and evicted ones before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.columns import inverse
from muntin.keys.order import by_key_and_time
from muntin.streams.slices.slice_set import states_at
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
        low, high = (np.repeat(out[prefix + name], lengths) for name in ("low", "high"))
        places, ends = by_key_and_time(keys, int(keys.max(initial=-1)) + 1, low)
        order = np.arange(len(keys)) if places is None else inverse(places)
        sizes = np.diff(ends, prepend=0)
        held = np.flatnonzero(sizes)
        out |= {f"{prefix}keys": held, f"{prefix}sizes": sizes[held]}
        out |= {f"{prefix}low": low[order], f"{prefix}high": high[order]}
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
            array = arrays[prefix + name]
            arrays[prefix + name] = array[order] if array.dtype.names is None else states_at(array, order)


def _ascending(values: Array) -> Array:
    """Return the stable order of integers. O(n) if few are distinct."""
    encoded = pc.dictionary_encode(pa.array(values))
    if len(encoded.dictionary) > 1 << 16:
        return np.argsort(values, kind="stable")
    ranks = np.argsort(np.argsort(encoded.dictionary.to_numpy())).astype(np.uint16)
    return np.argsort(ranks[encoded.indices.to_numpy()], kind="stable")  # NumPy sorts 16 bits in linear time
