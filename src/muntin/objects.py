"""Python values as bytes, for states that have no fixed size. Plain values need no pickle, and are safe to read."""

from __future__ import annotations

import datetime
import decimal
import io
import pickle
import re
import struct
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from muntin.errors import SnapshotError

_LENGTH = struct.Struct("<Q")
_RECORD = re.compile(r"_S|_P\d+")
"""The names of the records that generated modules define; any other named tuple is the user's own."""


class Packed:
    """A state with a form of plain values, in which it is written, and read again as `Stored`."""

    __slots__ = ()

    def plain(self) -> Any:
        """Return it as plain values: equal states have equal ones."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Compare the plain values."""
        return isinstance(other, Packed) and encode_objects([self.plain()]) == encode_objects([other.plain()])

    def __hash__(self) -> int:
        """Hash the plain values."""
        return hash(encode_objects([self.plain()]))

    def __reduce__(self) -> Any:
        """Pickle the plain values."""
        return Stored, (self.plain(),)


class Stored(Packed):
    """A state that has been read; whoever knows what it means makes its own of it, and keeps that here."""

    __slots__ = ("made", "values")

    def __init__(self, values: Any) -> None:
        self.values = values
        self.made: Any = None

    def plain(self) -> Any:
        """Return the values."""
        return self.values


def encode_objects(values: list[Any], *, allow_pickle: bool = True) -> bytes:
    """Return the bytes of a list of values. Those that only pickle can write are refused unless `allow_pickle`.

    >>> decode_objects(encode_objects([1, "a", (2.5, None)]))
    [1, 'a', (2.5, None)]
    """
    out = io.BytesIO()
    _write(out, values, allow_pickle)
    return out.getvalue()


def decode_objects(data: bytes, *, allow_pickle: bool = False) -> list[Any]:
    """Read them again. Values that only pickle could write are refused unless `allow_pickle`."""
    values = _read(io.BytesIO(data), allow_pickle)
    assert isinstance(values, list)
    return values


def _text(out: io.BytesIO, tag: bytes, text: bytes) -> None:
    out.write(tag + _LENGTH.pack(len(text)) + text)


def _write(out: io.BytesIO, value: Any, allow_pickle: bool) -> None:
    kind = type(value)
    if value is None or kind is bool:
        out.write({None: b"N", True: b"T", False: b"F"}[value])
    elif kind in _TEXTS:
        tag, to_text, _ = _TEXTS[kind]
        _text(out, tag, to_text(value))
    elif kind in _SEQUENCES or (isinstance(value, tuple) and _RECORD.fullmatch(kind.__name__)):
        # A state's record is written as a plain tuple; whoever reads it knows the record it belongs to.
        out.write(_SEQUENCES.get(kind, b"t") + _LENGTH.pack(len(value)))
        for item in value:
            _write(out, item, allow_pickle)
    elif kind is dict:
        out.write(b"k" + _LENGTH.pack(2 * len(value)))
        for item in chain.from_iterable(value.items()):
            _write(out, item, allow_pickle)
    elif isinstance(value, np.generic) and value.dtype != object:
        _text(out, b"g", value.dtype.str.encode() + b" " + value.tobytes())
    elif isinstance(value, Packed) or (isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1):
        tag, items = (b"q", [value.plain()]) if isinstance(value, Packed) else (b"o", value)
        out.write(tag + _LENGTH.pack(len(items)))
        for item in items:
            _write(out, item, allow_pickle)
    elif isinstance(value, np.ndarray) and value.dtype.names is None and value.ndim == 1:
        _text(out, b"a", value.dtype.str.encode() + b" " + value.tobytes())
    elif not allow_pickle:
        raise SnapshotError(
            f"the state holds a value of {kind.__module__}.{kind.__qualname__}, which only pickle can write: keep "
            "plain values, or pass allow_pickle=True if only you can write where it is kept"
        )
    else:
        _text(out, b"p", pickle.dumps(value))


def _read(data: io.BytesIO, allow_pickle: bool) -> Any:
    tag = data.read(1)
    if tag in b"NTF":
        return {b"N": None, b"T": True, b"F": False}[tag]
    (length,) = _LENGTH.unpack(data.read(8))
    if tag in _MAKERS:
        return _MAKERS[tag](_read(data, allow_pickle) for _ in range(length))
    text = data.read(length)
    if tag in _READERS:
        return _READERS[tag](text)
    if tag in (b"g", b"a"):
        dtype, _, raw = text.partition(b" ")
        array = np.frombuffer(raw, np.dtype(dtype.decode())).copy()
        return array[0] if tag == b"g" else array
    if not allow_pickle:
        raise SnapshotError(
            "the snapshot holds objects that only pickle can read; pass allow_pickle=True if you trust its origin"
        )
    return pickle.loads(text)


def _mapping(items: Iterable[Any]) -> Any:
    one_by_one = iter(items)
    return dict(zip(one_by_one, one_by_one, strict=True))


def _object_array(items: Iterable[Any]) -> Any:
    cells = list(items)
    array = np.empty(len(cells), object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def _microseconds(value: datetime.timedelta) -> bytes:
    return str(value // datetime.timedelta(microseconds=1)).encode()


_TEXTS: dict[type, tuple[bytes, Any, Any]] = {
    int: (b"i", lambda v: str(v).encode(), int),
    float: (b"f", lambda v: struct.pack("<d", v), lambda t: struct.unpack("<d", t)[0]),
    str: (b"s", lambda v: v.encode("utf-8", "surrogatepass"), lambda t: t.decode("utf-8", "surrogatepass")),
    bytes: (b"b", bytes, bytes),
    decimal.Decimal: (b"d", lambda v: str(v).encode(), lambda t: decimal.Decimal(t.decode())),
    datetime.datetime: (b"m", lambda v: v.isoformat().encode(), lambda t: datetime.datetime.fromisoformat(t.decode())),
    datetime.time: (b"c", lambda v: v.isoformat().encode(), lambda t: datetime.time.fromisoformat(t.decode())),
    datetime.timedelta: (b"u", _microseconds, lambda t: datetime.timedelta(microseconds=int(t))),
    datetime.date: (b"y", lambda v: v.isoformat().encode(), lambda t: datetime.date.fromisoformat(t.decode())),
}
_SEQUENCES: dict[type, bytes] = {list: b"l", tuple: b"t", set: b"e", frozenset: b"z"}
_READERS = {tag: read for tag, _, read in _TEXTS.values()}
_MAKERS: dict[bytes, Any] = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset, b"o": _object_array, b"k": _mapping}
_MAKERS[b"q"] = lambda items: Stored(next(iter(items)))
