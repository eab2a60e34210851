"""Pushed tables as strategies take them: columns in the types of the first push, times as integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import Column, arrow_reader, column_of, extent, one_chunk, place_of, read_column
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.expressions.types import as_spark
from muntin.keys.table import KeyTable
from muntin.layouts import plain_column, plain_type
from muntin.query.changes import deletions
from muntin.query.plan import Types
from muntin.query.query import Query
from muntin.tables.run import as_times, require_room
from muntin.types import INT64, Array, ColumnType, assignable, column_type


class TableReader:
    """Reads the tables of a stream in the column types of the first push.

    The places of columns, and whether they must be cast, depend on the schema alone: both are found once per schema.
    """

    def __init__(self, types: Types, query: Query) -> None:
        self._types = types
        self._time, self._changes = query.time, query.changes
        self._schema: pa.Schema | None = None
        self._columns: list[tuple[str, int, _Read]] = []
        self._keys: list[tuple[int, Callable[[Any], Any] | None]] = []
        self._times: tuple[int, _Read] | None = None

    def _follow(self, schema: pa.Schema) -> None:
        """Switch to tables of this schema; reject one that lacks columns."""
        types = self._types
        self._columns = [(name, *_reader(schema, name, kind.logical)) for name, kind in types.columns.items()]
        self._keys = [_caster(schema, name, kind) for name, kind in types.keys.items()]
        if self._time is not None:
            kind = None if types.time.family == "integer" else types.time.logical  # integers of any width are times
            self._times = _reader(schema, self._time, kind)
        self._schema = schema

    def columns(self, data: pa.Table) -> dict[str, Column]:
        """Return the columns that aggregates and windows read; reject those that do not fit their types.

        Call it before the other methods, for each table.
        """
        schema = data.schema
        if schema != self._schema:
            self._follow(schema)
        return {name: read(data.column(place)) for name, place, read in self._columns}

    def times(self, data: pa.Table) -> Column:
        """Return the column of the times, in whatever type it has."""
        assert self._times is not None
        place, read = self._times
        return read(data.column(place))

    def takes(self, data: pa.Table) -> Array | None:
        """Return which rows take another one back, None if none does; reject unknown words."""
        assert self._changes is not None
        takes = deletions(column_of(data, self._changes), self._changes)
        return takes if takes.any() else None

    def key_numbers(self, data: pa.Table, table: KeyTable) -> Array:
        """Return the number of each row's key."""
        columns = [data.column(place) if cast is None else cast(data.column(place)) for place, cast in self._keys]
        if 0 < data.num_rows <= table.few:
            numbers = table.remembered(list(zip(*[column.to_pylist() for column in columns], strict=True)))
            if numbers is not None:
                return numbers
        return table.numbers(columns, data.num_rows)


_Read = Callable[[Any], Column]


def _reader(schema: pa.Schema, name: str, kind: pa.DataType | None) -> tuple[int, _Read]:
    """Return the place of a column, and a function that reads it, as `kind` unless that is None."""
    place = place_of(schema, name)
    found = schema.field(place).type
    if kind is not None and found != kind:
        return place, lambda column: read_column(cast_safely(column, kind, name), name)
    if pa.types.is_dictionary(found):
        return place, lambda column: read_column(column, name)
    read = arrow_reader(found)
    return place, lambda column: read(one_chunk(column))


def _caster(schema: pa.Schema, name: str, kind: pa.DataType) -> tuple[int, Callable[[Any], Any] | None]:
    """Return the place of a column, and a function that casts it; None if it has the right type."""
    place = place_of(schema, name)
    if schema.field(place).type == kind:
        return place, None
    return place, lambda column: cast_safely(column, kind, name)


def read_times(column: Column, name: str, kind: ColumnType, reach: int) -> Array:
    """Return the times of a column as integers; reject other types, and times too far out for windows."""
    values = column.values
    if column.valid is None and column.type is kind and len(values):
        low, high = extent(values)
        if low - reach > BEFORE_TIME and high + reach < END_OF_TIME:
            return values.astype(np.int64)  # nearly always; the slow path below finds what is wrong
    times = as_times(column, name)
    if times.type is not kind and times.type != kind and len(times.values):
        raise ColumnTypeError(f"the time column {name!r} holds {times.type}; it held {kind} before, and must stay so")
    require_room(times, name, reach)
    return times.values.astype(np.int64)


def cast_safely(column: Any, kind: Any, name: str) -> Any:
    """Return an Arrow column cast to a type; reject one that does not fit without loss."""
    column = plain_column(column)
    if column.type == kind:
        return column
    if not len(column):  # no values need no type
        return pa.chunked_array([], kind)
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    if plain == wanted and kind == wanted and column.type != plain:
        return column
    empty = column.null_count == len(column)
    try:
        if empty or assignable(column_type(plain), column_type(wanted)):
            return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}: {error}") from error
    raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}; cast it before it is pushed")


def in_types(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with some of its columns in the types of a schema; reject those that do not fit. O(rows cast)."""
    for field in schema:
        place = place_of(data.schema, field.name)
        if as_spark(plain_type(data.schema.field(place).type)) != field.type:
            column = cast_safely(data.column(place), field.type, field.name)
            data = data.set_column(place, field.name, column)
    return data


def read_watermark(value: Any, kind: ColumnType | None) -> int:
    """Return a watermark as an integer in the unit of the time column, whose type is None before the first row.

    >>> read_watermark("1970-01-01T00:01:00", column_type(pa.timestamp("s")))
    60
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not BEFORE_TIME < value < END_OF_TIME:
            raise InvalidArgumentError(f"the watermark is {value}, which is no time that int64 can hold")
        return int(value)
    if kind is None:
        raise InvalidArgumentError(
            f"the watermark is {value!r}, and before the first row the type of the time column is not known; "
            f"give an integer, or push rows first"
        )
    if kind == INT64:
        raise InvalidArgumentError(f"the watermark is {value!r}, but the times are integers: give an integer")
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        moved = scalar.cast(kind.logical)
        ticks = moved.cast(pa.int32() if kind.physical.itemsize == 4 else pa.int64()).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidArgumentError(f"the watermark is {value!r}, which is no {kind}: {error}") from error
    if ticks is None:
        raise InvalidArgumentError(f"the watermark is {value!r}; it must be a time")
    return int(ticks)


def as_time(time: int, kind: ColumnType) -> np.datetime64 | int:
    """Return a time in the unit of the time column as a `datetime64` in UTC, if times are timestamps or dates.

    >>> as_time(86_400, column_type(pa.timestamp("s")))
    np.datetime64('1970-01-02T00:00:00')
    """
    if kind.logical is None or not pa.types.is_temporal(kind.logical):
        return time
    unit: Any = "D" if pa.types.is_date32(kind.logical) else getattr(kind.logical, "unit", "ms")
    return np.datetime64(time, unit)
