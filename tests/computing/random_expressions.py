"""Random expressions over random rows with many edges: what Spark's answers are compared with."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

TYPES: dict[str, pa.DataType] = {
    "b": pa.bool_(),
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "j32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "g64": pa.float64(),
    "d1": pa.decimal128(10, 2),
    "d2": pa.decimal128(30, 10),
    "d3": pa.decimal128(5, 0),
    "s": pa.string(),
    "t": pa.string(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", "UTC"),
    "ntz": pa.timestamp("us"),
    "st": pa.struct([("x", pa.int32()), ("y", pa.string())]),
}
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.5, 0.5, 2.675, 1e10, 1e-5, 1e300, 1.005, 123456789.125]
FLOATS += [1e7, 9.999e6, 0.001, 2.0**63, -(2.0**31), 2147483647.5]
TEXTS = ["", "a", "abc", "ABC", "Äpfel", "straße", "Σίσυφος", "日本語", "%", "_", "a_b", "50%", "\\", "a\\b", " 12 "]
TEXTS += [
    "12",
    "-7",
    "1.5",
    "1e3",
    "nan",
    "true",
    "no",
    "2024-01-31",
    "x" * 20,
    "😀z",
    "İ",
    "\n",
    "a\nb",
    "12345678901",
]
TEXTS += ["+5", ".5", "5.", "DE", "FR", "0", "1"]


def table(draw: Random, rows: int = 30) -> pa.Table:
    """Return rows of all types: extremes, special floats, texts of many scripts, times long ago, nulls."""
    return pa.table({name: _column(draw, kind, rows) for name, kind in TYPES.items()})


def _column(draw: Random, kind: pa.DataType, rows: int) -> pa.Array:
    cells = [None if draw.random() < 0.15 else _cell(draw, kind) for _ in range(rows)]
    if pa.types.is_date(kind):
        return pa.array(cells, pa.int32()).cast(kind)
    return pa.array(cells, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(cells, kind)


def _cell(draw: Random, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_integer(kind):
        most = (1 << (kind.bit_width - 1)) - 1
        far = draw.randint(-most, most)
        return draw.choice([-most - 1, most, 0, 1, -1, 2, -most, far, draw.randint(-10, 10), draw.randint(-100, 100)])
    if pa.types.is_floating(kind):
        near = [
            draw.uniform(-10, 10),
            draw.uniform(-1e6, 1e6),
            round(draw.uniform(-100, 100), 2),
            draw.randint(-5, 5) / 2,
        ]
        value = draw.choice([*FLOATS, *near])
        with np.errstate(all="ignore"):
            return float(np.float32(value)) if pa.types.is_float32(kind) else value
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        digits = draw.choice([0, 1, -1, most, -most, draw.randint(-most, most), draw.randint(-(10**6), 10**6) % most])
        return decimal.Decimal(digits).scaleb(-kind.scale, decimal.Context(prec=60))
    if pa.types.is_string(kind):
        return draw.choice(TEXTS)
    if pa.types.is_struct(kind):
        return {field.name: _cell(draw, field.type) for field in kind}
    if pa.types.is_date(kind):
        return draw.choice([0, -1, 1, draw.randint(-30_000, 30_000), draw.randint(-700_000, 2_900_000), 19_723])
    near, far = draw.randint(-(10**15), 2 * 10**15), draw.randint(-6 * 10**16, 2 * 10**17)
    return draw.choice([0, -1, 1, near, far, 1_704_067_199_999_999])


# ---------------------------------------------------------------- expressions

NUMBERS = ["i8", "i16", "i32", "j32", "i64", "f32", "f64", "g64", "d1", "d2", "d3", "st.x"]
LITERALS = ["0", "1", "-1", "2", "3", "10", "100", "-2147483648", "2147483647", "2147483648", "9223372036854775807"]
LITERALS += ["1.5", "0.01", "-2.50", "1e3", "2.5D", "1Y", "7S", "5L", "1.5F", "NULL", "0.1BD", "100000.123456"]
TO_NUMBER = ["INT", "BIGINT", "TINYINT", "SMALLINT", "DOUBLE", "FLOAT"]
TO_NUMBER += ["DECIMAL(10, 2)", "DECIMAL(38, 6)", "DECIMAL(3, 1)", "DECIMAL(20)"]
PARTS = [
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DAYOFWEEK",
    "DOW_ISO",
    "DOY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "YEAROFWEEK",
]
UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"]
COMPARE = ["=", "!=", "<>", "<", "<=", ">", ">=", "<=>"]
PATTERNS = [
    "'a%'",
    "'%b'",
    "'%'",
    "'a_b'",
    "'_'",
    "'%a%'",
    "'Ä%'",
    r"'50\\%'",
    "'A_C'",
    "''",
    r"'%\n%'",
    "'日_語'",
    r"'\\\\%'",
]
AS_TEXT = ["i8", "i32", "i64", "b", "d1", "d3", "day", "ts", "ntz"]  # how Java writes floats depends on its version
Make = Callable[[Random, int], str]


def expression(draw: Random) -> str:
    """Return an expression, of any type; it may be one that is refused."""
    return draw.choice([number, number, text, time, condition])(draw, draw.randint(1, 3))


def _pick(draw: Random, depth: int, leaf: str, makers: list[Callable[[], str]]) -> str:
    return leaf if depth <= 0 or draw.random() < 0.15 else draw.choice(makers)()


def number(draw: Random, depth: int) -> str:
    """Return an expression that is a number."""

    def one() -> str:
        return number(draw, depth - 1)

    def whole() -> str:
        return draw.choice(["i8", "i16", "i32", "i64", "j32", "st.x", "3"])

    def any_case() -> str:
        more = f"WHEN {condition(draw, depth - 1)} THEN {one()} " if draw.random() < 0.4 else ""
        last = f"ELSE {one()} " if draw.random() < 0.6 else ""
        return f"CASE WHEN {condition(draw, depth - 1)} THEN {one()} {more}{last}END"

    def arithmetic() -> str:
        return f"({one()} {draw.choice('+-*/%+*')} {one()})"

    leaf = draw.choice(NUMBERS) if draw.random() < 0.75 else draw.choice(LITERALS)
    makers = [
        *[arithmetic] * 5,
        lambda: f"(- {one()})",
        lambda: f"ABS({one()})",
        lambda: f"ROUND({one()}{draw.choice(['', ', 1', ', 2', ', 0', ', -1', ', -2', ', 3'])})",
        lambda: f"FLOOR({one()})",
        lambda: f"CAST({draw.choice([number, text, condition])(draw, depth - 1)} AS {draw.choice(TO_NUMBER)})",
        lambda: f"LENGTH({text(draw, depth - 1)})",
        lambda: f"EXTRACT({draw.choice(PARTS)} FROM {time(draw, depth - 1)})",
        any_case,
        lambda: f"COALESCE({one()}, {one()})",
        lambda: f"({whole()} DIV {whole()})",
    ]
    return _pick(draw, depth, leaf, makers)


def whole(draw: Random, depth: int) -> str:
    """Return a column of integers or decimals."""
    return draw.choice(["i8", "i16", "i32", "i64", "j32", "d1", "d3", "st.x"])


def text(draw: Random, depth: int) -> str:
    """Return an expression that is a text."""

    def one() -> str:
        return text(draw, depth - 1)

    def part() -> str:
        place = draw.choice(["1", "0", "2", "-1", "-3", "i8", "-20", "5"])
        return f"SUBSTRING({one()}, {place}{draw.choice(['', ', 2', ', 0', ', -1', ', 100', ', 1', ', i16'])})"

    leaf = draw.choice(["s", "t", "st.y", "s", "t", "'a'", "'50%'", "''", "'it''s'", "'Ä'", r"'x\\y'", "'12'"])
    makers = [
        lambda: f"LOWER({one()})",
        lambda: f"UPPER({one()})",
        part,
        lambda: f"CONCAT({one()}, {draw.choice([text, time, whole])(draw, depth - 2)})",
        lambda: f"CASE WHEN {condition(draw, depth - 1)} THEN {one()} ELSE {one()} END",
        lambda: f"COALESCE({one()}, {one()})",
        lambda: f"CAST({draw.choice(AS_TEXT)} AS STRING)",
        lambda: f"({one()} || {one()})",
    ]
    return _pick(draw, depth, leaf, makers)


def time(draw: Random, depth: int) -> str:
    """Return an expression that is a date or a timestamp."""

    def one() -> str:
        return time(draw, depth - 1)

    leaf = draw.choice(["day", "ts", "ntz"])
    if draw.random() < 0.15:
        literals = ["DATE '2024-02-29'", "TIMESTAMP '1969-12-31 23:59:59.5'", "TIMESTAMP_NTZ '2000-01-01 00:00:00'"]
        leaf = draw.choice(literals)
    makers = [
        lambda: f"DATE_TRUNC('{draw.choice(UNITS)}', {one()})",
        lambda: f"CAST({one()} AS {draw.choice(['DATE', 'TIMESTAMP', 'TIMESTAMP_NTZ'])})",
        lambda: f"COALESCE({one()}, {one()})",
        lambda: f"CASE WHEN {condition(draw, depth - 1)} THEN {one()} END",
    ]
    return _pick(draw, depth, leaf, makers)


def condition(draw: Random, depth: int) -> str:
    """Return an expression that is a boolean."""

    def one() -> str:
        return condition(draw, depth - 1)

    def not_() -> str:
        return draw.choice(["", "NOT "])

    def compared(make: Make) -> str:
        return f"({make(draw, depth - 1)} {draw.choice(COMPARE)} {make(draw, depth - 1)})"

    def among() -> str:
        make = draw.choice([number, text, time])
        values = ", ".join(make(draw, 0) for _ in range(draw.randint(1, 3)))
        return f"({make(draw, depth - 1)} {not_()}IN ({values}))"

    def between() -> str:
        make = draw.choice([number, text, time])
        return f"({make(draw, depth - 1)} {not_()}BETWEEN {make(draw, depth - 2)} AND {make(draw, depth - 2)})"

    makers = [
        *[lambda: f"({one()} {draw.choice(['AND', 'OR'])} {one()})"] * 2,
        lambda: f"(NOT {one()})",
        lambda: compared(number),
        lambda: compared(text),
        lambda: compared(time),
        among,
        between,
        lambda: f"({text(draw, depth - 1)} {not_()}LIKE {draw.choice(PATTERNS)})",
        lambda: f"({draw.choice([number, text, time, condition])(draw, depth - 1)} IS {not_()}NULL)",
        lambda: f"({one()} IS {not_()}{draw.choice(['TRUE', 'FALSE'])})",
        lambda: f"CAST({draw.choice(['i32', 'f64', 's', 't', 'd1', 'i8'])} AS BOOLEAN)",
        lambda: f"({draw.choice('st')} {draw.choice(COMPARE)} {draw.choice(['12', 'i32', '1.5', 'f64', 'b'])})",
        lambda: f"(b {draw.choice(COMPARE)} {one()})",
    ]
    return _pick(draw, depth, draw.choice(["b", "(i32 > 0)", "(s = 'a')", "(f64 < 1)", "TRUE", "b"]), makers)
