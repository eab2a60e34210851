"""An expression whose types are known, and the rules that find them: those of Spark SQL without ANSI mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from muntin.expressions import types
from muntin.expressions.instants import date_of, instant_of
from muntin.expressions.types import BOOL, DATE, DOUBLE, INSTANT, INT32, INT64, LOCAL, NULL, TEXT


class RefusedTypes(Exception):  # noqa: N818  # it is caught where the place in the text is known
    """Types that an operation does not take, in words."""


@dataclass(frozen=True)
class Typed:
    """A part of an expression with its type: an operation on operands that have the types it takes."""

    name: str
    """The operation, as in the table of functions; "column" and "value" have no operands."""
    type: pa.DataType
    arguments: tuple[Typed, ...] = ()
    word: str = ""
    value: Any = None
    """Of a value itself, of a column its path."""

    @property
    def is_value(self) -> bool:
        """Whether it stands in the text."""
        return self.name == "value"


Rule = Callable[["Typed", Sequence[Typed]], Typed]
"""How an operation gets its type: from the operation without one, and its operands, which it may cast."""


def null_of(kind: pa.DataType) -> Typed:
    """Return null, of a type."""
    return Typed("value", kind)


def cast(part: Typed, kind: pa.DataType) -> Typed:
    """Return a part as another type; reject a cast that is not known."""
    if part.type == kind:
        return part
    if part.type == NULL:
        return null_of(kind)
    if not castable(part.type, kind):
        raise RefusedTypes(f"a {types.name_of(part.type)} is not cast to {types.name_of(kind)}")
    if kind == TEXT and types.is_decimal(part.type) and part.type.scale > _PLAIN_SCALE:
        raise RefusedTypes(
            f"a {types.name_of(part.type)} is not cast to STRING, since Spark writes some of them with an exponent; "
            f"cast it to a DECIMAL of at most {_PLAIN_SCALE} digits after the point first"
        )
    if part.type == TEXT and types.is_time(kind):
        return _time_of_text(part, kind)
    return Typed("CAST", kind, (part,))


_PLAIN_SCALE = 6


def _time_of_text(part: Typed, kind: pa.DataType) -> Typed:
    """Return a date or a timestamp that stands in the text as text."""
    name = types.name_of(kind)
    if not part.is_value:
        raise RefusedTypes(
            f"a STRING of a column is not cast to {name}; make the column one before, or compare it with a text that "
            "stands in the expression"
        )
    found = date_of(part.value) if kind == DATE else instant_of(part.value, zoned=kind == INSTANT)
    if found is None:
        raise RefusedTypes(f"{part.value!r} is no {name}; write it like '2024-03-01' or '2024-03-01 12:30:00'")
    return Typed("value", kind, value=found)


def castable(kind: pa.DataType, to: pa.DataType) -> bool:
    """Return whether a type can be cast to another.

    >>> castable(pa.string(), pa.int32()), castable(pa.date32(), pa.int32())
    (True, False)
    """
    plain = all(types.is_number(each) or each in (BOOL, TEXT) for each in (kind, to))
    if kind == to or plain:
        return True
    if types.is_time(kind):
        return types.is_time(to) or to == TEXT or (kind == INSTANT and to in (INT64, DOUBLE))
    return types.is_time(to) and (kind == TEXT or (to == INSTANT and types.is_integer(kind)))


def _refused(node: Typed, operands: Sequence[Typed], advice: str = "") -> RefusedTypes:
    kinds = " and ".join(types.name_of(each.type) for each in operands)
    return RefusedTypes(f"{node.name} does not take {kinds}{advice}")


# ---------------------------------------------------------------- arithmetic


def _as_number(part: Typed, node: Typed, operands: Sequence[Typed]) -> Typed:
    """Return an operand of arithmetic as a number: a text as DOUBLE."""
    if part.type == TEXT:
        return cast(part, DOUBLE)
    if part.type != NULL and not types.is_number(part.type):
        raise _refused(node, operands)
    return part


def _with_decimal(part: Typed, other: Typed) -> Typed:
    """Return an integer beside a decimal as a decimal: of its own digits if it stands in the text, but not 1Y."""
    if not types.is_integer(part.type) or not types.is_decimal(other.type):
        return part
    if part.is_value and part.value is not None and part.type != types.INT8:
        return cast(part, pa.decimal128(len(str(abs(part.value))), 0))
    return cast(part, types.decimal_of(part.type))


def arithmetic(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Add, subtract, multiply, or take the remainder."""
    left, right = (_as_number(each, node, operands) for each in operands)
    if left.type == NULL and right.type == NULL:
        return null_of(DOUBLE)
    left, right = _with_decimal(left, right), _with_decimal(right, left)
    if types.is_decimal(left.type) and types.is_decimal(right.type):
        return replace(node, type=types.decimal_result(node.name, left.type, right.type), arguments=(left, right))
    if NULL in (left.type, right.type):
        kind = left.type if right.type == NULL else right.type
        kind = types.decimal_result(node.name, kind, kind) if types.is_decimal(kind) else kind
        return null_of(kind)
    kind = types.common_number(left.type, right.type)
    return replace(node, type=kind, arguments=(cast(left, kind), cast(right, kind)))


def division(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Divide: as decimals if both are some, or one is and the other an integer; else as DOUBLE."""
    left, right = (_as_number(each, node, operands) for each in operands)
    left, right = _with_decimal(left, right), _with_decimal(right, left)
    if types.is_decimal(left.type) and types.is_decimal(right.type):
        return replace(node, type=types.decimal_result("/", left.type, right.type), arguments=(left, right))
    if NULL in (left.type, right.type):
        kind = left.type if right.type == NULL else right.type
        return null_of(types.decimal_result("/", kind, kind) if types.is_decimal(kind) else DOUBLE)
    return replace(node, type=DOUBLE, arguments=(cast(left, DOUBLE), cast(right, DOUBLE)))


def whole_division(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Divide integers, without the remainder."""
    if not all(types.is_integer(each.type) or each.type == NULL for each in operands):
        raise _refused(node, operands, ": it divides integers; cast them to BIGINT, or write FLOOR(a / b)")
    left, right = (cast(each, INT64) for each in operands)
    return replace(node, type=INT64, arguments=(left, right))


def one_number(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Negate, or take the absolute value."""
    operand = _as_number(operands[0], node, operands)
    operand = cast(operand, DOUBLE) if operand.type == NULL else operand
    return replace(node, type=operand.type, arguments=(operand,))


def rounding(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Round to some digits after the point."""
    value = one_number(node, operands[:1]).arguments[0]
    digits = operands[1] if len(operands) > 1 else Typed("value", INT32, value=0)
    if not digits.is_value or not types.is_integer(digits.type) or digits.value is None:
        raise RefusedTypes("the digits of ROUND are an integer that stands in the text")
    places = int(digits.value)
    if not -_MOST_PLACES <= places <= _MOST_PLACES:
        raise RefusedTypes(f"the digits of ROUND are from {-_MOST_PLACES} to {_MOST_PLACES}")
    kind = value.type
    if types.is_decimal(kind):
        whole, scale = kind.precision - kind.scale + 1, min(kind.scale, max(0, places))
        precision = max(whole, -places + 1) if places < 0 else whole + scale
        kind = pa.decimal128(min(types.MOST_DIGITS, precision), scale)
    return replace(node, type=kind, arguments=(value,), value=places)


_MOST_PLACES = 18


def floor(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Round down: decimals to decimals without digits after the point, all else to BIGINT."""
    operand = one_number(node, operands).arguments[0]
    kind = operand.type
    if types.is_integer(kind):
        return cast(operand, INT64)
    if not types.is_decimal(kind):
        return replace(node, type=INT64, arguments=(cast(operand, DOUBLE),))
    if kind.scale:
        kind = pa.decimal128(min(types.MOST_DIGITS, kind.precision - kind.scale + 1), 0)
    return replace(node, type=kind, arguments=(operand,))


# ---------------------------------------------------------------- comparisons and conditions


def _compared(node: Typed, left: Typed, right: Typed) -> Typed:
    kind = types.compared(left.type, right.type)
    if kind == NULL:
        kind = BOOL
    if kind is None or not types.is_computable(kind):
        raise _refused(node, (left, right), "; cast one of them")
    return replace(node, type=BOOL, arguments=(cast(left, kind), cast(right, kind)))


def comparison(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Compare two values in the type that Spark compares them in."""
    return _compared(node, *operands)


def unequal(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Compare by =, and negate."""
    return negated(_compared(replace(node, name="="), *operands))


def negated(part: Typed) -> Typed:
    """Return NOT of a condition."""
    return Typed("NOT", BOOL, (part,))


def between(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Compare with two bounds, each by itself."""
    value, low, high = operands
    both = (_compared(replace(node, name=">="), value, low), _compared(replace(node, name="<="), value, high))
    return Typed("AND", BOOL, both)


def membership(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Compare with each of a list, in the type that all of them have in common."""
    kind = _common(node, operands)
    kind = BOOL if kind == NULL else kind
    if not types.is_computable(kind):
        raise _refused(node, operands[:1])
    return replace(node, type=BOOL, arguments=tuple(cast(each, kind) for each in operands))


def conditions(node: Typed, operands: Sequence[Typed]) -> Typed:
    """AND, OR, NOT, IS TRUE: of booleans."""
    return replace(node, type=BOOL, arguments=tuple(condition(node.name, each) for each in operands))


def condition(of: str, part: Typed) -> Typed:
    """Return a boolean; reject all else."""
    if part.type not in (BOOL, NULL):
        raise RefusedTypes(f"{of} takes conditions, and this is {types.name_of(part.type)}; compare it with something")
    return cast(part, BOOL)


def is_null(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Ask whether there is a value, of any type."""
    return replace(node, type=BOOL, arguments=tuple(operands))


def _common(node: Typed, operands: Sequence[Typed]) -> pa.DataType:
    """Return the type that operands have in common; a text beside other types makes all of them text."""
    kinds = [each.type for each in operands]
    found = TEXT if TEXT in kinds else kinds[0]
    for each in kinds:
        both = types.common(found, each)
        if both is None:
            raise RefusedTypes(
                f"{node.name} has values of {types.name_of(found)} and {types.name_of(each)}, which have no type in "
                "common; cast one of them"
            )
        found = both
    return found


def first_of(node: Typed, operands: Sequence[Typed]) -> Typed:
    """COALESCE."""
    kind = _common(node, operands)
    return replace(node, type=kind, arguments=tuple(cast(each, kind) for each in operands))


def case(node: Typed, operands: Sequence[Typed]) -> Typed:
    """CASE: conditions and values in turn, and the value of ELSE if there is one."""
    last = len(operands) - 1
    is_condition = [i % 2 == 0 and (i < last or len(operands) % 2 == 0) for i in range(len(operands))]
    kind = _common(node, [each for each, asked in zip(operands, is_condition, strict=True) if not asked])
    found = [
        condition("WHEN", each) if asked else cast(each, kind)
        for each, asked in zip(operands, is_condition, strict=True)
    ]
    if len(found) % 2 == 0:
        found.append(null_of(kind))
    return replace(node, type=kind, arguments=tuple(found))


# ---------------------------------------------------------------- text


def as_text(part: Typed, of: str) -> Typed:
    """Return a part as text, as Spark casts what is not."""
    if not types.is_computable(part.type):
        raise RefusedTypes(f"{of} takes text, and this is {types.name_of(part.type)}")
    return cast(part, TEXT)


def like(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Match a pattern."""
    value, pattern = (as_text(each, "LIKE") for each in operands)
    escape = node.word or "\\"
    if pattern.is_value and pattern.value is not None and not is_pattern(pattern.value, escape):
        raise RefusedTypes(f"in a pattern of LIKE, {escape} stands before %, _ or itself; {pattern.value!r} is none")
    if not pattern.is_value:
        raise RefusedTypes("the pattern of LIKE is a text that stands in the expression")
    return replace(node, type=BOOL, arguments=(value, pattern), word=escape)


def is_pattern(pattern: str, escape: str) -> bool:
    r"""Return whether each escape of a pattern stands before %, _ or itself.

    >>> is_pattern("5\\%", "\\"), is_pattern("a\\b", "\\"), is_pattern("a\\", "\\")
    (True, False, False)
    """
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            at += 1
            if pattern[at : at + 1] not in ("%", "_", escape):
                return False
        at += 1
    return True


def text(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Text to text: LOWER, UPPER, CONCAT."""
    return replace(node, type=TEXT, arguments=tuple(as_text(each, node.name) for each in operands))


def length(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Text to a number."""
    return replace(node, type=INT32, arguments=(as_text(operands[0], node.name),))


def substring(node: Typed, operands: Sequence[Typed]) -> Typed:
    """Text and one or two integers to text."""
    for each in operands[1:]:
        if not types.is_integer(each.type) and each.type != NULL:
            raise RefusedTypes(f"SUBSTRING takes integers behind the text, and this is {types.name_of(each.type)}")
    places = tuple(cast(each, INT32) for each in operands[1:])
    return replace(node, type=TEXT, arguments=(as_text(operands[0], node.name), *places))


# ---------------------------------------------------------------- times


_OF_CLOCK = ("HOUR", "MINUTE", "SECOND")


def extract(node: Typed, operands: Sequence[Typed]) -> Typed:
    """A part of a date or a timestamp; instants are taken in UTC."""
    value = operands[0]
    if value.type == NULL:
        value = cast(value, LOCAL)
    if not types.is_time(value.type):
        raise RefusedTypes(f"EXTRACT takes dates and timestamps, and this is {types.name_of(value.type)}")
    if node.word in _OF_CLOCK:
        value = cast(value, LOCAL)
    kind = pa.decimal128(8, 6) if node.word == "SECOND" else INT32
    return replace(node, type=kind, arguments=(value if value.type == DATE else cast(value, LOCAL),))


def truncation(node: Typed, operands: Sequence[Typed]) -> Typed:
    """A time, down to a unit: Spark's DATE_TRUNC gives an instant, in UTC here."""
    value = operands[0]
    if value.type != NULL and not types.is_time(value.type):
        raise RefusedTypes(f"DATE_TRUNC takes dates and timestamps, and this is {types.name_of(value.type)}")
    return replace(node, type=INSTANT, arguments=(cast(value, INSTANT),))


def casting(node: Typed, operands: Sequence[Typed]) -> Typed:
    """CAST."""
    kind = types.type_named(node.word)
    assert kind is not None
    if not types.is_computable(operands[0].type):
        raise RefusedTypes(f"a {types.name_of(operands[0].type)} is not cast")
    return cast(operands[0], kind)
