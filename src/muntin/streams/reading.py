"""Pushed tables as strategies take them: columns in the types that they had at first, times as integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import Column, pick, select
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.tables.run import require_room, time_column
from muntin.types import INT64, Array, ColumnType, assignable, column_type


def read_column(data: pa.Table, name: str, kind: ColumnType) -> Column:
    """Return a column of a table in the type that it had at first; refuse one that does not fit it."""
    column = pick(data, name, data.column_names)
    return select({name: cast_safely(column, kind.logical, name)}, (name,))[name]


def read_times(data: pa.Table, name: str, kind: ColumnType, reach: int) -> Array:
    """Return the times of a table as integers; refuse those of another type, or too far out for windows."""
    column = pick(data, name, data.column_names)
    if kind.family != "integer" and column.type != kind.logical:
        column = cast_safely(column, kind.logical, name)
    times = time_column(pa.table({name: column}), name)
    if times.type != kind and data.num_rows:
        raise ColumnTypeError(f"the time column {name!r} holds {times.type}; it held {kind} before, and must stay so")
    require_room(times, name, reach)
    return times.values.astype(np.int64)


def cast_safely(column: Any, kind: Any, name: str) -> Any:
    """Return an Arrow column cast to a type; refuse one that does not fit it without loss."""
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    if column.type == kind or (plain == wanted and kind == wanted and column.type != plain):
        return column
    empty = column.null_count == len(column)
    try:
        if empty or assignable(column_type(plain), column_type(wanted)):
            return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}: {error}") from error
    raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}; cast it before it is pushed")


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
