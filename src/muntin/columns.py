"""Columns in and out: NumPy, Arrow and pandas arrays as physical arrays with masks, without a copy where possible."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import ColumnError, ColumnTypeError
from muntin.layouts import plain_column, plain_type
from muntin.memory import room
from muntin.suggestions import near
from muntin.types import ANY, NULL, OBJECT, Array, ColumnType, column_type, logical_array, numpy_type

NAT = -(2**63)
_INDEX = pa.int32()
_FEW = 16


@dataclass(slots=True, eq=False)  # frozen, it would take three times as long to make, for each column of a push
class Column:
    """The physical values of a column, and where they are not null (None: everywhere)."""

    values: Array
    valid: Array | None
    type: ColumnType

    def take(self, rows: Array | slice) -> Column:
        """Return some of the rows: their numbers, or where they are. O(n)."""
        return Column(self.values[rows], None if self.valid is None else self.valid[rows], self.type)


def inverse(order: Array) -> Array:
    """Return the place of each row among rows in this order, or the row at each place. O(n).

    >>> inverse(np.array([1, 2, 0]))
    array([2, 0, 1])
    """
    places = room(len(order), np.dtype(np.int64))
    places[order] = np.arange(len(order))
    return places


def concatenated(columns: Sequence[Column]) -> Column:
    """Return the rows of columns of one type, one after the other. O(n), no copy of a single one."""
    first = columns[0]
    if len(columns) == 1:
        return first
    valid = None
    if any(each.valid is not None for each in columns):
        masks = [np.ones(len(each.values), np.bool_) if each.valid is None else each.valid for each in columns]
        valid = np.concatenate(masks)
    return Column(read_only(np.concatenate([each.values for each in columns])), valid, first.type)


def read_column(values: Any, name: str, *, find_nat: bool = True) -> Column:
    """Read any array as a column. No copy of contiguous numbers without nulls.

    `find_nat=False` leaves it to the caller to see that a NumPy time is NaT, the least integer.

    >>> read_column(pa.array([1, None]), "v").valid.tolist()
    [True, False]
    """
    if type(values) is np.ndarray:
        return _read_numpy(values, name, find_nat)
    if isinstance(values, Column):
        return values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _read_arrow(values)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.Series | pandas.Index):
        return _read_pandas(values, name)
    if not isinstance(values, np.ndarray) and (
        hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    ):
        return _read_arrow(pa.chunked_array(values))
    return _read_numpy(values, name, find_nat)


def _read_numpy(values: Any, name: str, find_nat: bool = True) -> Column:
    if isinstance(values, np.ma.MaskedArray):
        inner = _read_numpy(values.data, name)
        valid = ~np.ma.getmaskarray(values)
        return Column(inner.values, valid if inner.valid is None else valid & inner.valid, inner.type)
    if not isinstance(values, np.ndarray):
        values = _read_list(as_list(values, name))
    if values.ndim != 1:
        raise ColumnTypeError(f"column {name!r} has {values.ndim} dimensions; give one array a column")
    if values.dtype == OBJECT:
        return _read_objects(values)
    kind = numpy_type(values.dtype)
    if values.dtype.kind in "US":
        return Column(values.astype(OBJECT), None, kind)
    if values.dtype.kind in "mM":
        assert kind.logical is not None
        unit = np.dtype(f"{values.dtype.kind}8[{'D' if kind.physical.itemsize == 4 else kind.logical.unit}]")
        physical = values.astype(unit, copy=False).view("i8").astype(kind.physical, copy=False)
        # NaT is the least integer; looking for that takes a third of the time of np.isnat.
        null = find_nat and len(values) > 0 and values.view("i8").min() == NAT
        return Column(read_only(physical), ~np.isnat(values) if null else None, kind)
    return Column(read_only(values.astype(kind.physical, copy=False)), None, kind)


def as_list(values: Any, name: str) -> list[Any]:
    """Return values that can be looped over as a list; refuse others."""
    try:
        return list(values)
    except TypeError as error:
        raise ColumnTypeError(
            f"column {name!r} is a {type(values).__name__}; give an array or a list of its values"
        ) from error


def _read_list(values: list[Any]) -> Array:
    """Make an array of a list; what is not plain numbers stays the objects it was."""
    if values and all(isinstance(v, int | float | bool | np.number | np.bool_ | np.datetime64) for v in values):
        array = np.array(values)
        whole = all(isinstance(v, int | np.integer) for v in values)
        if array.dtype != OBJECT and not (whole and array.dtype.kind == "f"):  # no integer type holds all of them
            return array
    return _objects(values)


def _read_objects(values: Array) -> Column:
    valid = np.array([value is not None for value in values], np.bool_)
    mask = None if valid.all() else valid
    try:
        arrow = pa.array(values, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError):
        return Column(values, mask, ANY)
    kind = column_type(arrow.type)
    if arrow.type == pa.null():
        return Column(np.zeros(len(values), "i8"), valid if len(values) else None, NULL)
    if kind.physical == OBJECT:
        # The objects themselves, not Arrow's idea of them: a tuple stays a tuple.
        simple = kind.family == "decimal" or pa.types.is_string(arrow.type) or pa.types.is_binary(arrow.type)
        return Column(values, mask, kind if simple else ANY)
    return _read_arrow(arrow)


def type_of_values(kind: pa.DataType) -> ColumnType:
    """Return the type of a column that is read from an Arrow array of this type: of a dictionary, that of its values.

    >>> str(type_of_values(pa.dictionary(pa.int8(), pa.string())))
    'string'
    """
    kind = plain_type(kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return NULL if kind == pa.null() else column_type(kind)


def wide(kind: pa.DataType) -> pa.DataType:
    """Return a type of dictionaries whose indices count more values than any one table of them may have; others as is.

    The next table of a stream may bring values that were in none before.

    >>> wide(pa.dictionary(pa.int8(), pa.string())), wide(pa.int8())
    (DictionaryType(dictionary<values=string, indices=int32, ordered=0>), DataType(int8))
    """
    if not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= _INDEX.bit_width:
        return kind
    return pa.dictionary(_INDEX, kind.value_type, kind.ordered)


def in_one_piece(table: pa.Table) -> pa.Table:
    """Return a table with one chunk a column; dictionaries of several chunks get indices that count them all."""
    if all(column.num_chunks == 1 for column in table.columns):
        return table
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if column.num_chunks > 1 and wide(column.type) != column.type:
            table = table.set_column(place, name, column.cast(wide(column.type)))
    return table.combine_chunks()


def _read_arrow(values: pa.Array | pa.ChunkedArray) -> Column:
    values = plain_column(values)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return arrow_reader(values.type)(one_chunk(values))


def one_chunk(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return an Arrow column in one piece. No copy of one chunk."""
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # an old pyarrow combines no chunks into no array
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return values


@cache
def arrow_reader(logical: pa.DataType) -> Callable[[pa.Array], Column]:
    """Return what reads Arrow arrays of this type, which is no dictionary. No copy of numbers without nulls.

    What depends on the type alone is found once: a stream reads arrays of the same few types in every push.
    """
    kind = column_type(logical)
    if logical == pa.null():
        return lambda array: Column(np.zeros(len(array), "i8"), np.zeros(len(array), np.bool_), NULL)
    if kind.physical == OBJECT:
        return lambda array: Column(_objects(array.to_pylist()), _valid(array), kind)
    held = None
    if kind.family in ("temporal", "duration"):
        held = pa.int32() if kind.physical.itemsize == 4 else pa.int64()
    half = pa.types.is_float16(logical)
    filler = False if kind.family == "boolean" else 0

    def read(array: pa.Array) -> Column:
        valid = _valid(array)
        if held is not None:
            array = array.view(held)
        elif half:
            array = array.cast(pa.float32())
        if valid is not None:
            array = array.fill_null(filler)
        return Column(read_only(array.to_numpy(zero_copy_only=False)), valid, kind)

    return read


def _valid(array: pa.Array) -> Array | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None


def _objects(cells: list[Any]) -> Array:
    array = np.empty(len(cells), OBJECT)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def _read_pandas(values: Any, name: str) -> Column:
    if isinstance(values.dtype, np.dtype) and values.dtype != OBJECT:
        return _read_numpy(values.to_numpy(), name)
    if values.dtype == OBJECT:
        missing = values.isna().to_numpy()
        return _read_objects(_objects([None if m else v for v, m in zip(values.to_numpy(), missing, strict=True)]))
    return _read_arrow(pa.array(values, from_pandas=True))


def read_only(values: Array) -> Array:
    """Return a read-only C-contiguous view or copy: kernels are compiled once for that, not for every layout."""
    flags = values.flags
    if not flags.c_contiguous:
        values = np.ascontiguousarray(values)
    elif not flags.writeable:
        return values
    values = values.view()
    values.setflags(write=False)
    return values


def select(values: Any, names: tuple[str, ...]) -> dict[str, Column]:
    """Read the named columns of a single array, a mapping or a table.

    A single array stands for the column, whatever its name, where just one is asked for.
    """
    if isinstance(values, Mapping):
        return {name: read_column(pick(values, name, list(values)), name) for name in names}
    if isinstance(values, pa.Table | pa.RecordBatch):
        return {name: read_column(column_of(values, name), name) for name in names}
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.DataFrame):
        return {name: read_column(pick(values, name, list(values.columns)), name) for name in names}
    if len(names) > 1:
        raise ColumnError(
            f"the columns {', '.join(map(repr, names))} are needed; give a mapping or a table, not one array"
        )
    return {name: read_column(values, name) for name in names}


def pick(values: Any, name: str, names: list[Any]) -> Any:
    """Return a column of a table or a mapping; refuse a name that is not among its names."""
    if name not in names:
        raise missing(name, names)
    return values[name]


def missing(name: str, names: list[Any], advice: str = "") -> ColumnError:
    """Return the error that there is no column of this name, with what is known about it."""
    shown = ", ".join(map(repr, names)) or "none"
    return ColumnError(f"there is no column {name!r}; the columns are {shown}{near(name, names)}{advice}")


def require_columns(wanted: Iterable[str], names: list[Any]) -> None:
    """Refuse names that are not among those of a table's columns, or are there twice."""
    for name in wanted:
        if names.count(name) > 1:
            raise ColumnError(f"there are {names.count(name)} columns {name!r}; give each its own name")
        if name not in names:
            raise missing(name, names)


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    """Return a column of a table; refuse a name that it has not, or has twice."""
    return table.column(place_of(table.schema, name))


def place_of(schema: pa.Schema, name: str) -> int:
    """Return which column of a schema has this name; refuse a name that it has not, or has twice."""
    place: int = schema.get_field_index(name)
    if place < 0:
        times = schema.names.count(name)
        if times:
            raise ColumnError(f"there are {times} columns {name!r}; give each its own name")
        raise missing(name, schema.names)
    return place


def extent(values: Array) -> tuple[int, int]:
    """Return the least and the greatest of some integers, of which there is one at least.

    >>> extent(np.array([5, 3, 9]))
    (3, 9)
    """
    if len(values) <= _FEW:  # Python compares a few sooner than NumPy has begun
        cells = values.tolist()
        return min(cells), max(cells)
    return int(values.min()), int(values.max())


def row_count(values: Any) -> int:
    """Return the number of rows of an array, a mapping or a table."""
    if isinstance(values, Mapping):
        first = next(iter(values.items()), ("", ()))
        return len(first[1]) if hasattr(first[1], "__len__") else len(as_list(first[1], str(first[0])))
    if isinstance(values, pa.Table | pa.RecordBatch):
        return int(values.num_rows)
    return len(values) if hasattr(values, "__len__") else len(as_list(values, "values"))


def mask_of(columns: list[Column], skip_nan: bool, rows: int, where: Column | None = None) -> Array:
    """Return where none of the columns is null (nor NaN, if asked), and the boolean column `where` is true. O(rows)."""
    mask = trues(rows)
    if where is not None:
        mask &= where.values.astype(np.bool_) if where.valid is None else where.values.astype(np.bool_) & where.valid
    for column in columns:
        if column.valid is not None:
            mask &= column.valid
        if skip_nan and column.values.dtype.kind == "f":
            mask &= ~np.isnan(column.values)
        elif skip_nan and column.values.dtype == OBJECT:
            mask &= np.array([value == value for value in column.values], np.bool_)
    return mask


def trues(rows: int) -> Array:
    """Return a mask of all rows: of few, in a third of the time that np.ones takes."""
    mask = np.empty(rows, np.bool_)
    mask.fill(True)
    return mask


_ALL = trues(1 << 16)
_ALL.setflags(write=False)


def all_valid(rows: int) -> Array:
    """Return a mask of all rows that nobody writes to: of few, a part of one that is made once.

    >>> all_valid(3).tolist()
    [True, True, True]
    """
    return _ALL[:rows] if rows <= len(_ALL) else read_only(trues(rows))


def recast(column: Column, kind: ColumnType, name: str) -> Column:
    """Return a column as another, wider or declared, type; refuse it if a value does not fit."""
    if column.type == kind or kind.physical == OBJECT or column.type == NULL:
        return column
    try:
        wanted = logical_array(column.values, column.valid, column.type).cast(kind.logical)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(f"column {name!r} holds {kind}: {error}") from error
    return _read_arrow(wanted)


class BoxedCells:
    """The values of a column as Python objects, None for null, each made when it is read.

    >>> BoxedCells(np.array([5, 7]), column_type(pa.date32()))[1]
    datetime.date(1970, 1, 8)
    """

    def __init__(self, values: Array, kind: ColumnType, valid: Array | None = None) -> None:
        self._values = values
        self._type = kind
        self._valid = valid

    def __getitem__(self, row: int) -> Any:
        """Return the value of a row. O(1)."""
        if self._valid is not None and not self._valid[row]:
            return None
        return boxed(Column(self._values[row : row + 1], None, self._type))[0]


def boxed(column: Column) -> Array:
    """Return the values as Python objects, None for null, for states that hold them as they are."""
    if column.values.dtype == OBJECT:
        return column.values
    if column.type.family in ("temporal", "duration"):
        return _objects(logical_array(column.values, column.valid, column.type).to_pylist())
    cells = column.values.tolist()
    if column.valid is not None and not column.valid.all():
        cells = [cell if known else None for cell, known in zip(cells, column.valid.tolist(), strict=True)]
    return _objects(cells)
