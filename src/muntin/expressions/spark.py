"""Operations as text for Spark, with the meaning that its SQL has without ANSI mode, whatever the mode and the zone.

Operands have the types that an operation takes, so that Spark casts nothing itself. Where ANSI mode would raise an
error, or the session's zone matter, other functions say the same: try_add instead of +, microseconds instead of a zone.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from muntin.expressions import types
from muntin.expressions.typed import Typed
from muntin.expressions.types import BOOL, DATE, DOUBLE, INSTANT, INT32, INT64, LOCAL, TEXT

Write = Callable[[Typed, Sequence[str]], str]
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
_SPARE = {types.INT8: 56, types.INT16: 48, types.INT32: 32}
"""Bits of a BIGINT that an integer has not."""
_LONG = 2000
_BIGINT_DIGITS = 19
_JAVA_DIGITS = 34
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_DAY = "86400000000L"


def text(part: Typed, columns: dict[str, str]) -> str:
    """Return an expression as text for Spark; `columns` has its names of columns."""
    from muntin.expressions.functions import operation

    if part.name == "column":
        first, *fields = part.value
        found = columns[first] + "".join(f".`{each.replace('`', '``')}`" for each in fields)
        return found if types.as_spark(part.type) == part.type else f"CAST({found} AS {types.name_of(part.type)})"
    if part.name == "value":
        return literal(part.value, part.type)
    return operation(part.name).write(part, [text(each, columns) for each in part.arguments])


def literal(value: Any, kind: pa.DataType) -> str:
    """Return a value as text of its type.

    >>> literal(5, pa.int8()), literal("a", pa.string()), literal(None, pa.float64())
    ('CAST(5 AS TINYINT)', "'a'", 'CAST(NULL AS DOUBLE)')
    """
    if kind == types.NULL:
        return "NULL"
    name = types.name_of(kind)
    if value is None:
        return f"CAST(NULL AS {name})"
    if kind == BOOL:
        return "TRUE" if value else "FALSE"
    if kind == TEXT:
        plain = value.isprintable() and value.isascii() and not set(value) & set("'\"\\")
        return f"'{value}'" if plain else f"CAST(X'{value.encode().hex()}' AS STRING)"
    if kind == DATE:
        return f"date_from_unix_date({value})"
    if kind == INSTANT:
        return f"timestamp_micros({value}L)"
    if kind == LOCAL:
        return _local(f"{value}L")
    if types.is_float(kind):
        return _float(value, kind)
    if types.is_decimal(kind):
        return f"CAST('{decimal.Decimal(value):f}' AS {name})"
    return (
        f"CAST('{value}' AS {name})"
        if value < 0
        else f"CAST({value}L AS {name})"
        if kind == INT64
        else _small(value, name)
    )


def _small(value: int, name: str) -> str:
    return f"CAST({value} AS {name})"


def _float(value: float, kind: pa.DataType) -> str:
    name = types.name_of(kind)
    if math.isfinite(value):
        return f"CAST('{value!r}' AS {name})"
    return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS {name})"


# ---------------------------------------------------------------- arithmetic


def wrapped(number: str, kind: pa.DataType) -> str:
    """Return a BIGINT as a smaller integer, of its last bits."""
    bits = _SPARE[kind]
    return f"CAST(shiftright(shiftleft({number}, {bits}), {bits}) AS {types.name_of(kind)})"


def _wrapped_decimal(number: str) -> str:
    """Return a whole decimal as a BIGINT, of its last bits."""
    half, whole = f"{1 << 63}BD", f"{1 << 64}BD"
    return f"CAST(pmod({number} + {half}, {whole}) - {half} AS BIGINT)"


def _wide(number: str) -> str:
    """Return a BIGINT as a decimal, in which it does not overflow."""
    return f"CAST({number} AS DECIMAL(19, 0))"


def _unless_long(fast: str, sound: str) -> str:
    """Return the faster of two texts with a second one for its nulls; the sound one where both would be long.

    Nested, texts that hold their operands twice would grow without bounds.
    """
    return f"coalesce({fast}, {sound})" if len(fast) + len(sound) < _LONG else sound


def arithmetic(node: Typed, operands: Sequence[str]) -> str:
    """Sums, differences, products."""
    left, right = operands
    if types.is_decimal(node.type):
        return f"{_TRIED[node.name]}({left}, {right})"
    if types.is_float(node.type):
        return f"({left} {node.name} {right})"
    if node.type != INT64:
        return wrapped(f"(CAST({left} AS BIGINT) {node.name} CAST({right} AS BIGINT))", node.type)
    sound = _wrapped_decimal(f"({_wide(left)} {node.name} {_wide(right)})")
    return _unless_long(f"{_TRIED[node.name]}({left}, {right})", sound)


def division(node: Typed, operands: Sequence[str]) -> str:
    """Quotients."""
    return f"try_divide({operands[0]}, {operands[1]})"


def remainder(node: Typed, operands: Sequence[str]) -> str:
    """Remainders."""
    return f"try_mod({operands[0]}, {operands[1]})"


def whole_division(node: Typed, operands: Sequence[str]) -> str:
    """Quotients of integers."""
    left, right = operands
    return f"CASE WHEN {right} = -1L THEN {_negative(left, INT64)} ELSE {left} DIV nullif({right}, 0L) END"


def negative(node: Typed, operands: Sequence[str]) -> str:
    """The negative."""
    return _negative(operands[0], node.type)


def _negative(value: str, kind: pa.DataType) -> str:
    if types.is_decimal(kind) and kind.precision > _JAVA_DIGITS:  # of more digits Spark's minus would lose some
        return f"CAST(try_subtract(CAST(0 AS DECIMAL(1, 0)), {value}) AS {types.name_of(kind)})"
    if not types.is_integer(kind):
        return f"(- {value})"
    if kind == INT64:
        return _unless_long(f"try_subtract(0L, {value})", _wrapped_decimal(f"(- {_wide(value)})"))
    return wrapped(f"(- CAST({value} AS BIGINT))", kind)


def absolute(node: Typed, operands: Sequence[str]) -> str:
    """The absolute value."""
    (value,) = operands
    if types.is_decimal(node.type) and node.type.precision > _JAVA_DIGITS:
        return f"CASE WHEN {value} < 0 THEN {_negative(value, node.type)} ELSE {value} END"
    if not types.is_integer(node.type):
        return f"abs({value})"
    if node.type == INT64:
        return _unless_long(
            f"abs(nullif({value}, {literal(-(2**63), INT64)}))", _wrapped_decimal(f"abs({_wide(value)})")
        )
    return wrapped(f"abs(CAST({value} AS BIGINT))", node.type)


def rounded(node: Typed, operands: Sequence[str]) -> str:
    """Rounded half up."""
    (value,) = operands
    kind, places = node.arguments[0].type, node.value
    if not types.is_integer(kind) or places >= 0:
        return f"round({value}, {places})"
    if kind == INT64:
        return _wrapped_decimal(f"round(CAST({value} AS DECIMAL(19, 0)), {places})")
    return wrapped(f"round(CAST({value} AS BIGINT), {places})", kind)


def floor(node: Typed, operands: Sequence[str]) -> str:
    """Rounded down."""
    (value,) = operands
    return f"floor({value})" if types.is_decimal(node.type) else _saturated(value, "floor({})", INT64)


# ---------------------------------------------------------------- conditions


def infix(node: Typed, operands: Sequence[str]) -> str:
    """An operator between its operands."""
    return f"({operands[0]} {node.name} {operands[1]})"


def negation(node: Typed, operands: Sequence[str]) -> str:
    """NOT."""
    return f"(NOT {operands[0]})"


def behind(node: Typed, operands: Sequence[str]) -> str:
    """IS NULL, IS TRUE."""
    return f"({operands[0]} {node.name})"


def membership(node: Typed, operands: Sequence[str]) -> str:
    """IN."""
    return f"({operands[0]} IN ({', '.join(operands[1:])}))"


def like(node: Typed, operands: Sequence[str]) -> str:
    """LIKE, with the backslash as its escape, which needs no literal."""
    value = node.arguments[1].value
    pattern = operands[1]
    if value is not None and node.word != "\\":
        pattern = literal(with_backslashes(value, node.word), TEXT)
    return f"({operands[0]} LIKE {pattern})"


def with_backslashes(pattern: str, escape: str) -> str:
    r"""Return a pattern of LIKE with another escape as one with backslashes.

    >>> print(with_backslashes("5#% off\\", "#"))
    5\% off\\
    """
    signs = iter(pattern.replace("\\", "\\\\") if escape != "\\" else pattern)
    out = ""
    for sign in signs:
        if sign == escape:
            held = next(signs)
            out += f"\\{held}" if held in "%_" else held
        else:
            out += sign
    return out


def call(node: Typed, operands: Sequence[str]) -> str:
    """A function of the same name."""
    return f"{node.name.lower()}({', '.join(operands)})"


def case(node: Typed, operands: Sequence[str]) -> str:
    """CASE."""
    *pairs, last = operands
    whens = " ".join(f"WHEN {pairs[i]} THEN {pairs[i + 1]}" for i in range(0, len(pairs), 2))
    return f"CASE {whens} ELSE {last} END"


# ---------------------------------------------------------------- times


def extract(node: Typed, operands: Sequence[str]) -> str:
    """EXTRACT."""
    return f"extract({node.word} FROM {operands[0]})"


_MINUTE = 60_000_000
_SPANS = {"HOUR": 60 * _MINUTE, "MINUTE": _MINUTE, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}


def truncation(node: Typed, operands: Sequence[str]) -> str:
    """DATE_TRUNC in UTC: by microseconds within a day, else by dates."""
    micros = f"unix_micros({operands[0]})"
    if node.word in _SPANS:
        return f"timestamp_micros({micros} - pmod({micros}, {_SPANS[node.word]}L))"
    day = _date_of_instant(operands[0])
    return _instant_of_date(day if node.word == "DAY" else f"trunc({day}, '{node.word}')")


def _date_of_instant(instant: str) -> str:
    return f"CAST({_local(f'unix_micros({instant})')} AS DATE)"


def _instant_of_date(date: str) -> str:
    return f"timestamp_micros(CAST(unix_date({date}) AS BIGINT) * {_DAY})"


def _local(micros: str) -> str:
    """Return microseconds since 1970 as a time without a zone."""
    return f"timestampadd(MICROSECOND, {micros}, {_EPOCH})"


def _instant_of_local(local: str) -> str:
    return f"timestamp_micros(timestampdiff(MICROSECOND, {_EPOCH}, {local}))"


# ---------------------------------------------------------------- casts


def cast(node: Typed, operands: Sequence[str]) -> str:
    """CAST, and the casts that Spark would add."""
    (value,) = operands
    was, kind = node.arguments[0].type, node.type
    name = types.name_of(kind)
    if types.is_time(was) or types.is_time(kind):
        return _time(value, was, kind)
    if was == TEXT:
        return _from_text(value, kind)
    if types.is_decimal(kind):
        return f"try_cast({value} AS {name})"
    if types.is_integer(kind) and not types.is_integer(was) and was != BOOL:
        return _whole(value, was, kind)
    if types.is_integer(kind) and types.is_integer(was) and kind.bit_width < was.bit_width:
        return wrapped(value if was == INT64 else f"CAST({value} AS BIGINT)", kind)
    return f"CAST({value} AS {name})"


def _whole(value: str, was: pa.DataType, kind: pa.DataType) -> str:
    """Return a number without its digits after the point, as Java casts it."""
    if types.is_decimal(was):
        if was.precision - was.scale < _BIGINT_DIGITS:
            return f"CAST({value} AS BIGINT)" if kind == INT64 else wrapped(f"CAST({value} AS BIGINT)", kind)
        big = f"CAST(CASE WHEN {value} < 0 THEN ceil({value}) ELSE floor({value}) END AS DECIMAL(38, 0))"
        whole = _wrapped_decimal(big)
        return whole if kind == INT64 else wrapped(whole, kind)
    through = INT64 if kind == INT64 else INT32
    found = _saturated(f"CAST({value} AS DOUBLE)", f"CAST({{}} AS {types.name_of(through)})", through)
    return found if kind == through else wrapped(f"CAST({found} AS BIGINT)", kind)


def _saturated(number: str, function: str, kind: pa.DataType) -> str:
    """Return a function from DOUBLE to integers: of NaN 0, and the nearest bound beyond the range."""
    low, high = (-(2**63), 2**63 - 1) if kind == INT64 else (-(2**31), 2**31 - 1)
    zero, least, most = (literal(each, kind) for each in (0, low, high))
    return (
        f"CASE WHEN isnan({number}) THEN {zero} WHEN {number} >= {literal(float(high), DOUBLE)} THEN {most} "
        f"WHEN {number} <= {literal(float(low), DOUBLE)} THEN {least} ELSE {function.format(number)} END"
    )


_INTEGER = "^[\\x00-\\x20\\x7f]*([+-]?)(?=[0-9.])([0-9]*)(?:\\.[0-9]*)?[\\x00-\\x20\\x7f]*$"


def _from_text(value: str, kind: pa.DataType) -> str:
    name = types.name_of(kind)
    if not types.is_integer(kind):
        return f"try_cast({value} AS {name})"
    return f"try_cast(regexp_replace({value}, {literal(_INTEGER, TEXT)}, '$10$2') AS {name})"


def _time(value: str, was: pa.DataType, kind: pa.DataType) -> str:
    if was == INSTANT and kind in (INT64, DOUBLE):
        return f"unix_seconds({value})" if kind == INT64 else f"(CAST(unix_micros({value}) AS DOUBLE) / 1000000.0D)"
    if types.is_integer(was):
        return f"CAST({value} AS TIMESTAMP)"
    if was == INSTANT:
        local = _local(f"unix_micros({value})")
        return local if kind == LOCAL else f"CAST({local} AS {types.name_of(kind)})"
    if kind == INSTANT:
        return _instant_of_date(value) if was == DATE else _instant_of_local(value)
    return f"CAST({value} AS {types.name_of(kind)})"
