"""Casts between Spark's types by Arrow, with the meaning that Spark gives them without ANSI mode."""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.expressions import decimals, types
from muntin.expressions.types import BOOL, DATE, DOUBLE, FLOAT, INSTANT, INT32, INT64, LOCAL, TEXT
from muntin.types import Array

_BLANK = "".join(map(chr, range(33))) + "\x7f"
"""What Spark strips from a text before it reads a number or a condition: white space and control characters."""
_INTEGER = re.compile(r"([+-]?)(?=[\d.])(\d*)(?:\.\d*)?", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DECIMAL = _DOUBLE
_SPECIAL = {"inf": np.inf, "+inf": np.inf, "infinity": np.inf, "+infinity": np.inf, "nan": np.nan}
_SPECIAL |= {"-inf": -np.inf, "-infinity": -np.inf}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_BITS = {types.INT8: 8, types.INT16: 16, types.INT32: 32, types.INT64: 64}
_DAY = 86_400_000_000
_SECOND = 1_000_000


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as another type; null where there is none of it. O(n)."""
    was = values.type
    if was == kind:
        return values
    if was == TEXT:
        return _from_text(values, kind)
    if kind == TEXT:
        return _as_text(values)
    if types.is_time(was) or types.is_time(kind):
        return _time(values, kind)
    if types.is_decimal(kind):
        return _as_decimal(values, kind)
    if types.is_decimal(was):
        return _from_decimal(values, kind)
    if kind == BOOL:
        return pc.not_equal(values, pa.scalar(0, was))
    if types.is_float(was) and types.is_integer(kind):
        return _truncated(values, kind)
    return pc.cast(values, kind, safe=False)


# ---------------------------------------------------------------- numbers


def _truncated(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return floats without their digits after the point: NaN as 0, and the nearest bound beyond the range."""
    through = INT64 if kind == INT64 else INT32
    cells, valid = cells_of(values)
    found = saturated(np.trunc(cells.astype(np.float64)), through)
    return pc.cast(array_of(found, valid, through), kind, safe=False)


def saturated(cells: Array, kind: pa.DataType) -> Array:
    """Return whole floats as integers: NaN as 0, and the nearest bound beyond the range. O(n)."""
    info = np.iinfo(np.int32 if kind == INT32 else np.int64)
    low, high = float(info.min), float(info.max)  # the greatest int64 is none of the floats: 2^63 stands for it
    inside = (cells >= low) & (cells < high)
    with np.errstate(invalid="ignore"):
        found = np.where(inside, cells, 0).astype(info.dtype)
    found[cells >= high] = info.max
    found[cells < low] = info.min
    return found


def _as_decimal(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    was = values.type
    if types.is_decimal(was):
        return decimals.fitted(values, kind)
    if was == BOOL:
        return _as_decimal(pc.cast(values, types.INT8), kind)
    if types.is_integer(was):
        return decimals.fitted(pc.cast(values, INT64).cast(pa.decimal128(19, 0)), kind)
    return decimals.by_python(lambda each: Decimal(repr(float(each))), (values,), kind)


def _from_decimal(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == BOOL:
        return pc.not_equal(values, pa.scalar(Decimal(0), values.type))
    if kind == DOUBLE:
        return decimals.as_doubles(values)
    if kind == FLOAT:
        return pc.cast(decimals.as_doubles(values), FLOAT, safe=False)
    bits = _BITS[INT64]
    whole = [None if each is None else _wrapped(int(each), bits) for each in values.to_pylist()]
    return pc.cast(pa.array(whole, INT64), kind, safe=False)


def _wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


# ---------------------------------------------------------------- text


def by_distinct(values: pa.Array, function: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """Return a function of each value, called once for each distinct one. O(n)."""
    coded = values.dictionary_encode()
    found = pa.array([function(each) for each in coded.dictionary.to_pylist()], kind)
    return found.take(coded.indices)


def _from_text(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if types.is_decimal(kind):
        numbers = [_decimal_of(each) for each in values.to_pylist()]
        return decimals.by_python(lambda each: each, (_Cells(numbers),), kind)
    if kind == BOOL:
        return by_distinct(values, _condition_of, BOOL)
    if types.is_integer(kind):
        half = 1 << (_BITS[kind] - 1)
        return by_distinct(values, lambda each: _integer_of(each, half), kind)
    found = by_distinct(values, _double_of, DOUBLE)
    return pc.cast(found, kind, safe=False)


class _Cells:
    """A column of Python values."""

    def __init__(self, cells: list[Any]) -> None:
        self._cells = cells

    def to_pylist(self) -> list[Any]:
        """Return them."""
        return self._cells


def _integer_of(text: str, half: int) -> int | None:
    found = _INTEGER.fullmatch(text.strip(_BLANK))
    if found is None:
        return None
    value = int(found[1] + (found[2] or "0"))
    return value if -half <= value < half else None


def _double_of(text: str) -> float | None:
    plain = text.strip(_BLANK[:33])
    low = plain.lower()
    if low in _SPECIAL:
        return _SPECIAL[low]
    number = plain[:-1] if plain[-1:] in ("d", "D", "f", "F") else plain
    return float(number) if _DOUBLE.fullmatch(number) else None


def _decimal_of(text: str | None) -> Decimal | None:
    plain = "" if text is None else text.strip(_BLANK)
    if not _DECIMAL.fullmatch(plain):
        return None
    try:
        return Decimal(plain)
    except decimal.InvalidOperation:
        return None


def _condition_of(text: str) -> bool | None:
    plain = text.strip(_BLANK).lower()
    return True if plain in _TRUE else False if plain in _FALSE else None


def _as_text(values: pa.Array) -> pa.Array:
    was = values.type
    if was == BOOL:
        return pc.if_else(values, "true", "false")
    if was == FLOAT:
        return by_distinct(values, lambda each: java_text(np.float32(each)), TEXT)
    if was == DOUBLE:
        return by_distinct(values, lambda each: java_text(np.float64(each)), TEXT)
    if was == DATE:
        return _date_text(values)
    if types.is_time(was):
        return _time_text(values.view(LOCAL))
    return pc.cast(values, TEXT)


def java_text(value: np.floating[Any]) -> str:
    """Return a float as Java writes it: the shortest digits that mean it, with an E from 10^7 on and below 10^-3.

    >>> java_text(np.float64(1e7)), java_text(np.float32(0.1)), java_text(np.float64(-0.0)), java_text(np.float64(2e-5))
    ('1.0E7', '0.1', '-0.0', '2.0E-5')
    """
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign = "-" if np.signbit(value) else ""
    size = abs(value)
    if size == 0 or 1e-3 <= size < 1e7:
        return sign + np.format_float_positional(size, unique=True, trim="0")
    digits, _, power = np.format_float_scientific(size, unique=True, trim="0").partition("e")
    return f"{sign}{digits}E{int(power)}"


def _date_text(values: pa.Array) -> pa.Array:
    return by_distinct(values.cast(INT32), lambda days: str(np.datetime64(days, "D")), TEXT)


def _time_text(values: pa.Array) -> pa.Array:
    def written(micros: int) -> str:
        whole, _, part = str(np.datetime64(micros, "us")).replace("T", " ").partition(".")
        part = part.rstrip("0")
        return f"{whole}.{part}" if part else whole

    return by_distinct(values.cast(INT64), written, TEXT)


# ---------------------------------------------------------------- times


def _time(values: pa.Array, kind: pa.DataType) -> pa.Array:
    was = values.type
    cells, valid = cells_of(values)
    if kind == DATE:
        return array_of(np.floor_divide(cells, _DAY).astype(np.int32), valid, DATE)
    if was == DATE:
        return array_of(cells.astype(np.int64) * _DAY, valid, kind)
    if types.is_integer(was):
        bound = np.iinfo(np.int64).max // _SECOND
        micros = np.clip(cells.astype(np.int64), -bound - 1, bound)
        found = micros * _SECOND
        found[cells > bound] = np.iinfo(np.int64).max
        found[cells < -bound] = np.iinfo(np.int64).min
        return array_of(found, valid, kind)
    if kind == INT64:
        return array_of(np.floor_divide(cells, _SECOND), valid, INT64)
    if kind == DOUBLE:
        return array_of(cells / float(_SECOND), valid, DOUBLE)
    return values.view(kind)


def cells_of(values: pa.Array) -> tuple[Array, Array | None]:
    """Return numbers or times as an array, and where they are valid; what is null is 0 there. O(n)."""
    kind = values.type
    if types.is_time(kind):
        values = values.view(INT32 if kind == DATE else INT64)
    valid = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        values = pc.fill_null(values, pa.scalar(False if kind == BOOL else 0, values.type))
    return values.to_numpy(zero_copy_only=False), valid


def array_of(cells: Array, valid: Array | None, kind: pa.DataType) -> pa.Array:
    """Return cells as an Arrow array. O(n)."""
    plain = {DATE: INT32, INSTANT: INT64, LOCAL: INT64}.get(kind, kind)
    found = pa.array(cells, type=plain, mask=None if valid is None else ~valid)
    return found if plain == kind else found.view(kind)
