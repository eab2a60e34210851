"""Every function and operator, on values at the edges: what Spark 4 answers, without ANSI mode, in UTC."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from muntin.expressions.functions import FUNCTIONS, OPERATORS
from muntin.expressions.rows import RowExpressions

D = Decimal
NAN, INF = math.nan, math.inf
LEAST, MOST = -(2**63), 2**63 - 1
ROWS = pa.table(
    {
        "i8": pa.array([-128, 127, 0, None], pa.int8()),
        "i32": pa.array([-(2**31), 2**31 - 1, -7, None], pa.int32()),
        "i64": pa.array([LEAST, MOST, -7, None], pa.int64()),
        "zero": pa.array([0, 0, 0, 0], pa.int64()),
        "minus": pa.array([-1, -1, 2, -1], pa.int64()),
        "f": pa.array([NAN, -0.0, 2.5, None], pa.float64()),
        "g": pa.array([NAN, 0.0, -INF, 1.0], pa.float64()),
        "d": pa.array([D("99999999.99"), D("-0.05"), D("1.25"), None], pa.decimal128(10, 2)),
        "s": pa.array(["Straße", "", "日本語", None]),
        "n": pa.array([" 12 ", "1.5", "x", None]),
        "yes": pa.array([True, False, None, None]),
        "no": pa.array([None, None, None, False]),
        "day": pa.array([-1, 0, 19782, None], pa.int32()).cast(pa.date32()),
        "ts": pa.array([-1, 0, 1_709_210_096_123_456, None], pa.timestamp("us", "UTC")),
        "ntz": pa.array([-1, 0, 1_709_210_096_123_456, None], pa.timestamp("us")),
        "st": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}, {"x": 4, "y": None}]),
    }
)
DATE = datetime.date
CASES: list[tuple[str, pa.DataType, list[Any]]] = [
    # arithmetic: integers wrap, division is DOUBLE, nothing is divided by zero
    ("i8 + i8", pa.int8(), [0, -2, 0, None]),
    ("i32 + 1", pa.int32(), [-(2**31) + 1, -(2**31), -6, None]),
    ("i64 - 1", pa.int64(), [MOST, MOST - 1, -8, None]),
    ("i64 * 2", pa.int64(), [0, -2, -14, None]),
    ("i64 * i64", pa.int64(), [0, 1, 49, None]),
    ("i8 + 1", pa.int32(), [-127, 128, 1, None]),
    ("i32 / 2", pa.float64(), [-(2.0**30), 2**30 - 0.5, -3.5, None]),
    ("i32 / zero", pa.float64(), [None] * 4),
    ("f / g", pa.float64(), [NAN, None, -0.0, None]),
    ("i64 % zero", pa.int64(), [None] * 4),
    ("i64 % minus", pa.int64(), [0, 0, -1, None]),
    ("i32 % 4", pa.int32(), [0, 3, -3, None]),
    ("f % 2", pa.float64(), [NAN, -0.0, 0.5, None]),
    ("MOD(i32, 4)", pa.int32(), [0, 3, -3, None]),
    ("i64 DIV minus", pa.int64(), [LEAST, -MOST, -3, None]),
    ("i64 DIV zero", pa.int64(), [None] * 4),
    ("-i64", pa.int64(), [LEAST, -MOST, 7, None]),
    ("-f", pa.float64(), [NAN, 0.0, -2.5, None]),
    ("ABS(i8)", pa.int8(), [-128, 127, 0, None]),
    ("ABS(f)", pa.float64(), [NAN, 0.0, 2.5, None]),
    ("-9223372036854775808", pa.int64(), [LEAST] * 4),
    ("9223372036854775808", pa.decimal128(19, 0), [D(2**63)] * 4),
    # decimals
    ("d * 2", pa.decimal128(12, 2), [D("199999999.98"), D("-0.10"), D("2.50"), None]),
    ("d + 0.001", pa.decimal128(12, 3), [D("99999999.991"), D("-0.049"), D("1.251"), None]),
    ("d / 3", pa.decimal128(14, 6), [D("33333333.330000"), D("-0.016667"), D("0.416667"), None]),
    ("d / 0.0", pa.decimal128(15, 6), [None] * 4),
    ("d % 1", pa.decimal128(3, 2), [D("0.99"), D("-0.05"), D("0.25"), None]),
    ("d * f", pa.float64(), [NAN, 0.0, 3.125, None]),
    ("CAST(d AS DECIMAL(3, 1))", pa.decimal128(3, 1), [None, D("-0.1"), D("1.3"), None]),
    ("d > 1", pa.bool_(), [True, False, True, None]),
    # rounding
    ("ROUND(f)", pa.float64(), [NAN, 0.0, 3.0, None]),
    ("ROUND(2.675D, 2)", pa.float64(), [2.68] * 4),
    ("ROUND(-2.5D)", pa.float64(), [-3.0] * 4),
    ("ROUND(1e300, -2)", pa.float64(), [1e300] * 4),
    ("ROUND(-0.4D)", pa.float64(), [0.0] * 4),
    ("ROUND(i32, -1)", pa.int32(), [2147483646, -2147483646, -10, None]),
    ("ROUND(d, 1)", pa.decimal128(10, 1), [D("100000000.0"), D("-0.1"), D("1.3"), None]),
    ("FLOOR(f)", pa.int64(), [0, 0, 2, None]),
    ("FLOOR(g)", pa.int64(), [0, 0, LEAST, 1]),
    ("FLOOR(d)", pa.decimal128(9, 0), [D(99999999), D(-1), D(1), None]),
    # comparisons: NaN is a number, the greatest, and equals itself
    ("f = g", pa.bool_(), [True, True, False, None]),
    ("f > 1", pa.bool_(), [True, False, True, None]),
    ("f >= g", pa.bool_(), [True, True, True, None]),
    ("f < g", pa.bool_(), [False, False, False, None]),
    ("g <= f", pa.bool_(), [True, True, True, None]),
    ("1 < f", pa.bool_(), [True, False, True, None]),
    ("f != 2.5D", pa.bool_(), [True, True, False, None]),
    ("yes <=> no", pa.bool_(), [False, False, True, False]),
    ("i32 IS DISTINCT FROM -7", pa.bool_(), [True, True, False, True]),
    ("s < 'T'", pa.bool_(), [True, True, False, None]),
    ("n = 12", pa.bool_(), [True, False, None, None]),
    ("day <= '1970-01-01'", pa.bool_(), [True, True, False, None]),
    ("ts < TIMESTAMP '1970-01-01 00:00:00'", pa.bool_(), [True, False, False, None]),
    ("ts = ntz", pa.bool_(), [True, True, True, None]),
    ("day = ts", pa.bool_(), [False, True, False, None]),
    ("f BETWEEN 0 AND 5", pa.bool_(), [False, True, True, None]),
    ("f NOT BETWEEN 0 AND NULL", pa.bool_(), [None, None, None, None]),
    ("i32 IN (-7, 5)", pa.bool_(), [False, False, True, None]),
    ("i32 IN (-7, NULL)", pa.bool_(), [None, None, True, None]),
    ("i32 NOT IN (-7, NULL)", pa.bool_(), [None, None, False, None]),
    ("f IN (0, 2.5)", pa.bool_(), [False, True, True, None]),
    ("s IN ('日本語', '')", pa.bool_(), [False, True, True, None]),
    ("i32 IN ('-7')", pa.bool_(), [False, False, True, None]),
    ("d IN (1.25, 7)", pa.bool_(), [False, False, True, None]),
    # three values
    ("yes AND no", pa.bool_(), [None, False, None, False]),
    ("yes OR no", pa.bool_(), [True, None, None, None]),
    ("NOT yes", pa.bool_(), [False, True, None, None]),
    ("yes IS NULL", pa.bool_(), [False, False, True, True]),
    ("f IS NOT NULL", pa.bool_(), [True, True, True, False]),
    ("yes IS TRUE", pa.bool_(), [True, False, False, False]),
    ("yes IS NOT FALSE", pa.bool_(), [True, False, True, True]),
    ("st IS NULL", pa.bool_(), [False, True, False, False]),
    ("CASE WHEN yes THEN 1 WHEN i8 = 0 THEN 2.5 END", pa.decimal128(11, 1), [D("1.0"), None, D("2.5"), None]),
    ("CASE i8 WHEN 127 THEN 'most' ELSE s END", pa.string(), ["Straße", "most", "日本語", None]),
    ("COALESCE(yes, no, TRUE)", pa.bool_(), [True, False, True, False]),
    ("COALESCE(i8, i64)", pa.int64(), [-128, 127, 0, None]),
    ("COALESCE(NULL, NULL)", pa.null(), [None] * 4),
    # text
    ("LOWER(s)", pa.string(), ["straße", "", "日本語", None]),
    ("UPPER(s)", pa.string(), ["STRASSE", "", "日本語", None]),
    ("LENGTH(s)", pa.int32(), [6, 0, 3, None]),
    ("SUBSTRING(s, 2)", pa.string(), ["traße", "", "本語", None]),
    ("SUBSTRING(s, -2)", pa.string(), ["ße", "", "本語", None]),
    ("SUBSTRING(s, -4, 2)", pa.string(), ["ra", "", "日", None]),
    ("SUBSTRING(s, 0, 2)", pa.string(), ["St", "", "日本", None]),
    ("SUBSTRING(s FROM 2 FOR 1)", pa.string(), ["t", "", "本", None]),
    ("SUBSTR(s, 1, -1)", pa.string(), ["", "", "", None]),
    ("SUBSTRING(s, st.x, 2)", pa.string(), ["St", None, None, None]),
    ("CONCAT(s, '-', i8)", pa.string(), ["Straße--128", "-127", "日本語-0", None]),
    ("s || n", pa.string(), ["Straße 12 ", "1.5", "日本語x", None]),
    ("s LIKE 'S%e'", pa.bool_(), [True, False, False, None]),
    ("s LIKE '_本_'", pa.bool_(), [False, False, True, None]),
    ("s LIKE ''", pa.bool_(), [False, True, False, None]),
    ("s NOT LIKE '%'", pa.bool_(), [False, False, False, None]),
    ("'50% off' LIKE '50\\\\% %'", pa.bool_(), [True] * 4),
    ("'a_b' LIKE 'a#_b' ESCAPE '#'", pa.bool_(), [True] * 4),
    ("'axb' LIKE 'a#_b' ESCAPE '#'", pa.bool_(), [False] * 4),
    ("'a\\nb' LIKE 'a_b'", pa.bool_(), [True] * 4),
    ("'a.b' LIKE 'axb'", pa.bool_(), [False] * 4),
    # casts
    ("CAST(n AS INT)", pa.int32(), [12, 1, None, None]),
    ("CAST(n AS DOUBLE)", pa.float64(), [12.0, 1.5, None, None]),
    ("CAST(n AS DECIMAL(4, 1))", pa.decimal128(4, 1), [D("12.0"), D("1.5"), None, None]),
    ("CAST(f AS INT)", pa.int32(), [0, 0, 2, None]),
    ("CAST('-Infinity' AS DOUBLE)", pa.float64(), [-INF] * 4),
    ("CAST('+inf' AS FLOAT)", pa.float32(), [INF] * 4),
    ("CAST(' nan' AS DOUBLE)", pa.float64(), [NAN] * 4),
    ("CAST(g AS INT)", pa.int32(), [0, 0, -(2**31), 1]),
    ("CAST(g AS TINYINT)", pa.int8(), [0, 0, 0, 1]),
    ("CAST(i64 AS INT)", pa.int32(), [0, -1, -7, None]),
    ("CAST(i32 AS BOOLEAN)", pa.bool_(), [True, True, True, None]),
    ("CAST(yes AS INT)", pa.int32(), [1, 0, None, None]),
    ("CAST('T' AS BOOLEAN)", pa.bool_(), [True] * 4),
    ("CAST(f AS STRING)", pa.string(), ["NaN", "-0.0", "2.5", None]),
    ("CAST(1e7 AS STRING)", pa.string(), ["1.0E7"] * 4),
    ("CAST(d AS STRING)", pa.string(), ["99999999.99", "-0.05", "1.25", None]),
    ("CAST(yes AS STRING)", pa.string(), ["true", "false", None, None]),
    ("CAST(ts AS DATE)", pa.date32(), [DATE(1969, 12, 31), DATE(1970, 1, 1), DATE(2024, 2, 29), None]),
    ("CAST(ts AS STRING)", pa.string(), [
        "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2024-02-29 12:34:56.123456", None,
    ]),
    ("CAST(day AS STRING)", pa.string(), ["1969-12-31", "1970-01-01", "2024-02-29", None]),
    ("CAST(ts AS BIGINT)", pa.int64(), [-1, 0, 1_709_210_096, None]),
    # times
    ("EXTRACT(YEAR FROM day)", pa.int32(), [1969, 1970, 2024, None]),
    ("EXTRACT(DAYOFWEEK FROM day)", pa.int32(), [4, 5, 5, None]),
    ("EXTRACT(WEEK FROM ts)", pa.int32(), [1, 1, 9, None]),
    ("EXTRACT(HOUR FROM ts)", pa.int32(), [23, 0, 12, None]),
    ("EXTRACT(HOUR FROM day)", pa.int32(), [0, 0, 0, None]),
    ("EXTRACT(SECOND FROM ntz)", pa.decimal128(8, 6), [D("59.999999"), D(0), D("56.123456"), None]),
    ("CAST(DATE_TRUNC('WEEK', ts) AS DATE)", pa.date32(), [
        DATE(1969, 12, 29), DATE(1969, 12, 29), DATE(2024, 2, 26), None,
    ]),
    ("CAST(DATE_TRUNC('HOUR', ntz) AS STRING)", pa.string(), [
        "1969-12-31 23:00:00", "1970-01-01 00:00:00", "2024-02-29 12:00:00", None,
    ]),
    # fields
    ("st.x + 1", pa.int64(), [2, None, None, 5]),
    ("CONCAT(st.y, '!')", pa.string(), ["a!", None, "b!", None]),
]  # fmt: skip


def answer(text: str, rows: pa.Table = ROWS) -> pa.ChunkedArray:
    return RowExpressions.of({"out": text}, None, rows.schema).over(rows)["out"]


def plain(cells: list[Any]) -> list[Any]:
    """Return values in which NaN equals itself, and 0.0 is not -0.0."""
    return [str(cell) if isinstance(cell, float) else cell for cell in cells]


@pytest.mark.parametrize(("text", "kind", "expected"), CASES, ids=[case[0] for case in CASES])
def test_values_and_types_are_those_of_spark(text: str, kind: pa.DataType, expected: list[Any]) -> None:
    found = answer(text)
    assert found.type == kind
    assert plain(found.to_pylist()) == plain(expected)


@pytest.mark.parametrize(("text", "kind", "expected"), CASES, ids=[case[0] for case in CASES])
def test_no_rows_have_the_same_types(text: str, kind: pa.DataType, expected: list[Any]) -> None:
    assert answer(text, ROWS.slice(0, 0)).type == kind


def test_chunks_are_computed_one_by_one() -> None:
    cut = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1, 0), ROWS.slice(1)])
    for text, _, expected in CASES:
        assert plain(answer(text, cut).to_pylist()) == plain(expected), text


def test_every_operation_of_the_table_is_tried() -> None:
    from muntin.expressions.parse import parse
    from muntin.expressions.tree import Call, Expression

    def names(part: Expression) -> set[str]:
        own = {part.name} if isinstance(part, Call) else set()
        return own.union(*map(names, part.parts))

    tried = set().union(*(names(parse(text, "")) for text, _, _ in CASES))
    assert tried | {"IS FALSE"} == {*FUNCTIONS, *OPERATORS}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1, None], pa.uint8()), pa.int16()),
        (pa.array([1, None], pa.uint32()), pa.int64()),
        (pa.array([1.5, None], pa.float16()), pa.float32()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([1, None], pa.timestamp("s")), pa.timestamp("us")),
        (pa.array([1500, None], pa.timestamp("ns", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array([D("1.5"), None], pa.decimal256(5, 1)), pa.decimal128(5, 1)),
    ],
    ids=str,
)
def test_columns_are_read_in_the_types_that_spark_has(column: pa.Array, kind: pa.DataType) -> None:
    found = answer("COALESCE(v, v)", pa.table({"v": column}))
    assert found.type == kind
    assert found.null_count == 1


def test_nanoseconds_are_cut_towards_the_past() -> None:
    rows = pa.table({"v": pa.array([-1, 1999], pa.timestamp("ns"))})
    assert answer("COALESCE(v, v)", rows).cast(pa.int64()).to_pylist() == [-1, 1]
