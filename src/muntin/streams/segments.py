"""Segments: the rows of a state in tables by time, each written once, so that a save writes only what has changed.

    segments   [ ------ ][ ------ ][ ------ ][ --- ... )     later rows go to the last one
    rows        x x x o   o x o o   o o o o   o o o          x: evicted since, but still in its table

A table has the rows of all keys between two times. It is written again when rows were inserted there, or numbers beside
them have changed; not when rows are evicted, of which each key loses its first ones. So a state tells how many rows a
key still has: these are the last ones in the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muntin.columns import inverse
from muntin.keys.order import by_key_and_time
from muntin.snapshots import Snapshot, sizes
from muntin.types import OBJECT, Array

STARTS, COUNTS, HELD = "starts", "counts", "held"
"""What a state holds of rows in segments: where each begins in time, its rows, and how many rows each key has."""
_LENGTH = struct.Struct("<I")
_MASK = "valid."
"""What the names of masks begin with; a mask is empty if no value is missing."""


@dataclass(eq=False)
class Segment:
    """The table of some rows: its arrays until it is written, its name from then on."""

    rows: int
    arrays: Mapping[str, Array] | None
    name: bytes | None = None
    size: int = 0
    """The bytes written."""

    def note_written(self, name: bytes, size: int) -> None:
        """Note where the table is, and let go of its arrays."""
        self.arrays, self.name, self.size = None, name, size


@dataclass(frozen=True)
class Segmented:
    """The segments of a state that was read, for the stream that goes on from it."""

    starts: Array
    segments: Sequence[Segment]
    gone: tuple[Array, Array]
    """Keys of which evicted rows are still in tables, and the time of the last of these."""


def encode(arrays: Mapping[str, Array], *, allow_pickle: bool) -> bytes:
    """Return a table as bytes: integers as short as their range allows. O(rows).

    >>> data = encode({"times": np.array([10**15, 10**15 + 9]), "v": np.array([0.5, 2.0])}, allow_pickle=False)
    >>> decode(data, allow_pickle=False)
    {'times': array([1000000000000000, 1000000000000009]), 'v': array([0.5, 2. ])}
    """
    short = {name: _shortened(array) for name, array in arrays.items()}
    facts = {name: [low, arrays[name].dtype.str] for name, (_, low) in short.items() if low is not None}
    text, pieces = Snapshot(facts, [], "", {name: each for name, (each, _) in short.items()}).pieces(
        allow_pickle=allow_pickle
    )
    return b"".join([_LENGTH.pack(len(text)), text, *pieces])


def decode(data: bytes, *, allow_pickle: bool) -> dict[str, Array]:
    """Return the arrays that `encode` was given. O(rows)."""
    at = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    text, pieces = data[_LENGTH.size : at], []
    for size in sizes(text):
        pieces.append(data[at : at + size])
        at += size
    held = Snapshot.of_pieces(text, pieces, allow_pickle=allow_pickle)
    arrays = dict(held.arrays)
    for name, (low, kind) in held.header.items():
        arrays[name] = arrays[name].astype(kind) + np.array(low, kind)
    return arrays


def _shortened(array: Array) -> tuple[Array, int | None]:
    """Return integers less their least, as short as these can be, and the least; None if the array stays as it is."""
    if array.dtype == OBJECT or array.dtype.kind not in "iu" or array.dtype.itemsize == 1 or not len(array):
        return array, None
    low, high = int(array.min()), int(array.max())
    for kind in (np.uint8, np.uint16, np.uint32):
        if np.dtype(kind).itemsize < array.dtype.itemsize and high - low <= np.iinfo(kind).max:
            return (array - np.array(low, array.dtype)).astype(kind), low
    return array, None


def merged(
    counts: Array, held: Array, tables: Sequence[Mapping[str, Array]]
) -> tuple[dict[str, Array], tuple[Array, Array]]:
    """Return the rows of tables by key and time, without evicted ones; and the keys of these, with the last times.

    O(n), and O(log n) each for what is not in order.

    >>> old = {"keys": np.array([0, 1]), "times": np.array([1, 2])}
    >>> new = {"keys": np.array([0]), "times": np.array([5])}
    >>> merged(np.array([2, 1]), np.array([1, 1]), [old, new])
    ({'keys': array([0, 1]), 'times': array([5, 2])}, (array([0]), array([1])))
    """
    whole = {name: _concatenated(name, [each[name] for each in tables], counts) for name in tables[0]}
    keys = whole["keys"]
    held = np.concatenate((held, np.zeros(max(0, int(keys.max()) + 1 - len(held)), np.int64)))
    places, ends = by_key_and_time(keys, len(held), whole["times"])
    order = np.arange(len(keys)) if places is None else inverse(places)
    first = ends - held
    kept = order[np.arange(len(keys)) >= first[keys[order]]]
    some = np.flatnonzero(np.diff(ends, prepend=0) > held)
    gone = whole["times"][order[first[some] - 1]]
    rows = {name: array if name.startswith(_MASK) and not len(array) else array[kept] for name, array in whole.items()}
    return rows, (some, gone)


def _concatenated(name: str, arrays: Sequence[Array], counts: Array) -> Array:
    if name.startswith(_MASK):
        if not any(map(len, arrays)):
            return arrays[0]
        pairs = zip(arrays, counts.tolist(), strict=True)
        arrays = [each if len(each) == count else np.ones(count, np.bool_) for each, count in pairs]
    return np.concatenate(arrays)
