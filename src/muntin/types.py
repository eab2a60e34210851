"""Column types: how a logical (Arrow) type is held in a kernel, and the way in and out.

A kernel sees physical NumPy types only. A timestamp is an int64 there, a date an int32; strings, decimals and whatever
has no fixed size are Python objects.
"""

from __future__ import annotations

import datetime
import decimal
import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.errors import ColumnTypeError

Array: TypeAlias = npt.NDArray[Any]

OBJECT = np.dtype(object)


class _Decimals(decimal.Context):
    stable_text = "Context(76, ROUND_HALF_EVEN)"
    """What snapshots know it by, though it has more digits now."""


DECIMALS = _Decimals(prec=120, rounding=decimal.ROUND_HALF_UP)
"""Wide enough that no sum of 2^63 decimals of 76 digits is rounded; answers are rounded as in Spark SQL."""


@dataclass(frozen=True)
class ColumnType:
    """The type of a column: `logical` for the user, `physical` for the kernels."""

    logical: pa.DataType | None
    """`None` stands for any Python object."""
    physical: np.dtype[Any]

    @cached_property
    def family(self) -> str:
        """One of boolean, integer, floating, temporal, duration, decimal, other: what `by_type` chooses by."""
        return _family(self.logical)

    @cached_property
    def is_arrows(self) -> bool:
        """Whether Arrow holds values as a kernel does, byte for byte."""
        alike = self.family in ("integer", "floating", "temporal", "duration") and self.physical != OBJECT
        return alike and not pa.types.is_float16(self.logical)

    def __str__(self) -> str:
        """Name the logical type."""
        return "object" if self.logical is None else str(self.logical)


def _family(logical: pa.DataType | None) -> str:
    if logical is None:
        return "other"
    tests = {
        "boolean": pa.types.is_boolean,
        "integer": pa.types.is_integer,
        "floating": pa.types.is_floating,
        "duration": pa.types.is_duration,
        "temporal": pa.types.is_temporal,
        "decimal": pa.types.is_decimal,
    }
    return next((name for name, test in tests.items() if test(logical)), "other")


def is_whole(value: Any) -> bool:
    """Say whether a Python or NumPy value is an integer. NumPy takes durations for integers, and Python booleans.

    >>> is_whole(np.int8(2)), is_whole(True), is_whole(np.timedelta64(2, "s"))
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_finite_number(value: Any) -> bool:
    """Say whether a Python or NumPy value is a number that a float can hold.

    >>> is_finite_number(2.5), is_finite_number(float("nan")), is_finite_number(10**400), is_finite_number(True)
    (True, False, False, False)
    """
    if not is_whole(value) and not isinstance(value, float | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_number(kind: pa.DataType) -> bool:
    """Say whether a column holds numbers that can be drawn, or set to the right: integers, floats, decimals."""
    return _family(kind) in ("integer", "floating", "decimal")


_NUMBERS = {"halffloat": "f4", "float": "f4", "double": "f8"}
"""Where NumPy's name is another than Arrow's. `to_pandas_dtype` of older versions of pyarrow loads pandas."""
_TEMPORAL_WIDTHS = {"date32[day]": "i4", "time32[s]": "i4", "time32[ms]": "i4"}


@cache
def column_type(logical: pa.DataType | None) -> ColumnType:
    """Return the column type of an Arrow type, of equal types the same one.

    >>> column_type(pa.timestamp("us")).physical
    dtype('int64')
    """
    family = _family(logical)
    if logical is None or family in ("decimal", "other"):
        return ColumnType(logical, OBJECT)
    if family in ("temporal", "duration"):
        if pa.types.is_interval(logical):
            return ColumnType(logical, OBJECT)
        return ColumnType(logical, np.dtype(_TEMPORAL_WIDTHS.get(str(logical), "i8")))
    return ColumnType(logical, np.dtype(_NUMBERS.get(str(logical), str(logical))))


INT64 = column_type(pa.int64())
FLOAT64 = column_type(pa.float64())
NULL = ColumnType(pa.null(), np.dtype("i8"))
ANY = column_type(None)

_ARROW_UNITS = ("s", "ms", "us", "ns")


def numpy_type(dtype: npt.DTypeLike) -> ColumnType:
    """Return the column type of a NumPy dtype; the units that Arrow lacks become seconds."""
    return _numpy_type(np.dtype(dtype))


@lru_cache(maxsize=256)  # arrays of the same few types come again and again, and Arrow takes microseconds to name one
def _numpy_type(dtype: np.dtype[Any]) -> ColumnType:
    if dtype.kind in "mM":
        unit = np.datetime_data(np.zeros(0, dtype).dtype)[0]
        if dtype.kind == "M" and unit == "D":
            return column_type(pa.date32())
        if unit in ("ps", "fs", "as", "generic"):
            raise ColumnTypeError(f"times in units of {unit} cannot be held; use ns or coarser")
        unit = unit if unit in _ARROW_UNITS else "s"
        return column_type(pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit))
    if dtype.kind == "U":
        return column_type(pa.string())
    if dtype.kind == "S":
        return column_type(pa.binary())
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        return column_type(pa.from_numpy_dtype(dtype.newbyteorder("=")))
    if dtype == OBJECT:
        return ANY
    raise ColumnTypeError(f"arrays of {dtype} cannot be aggregated; use numbers, times, strings or objects")


def value_type(value: object) -> ColumnType:
    """Return the column type that a single Python or NumPy value asks for.

    >>> str(value_type(3)), str(value_type(2.5)), str(value_type("a"))
    ('int64', 'double', 'string')
    """
    if value is None:
        return NULL
    if isinstance(value, bool | np.bool_):
        return column_type(pa.bool_())
    if isinstance(value, int):
        return INT64
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return numpy_type(value.dtype)
    if isinstance(value, str | bytes | decimal.Decimal | datetime.date | datetime.timedelta | datetime.time):
        return column_type(pa.scalar(value).type)
    return ANY


def assignable(kind: ColumnType, declared: ColumnType) -> bool:
    """Say whether values of one type may go into a column that was declared as another, each checked by itself."""
    if kind in (NULL, declared) or declared == ANY:
        return True
    rank = {"boolean": 0, "integer": 1, "floating": 2}
    if kind.family in rank and declared.family in rank:
        return rank[kind.family] <= rank[declared.family]
    return kind.family == declared.family and is_zoned(kind.logical) == is_zoned(declared.logical)


def is_zoned(logical: pa.DataType | None) -> bool:
    """Say whether times of a type are instants, by a zone, and not what some clock showed: no cast knows which."""
    return getattr(logical, "tz", None) is not None


def wider(old: ColumnType, new: ColumnType) -> ColumnType | None:
    """Return the type that holds values of both, or None where there is none."""
    if old == new or new == NULL:
        return old
    if old == NULL:
        return new
    numeric = {"boolean", "integer", "floating"}
    if old.family in numeric and new.family in numeric:
        both = np.promote_types(old.physical, new.physical)
        lossy = both.kind == "f" and "floating" not in (old.family, new.family)  # int64 and uint64 have no common type
        return None if lossy else numpy_type(both)
    if old.family == new.family == "decimal":
        return _wider_decimal(old, new)
    if old.family == new.family == "other":
        return ANY
    return None


def _wider_decimal(old: ColumnType, new: ColumnType) -> ColumnType:
    assert old.logical is not None
    assert new.logical is not None
    scale = max(old.logical.scale, new.logical.scale)
    whole = max(old.logical.precision - old.logical.scale, new.logical.precision - new.logical.scale)
    return column_type(pa.decimal128(min(38, whole + scale), scale))


def physical_value(value: Any, kind: ColumnType, column: str) -> Any:
    """Return the value as a kernel holds it; refuse what does not fit.

    >>> physical_value(np.datetime64("1970-01-02", "s"), column_type(pa.timestamp("s")), "ts")
    86400
    """
    if kind.physical == OBJECT:
        return value
    try:
        if isinstance(value, np.datetime64 | np.timedelta64):
            return _numpy_ticks(value, kind)
        if kind.family in ("temporal", "duration"):
            return pa.scalar(value, type=kind.logical).cast(_integer_of(kind)).as_py()
        if kind.family == "floating":
            return float(value)
        if kind.family == "integer":
            info = np.iinfo(kind.physical)
            if not info.min <= value <= info.max:
                raise OverflowError
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        raise ColumnTypeError(
            f"column {column!r} holds {kind}, and {value!r} does not fit it; "
            f"build the aggregator with dtype= the type you need"
        ) from error
    return value


def plain_value(value: Any) -> Any:
    """Return a value as this library knows it: every kind of missing value is None, a pandas stamp is NumPy's."""
    if hasattr(value, "to_datetime64"):
        value = value.to_datetime64()
    missing = type(value).__name__ == "NAType" or (
        isinstance(value, np.datetime64 | np.timedelta64) and np.isnat(value)
    )
    return None if missing else value


def boxed_value(value: Any) -> Any:
    """Return a value as the Python object that a list of such values would hold."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return pa.scalar(value).as_py()
    return value.item() if isinstance(value, np.generic) else value


def _numpy_ticks(value: Any, kind: ColumnType) -> int:
    """Return a datetime64 or timedelta64 as an integer of the column's unit; a part of a unit does not fit."""
    assert kind.logical is not None
    unit = "D" if pa.types.is_date32(kind.logical) else kind.logical.unit
    moved = value.astype(f"{value.dtype.kind}8[{unit}]")
    if moved != value:
        raise OverflowError
    return int(moved.astype(np.int64))


def _integer_of(kind: ColumnType) -> pa.DataType:
    return pa.int32() if kind.physical.itemsize == 4 else pa.int64()


def logical_array(values: Array, valid: Array | None, kind: ColumnType) -> pa.Array:
    """Return an Arrow array of a physical one; `valid` is False where it is null. No copy of numbers without nulls."""
    if valid is None and kind.is_arrows and values.dtype == kind.physical and values.flags.c_contiguous:
        # In two thirds of the time that pa.array takes, which looks for what else they may be.
        return pa.Array.from_buffers(kind.logical, len(values), [None, pa.py_buffer(values)], 0)
    mask = None if valid is None else ~valid
    if kind.physical == OBJECT:
        cells = values.tolist() if valid is None else [v if ok else None for v, ok in zip(values, valid, strict=True)]
        return _objects(cells, kind)
    if kind.family in ("temporal", "duration"):
        return pa.array(values.astype(kind.physical, copy=False), mask=mask).view(kind.logical)
    if kind.family == "other":
        return pa.nulls(len(values))
    return pa.array(values, type=kind.logical, mask=mask)


def _objects(cells: list[Any], kind: ColumnType) -> pa.Array:
    try:
        return pa.array(cells, type=kind.logical)
    except (pa.ArrowException, OverflowError) as error:
        raise ColumnTypeError(
            f"the results of windows make no Arrow column: {error}; let lower return values of one type that Arrow has"
        ) from error


def fitting_decimal(value: Any, kind: ColumnType) -> Any:
    """Return a decimal with the digits after the point that a type has, rounded half up as in Spark SQL.

    One with too many digits before the point is an OverflowError, others than finite decimals are as they are.

    >>> fitting_decimal(decimal.Decimal("1.255"), column_type(pa.decimal128(4, 2)))
    Decimal('1.26')
    """
    assert kind.logical is not None
    if not isinstance(value, decimal.Decimal) or not value.is_finite():
        return value
    if -int(value.as_tuple().exponent) > kind.logical.scale:
        value = value.quantize(decimal.Decimal(1).scaleb(-kind.logical.scale), context=DECIMALS)
    if value.adjusted() >= kind.logical.precision - kind.logical.scale and value:
        raise OverflowError(
            f"the answer {value} of a window does not fit {kind.logical}, its type in Spark SQL; cast the column to "
            f"fewer digits after the point, to decimal256, or to a float"
        )
    return value


def logical_value(value: Any, kind: ColumnType) -> Any:
    """Return a kernel's value as the user's Python value."""
    if isinstance(value, np.generic):
        value = value.item()
    if kind.family in ("temporal", "duration") and isinstance(value, int):
        return pa.scalar(value, _integer_of(kind)).cast(kind.logical).as_py()
    return value
