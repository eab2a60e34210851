"""Arithmetic with decimals as Spark SQL has it: rounded half up to the type of the result, null where it overflows."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.types import Array

_WIDE = 76
EXACT = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_UP)
"""Wide enough for all digits of all doubles."""
_QUOTIENTS = decimal.Context(prec=160, rounding=decimal.ROUND_HALF_UP)
_QUOTIENT_SCALE = Decimal(1).scaleb(-38)


def fitted(values: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return decimals of any width as a type: rounded half up, null where they have too many digits. O(n)."""
    scale = values.type.scale
    wide = values.cast(pa.decimal256(_WIDE, scale))
    if scale > kind.scale:
        wide = pc.round(wide, ndigits=kind.scale, round_mode="half_towards_infinity")
    if values.type.precision - scale >= kind.precision - kind.scale:
        most = pa.scalar(Decimal(10) ** (kind.precision - kind.scale), wide.type)
        over = pc.greater_equal(pc.abs(wide), most)
        wide = pc.if_else(over, pa.scalar(None, wide.type), wide)
    return wide.cast(kind)


def added(name: str, left: pa.Array, right: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return sums or differences. O(n)."""
    scale = max(left.type.scale, right.type.scale)
    wide = pa.decimal256(_WIDE - 1, scale)
    function = pc.add if name == "+" else pc.subtract
    return fitted(function(left.cast(wide), right.cast(wide)), kind)


def multiplied(left: pa.Array, right: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return products. O(n)."""
    digits = left.type.precision + right.type.precision + 1
    if digits > _WIDE:
        return by_python(EXACT.multiply, (left, right), kind)
    one, other = (each.cast(pa.decimal256(each.type.precision, each.type.scale)) for each in (left, right))
    return fitted(pc.multiply(one, other), kind)


def divided(left: pa.Array, right: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return quotients, null where the divisor is zero. Spark rounds twice: to 38 digits after the point first."""

    def divide(a: Decimal, b: Decimal) -> Decimal | None:
        return None if not b else _QUOTIENTS.divide(a, b).quantize(_QUOTIENT_SCALE, context=EXACT)

    return by_python(divide, (left, right), kind)


def remainders(left: pa.Array, right: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Return remainders with the sign of the dividend, null where the divisor is zero."""
    return by_python(lambda a, b: EXACT.remainder(a, b) if b else None, (left, right), kind)


def by_python(
    function: Callable[..., Decimal | None], columns: tuple[pa.Array, ...], kind: pa.Decimal128Type
) -> pa.Array:
    """Return a function of the rows of some columns, rounded to a type. O(n), a microsecond each."""
    least = Decimal(1).scaleb(-kind.scale)
    most = Decimal(10) ** (kind.precision - kind.scale)

    def answer(*cells: Any) -> Decimal | None:
        found = None if None in cells else function(*cells)
        if found is None or not found.is_finite() or found.adjusted() > _WIDE:
            return None
        rounded = found.quantize(least, context=EXACT)
        return None if rounded.copy_abs() >= most else rounded  # abs() would round

    rows = zip(*(each.to_pylist() for each in columns), strict=True)
    return pa.array([answer(*cells) for cells in rows], kind)


def of_unscaled(values: Array, valid: Array | None, kind: pa.Decimal128Type) -> pa.Array:
    """Return decimals from their digits as integers of 64 bits. O(n)."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = np.where(values < 0, -1, 0)
    mask = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(words)])


def unscaled(values: pa.Array) -> Array | None:
    """Return the digits of decimals as integers of 64 bits; None if one of them has more. O(n)."""
    buffer = values.buffers()[1]
    words = np.frombuffer(buffer, np.int64, count=2 * (values.offset + len(values))).reshape(-1, 2)[values.offset :]
    known = words if not values.null_count else words[values.is_valid().to_numpy(zero_copy_only=False)]
    return words[:, 0] if ((known[:, 0] >> 63) == known[:, 1]).all() else None


_MOST_EXACT = 1 << 53
_EXACT_POWERS = 22


def as_doubles(values: pa.Array) -> pa.Array:
    """Return the nearest doubles of decimals. O(n); Arrow's own cast is not always the nearest."""
    digits = unscaled(values)
    scale = values.type.scale
    small = digits is not None and scale <= _EXACT_POWERS
    if small and digits is not None:
        mask = np.ones(len(digits), bool) if not values.null_count else values.is_valid().to_numpy(zero_copy_only=False)
        if not len(digits) or np.abs(digits[mask]).max(initial=0) <= _MOST_EXACT:
            return pa.array(digits / 10.0**scale, mask=~mask)
    return pa.array([None if each is None else float(each) for each in values.to_pylist()], pa.float64())
