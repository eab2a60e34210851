"""Spark SQL's rules of types: what Arrow's types are there, which type two have in common, and what decimals become."""

from __future__ import annotations

import re

import pyarrow as pa

BOOL, TEXT, DATE, NULL = pa.bool_(), pa.string(), pa.date32(), pa.null()
INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
INSTANT = pa.timestamp("us", "UTC")
"""Spark's TIMESTAMP: an instant."""
LOCAL = pa.timestamp("us")
"""Spark's TIMESTAMP_NTZ: what some clock showed."""
MOST_DIGITS = 38
_LEAST_SCALE = 6
_RANKS = (INT8, INT16, INT32, INT64, FLOAT, DOUBLE)
_DIGITS = {INT8: 3, INT16: 5, INT32: 10, INT64: 20}
_AS_SPARK = {
    pa.uint8(): INT16,
    pa.uint16(): INT32,
    pa.uint32(): INT64,
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): FLOAT,
    pa.date64(): DATE,
    pa.large_string(): TEXT,
    pa.string_view(): TEXT,
}
_NAMES = {
    "BOOLEAN": BOOL,
    "TINYINT": INT8,
    "BYTE": INT8,
    "SMALLINT": INT16,
    "SHORT": INT16,
    "INT": INT32,
    "INTEGER": INT32,
    "BIGINT": INT64,
    "LONG": INT64,
    "FLOAT": FLOAT,
    "REAL": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": TEXT,
    "DATE": DATE,
    "TIMESTAMP": INSTANT,
    "TIMESTAMP_LTZ": INSTANT,
    "TIMESTAMP_NTZ": LOCAL,
}
TYPE_NAMES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(p, s)", "STRING", "DATE")
"""The names of types that CAST takes, besides synonyms and times."""
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def as_spark(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark has for a column, as wide or wider; types that it computes nothing with stay.

    >>> as_spark(pa.uint8()), as_spark(pa.timestamp("s", "Europe/Berlin")), as_spark(pa.decimal32(5, 2))
    (DataType(int16), TimestampType(timestamp[us, tz=UTC]), Decimal128Type(decimal128(5, 2)))
    """
    if kind in _AS_SPARK:
        return _AS_SPARK[kind]
    if pa.types.is_dictionary(kind):
        return as_spark(kind.value_type)
    if pa.types.is_timestamp(kind):
        return LOCAL if kind.tz is None else INSTANT
    if pa.types.is_decimal(kind) and kind.precision <= MOST_DIGITS and kind.scale >= 0:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def type_named(words: str) -> pa.DataType | None:
    """Return the type of a name in Spark's SQL; None if there is none.

    >>> type_named("bigint"), type_named("decimal(10, 2)"), type_named("money")
    (DataType(int64), Decimal128Type(decimal128(10, 2)), None)
    """
    upper = words.strip().upper()
    found = _DECIMAL.fullmatch(upper)
    if found is None:
        return _NAMES.get(upper)
    precision, scale = int(found[1] or 10), int(found[2] or 0)
    return pa.decimal128(precision, scale) if 1 <= precision <= MOST_DIGITS and scale <= precision else None


def name_of(kind: pa.DataType) -> str:
    """Return the name of a type in Spark's SQL.

    >>> name_of(pa.int8()), name_of(pa.decimal128(10, 2)), name_of(pa.timestamp("us"))
    ('TINYINT', 'DECIMAL(10, 2)', 'TIMESTAMP_NTZ')
    """
    if is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return next((name for name, each in _NAMES.items() if each == kind), str(kind))


def is_integer(kind: pa.DataType) -> bool:
    """Return whether a type is one of Spark's integers."""
    return kind in _DIGITS


def is_decimal(kind: pa.DataType) -> bool:
    """Return whether a type is one of Spark's decimals."""
    return bool(pa.types.is_decimal128(kind))


def is_float(kind: pa.DataType) -> bool:
    """Return whether a type is a float of 32 or 64 bits."""
    return kind in (FLOAT, DOUBLE)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is a number."""
    return is_integer(kind) or is_float(kind) or is_decimal(kind)


def is_time(kind: pa.DataType) -> bool:
    """Return whether a type is a date or a timestamp."""
    return kind in (DATE, INSTANT, LOCAL)


def is_computable(kind: pa.DataType) -> bool:
    """Return whether functions take values of a type."""
    return is_number(kind) or is_time(kind) or kind in (BOOL, TEXT, NULL)


# ---------------------------------------------------------------- decimals


def decimal_of(kind: pa.DataType) -> pa.Decimal128Type:
    """Return the decimal that holds all integers of a type; a decimal itself."""
    return kind if is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def _adjusted(precision: int, scale: int) -> pa.Decimal128Type:
    """Return the type of a result: where it has more than 38 digits, up to 6 of those after the point are kept."""
    if precision <= MOST_DIGITS:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MOST_DIGITS, max(MOST_DIGITS - whole, min(scale, _LEAST_SCALE)))


def decimal_result(operator: str, left: pa.Decimal128Type, right: pa.Decimal128Type) -> pa.Decimal128Type:
    """Return the type of arithmetic with decimals.

    >>> decimal_result("*", pa.decimal128(10, 2), pa.decimal128(5, 1)), decimal_result("/", *[pa.decimal128(10, 2)] * 2)
    (Decimal128Type(decimal128(16, 3)), Decimal128Type(decimal128(23, 13)))
    """
    (p1, s1), (p2, s2) = ((each.precision, each.scale) for each in (left, right))
    if operator == "*":
        return _adjusted(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return _adjusted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if operator == "%":
        return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _wider_decimal(left: pa.Decimal128Type, right: pa.Decimal128Type) -> pa.Decimal128Type:
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    over = max(0, whole + scale - MOST_DIGITS)  # digits before the point are kept
    return pa.decimal128(min(MOST_DIGITS, whole + scale), max(0, scale - over))


# ---------------------------------------------------------------- common types


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the number type that holds values of both.

    >>> common_number(pa.int64(), pa.float32()), common_number(pa.int32(), pa.decimal128(5, 2))
    (DataType(float), Decimal128Type(decimal128(12, 2)))
    """
    if not is_decimal(left) and not is_decimal(right):
        return _RANKS[max(_RANKS.index(left), _RANKS.index(right))]
    if is_float(left) or is_float(right):
        return DOUBLE
    return _wider_decimal(decimal_of(left), decimal_of(right))


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type of CASE, COALESCE and IN for values of two types; None where they have none in common.

    >>> common(pa.int32(), pa.string()), common(pa.date32(), pa.timestamp("us")), common(pa.bool_(), pa.int8())
    (DataType(string), TimestampType(timestamp[us]), None)
    """
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    if is_number(left) and is_number(right):
        return common_number(left, right)
    if is_time(left) and is_time(right):
        return INSTANT if INSTANT in (left, right) else LOCAL
    if TEXT in (left, right):
        other = right if left == TEXT else left
        return TEXT if is_number(other) or is_time(other) else None
    return None


def compared(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which two values are compared; None where Spark compares no such two.

    >>> text = pa.string()
    >>> compared(text, pa.int32()), compared(text, pa.decimal128(5, 2)), compared(pa.date32(), text)
    (DataType(int32), DataType(double), DataType(date32[day]))
    """
    if TEXT not in (left, right) or left == right:
        return common(left, right)
    other = right if left == TEXT else left
    if other == NULL:
        return TEXT
    if is_decimal(other):
        return DOUBLE
    return other if is_number(other) or is_time(other) or other == BOOL else None
