"""State as content-addressed chunks, so that a batch writes only what it has changed.

The content of a chunk decides where it ends, not its length: rows inserted into or removed from the middle of an array
move everything after them, but change only the chunks around them.
"""

from __future__ import annotations

import hashlib

import numpy as np

from muntin.kernels.mixing import GOLDEN
from muntin.snapshots import Snapshot, sizes
from muntin.types import Array

LEAST, MOST = 1 << 17, 1 << 20
"""The least and the most bytes of a chunk, except the last one."""
_ONE_IN = 1 << 14
"""One in this many 8-byte words ends a chunk, on average: 128 KiB past the least."""
_LOOKED_AT = 1 << 13
"""The words examined at once: few enough for a cache."""


def cut(data: bytes) -> list[memoryview]:
    """Return bytes in pieces, not copied, whose ends depend on the surrounding content. O(n).

    >>> data = np.random.default_rng(1).bytes(3_000_000)
    >>> pieces, moved = cut(data), cut(bytes(800) + data)
    >>> b"".join(pieces) == data, len(set(pieces) - set(moved)) <= 2
    (True, True)
    """
    if len(data) <= LEAST:
        return [memoryview(data)] if data else []
    words = np.frombuffer(data, np.uint64, len(data) // 8)
    pieces, begin = [], 0
    while begin < len(data):
        end = _end(words, begin + LEAST, min(begin + MOST, len(data)))
        pieces.append(memoryview(data)[begin:end])
        begin = end
    return pieces


def _end(words: Array, least: int, most: int) -> int:
    """Return the first end of a chunk from the byte `least` on; `most` if there is none before it."""
    for start in range(least // 8, most // 8 + 1, _LOOKED_AT):
        # A chunk ends after two words: a single number may be the same everywhere, as the count of a slice.
        looked = words[start - 2 : min(start + _LOOKED_AT, most // 8 + 1) - 1]
        mixed = (looked[1:] * GOLDEN) ^ (looked[:-1] >> np.uint64(7))
        found = np.flatnonzero(mixed * GOLDEN < np.uint64(2**64 // _ONE_IN))
        if len(found):
            return min((start + int(found[0])) * 8, most)
    return most


def name_of(piece: bytes | memoryview) -> bytes:
    """Return the name of a chunk: a hash of its content."""
    return hashlib.blake2b(piece, digest_size=16).digest()


def joined(snapshot: Snapshot, *, allow_pickle: bool = False) -> tuple[bytes, bytes]:
    """Return a snapshot's header, and its arrays as one byte string, each at a multiple of 8. O(n)."""
    text, pieces = snapshot.pieces(allow_pickle=allow_pickle)
    return text, b"".join([part for piece in pieces for part in (piece, bytes(-len(piece) % 8))])


def parted(text: bytes, data: bytes, *, allow_pickle: bool = False) -> Snapshot:
    """Return the snapshot that `joined` was given.

    >>> snapshot = Snapshot({"a": 1}, [], "", {"b": np.arange(3, dtype="i1"), "c": np.ones(2)})
    >>> parted(*joined(snapshot)).arrays["c"]
    array([1., 1.])
    """
    pieces, at = [], 0
    for size in sizes(text):
        pieces.append(memoryview(data)[at : at + size])
        at += size + -size % 8
    return Snapshot.of_pieces(text, pieces, allow_pickle=allow_pickle)
