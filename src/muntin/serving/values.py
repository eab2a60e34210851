"""The value of a key: what `ask` needs of it, as bytes.

    magic (4) | layout (8) | rows of each table (u4 each) | marks | numbers | rows of each table | objects | CRC-32 (4)

The layout names the arrays and their types; values name it by a hash, and the store holds it once. Rows are records,
so that the values of many keys are one array for each table: they are cut out of it, and joined again, without a look
at what is in them. Cells that are Python objects are written apart, as snapshots write them, and never as pickles.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muntin.errors import SnapshotError
from muntin.objects import decode_objects, encode_objects
from muntin.snapshots import refusing_forged
from muntin.streams.strategy import KeyedState
from muntin.types import OBJECT, Array

MAGIC = b"mun\x01"
NAME = 8
"""The length of the name of a layout."""
_CRC = struct.Struct("<I")
_SIZE = struct.Struct("<Q")
_HEAD = len(MAGIC) + NAME


class DamagedValueError(SnapshotError):
    """A value in a store of features is not what was published."""


@dataclass(frozen=True)
class Layout:
    """Which arrays a value holds."""

    fixed: dict[str, list[int]]
    """The arrays that are the same in all values, whole."""
    marks: dict[str, int]
    """The lengths of arrays of int64."""
    numbers: tuple[str, ...]
    """The arrays of int64 with an entry for each key."""
    tables: dict[str, dict[str, Any]]
    """The types of the columns of each table, but for the first one, which is the key."""
    owners: dict[str, str]
    """The first column of each table."""
    strategies: list[dict[str, Any]]
    """Which strategy answers which windows."""
    places: list[list[dict[str, Any]]]
    """Where each strategy has what belongs to which aggregate."""

    @classmethod
    def of(cls, state: KeyedState, strategies: list[dict[str, Any]], places: list[list[dict[str, Any]]]) -> Layout:
        """Return the layout of a state."""
        owners = {name: next(iter(table)) for name, table in state.tables.items()}
        return cls(
            {name: held.tolist() for name, held in state.fixed.items()},
            {name: len(held) for name, held in state.marks.items()},
            tuple(state.numbers),
            {
                name: {column: _described(column, held) for column, held in table.items() if column != owners[name]}
                for name, table in state.tables.items()
            },
            owners,
            strategies,
            places,
        )

    @cached_property
    def text(self) -> bytes:
        """The layout as JSON."""
        return json.dumps({**vars(self), "numbers": list(self.numbers)}).encode()

    @cached_property
    def name(self) -> bytes:
        """What values call it."""
        return hashlib.sha256(self.text).digest()[:NAME]

    @classmethod
    def from_text(cls, text: bytes) -> Layout:
        """Return the layout that was written as JSON."""
        with refusing_forged():
            described = json.loads(text)
            return cls(**{**described, "numbers": tuple(described["numbers"])})

    @cached_property
    def records(self) -> dict[str, np.dtype[Any]]:
        """The type of the rows of each table, without objects."""
        return {
            name: np.dtype([(column, _type(kind)) for column, kind in columns.items() if kind != "O"])
            for name, columns in self.tables.items()
        }

    @cached_property
    def objects(self) -> list[tuple[str, str]]:
        """The tables and columns of objects."""
        return [
            (name, column) for name, columns in self.tables.items() for column, kind in columns.items() if kind == "O"
        ]

    @cached_property
    def counts(self) -> struct.Struct:
        """How the numbers of rows are written."""
        return struct.Struct(f"<{len(self.tables)}I")


def _described(name: str, array: Array) -> Any:
    """Return the type of a column for a layout."""
    if _is_mask(name):  # without entries if nothing is missing
        return np.dtype(np.bool_).str
    return _description(array.dtype)


def _is_mask(name: str) -> bool:
    return name.startswith("valid.")


def _description(dtype: np.dtype[Any]) -> Any:
    if dtype == OBJECT:
        return "O"
    if dtype.names is None:
        return dtype.str
    return [[name, dtype[name].base.str, list(dtype[name].shape)] for name in dtype.names]


def _type(described: Any) -> np.dtype[Any]:
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype([(name, base, tuple(shape)) for name, base, shape in described], align=True)


# ------------------------------------------------------------ cut


def cut(state: KeyedState, layout: Layout, keys: int) -> list[bytes | None]:
    """Return the value of each key; None for a key that nothing is kept of. O(state)."""
    marks = _joined(state.marks)
    numbers = _stacked([state.numbers[name] for name in layout.numbers], keys)
    rows, bounds = [], []
    for name, table in state.tables.items():
        bounds.append(np.searchsorted(table[layout.owners[name]], np.arange(keys + 1)))
        rows.append(_records(table, layout.records[name]))
    counts = np.stack([np.diff(each) for each in bounds], axis=1) if bounds else np.zeros((keys, 0), np.int64)
    is_held: list[bool] = np.logical_or(counts.any(axis=1), numbers.any(axis=1)).tolist()
    heads, all_numbers, width = counts.astype("<u4").tobytes(), numbers.tobytes(), 8 * len(layout.numbers)
    pieces = [(data, (bound * size).tolist()) for (data, size), bound in zip(rows, bounds, strict=True)]
    cells = [(state.tables[name][column], bounds[list(layout.tables).index(name)]) for name, column in layout.objects]
    begin, size = MAGIC + layout.name, layout.counts.size
    values: list[bytes | None] = []
    for i, held in enumerate(is_held):
        if not held:
            values.append(None)
            continue
        parts = [begin, heads[i * size : (i + 1) * size], marks, all_numbers[i * width : (i + 1) * width]]
        parts += [data[at[i] : at[i + 1]] for data, at in pieces]
        parts += [_boxed(array[at[i] : at[i + 1]]) for array, at in cells]
        value = b"".join(parts)
        values.append(value + _CRC.pack(zlib.crc32(value)))
    return values


def empty(state: KeyedState, layout: Layout) -> bytes:
    """Return the value of a key that nothing is kept of: how far the stream had come. `state` is of no keys."""
    marks = _joined(state.marks)
    value = b"".join([MAGIC, layout.name, bytes(layout.counts.size), marks, bytes(8 * len(layout.numbers))])
    value += b"".join(_boxed(np.zeros(0, OBJECT)) for _ in layout.objects)
    return value + _CRC.pack(zlib.crc32(value))


def _joined(marks: Mapping[str, Array]) -> bytes:
    assert all(held.dtype == np.int64 for held in marks.values())
    return b"".join(held.tobytes() for held in marks.values())


def _stacked(arrays: Sequence[Array], keys: int) -> Array:
    return np.stack(arrays, axis=1).astype("<i8") if arrays else np.zeros((keys, 0), "<i8")


def _records(table: Mapping[str, Array], kind: np.dtype[Any]) -> tuple[bytes, int]:
    """Return the rows of a table as records, and the size of one."""
    assert kind.names is not None
    records = np.zeros(len(next(iter(table.values()))), kind)
    for name in kind.names:
        held = table[name]
        records[name] = True if _is_mask(name) and not len(held) else held
    return records.tobytes(), kind.itemsize


def _boxed(cells: Array) -> bytes:
    data = encode_objects(list(cells), allow_pickle=False)
    return _SIZE.pack(len(data)) + data


# ------------------------------------------------------------ join


def layout_of(value: bytes) -> bytes:
    """Return the name of the layout of a value; reject what is damaged. O(bytes)."""
    if len(value) < _HEAD + _CRC.size or value[: len(MAGIC)] != MAGIC:
        raise DamagedValueError("it does not begin as values do, or is cut short")
    if _CRC.unpack_from(value, len(value) - _CRC.size)[0] != zlib.crc32(memoryview(value)[: -_CRC.size]):
        raise DamagedValueError("its checksum does not match")
    return value[len(MAGIC) : _HEAD]


def join(layout: Layout, values: Sequence[bytes]) -> dict[str, Array]:
    """Return the arrays of several keys, in their order; `layout_of` has checked the values. O(bytes)."""
    with refusing_forged():
        return _join(layout, values)


def _join(layout: Layout, values: Sequence[bytes]) -> dict[str, Array]:
    marks_size, width = 8 * sum(layout.marks.values()), 8 * len(layout.numbers)
    sizes = [kind.itemsize for kind in layout.records.values()]
    marks_at = _HEAD + layout.counts.size
    numbers_at = marks_at + marks_size
    counts: list[tuple[int, ...]] = []
    runs: list[list[bytes]] = [[] for _ in sizes]
    cells: list[list[Any]] = [[] for _ in layout.objects]
    for value in values:
        mine = layout.counts.unpack_from(value, _HEAD)
        counts.append(mine)
        at = numbers_at + width
        for run, count, size in zip(runs, mine, sizes, strict=True):
            run.append(value[at : at + count * size])
            at += count * size
        for column in cells:
            (size,) = _SIZE.unpack_from(value, at)
            at += _SIZE.size
            column.extend(decode_objects(value[at : at + size]))
            at += size
        if at != len(value) - _CRC.size:
            raise DamagedValueError("it has another length than its layout says")
    marks = np.frombuffer(b"".join([value[marks_at:numbers_at] for value in values]), "<i8")
    numbers = np.frombuffer(b"".join([value[numbers_at : numbers_at + width] for value in values]), "<i8")
    arrays = {name: np.array(held, np.int64) for name, held in layout.fixed.items()}
    arrays |= _divided(marks.reshape(len(values), -1).max(axis=0), layout.marks)
    by_key = numbers.reshape(len(values), -1)
    arrays |= {name: by_key[:, i].copy() for i, name in enumerate(layout.numbers)}
    owned = np.array(counts, np.int64).reshape(len(values), len(sizes))
    for i, (name, kind) in enumerate(layout.records.items()):
        records = np.frombuffer(b"".join(runs[i]), kind)
        assert kind.names is not None
        arrays[f"{name}.{layout.owners[name]}"] = np.repeat(np.arange(len(values)), owned[:, i])
        arrays |= {f"{name}.{column}": np.ascontiguousarray(records[column]) for column in kind.names}
    return arrays | {
        f"{name}.{column}": _object_array(held) for (name, column), held in zip(layout.objects, cells, strict=True)
    }


def _divided(marks: Array, lengths: Mapping[str, int]) -> dict[str, Array]:
    arrays, at = {}, 0
    for name, length in lengths.items():
        arrays[name] = marks[at : at + length]
        at += length
    return arrays


def _object_array(cells: list[Any]) -> Array:
    array = np.empty(len(cells), OBJECT)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array
