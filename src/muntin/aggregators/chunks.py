"""Chunks: a stretch of one level's nodes as bytes. Each says what it is, and carries a checksum.

magic (4) | format (u2) | objects? (u2) | level (u4) | generation (u4) | number (u8) | meaning (16) | lengths (2 u4)
| states | times | CRC-32 (u4)
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.errors import DamagedChunkError
from muntin.objects import decode_objects, encode_objects
from muntin.types import OBJECT, Array

MAGIC, FORMAT = b"mtch", 1
_HEADER = struct.Struct("<4sHHIIQ16sII")
_CHECKSUM = struct.Struct("<I")


class Name(NamedTuple):
    """Which chunk of a window it is."""

    level: int
    generation: int
    number: int


class ChunkFormat:
    """Writes and reads the chunks of one window, whose states have one type."""

    def __init__(self, binding: Binding, *, allow_pickle: bool = False) -> None:
        self._dtype = binding.dtype
        self._states = States(binding)
        self._allow_pickle = allow_pickle
        self._meaning = hashlib.sha256(f"{binding.fingerprint}{binding.dtype}".encode()).digest()[:16]

    def encode(self, name: Name, states: Array, times: Array) -> bytes:
        """Return the bytes of a chunk. O(n)."""
        objects = states.dtype == OBJECT
        payload = encode_objects(list(states)) if objects else states.tobytes()
        stamps = times.tobytes()
        header = _HEADER.pack(
            MAGIC, FORMAT, objects, name.level, name.generation, name.number, self._meaning, len(payload), len(stamps)
        )
        body = b"".join((header, payload, stamps))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def decode(self, name: Name, data: bytes | None) -> tuple[Array, Array]:
        """Return the states and times of a chunk; refuse what is not exactly what `encode` wrote under this name."""
        if data is None:
            raise DamagedChunkError(f"{name} is not in the store, and was written there")
        if len(data) < _HEADER.size + _CHECKSUM.size:
            raise DamagedChunkError(f"{name} is torn: {len(data)} bytes are left of it")
        magic, version, objects, level, generation, number, meaning, length, rest = _HEADER.unpack_from(data)
        if magic != MAGIC or version != FORMAT:
            raise DamagedChunkError(f"{name} has format {version}; this version of muntin reads format {FORMAT}")
        if len(data) != _HEADER.size + length + rest + _CHECKSUM.size:
            raise DamagedChunkError(f"{name} is torn: {len(data)} bytes are left of it")
        if zlib.crc32(memoryview(data)[: -_CHECKSUM.size]) != _CHECKSUM.unpack_from(data, len(data) - 4)[0]:
            raise DamagedChunkError(f"{name} is damaged: its checksum does not match")
        if (level, generation, number) != (name.level, name.generation, name.number) or meaning != self._meaning:
            raise DamagedChunkError(f"the store holds another chunk, or that of another window, in the place of {name}")
        return self._read(data, bool(objects), length), np.frombuffer(data, "i8", rest // 8, _HEADER.size + length)

    def _read(self, data: bytes, objects: bool, length: int) -> Array:
        if not objects:
            return np.frombuffer(data, self._dtype, length // self._dtype.itemsize, _HEADER.size)
        values = decode_objects(data[_HEADER.size : _HEADER.size + length], allow_pickle=self._allow_pickle)
        array: Any = np.empty(len(values), OBJECT)
        for i, value in enumerate(values):
            array[i] = value
        return self._states.revived(array)
