"""Operations as Arrow computes them, where its own kernels do not mean what Spark SQL means.

Each takes the operation and its operands: arrays, or a scalar where a value stands in the text. All operands of one
operation being scalars, they come as arrays of one row: see `rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.expressions import decimals, types
from muntin.expressions.casts import array_of, by_distinct, cells_of, saturated
from muntin.expressions.casts import cast as cast_array
from muntin.expressions.typed import Typed
from muntin.expressions.types import BOOL, DATE, INT32, INT64, LOCAL, TEXT
from muntin.types import Array

Operands = list[Any]
Evaluate = Callable[[Typed, Operands], Any]
_WRAPPING = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def _spread(operands: Operands) -> list[pa.Array]:
    """Return operands as arrays of equal lengths."""
    count = max((len(each) for each in operands if isinstance(each, pa.Array)), default=1)
    return [each if isinstance(each, pa.Array) else pa.repeat(each, count) for each in operands]


def _both_valid(one: Array | None, other: Array | None) -> Array | None:
    return other if one is None else one if other is None else one & other


# ---------------------------------------------------------------- arithmetic


def arithmetic(node: Typed, operands: Operands) -> Any:
    """Sums, differences, products: integers wrap, as in Java and in Arrow."""
    if not types.is_decimal(node.type):
        return _WRAPPING[node.name](*operands)
    left, right = _spread(operands)
    if node.name == "*":
        return decimals.multiplied(left, right, node.type)
    return decimals.added(node.name, left, right, node.type)


def division(node: Typed, operands: Operands) -> Any:
    """Quotients: null where the divisor is zero."""
    left, right = _spread(operands) if types.is_decimal(node.type) else operands
    if types.is_decimal(node.type):
        return decimals.divided(left, right, node.type)
    if isinstance(right, pa.Scalar) and right.is_valid and right.as_py() != 0:
        return pc.divide(left, right)
    return pc.if_else(pc.equal(right, 0.0), pa.scalar(None, node.type), pc.divide(left, right))


def remainder(node: Typed, operands: Operands) -> Any:
    """Remainders with the sign of the dividend: null where the divisor is zero."""
    left, right = _spread(operands)
    if types.is_decimal(node.type):
        return decimals.remainders(left, right, node.type)
    (a, a_valid), (b, b_valid) = cells_of(left), cells_of(right)
    valid = _both_valid(_both_valid(a_valid, b_valid), None if (b != 0).all() else b != 0)
    # A divisor of -1 is as good as 1, and the least integer has no quotient by -1.
    safe = np.where((b == 0) | (b == -1), b.dtype.type(1), b) if types.is_integer(node.type) else b
    with np.errstate(all="ignore"):
        return array_of(np.fmod(a, safe), valid, node.type)


def whole_division(node: Typed, operands: Operands) -> Any:
    """Quotients of integers, towards zero: null where the divisor is zero; the least integer by -1 wraps."""
    left, right = _spread(operands)
    (a, a_valid), (b, b_valid) = cells_of(left), cells_of(right)
    valid = _both_valid(_both_valid(a_valid, b_valid), None if (b != 0).all() else b != 0)
    plain = np.where((b == 0) | (b == -1), b.dtype.type(1), b)
    found = pc.divide(pa.array(a), pa.array(plain)).to_numpy()
    with np.errstate(over="ignore"):
        return array_of(np.where(b == -1, np.negative(a), found), valid, node.type)


def negative(node: Typed, operands: Operands) -> Any:
    """The negative; the least integer is its own."""
    return pc.negate(*operands)


def absolute(node: Typed, operands: Operands) -> Any:
    """The absolute value; the least integer is its own."""
    return pc.abs(*operands)


# ---------------------------------------------------------------- rounding


def floor(node: Typed, operands: Operands) -> Any:
    """Rounded down."""
    (values,) = _spread(operands)
    if types.is_decimal(values.type):
        return decimals.fitted(pc.floor(values.cast(pa.decimal256(40, values.type.scale))), node.type)
    cells, valid = cells_of(values)
    return array_of(saturated(np.floor(cells), INT64), valid, INT64)


def rounded(node: Typed, operands: Operands) -> Any:
    """Rounded half up, as a decimal that is written like the float would be: 2.675 becomes 2.68."""
    (values,) = _spread(operands)
    kind, places = values.type, int(node.value)
    if types.is_decimal(kind):
        return _rounded_decimals(values, places, node.type)
    if types.is_integer(kind):
        return values if places >= 0 else _rounded_integers(values, -places)
    cells, valid = cells_of(values)
    return array_of(_rounded_floats(cells.astype(np.float64), places).astype(cells.dtype), valid, kind)


def _rounded_decimals(values: pa.Array, places: int, kind: pa.Decimal128Type) -> pa.Array:
    if places >= 0:
        return decimals.fitted(values, kind)
    step = Decimal(1).scaleb(-places)
    return decimals.by_python(lambda each: each.quantize(step, context=decimals.EXACT), (values,), kind)


def _rounded_integers(values: pa.Array, zeros: int) -> pa.Array:
    """Round to a power of ten; what does not fit then wraps. By way of Python's integers where that may be."""
    step = 10**zeros
    half = step // 2
    cells, valid = cells_of(values)
    size = np.abs(cells.astype(object)) if values.type == INT64 else np.abs(cells.astype(np.int64))
    found = np.where(cells < 0, -1, 1) * ((size + half) // step * step)
    bits = cells.dtype.itemsize * 8
    wrapped = ((found + (1 << (bits - 1))) % (1 << bits)) - (1 << (bits - 1))
    return array_of(wrapped.astype(cells.dtype), valid, values.type)


_WHOLE = 2.0**52
"""From here on a double has no digits after the point."""
_NEAR = 1e-3


def _rounded_floats(cells: Array, places: int) -> Array:
    """Round doubles; those that may be a tie of their shortest digits by Python's decimals, each by itself."""
    power = 10.0 ** abs(places)
    with np.errstate(all="ignore"):
        scaled = np.abs(cells) * power if places >= 0 else np.abs(cells) / power
        whole = np.floor(scaled)
        part = scaled - whole
        steps = whole + (part >= 0.5)
        found = np.copysign(steps / power if places >= 0 else steps * power, cells) + 0.0
        finite = np.isfinite(cells)
        sure = (scaled < _WHOLE / 1024) & (np.abs(part - 0.5) > _NEAR)
    kept = ~finite | ((np.abs(cells) >= _WHOLE) & (places >= 0))
    found[kept] = cells[kept]
    for i in np.flatnonzero(~sure & ~kept).tolist():
        found[i] = _rounded_float(float(cells[i]), places)
    return found


def _rounded_float(value: float, places: int) -> float:
    exact = Decimal(repr(value))
    if exact.adjusted() < -places - 1:
        return 0.0
    return float(exact.quantize(Decimal(1).scaleb(-places), context=decimals.EXACT)) + 0.0


# ---------------------------------------------------------------- comparisons

_COMPARE = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
_MIRRORED = {"<": ">", "<=": ">="}


def comparison(node: Typed, operands: Operands) -> Any:
    """Compare; NaN equals NaN, and is greater than all other numbers."""
    left, right = operands
    kind = node.arguments[0].type
    if kind == BOOL:
        left, right = (pc.cast(each, pa.int8()) for each in operands)
    if types.is_float(kind):
        return _compared_floats(node.name, left, right)
    return _COMPARE[node.name](left, right)


def _compared_floats(name: str, left: Any, right: Any) -> Any:
    if name in _MIRRORED:
        return _compared_floats(_MIRRORED[name], right, left)
    found = _COMPARE[name](left, right)
    if _is_no_nan(left):
        return found
    if name == ">=":  # NaN is at least what anything is
        return pc.or_(found, pc.is_nan(left))
    if name == ">":
        greater = pc.is_nan(left)
        return pc.or_(found, greater if _is_no_nan(right) else pc.and_(greater, pc.invert(pc.is_nan(right))))
    return found if _is_no_nan(right) else pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _is_no_nan(value: Any) -> bool:
    return isinstance(value, pa.Scalar) and value.is_valid and value.as_py() == value.as_py()


def same(node: Typed, operands: Operands) -> Any:
    """Compare by <=>: null equals null, and nothing else."""
    equal = comparison(Typed("=", BOOL, node.arguments), operands)
    left, right = (pc.is_null(each) for each in operands)
    return pc.if_else(pc.or_(left, right), pc.and_(left, right), equal)


def membership(node: Typed, operands: Operands) -> Any:
    """IN: true, else null if a null is in the way, else false."""
    value, *listed = operands
    kind = node.arguments[0].type
    if all(isinstance(each, pa.Scalar) and each.is_valid for each in listed) and not types.is_float(kind):
        plain = INT64 if kind == types.INSTANT else kind
        if types.is_decimal(kind) or types.is_time(kind) or kind == BOOL:
            return _any_equal(node, value, listed)
        found = pc.is_in(value, value_set=pa.array([each.as_py() for each in listed], plain))
        return pc.if_else(pc.is_null(value), pa.scalar(None, BOOL), found)
    return _any_equal(node, value, listed)


def _any_equal(node: Typed, value: Any, listed: Operands) -> Any:
    found = None
    for each in listed:
        equal = comparison(Typed("=", BOOL, node.arguments[:2]), [value, each])
        found = equal if found is None else pc.or_kleene(found, equal)
    return found


def is_null(node: Typed, operands: Operands) -> Any:
    """IS NULL; NaN is a value."""
    return pc.is_null(operands[0])


def is_true(node: Typed, operands: Operands) -> Any:
    """IS TRUE: null is not."""
    return pc.fill_null(operands[0], False)


def is_false(node: Typed, operands: Operands) -> Any:
    """IS FALSE: null is not."""
    return pc.fill_null(pc.invert(operands[0]), False)


def case(node: Typed, operands: Operands) -> Any:
    """The value of the first condition that is true."""
    *pairs, found = operands
    for i in range(len(pairs) - 2, -1, -2):
        found = pc.if_else(pc.fill_null(pairs[i], False), pairs[i + 1], found)
    return found


# ---------------------------------------------------------------- text


def like(node: Typed, operands: Operands) -> Any:
    """Match a pattern that stands in the text."""
    values = operands[0]
    if node.arguments[1].value is None:
        return pc.and_(pc.is_null(values), pa.scalar(None, BOOL))
    parts = _parts(str(node.arguments[1].value), node.word)
    texts = [each for each in parts if each not in (_ANY, _ONE)]
    if parts == texts:
        return pc.equal(values, "".join(texts))
    if parts == [*texts, _ANY] and len(texts) == 1:
        return pc.starts_with(values, texts[0])
    if parts == [_ANY, *texts] and len(texts) == 1:
        return pc.ends_with(values, texts[0])
    written = "".join({_ANY: ".*", _ONE: "."}.get(each) or _plain_regex(each) for each in parts)
    return pc.match_substring_regex(values, rf"(?s)\A{written}\z")


_ANY, _ONE = "%", "_"


def _parts(pattern: str, escape: str) -> list[str]:
    """Return the texts, and the signs for any text and for one character, of a pattern."""
    parts: list[str] = []
    plain = ""
    signs = iter(pattern)
    for sign in signs:
        if sign == escape:
            plain += next(signs)
        elif sign in (_ANY, _ONE):
            parts += [_Plain(plain), sign] if plain else [sign]
            plain = ""
        else:
            plain += sign
    return [*parts, _Plain(plain)] if plain else parts


class _Plain(str):
    """A text of a pattern, which equals no sign."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def _plain_regex(text: str) -> str:
    return "".join(each if each.isalnum() or ord(each) > 127 else f"\\x{ord(each):02x}" for each in text)


def lower(node: Typed, operands: Operands) -> Any:
    """Small letters: of ASCII by Arrow, else by Python, which knows letters that become two."""
    return _letters(operands, pc.ascii_lower, str.lower)


def upper(node: Typed, operands: Operands) -> Any:
    """Capitals."""
    return _letters(operands, pc.ascii_upper, str.upper)


def _letters(operands: Operands, of_ascii: Callable[..., Any], by_python: Callable[[str], str]) -> Any:
    (values,) = _spread(operands)
    plain = pc.all(pc.string_is_ascii(values), min_count=0).as_py()
    return of_ascii(values) if plain else by_distinct(values, by_python, TEXT)


def length(node: Typed, operands: Operands) -> Any:
    """How many characters."""
    return pc.utf8_length(*operands)


def substring(node: Typed, operands: Operands) -> Any:
    """Characters from a place on, counted from 1, or from the end if it is negative."""
    values, *places = operands
    known = [each.value for each in node.arguments[1:] if each.is_value]
    if isinstance(values, pa.Array) and len(known) == len(places) and None not in known:
        return _sliced(values, *known)
    rows = zip(*(each.to_pylist() for each in _spread(operands)), strict=True)
    return pa.array([None if None in cells else _part(*cells) for cells in rows], TEXT)


def _sliced(values: pa.Array, place: int, count: int | None = None) -> Any:
    if count is not None and count <= 0:
        return pc.if_else(pc.is_null(values), pa.scalar(None, TEXT), "")
    start = place - 1 if place > 0 else place
    if count is None:
        return pc.utf8_slice_codeunits(values, start)
    stop = start + count
    return pc.utf8_slice_codeunits(values, start, None if start < 0 <= stop else stop)


def _part(text: str, place: int, count: int = 2**31) -> str:
    start = place - 1 if place > 0 else len(text) + place if place < 0 else 0
    return text[max(start, 0) : max(start + count, 0)]


def concatenation(node: Typed, operands: Operands) -> Any:
    """Texts one after the other; null if one of them is."""
    return pc.binary_join_element_wise(*operands, "")


# ---------------------------------------------------------------- times

_PARTS: dict[str, Callable[[Any], Any]] = {
    "YEAR": pc.year,
    "YEAROFWEEK": pc.iso_year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "DAYOFWEEK": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=7),
    "DAYOFWEEK_ISO": lambda values: pc.day_of_week(values, count_from_zero=False, week_start=1),
    "DOY": pc.day_of_year,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
}
_MINUTE = 60_000_000


def extract(node: Typed, operands: Operands) -> Any:
    """A part of a date or a timestamp."""
    (values,) = _spread(operands)
    if node.word == "SECOND":
        cells, valid = cells_of(values)
        return decimals.of_unscaled(np.mod(cells, _MINUTE), valid, node.type)
    return pc.cast(_PARTS[node.word](values), INT32)


_SPANS = {"HOUR": 60 * _MINUTE, "MINUTE": _MINUTE, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}


def truncation(node: Typed, operands: Operands) -> Any:
    """A timestamp, down to a unit."""
    (values,) = _spread(operands)
    if node.word in _SPANS:
        cells, valid = cells_of(values)
        return array_of(cells - np.mod(cells, _SPANS[node.word]), valid, node.type)
    return pc.floor_temporal(values.view(LOCAL), unit=node.word.lower()).view(node.type)


def cast(node: Typed, operands: Operands) -> Any:
    """CAST, and the casts that Spark adds."""
    (values,) = _spread(operands)
    return cast_array(values, node.type)


def field(values: pa.Array, name: str) -> pa.Array:
    """Return a field of structs, null where the struct is."""
    return pc.struct_field(values, name)


def value(node: Typed) -> pa.Scalar:
    """Return a value of the text as a scalar of its type."""
    if types.is_time(node.type) and node.value is not None:
        return pa.scalar(node.value, INT32 if node.type == DATE else INT64).cast(node.type)
    return pa.scalar(node.value, node.type)
