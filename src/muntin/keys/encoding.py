"""Encodes values of any Arrow type as words or bytes, equal exactly if the values are, and decodes them.

A number, a time or a boolean is a word of 64 bits. All else is bytes; those of several columns, or of the parts of a
nested value, are concatenated: each begins with a byte that is 0 for null, and values of variable length include their
length. NaN equals NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnTypeError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.keys.kernels import FINDING, KEYING, WITHIN
from muntin.memory import room
from muntin.types import Array

Runs: TypeAlias = tuple[Array, Array, Array]
"""Bytes, and the start and length of each row's in them."""


@cache
def _loaded(compiled: bool) -> Any:
    return kernel_cache.load(standalone(*KEYING, within=WITHIN, counted=False), compiled=compiled)


def kernels() -> Any:
    """Return the kernels of key tables; plain Python inside `uncompiled()`. O(1) after the first time."""
    return _loaded(not kernel_cache.is_uncompiled())


@cache
def _loaded_finding(compiled: bool) -> Any:
    return kernel_cache.load(standalone(*FINDING, within=WITHIN, counted=False), compiled=compiled)


def finding_kernels() -> Any:
    """Return the kernels that look up keys without changes; plain Python inside `uncompiled()`."""
    return _loaded_finding(not kernel_cache.is_uncompiled())


# ---------------------------------------------------------------- types


def is_word(kind: pa.DataType) -> bool:
    """Return whether a value of this type is one word.

    >>> is_word(pa.timestamp("us")), is_word(pa.string())
    (True, False)
    """
    number = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(number or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)))


def is_text(kind: pa.DataType) -> bool:
    """Return whether a value of this type is a string or bytes of any length.

    >>> is_text(pa.large_binary()), is_text(pa.binary(3))
    (True, False)
    """
    return kind in _TEXTS


def python_types(kind: pa.DataType) -> tuple[type, ...]:
    """Return the Python types whose values are equal exactly if keys of this type are; none for floats and lists.

    >>> python_types(pa.string()), python_types(pa.float64())
    ((<class 'str'>, <class 'NoneType'>), ())
    """
    inner = without_indices(kind)
    if is_text(inner):
        return (str if inner in _STRINGS else bytes), NoneType
    if pa.types.is_boolean(inner):
        return bool, NoneType
    return (int, np.int64, NoneType) if pa.types.is_integer(inner) else ()


_STRINGS = frozenset((pa.string(), pa.large_string(), pa.string_view()))
_VIEWS = frozenset((pa.string_view(), pa.binary_view()))
_WIDE = frozenset((pa.large_string(), pa.large_binary()))
_TEXTS = frozenset((pa.string(), pa.binary(), *_WIDE, *_VIEWS))
_BYTE, _INT32, _INT64 = np.dtype(np.uint8), np.dtype(np.int32), np.dtype(np.int64)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_interval(kind))


def _is_list(kind: pa.DataType) -> bool:
    views = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(views or lists or pa.types.is_map(kind))


def _element(kind: pa.DataType) -> pa.Field:
    if pa.types.is_map(kind):
        return pa.field("entries", pa.struct([kind.key_field, kind.item_field]), nullable=False)
    return kind.value_field


@cache
def _wrapped(kind: pa.DataType) -> pa.DataType | None:
    """Return the storage type of a type, if that is another."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return kind.value_type if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind) else None


def require_key_type(kind: pa.DataType) -> None:
    """Reject a type whose values cannot be keys: unions.

    >>> require_key_type(pa.list_(pa.int8()))
    """
    inner = _wrapped(kind)
    if inner is not None:
        require_key_type(inner)
    elif pa.types.is_struct(kind):
        for field in kind:
            require_key_type(field.type)
    elif _is_list(kind):
        require_key_type(_element(kind).type)
    elif not (is_word(kind) or is_text(kind) or _is_fixed(kind) or pa.types.is_null(kind)):
        raise ColumnTypeError(
            f"a value of type {kind} cannot be a key; use a number, a time, a string, a list, a struct"
        )


def without_indices(kind: pa.DataType) -> pa.DataType:
    """Return a type unchanged; for a dictionary, the type of its values. The index type does not affect keys.

    >>> without_indices(pa.dictionary(pa.int8(), pa.string()))
    DataType(string)
    """
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def frozen(array: Array) -> Array:
    """Return a read-only view, as those of Arrow's buffers, so that a kernel is compiled for one type only.

    >>> frozen(np.zeros(1)).flags.writeable
    False
    """
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def copy_runs(data: Array, starts: Array, lengths: Array, into: Array, at: Array) -> None:
    """Copy runs of bytes, each to its place. O(bytes).

    >>> into = np.zeros(3, np.uint8)
    >>> copy_runs(np.array([7, 8], np.uint8), np.array([1]), np.array([1]), into, np.array([2]))
    >>> into
    array([0, 0, 8], dtype=uint8)
    """
    kernels().copy_runs(frozen(data), frozen(starts), frozen(lengths), into, frozen(at))


def hashes_of(columns: Sequence[Any], rows: int) -> Array:
    """Return a hash of each row, the same in every process and version. O(bytes).

    >>> hashes_of([pa.array(["a", None])], 2) % 100
    array([13,  1], dtype=uint64)
    """
    data, ends = rows_of([one_array(column) for column in columns], rows)
    hashes = np.empty(rows, np.uint64)
    with np.errstate(over="ignore"):  # modulo 2**64, as plain Python too
        kernels().hash_runs(frozen(data), frozen(ends), hashes)
    return hashes


# ---------------------------------------------------------------- from Arrow


def one_array(column: Any) -> pa.Array:
    """Return a column as one array of plain values: dictionaries and runs are decoded. O(n).

    >>> one_array(pa.chunked_array([["a"], ["b"]])).to_pylist()
    ['a', 'b']
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return one_array(column.chunk(0))
        pieces = [one_array(chunk) for chunk in column.chunks] or [one_array(pa.array([], column.type))]
        return pa.concat_arrays(pieces)
    kind = column.type
    if _wrapped(kind) is None:
        return column
    if isinstance(kind, pa.BaseExtensionType):
        return one_array(column.storage)
    return one_array(column.dictionary_decode() if pa.types.is_dictionary(kind) else pc.run_end_decode(column))


def mask_of(array: pa.Array) -> Array:
    """Return which rows are not null; an empty array if none is null.

    >>> mask_of(pa.array([1, None])), mask_of(pa.array([1]))
    (array([ True, False]), array([], dtype=bool))
    """
    if array.null_count == 0:
        return np.zeros(0, np.bool_)
    mask: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def words_of(array: pa.Array) -> Array:
    """Return values of one word each; those of nulls are meaningless. O(n), without a copy for int64.

    >>> words_of(pa.array([1, -1], pa.int8()))
    array([                   1, 18446744073709551615], dtype=uint64)
    """
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    values = _buffer(array, 1, _dtype(array.type), len(array))
    if values.dtype.kind == "f":
        values = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        values[np.isnan(values)] = np.nan
    elif values.dtype.kind == "i":
        values = values.astype(np.int64, copy=False)
    return values.astype(np.uint64, copy=False) if values.dtype.kind == "u" else values.view(np.uint64)


def texts_of(array: pa.Array) -> tuple[Array, Array]:
    """Return the bytes of strings, and their offsets. O(n), copies no bytes.

    >>> texts_of(pa.array(["a", "bc"]))[1]
    array([0, 1, 3])
    """
    kind = array.type
    if kind in _VIEWS:
        array, kind = array.cast(pa.large_binary()), pa.large_binary()
    _, offsets, data = array.buffers()
    width = _INT64 if kind in _WIDE else _INT32
    ends = _read_buffer(offsets, width, len(array) + 1, array.offset)
    return _read_buffer(data, _BYTE, 0 if data is None else data.size, 0), ends.astype(np.int64, copy=False)


def rows_of(arrays: list[pa.Array], rows: int) -> tuple[Array, Array]:
    """Return each row as bytes, and their offsets. O(bytes).

    >>> rows_of([pa.array([True, None])], 2)[1]
    array([ 0,  9, 18])
    """
    return _joined([runs for array in arrays for runs in _runs(array)], rows)


def _joined(parts: list[Runs], rows: int) -> tuple[Array, Array]:
    offsets = np.zeros(rows + 1, np.int64)
    for _, _, lengths in parts:
        offsets[1:] += lengths
    np.cumsum(offsets, out=offsets)
    data = room(int(offsets[-1]), np.dtype(np.uint8))
    at = offsets[:-1].copy()
    for part, starts, lengths in parts:
        copy_runs(part, starts, lengths, data, at)
        at += lengths
    return data, offsets


def _runs(column: pa.Array) -> list[Runs]:
    """Return the bytes of a column's values, in several consecutive parts."""
    array = one_array(column)
    mask, rows, kind = mask_of(array), len(array), array.type
    valid = mask if len(mask) else np.ones(rows, np.bool_)
    if is_word(kind):
        return [_cells(valid, words_of(array).view(np.uint8).reshape(rows, 8))]
    if _is_fixed(kind):
        width = kind.bit_width // 8
        cells = _buffer(array, 1, np.dtype(np.uint8), rows, width).reshape(rows, width)
        return [_cells(valid, cells)]
    if is_text(kind):
        data, offsets = texts_of(array)
        lengths = np.where(valid, np.diff(offsets), 0)
        return [_cells(valid, _as_bytes(lengths)), (data, offsets[:-1], lengths)]
    if _is_list(kind):
        return _list_runs(array, valid)
    flags = _cells(valid, np.zeros((rows, 0), np.uint8))
    return [flags, *(runs for part in (array.flatten() if kind != pa.null() else []) for runs in _runs(part))]


def _list_runs(array: pa.Array, valid: Array) -> list[Runs]:
    """Return lists as their counts, the lengths of their elements, and the elements, which are contiguous."""
    if pa.types.is_map(array.type):
        array = array.cast(pa.large_list(_element(array.type)))
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = array.flatten()  # elements of non-null lists, in order, for lists and views alike
    data, ends = _joined(_runs(elements), len(elements))
    lengths = _as_bytes(np.diff(ends)).reshape(-1)
    after = np.cumsum(counts)
    first = after - counts
    bytes_of = ends[after] - ends[first]
    return [_cells(valid, _as_bytes(counts)), (lengths, 8 * first, 8 * counts), (data, ends[first], bytes_of)]


def _cells(valid: Array, values: Array) -> Runs:
    """Return runs of one width: a flag for a value, and the value, zeros for null."""
    rows, width = values.shape
    cells = room(rows * (width + 1), np.dtype(np.uint8)).reshape(rows, width + 1)
    cells[:, 0] = valid
    cells[:, 1:] = values if valid.all() else np.where(valid[:, None], values, 0)
    return cells.reshape(-1), np.arange(rows) * (width + 1), np.full(rows, width + 1)


def _as_bytes(words: Array) -> Array:
    return np.ascontiguousarray(words, np.int64).view(np.uint8).reshape(len(words), 8)


@cache
def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    letter = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def _buffer(array: pa.Array, which: int, dtype: np.dtype[Any], count: int, each: int = 1) -> Array:
    """Read an Arrow buffer without a copy; that of no rows may be missing."""
    return _read_buffer(array.buffers()[which], dtype, count * each, array.offset * each)


def _read_buffer(buffer: Any, dtype: np.dtype[Any], count: int, offset: int) -> Array:
    if buffer is None or buffer.size == 0 or count == 0:
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, offset * dtype.itemsize)


# ---------------------------------------------------------------- to Arrow


def words_to_arrow(words: Array, valid: Array, kind: pa.DataType) -> pa.Array:
    """Return the values that `words_of` encoded.

    >>> words_to_arrow(words_of(pa.array([1.5, 2.5])), np.array([True, False]), pa.float64()).to_pylist()
    [1.5, None]
    """
    if pa.types.is_boolean(kind):
        return pa.array(words != 0, mask=~valid)
    dtype = _dtype(kind)
    values = (words.view(np.float64) if dtype.kind == "f" else words).astype(dtype)
    return pa.Array.from_buffers(kind, len(words), [_bitmap(valid), pa.py_buffer(values)])


def texts_to_arrow(data: Array, starts: Array, lengths: Array, valid: Array, kind: pa.DataType) -> pa.Array:
    """Return strings or bytes from their places in `data`. O(bytes).

    >>> data = np.frombuffer(b"abc", np.uint8)
    >>> texts_to_arrow(data, np.array([1]), np.array([2]), np.array([True]), pa.string()).to_pylist()
    ['bc']
    """
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    packed = np.empty(offsets[-1], np.uint8)
    copy_runs(data, starts, lengths, packed, offsets[:-1])
    wide = pa.large_string() if kind in (pa.string(), pa.large_string(), pa.string_view()) else pa.large_binary()
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(packed)]
    return pa.Array.from_buffers(wide, len(lengths), buffers).cast(kind)


def rows_to_arrow(data: Array, starts: Array, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """Return the columns that `rows_of` encoded, from the start of each row. O(bytes).

    >>> data, offsets = rows_of([pa.array([[1], None]), pa.array(["a", "b"])], 2)
    >>> [each.to_pylist() for each in rows_to_arrow(data, offsets[:-1], [pa.list_(pa.int64()), pa.string()])]
    [[[1], None], ['a', 'b']]
    """
    columns, at = [], starts
    for kind in kinds:
        column, at = _read(data, at, kind)
        columns.append(column)
    return columns


def _read(data: Array, at: Array, kind: pa.DataType) -> tuple[pa.Array, Array]:
    """Return the values at these places, and the places after them."""
    inner = _wrapped(kind)
    if inner is not None:
        array, at = _read(data, at, inner)
        return _wrap(array, kind), at
    valid, at = data[at] != 0, at + 1
    if is_word(kind):
        return words_to_arrow(_words_at(data, at).view(np.uint64), valid, kind), at + 8
    if _is_fixed(kind):
        width = kind.bit_width // 8
        values = np.ascontiguousarray(data[at[:, None] + np.arange(width)])
        return pa.Array.from_buffers(kind, len(at), [_bitmap(valid), pa.py_buffer(values)]), at + width
    if is_text(kind):
        lengths = _words_at(data, at)
        return texts_to_arrow(data, at + 8, lengths, valid, kind), at + 8 + lengths
    if _is_list(kind):
        return _read_lists(data, at, valid, kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(at)), at
    parts = []
    for field in kind:
        part, at = _read(data, at, field.type)
        parts.append(_exact(part, field))
    return pa.Array.from_buffers(kind, len(valid), [_bitmap(valid)], children=parts), at


def _read_lists(data: Array, at: Array, valid: Array, kind: pa.DataType) -> tuple[pa.Array, Array]:
    counts, at = _words_at(data, at), at + 8
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    lengths = _words_at(data, np.repeat(at, counts) + 8 * within)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    at = at + 8 * counts
    elements, _ = _read(data, np.repeat(at - ends[offsets[:-1]], counts) + ends[:-1], _element(kind).type)
    elements = _exact(elements, _element(kind))
    return _lists(valid, offsets, elements, kind), at + ends[offsets[1:]] - ends[offsets[:-1]]


def _lists(valid: Array, offsets: Array, elements: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(kind):
        return _lists(valid, offsets, elements, pa.large_list(kind.value_field)).cast(kind)
    dtype = np.int64 if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind) else np.int32
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(dtype))]
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        buffers.append(pa.py_buffer(np.diff(offsets).astype(dtype)))
    return pa.Array.from_buffers(kind, len(valid), buffers, children=[elements])


def _wrap(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in their logical type. Indices of a dictionary that is too large become int64."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, array)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(array, run_end_type=kind.run_end_type)
    try:
        encoded = pc.dictionary_encode(array)
    except pa.ArrowNotImplementedError:  # for nested values
        places = pa.array(np.arange(len(array)), mask=array.is_null().to_numpy(zero_copy_only=False))
        encoded = pa.DictionaryArray.from_arrays(places, array)
    width = kind.index_type.bit_width - (not pa.types.is_unsigned_integer(kind.index_type))
    fits = len(encoded.dictionary) <= 2**width
    indices = encoded.indices.cast(kind.index_type if fits else pa.int64())
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered)


def _exact(part: pa.Array, field: pa.Field) -> pa.Array:
    """Return a part of a nested value; reject one whose dictionary has outgrown its index type."""
    if part.type != field.type:
        raise ColumnTypeError(
            f"the keys' {field.name!r} has too many values for its type {field.type}; use int32 indices"
        )
    return part


def _words_at(data: Array, at: Array) -> Array:
    return np.ascontiguousarray(data[at[:, None] + np.arange(8)]).view(np.int64).reshape(-1)


def _bitmap(valid: Array) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
