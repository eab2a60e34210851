"""Chunks: stretches of one level's nodes as bytes, self-describing and with checksums.

    magic (4) | format (u2) | objects? (u2) | level (u4) | generation (u4) | number (u8) | meaning (16) | lengths (2 u4)
    | checksum of what follows (u8) | CRC-32 of all before (u4) | states | times

The checksum is the sum of the 64-bit words, each times an odd number for its place, modulo 2^64: it detects a change of
any single word for certain, any other except one in 2^60 or so, and takes a tenth of the time of a CRC.

The meaning is a hash of the aggregation, of the types, and of the window: a chunk of another window, or under another
name, is rejected. Format 1 did not include the window.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.aggregators.stored.names import Name
from muntin.errors import DamagedChunkError
from muntin.kernels.mixing import GOLDEN, mix
from muntin.objects import decode_objects, encode_objects
from muntin.types import OBJECT, Array

MAGIC, FORMAT = b"mtch", 2
OLDEST = 1
"""The oldest readable format: of windows created when it was written."""
_HEADER = struct.Struct("<4sHHIIQ16sIIQ")
_CHECKSUM = struct.Struct("<I")
_START = _HEADER.size + _CHECKSUM.size


class ChunkFormat:
    """Writes and reads the chunks of one window, whose states have one type."""

    def __init__(self, binding: Binding, window_id: str, *, oldest: int = FORMAT, allow_pickle: bool = False) -> None:
        self._dtype = binding.dtype
        self._states = States(binding)
        self._allow_pickle = allow_pickle
        content = f"{binding.fingerprint}{binding.dtype}"
        meant = {1: content, 2: f"{content} of {window_id}"}
        self._meanings = {
            version: hashlib.sha256(text.encode()).digest()[:16] for version, text in meant.items() if version >= oldest
        }

    def encoder(self, name: Name, states: Array, times: Array) -> Callable[[], bytes]:
        """Return a call that returns the bytes of a chunk as it is now.

        Objects are encoded in that call, since it may fail; states of fixed size at once, which is their only copy.
        """
        if states.dtype == OBJECT:
            states, times = states.copy(), times.copy()
            return lambda: self.encode(name, states, times)
        data = self.encode(name, states, times)
        return lambda: data

    def encode(self, name: Name, states: Array, times: Array) -> bytes:
        """Return the bytes of a chunk. O(n)."""
        objects = states.dtype == OBJECT
        payload = encode_objects(list(states)) if objects else states.view("u1").data
        stamps = times.view("u1").data
        header = _HEADER.pack(
            MAGIC,
            FORMAT,
            objects,
            name.level,
            name.generation,
            name.number,
            self._meanings[FORMAT],
            len(payload),
            len(stamps),
            checksum(payload) ^ checksum(stamps),
        )
        return b"".join((header, _CHECKSUM.pack(zlib.crc32(header)), payload, stamps))

    def decode(self, name: Name, data: bytes | None) -> tuple[Array, Array]:
        """Return the states and times of a chunk; reject anything but what `encode` wrote under this name."""
        if data is None:
            raise DamagedChunkError(f"{name} is not in the store, and was written there")
        if len(data) < _START:
            raise DamagedChunkError(f"{name} is torn: {len(data)} bytes are left of it")
        magic, version, objects, level, generation, number, meaning, length, rest, total = _HEADER.unpack_from(data)
        if magic != MAGIC or version not in self._meanings:
            known = " and ".join(map(str, self._meanings))
            raise DamagedChunkError(f"{name} has format {version}; of this window muntin reads format {known}")
        if zlib.crc32(data[: _HEADER.size]) != _CHECKSUM.unpack_from(data, _HEADER.size)[0]:
            raise DamagedChunkError(f"{name} is damaged: the checksum of its header does not match")
        if len(data) != _START + length + rest:
            raise DamagedChunkError(f"{name} is torn: {len(data)} bytes are left of it")
        view = memoryview(data)[_START:]
        if checksum(view[:length]) ^ checksum(view[length:]) != total:
            raise DamagedChunkError(f"{name} is damaged: its checksum does not match")
        if (level, generation, number) != name or meaning != self._meanings[version]:
            raise DamagedChunkError(f"the store holds another chunk, or that of another window, in the place of {name}")
        return self._read(data, bool(objects), length), np.frombuffer(data, "i8", rest // 8, _START + length)

    def _read(self, data: bytes, objects: bool, length: int) -> Array:
        if not objects:
            return np.frombuffer(data, self._dtype, length // self._dtype.itemsize, _START)
        values = decode_objects(data[_START : _START + length], allow_pickle=self._allow_pickle)
        array: Any = np.empty(len(values), OBJECT)
        for i, value in enumerate(values):
            array[i] = value
        return self._states.revived(array)


def checksum(data: Any) -> int:
    """Return the checksum of a buffer; see the top of this file.

    >>> checksum(b"abcdefgh") != checksum(b"abcdefgi")
    True
    """
    words = np.frombuffer(data, "u8", len(data) // 8)
    rest = zlib.crc32(data[8 * len(words) :], len(data))
    return int(np.dot(words, _weights(len(words)))) ^ rest


def _weights(count: int) -> Array:
    return _table(count.bit_length())[:count]


@functools.cache
def _table(bits: int) -> Array:
    """Return an odd number for each of 2^bits places, by splitmix64, a generator indexed by place."""
    odd: Array = mix(np.arange(1 << bits, dtype="u8") * GOLDEN) | np.uint64(1)
    return odd
