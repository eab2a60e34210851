"""Reading expressions: what is refused, where, and that what is written means the same."""

from __future__ import annotations

import random
import runpy
from pathlib import Path

import pyarrow as pa
import pytest
from computing.random_expressions import expression, table
from computing.test_functions import CASES, ROWS

from muntin.errors import ColumnError, ColumnTypeError, MuntinError, SqlError
from muntin.expressions.parse import parse
from muntin.expressions.rows import RowExpressions, names_of
from muntin.expressions.tree import quoted

REFUSED = [
    ("price ** 2", 10, "no expression that can be read"),
    ("price +", 7, "no expression that can be read"),
    ("(price", 2, "no expression that can be read"),
    ("price pieces", 7, "no expression that can be read"),
    ("", 1, "there is no expression"),
    ("'open", 6, "a quote is open"),
    ("price; pieces", 6, "no semicolon"),
    ("1 + sqrt(price)", 5, "there is no function sqrt"),
    ("1 + roun(price)", 5, "did you mean ROUND"),
    ("price > (SELECT 1)", 9, "cannot be computed"),
    ("price IN (SELECT 1)", 1, "IN is followed by a list"),
    ("*", 1, "cannot be computed"),
    ("INTERVAL '1' DAY", 1, "cannot be computed"),
    ("CURRENT_DATE", 1, "cannot be computed"),
    ("price RLIKE 'a'", 1, "cannot be computed"),
    ("IF(price > 1, 2, 3)", 1, "cannot be computed"),
    ("CAST(price AS money)", 15, "there is no type 'money'"),
    ("CAST(price AS DECIMAL(50, 2))", 15, "there is no type 'DECIMAL(50, 2)'"),
    ("EXTRACT(CENTURY FROM ts)", 9, "there is no unit 'CENTURY'"),
    ("DATE_TRUNC('fortnight', ts)", 12, "there is no unit 'fortnight'"),
    ("DATE_TRUNC(unit, ts)", 12, "the unit of DATE_TRUNC is a text"),
    ("ROUND(1, 2, 3)", 1, "it got 3 arguments"),
    ("a = b = c", 1, "put 'a = b' in parentheses"),
    ("a = NOT b", 5, "put 'NOT b' in parentheses"),
    ("a + b || c", 1, "put sums in parentheses"),
    ("DATE '2024-02-30'", 1, "'2024-02-30' is no DATE"),
    ("300Y", 1, "300Y does not fit TINYINT"),
    ("1" * 39, 1, "has more than 38 digits"),
    ("1" * 41, 1, "a number has at most 40 digits"),
]
REFUSED_TYPES = [
    ("i8 AND yes", 1, "AND takes conditions, and this is TINYINT"),
    ("1 + yes", 1, "+ does not take INT and BOOLEAN"),
    ("day + 1", 1, "+ does not take DATE and INT"),
    ("st = st", 1, "= does not take struct"),
    ("yes > 1", 1, "> does not take BOOLEAN and INT"),
    ("CAST(day AS INT)", 1, "a DATE is not cast to INT"),
    ("CAST(s AS DATE)", 1, "a STRING of a column is not cast to DATE"),
    ("day > 'soon'", 1, "'soon' is no DATE"),
    ("f DIV 2", 1, "DIV does not take DOUBLE and INT"),
    ("COALESCE(yes, 1)", 1, "no type in common"),
    ("s LIKE n", 1, "the pattern of LIKE is a text that stands in the expression"),
    ("s LIKE 'a\\\\'", 1, "stands before %, _ or itself"),
    ("ROUND(f, i8)", 1, "an integer that stands in the text"),
    ("CASE WHEN i8 THEN 1 END", 1, "WHEN takes conditions"),
    ("SUBSTRING(s, 'a')", 1, "SUBSTRING takes integers"),
    ("1 + (2 + EXTRACT(YEAR FROM f))", 10, "EXTRACT takes dates"),
    ("CAST(CAST(d AS DECIMAL(20, 10)) AS STRING)", 1, "is not cast to STRING"),
]


@pytest.mark.parametrize(("text", "column", "reason"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_is_no_expression_is_refused_at_its_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(SqlError) as refused:
        parse(text, "where")
    assert reason in str(refused.value)
    assert "where: " in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column)


@pytest.mark.parametrize(("text", "column", "reason"), REFUSED_TYPES, ids=[case[0] for case in REFUSED_TYPES])
def test_types_that_do_not_fit_are_refused_at_their_place(text: str, column: int, reason: str) -> None:
    with pytest.raises(ColumnTypeError) as refused:
        RowExpressions.of({"out": text}, None, ROWS.schema)
    assert str(refused.value).startswith(f"line 1, column {column}: columns['out']: ")
    assert reason in str(refused.value)


def test_the_line_is_told() -> None:
    with pytest.raises(SqlError, match="line 3, column 5: where: there is no function sqrt"):
        parse("price > 1\n AND\n    sqrt(price) > 1", "where")


def test_unknown_columns_and_fields_are_named() -> None:
    with pytest.raises(ColumnError, match=r"line 1, column 5: columns\['out'\]: there is no column 'i9'"):
        RowExpressions.of({"out": "1 + i9"}, None, ROWS.schema)
    with pytest.raises(ColumnError, match="st has no field 'z'; it has x, y"):
        RowExpressions.of({"out": "st.z"}, None, ROWS.schema)
    with pytest.raises(ColumnError, match="i8 has no field 'x'; it has none"):
        RowExpressions.of({"out": "i8.x"}, None, ROWS.schema)
    with pytest.raises(ColumnError, match="there are 2 columns 'v'"):
        RowExpressions.of({"out": "v"}, None, pa.schema([("v", pa.int64()), ("v", pa.int64())]))


def test_a_condition_is_a_boolean() -> None:
    with pytest.raises(ColumnTypeError, match="where: WHERE takes conditions, and this is INT"):
        RowExpressions.of({}, "1 + 1", ROWS.schema)


def test_what_is_written_reads_as_the_same() -> None:
    for text, _, _ in CASES:
        tree = parse(text, "")
        assert parse(str(tree), "") == tree, text
    draw, known = random.Random(5), 0
    while known < 500:
        text = expression(draw)
        try:
            tree = parse(text, "")
        except MuntinError:
            continue
        known += 1
        assert parse(str(tree), "") == tree, text
        assert str(parse(str(tree), "")) == str(tree), text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a+b*c", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("a-b-c", "a - b - c"),
        ("not a and b or c", "NOT a AND b OR c"),
        ("not (a and b)", "NOT (a AND b)"),
        ("(a or b) and c", "(a OR b) AND c"),
        ("(a = b) is null", "(a = b) IS NULL"),
        ("a is not null", "NOT a IS NULL"),
        ("- -5", "-(-5)"),
        ("a - -5", "a - -5"),
        ("`unit price` * `end`.`x y`", "`unit price` * `end`.`x y`"),
        ("'it''s'", "'it\\'s'"),
        ("cast(a as  decimal( 10 , 2 ))", "CAST(a AS DECIMAL(10, 2))"),
        ("extract(dow from a)", "EXTRACT(DAYOFWEEK FROM a)"),
        ("date_trunc('mon', a)", "DATE_TRUNC('MONTH', a)"),
    ],
)
def test_texts_that_mean_the_same_are_written_alike(text: str, written: str) -> None:
    assert str(parse(text, "")) == written
    assert str(parse(written, "")) == written


def test_names_that_are_keywords_are_quoted() -> None:
    from sqlglot.tokens import Tokenizer

    for word in (*Tokenizer.KEYWORDS, "a b", "a`b", "ä", "1a", "a.b"):
        if "{" not in word and "/*" not in word:
            assert names_of(f"{quoted(word)} + 1", "") == (word,)


def test_the_page_has_the_table_of_functions() -> None:
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "expression_tables.py"))
    assert tool["page"]() == tool["PAGE"].read_text(encoding="utf-8"), "run python tools/expression_tables.py"


def test_random_rows_have_the_types_that_were_resolved() -> None:
    draw = random.Random(3)
    rows = table(draw, 20)
    known = 0
    while known < 300:
        text = expression(draw)
        try:
            found = RowExpressions.of({"out": text}, None, rows.schema)
        except MuntinError:
            continue
        known += 1
        out = found.over(rows)["out"]
        assert out.type == found.types["out"], text
        out.validate(full=True)
        one_by_one = [found.over(rows.slice(i, 1))["out"][0] for i in range(0, 20, 7)]
        assert [repr(each) for each in one_by_one] == [repr(out[i]) for i in range(0, 20, 7)], text
