"""Snapshots: state as bytes. A header, raw buffers, a checksum; never a pickle for states of a fixed size.

    magic (8) | format (u2) | header length (u4) | header, JSON | schema, Arrow | buffers ... | SHA-256 (32)

A wrong version, a wrong aggregation or a flipped bit is a clear error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import MuntinError, SnapshotError
from muntin.objects import decode_objects, encode_objects
from muntin.types import OBJECT, Array

MAGIC = b"muntin\x00\x01"
FORMAT = 1
_PREFIX = struct.Struct("<8sHI")
_ANY = b"python object"

FORGED = (
    LookupError,
    ValueError,
    TypeError,
    AssertionError,
    RecursionError,
    struct.error,
    pa.ArrowException,
)
"""What reading bytes that were made up may end in, though their checksum is right."""


@dataclass(frozen=True)
class Snapshot:
    """What a snapshot holds: facts, the types of the columns, the aggregation's fingerprint, and arrays by name."""

    header: Mapping[str, Any]
    schema: Sequence[tuple[str, pa.DataType | None]]
    fingerprint: str
    arrays: Mapping[str, Array]

    def encode(self) -> bytes:
        """Return the bytes. O(n)."""
        text, pieces = self.pieces()
        body = b"".join([_PREFIX.pack(MAGIC, FORMAT, len(text)), text, *pieces])
        return body + hashlib.sha256(body).digest()

    def pieces(self, *, allow_pickle: bool = True) -> tuple[bytes, list[bytes | memoryview]]:
        """Return the header and the pieces it describes, for whoever keeps them apart and sees that they stay whole.

        Arrays are not copied: what changes them changes their pieces.
        """
        pieces: list[bytes | memoryview] = [_encode_schema(self.schema)]
        described = []
        for name, array in self.arrays.items():
            is_object = array.dtype == OBJECT
            data = encode_objects(list(array), allow_pickle=allow_pickle) if is_object else _bytes_of(array)
            described.append({"name": name, "dtype": _describe(array.dtype), "rows": len(array), "bytes": len(data)})
            pieces.append(data)
        header = {"facts": self.header, "fingerprint": self.fingerprint, "schema": len(pieces[0]), "arrays": described}
        return json.dumps(header, sort_keys=True).encode(), pieces

    @classmethod
    def of_pieces(cls, text: bytes, pieces: Sequence[bytes | memoryview], *, allow_pickle: bool = False) -> Snapshot:
        """Return the snapshot whose `pieces` these are."""
        header = json.loads(text)
        arrays = {
            described["name"]: _decode_array(piece, described, allow_pickle)
            for described, piece in zip(header["arrays"], pieces[1:], strict=True)
        }
        return cls(header["facts"], _decode_schema(pieces[0]), header["fingerprint"], arrays)

    @classmethod
    def decode(cls, data: bytes, *, allow_pickle: bool = False) -> Snapshot:
        """Read the bytes again; refuse whatever is not exactly what `encode` wrote."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise SnapshotError(f"a snapshot is bytes, and this is {type(data).__name__}")
        data = bytes(data)
        if len(data) < _PREFIX.size + 32 or data[:6] != MAGIC[:6]:
            raise SnapshotError("these bytes are not a muntin snapshot, or are cut short")
        magic, version, length = _PREFIX.unpack_from(data)
        if version != FORMAT or magic != MAGIC:
            raise SnapshotError(f"the snapshot has format {version}; this version of muntin reads format {FORMAT}")
        if not is_whole(data):
            raise SnapshotError("the snapshot is damaged: its checksum does not match")
        with refusing_forged():
            return cls._decode(data, length, allow_pickle)

    @classmethod
    def _decode(cls, data: bytes, length: int, allow_pickle: bool) -> Snapshot:
        at = _PREFIX.size + length
        text = data[_PREFIX.size : at]
        pieces = []
        for size in sizes(text):
            pieces.append(data[at : at + size])
            at += size
        return cls.of_pieces(text, pieces, allow_pickle=allow_pickle)


@contextlib.contextmanager
def refusing_forged() -> Iterator[None]:
    """Say of bytes whose checksum is right, but which cannot be read, that they are no snapshot."""
    try:
        yield
    except MuntinError:
        raise
    except MemoryError as error:
        raise SnapshotError("there is not enough memory for what the snapshot says that it holds") from error
    except FORGED as error:
        raise SnapshotError(f"the snapshot is not what muntin wrote: {type(error).__name__}: {error}") from error


def sizes(text: bytes) -> list[int]:
    """Return the lengths of the pieces that a header describes.

    >>> text, pieces = Snapshot({}, [], "", {"a": np.zeros(3)}).pieces()
    >>> sizes(text) == [len(piece) for piece in pieces]
    True
    """
    header = json.loads(text)
    return [header["schema"], *(described["bytes"] for described in header["arrays"])]


def is_whole(data: bytes) -> bool:
    """Say whether bytes are a snapshot to its end, of whatever format, as it was written. O(n).

    >>> data = Snapshot({}, [], "", {}).encode()
    >>> is_whole(data), is_whole(data[:-1])
    (True, False)
    """
    return data[:6] == MAGIC[:6] and hashlib.sha256(data[:-32]).digest() == data[-32:]


def _bytes_of(array: Array) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


def _decode_array(piece: bytes | memoryview, described: Mapping[str, Any], allow_pickle: bool) -> Array:
    dtype = _dtype(described["dtype"])
    if dtype != OBJECT:
        return np.frombuffer(piece, dtype).copy()
    array = np.empty(described["rows"], OBJECT)
    for i, value in enumerate(decode_objects(bytes(piece), allow_pickle=allow_pickle)):
        array[i] = value
    return array


def _describe(dtype: np.dtype[Any]) -> Any:
    if dtype.names is None:
        return dtype.str
    return [[name, dtype[name].base.str, list(dtype[name].shape)] for name in dtype.names]


def _dtype(described: Any) -> np.dtype[Any]:
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype([(name, base, tuple(shape)) for name, base, shape in described], align=True)


def _encode_schema(schema: Sequence[tuple[str, pa.DataType | None]]) -> bytes:
    fields = [
        pa.field(name, pa.null(), metadata={"type": _ANY}) if kind is None else pa.field(name, kind)
        for name, kind in schema
    ]
    return pa.schema(fields).serialize().to_pybytes()  # type: ignore[no-any-return]  # pyarrow has no types here


def _decode_schema(data: bytes | memoryview) -> list[tuple[str, pa.DataType | None]]:
    fields = pa.ipc.read_schema(pa.py_buffer(data))
    return [(field.name, None if (field.metadata or {}).get(b"type") == _ANY else field.type) for field in fields]
