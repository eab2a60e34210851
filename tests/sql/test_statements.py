"""Statements: their clauses, their durations, their quotes, and what is no statement."""

from __future__ import annotations

import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import errors, window
from muntin.errors import SqlError

OVER = "SELECT max(v) OVER (PARTITION BY {} ORDER BY ts {}) AS {} FROM t"
GROUPED = "SELECT count(*) AS n FROM t{} GROUP BY k, TUMBLE(ts, 10){}"
REFUSED = {
    "different values of nothing": (
        GROUPED.format("", "").replace("count(*)", "count(DISTINCT)"),
        1,
        8,
        "takes one column",
    ),
    "rows left out by an aggregate": (GROUPED.format("\nWHERE max(v) > 3", ""), 2, 7, "there is no function max"),
    "windows left out": (GROUPED.format("", "\nHAVING count(*) > 1"), 2, 1, "no HAVING"),
    "an order": (GROUPED.format("", "\nORDER BY n"), 2, 1, "no order"),
    "a limit": (GROUPED.format("", "\nLIMIT 5"), 2, 1, "no LIMIT"),
    "the first of two": (GROUPED.format("", "\nHAVING n > 3\nLIMIT 5"), 2, 1, "no HAVING"),
    "another table": (GROUPED.format("\nJOIN u ON t.a = u.a", ""), 2, 1, "one table"),
    "a list of tables": (GROUPED.format(", u", ""), 1, 28, "one table"),
    "a view in the statement": ("WITH v AS (SELECT 1)\n" + GROUPED.format("", ""), 1, 1, "no WITH"),
    "a sample": (GROUPED.format(" TABLESAMPLE (10 PERCENT)", ""), 1, 27, "without SAMPLE"),
    "distinct rows": ("-- this\n SELECT DISTINCT count(*) FROM t GROUP BY TUMBLE(ts, 1)", 2, 2, "no SELECT DISTINCT"),
    "columns by other names": (GROUPED.format(" AS u (k, ts)", ""), 1, 32, "the names that the table has"),
    "no table": ("SELECT count(*) AS n GROUP BY TUMBLE(ts, 10)", 1, 1, "no FROM"),
    "no window": ("SELECT count(*) AS n FROM t GROUP BY k", 1, 29, "needs windows"),
    "no group": ("SELECT count(*) AS n FROM t", 1, 1, "needs windows"),
    "two windows": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, 10), TUMBLE(ts, 5)", 1, 49, "a second window"),
    "a key twice": ("SELECT count(*) FROM t GROUP BY k, k, TUMBLE(ts, 10)", 1, 36, "twice"),
    "a place": ("SELECT k, count(*) FROM t GROUP BY 1, TUMBLE(ts, 10)", 1, 36, "not their places"),
    "all that is left": ("SELECT k, count(*) FROM t GROUP BY ALL", 1, 27, "GROUP BY ALL"),
    "a key that is computed": (
        "SELECT count(*) FROM t GROUP BY lower(k), TUMBLE(ts, 10)",
        1,
        33,
        "what GROUP BY names",
    ),
    "a reserved key": ("SELECT count(*) FROM t GROUP BY window_id, TUMBLE(ts, 10)", 1, 33, "has another name"),
    "a time that is computed": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts + 1, 10)", 1, 40, "the time of a window"),
    "no descriptor": (
        "SELECT count(*) FROM TUMBLE(TABLE t, ts, 1) GROUP BY window_start, window_end",
        1,
        38,
        "DESCRIPTOR",
    ),
    "an unknown table function": (
        "SELECT count(*) FROM UNNEST_ALL(x) GROUP BY k",
        1,
        22,
        "no table function UNNEST_ALL",
    ),
    "a key of a table": (
        "SELECT count(*) FROM TUMBLE(TABLE t PARTITION BY k, DESCRIPTOR(ts), 1) GROUP BY k, window_start, window_end",
        1,
        50,
        "PARTITION BY is for SESSION",
    ),
    "an argument too few": ("SELECT count(*) FROM t GROUP BY HOP(ts, 10)", 1, 33, "HOP lacks its argument SIZE"),
    "an argument too many": ("SELECT count(*) FROM t GROUP BY SESSION(ts, 10, 5)", 1, 49, "no argument 3"),
    "an unknown argument": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, SIZ => 10)", 1, 44, "SIZ; did you mean size"),
    "an argument twice": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, 10, SIZE => 10)", 1, 48, "SIZE twice"),
    "no duration": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, 'soon')", 1, 44, "'soon' is no duration"),
    "a negative length": (
        "SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '-5' MINUTE)",
        1,
        33,
        "must be positive",
    ),
    "an unknown unit": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' PARSEC)", 1, 44, "no unit"),
    "too few parts": ("SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '5' HOUR TO SECOND)", 1, 44, "no interval"),
    "too many minutes": (
        "SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1:90' HOUR TO MINUTE)",
        1,
        44,
        "no interval",
    ),
    "a sign in the middle": (
        "SELECT count(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1:-30' HOUR TO MINUTE)",
        1,
        44,
        "no interval",
    ),
    "a long number": (f"SELECT count(*) FROM t GROUP BY TUMBLE(ts, {'9' * 5000})", 1, 44, "at most 40 digits"),
    "a long interval": (f"SELECT count(*) FROM t GROUP BY TUMBLE(ts, '{'9' * 5000} days')", 1, 44, "no duration"),
    "frames beside groups": (
        GROUPED.format("", "\nWINDOW w AS (ORDER BY ts ROWS 2 PRECEDING)"),
        2,
        10,
        "WINDOW is for OVER",
    ),
    "no TABLE": (
        "SELECT count(*) FROM TUMBLE(t, DESCRIPTOR(ts), 1) GROUP BY window_start, window_end",
        1,
        29,
        "write TABLE before",
    ),
    "a bound of another table": (
        "SELECT count(*) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), 1) GROUP BY u.window_start, t.window_end",
        1,
        66,
        "no column of t",
    ),
    "two columns counted": (GROUPED.format("", "").replace("*", "a, b"), 1, 17, "one column or [*]"),
    "a parameter twice": (
        GROUPED.format("", "").replace("count(*)", "quantile(v, q => 0.1, q => 0.2)"),
        1,
        30,
        "q twice",
    ),
    "a name before a place": (
        GROUPED.format("", "").replace("count(*)", "quantile(q => 0.1, v)"),
        1,
        27,
        "stand behind",
    ),
    "a frame's key twice": (OVER.format("k, k", "ROWS 2 PRECEDING", "x"), 1, 37, "PARTITION BY twice"),
    "an answer over its key": (OVER.format("k", "ROWS 2 PRECEDING", "k"), 1, 69, "k is a key"),
    "no name": (OVER.format("k", "ROWS 2 PRECEDING", '""'), 1, 69, "has a name"),
    "bounds in two units": (
        OVER.format("k", "RANGE BETWEEN 5 PRECEDING AND INTERVAL '5' MINUTE FOLLOWING", "x"),
        1,
        78,
        "in the same way",
    ),
    "a column too few": ("SELECT , count(*) FROM t GROUP BY TUMBLE(ts, 5)", 1, 8, "before or after a comma"),
    "a comma at the end": ("SELECT count(*), FROM t GROUP BY TUMBLE(ts, 5)", 1, 18, "before or after a comma"),
    "an argument left out": ("SELECT count(*) FROM t GROUP BY HOP(ts, , 5)", 1, 41, "before or after a comma"),
    "distinct groups": ("SELECT count(*) FROM t GROUP BY DISTINCT k, TUMBLE(ts, 5)", 1, 24, "GROUP BY DISTINCT"),
    "totals": ("SELECT count(*) FROM t GROUP BY k, TUMBLE(ts, 5) WITH TOTALS", 1, 24, "GROUP BY TOTALS"),
    "with rollup": ("SELECT count(*) FROM t GROUP BY k, TUMBLE(ts, 5) WITH ROLLUP", 1, 55, "one set of keys"),
    "a union": ("SELECT 1 UNION SELECT 2", 1, 1, "one SELECT"),
    "rows that are added": ("INSERT INTO t SELECT 1", 1, 1, "one SELECT"),
    "two statements": ("SELECT 1;\nSELECT 2", 2, 1, "second statement"),
    "a word too many": ("SELECT a b c FROM t", 1, 12, "no SQL that can be read"),
    "many brackets": (f"SELECT {'(' * 9999}1{')' * 9999} FROM t", 1, 1, "too deeply nested"),
    "a statement in brackets": ("(SELECT 1)", 1, 1, "one SELECT"),
    "nothing": ("", 1, 1, "no statement"),
    "nothing, ended": (" ;", 1, 1, "no statement"),
    "a comment": ("-- nothing", 1, 1, "no statement"),
    "a misspelt word": ("SELEC sum(v)\nFROM t", 1, 1, "this begins with SELEC"),
    "an open bracket": ("SELECT sum(v\nFROM t", 2, 1, "no SQL that can be read: expecting [)]"),
    "an open quote": ("SELECT sum(v) AS 'x\nFROM t", 2, 7, "a quote is open"),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_a_query_cannot_say(example):
    statement, line, column, reason = REFUSED[example]
    with pytest.raises(SqlError, match=f"^line {line}, column {column}: .*{reason}"):
        muntin.sql(statement)


WORDS = """
    SELECT FROM GROUP BY WHERE ( ) , * . AS OVER PARTITION ORDER ROWS RANGE BETWEEN AND PRECEDING FOLLOWING CURRENT ROW
    UNBOUNDED INTERVAL '10' MINUTES HOUR TO 'x' 5 1.5 - + = => TABLE DESCRIPTOR TUMBLE HOP CUMULATE SESSION window
    session_window count sum t ts v k window_start window_end FILTER WITHIN IGNORE NULLS DISTINCT WINDOW w CASE WHEN END
    NOT NULL TRUE IS JOIN UNION ALL WITH ROLLUP CUBE GROUPING SETS ; "q" `b` :x [ ] { } :: VALUES LATERAL EXCLUDE DESC
    REPLACE EXCEPT WINDOW u AS ( w MIN REGION a
"""
WHOLE = [
    "SELECT k , max ( v ) AS x FROM t GROUP BY k , HOP ( ts , INTERVAL '1' MINUTE , INTERVAL '24' HOURS )",
    "SELECT k , window . start , count ( * ) FROM t GROUP BY k , window ( ts , '5 minutes' )",
    "SELECT sum ( v ) FROM TABLE ( TUMBLE ( TABLE t , DESCRIPTOR ( ts ) , 5 ) ) GROUP BY window_start , window_end",
    "SELECT sum (v) FROM SESSION ( TABLE t PARTITION BY k, DESCRIPTOR (s) , 5 ) GROUP BY k , window_start , window_end",
    "SELECT sum (v) FILTER (WHERE f) OVER ( PARTITION BY k ORDER BY s ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT * , max (v) OVER u AS a_u FROM t WINDOW w AS ( ORDER BY s ROWS 2 PRECEDING ) , u AS ( ORDER BY s ROWS 3 )",
    "SELECT max ( v ) OVER w AS a FROM t WINDOW w AS ( ORDER BY ts RANGE INTERVAL 1 HOUR PRECEDING )",
]


@st.composite
def nearly_sql(draw: st.DrawFn) -> str:
    """Return a statement in which some words are others, or missing, or too many."""
    words = draw(st.sampled_from(WHOLE)).split()
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(words)))
        words[at : at + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(WORDS.split()), max_size=2))
    return draw(st.sampled_from([" ", "\n"])).join(words)


@settings(max_examples=examples(150))
@given(nearly_sql(), st.sampled_from([None, "spark", "flink"]))
def test_anything_is_a_query_or_an_error_with_its_place(statement, dialect):
    found: muntin.Query | SqlError
    try:
        found = muntin.sql(statement, dialect=dialect)
    except SqlError as error:
        found = error
    if isinstance(found, SqlError):
        lines = statement.split("\n")
        assert 1 <= found.line <= len(lines)
        assert 1 <= found.column <= len(lines[found.line - 1]) + 1
    else:
        assert found.windows


DURATIONS = {
    "INTERVAL '10' MINUTES": "10 minutes",
    "INTERVAL '1' MINUTE": "1 minute",
    "INTERVAL 10 MINUTES": "10 minutes",
    "INTERVAL '10 minutes'": "10 minutes",
    "INTERVAL 1 HOUR 30 MINUTES": "1 hour 30 minutes",
    "INTERVAL '1 hour 30 minutes'": "1 hour 30 minutes",
    "INTERVAL '1:30' HOUR TO MINUTE": "1 hour 30 minutes",
    "INTERVAL '2 03:04:05' DAY TO SECOND": "2 days 03 hours 04 minutes 05 seconds",
    "INTERVAL '100' DAY(3)": "100 days",
    "INTERVAL '5' MIN": "5 minutes",
    "INTERVAL '0.25' SECOND": "0.25 seconds",
    "'1h30min'": "1h30min",
    "(INTERVAL '5' DAYS)": "5 days",
    "600": 600,
}


@pytest.mark.parametrize("written", DURATIONS)
def test_durations(written):
    query = muntin.sql(f"SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, {written})")
    assert query.windows == (window.tumbling(DURATIONS[written]),)


@pytest.mark.parametrize("offset", ["INTERVAL '-90' SECOND", "- INTERVAL '90' SECOND", "'-90 seconds'"])
def test_negative_offsets(offset):
    (found,) = muntin.sql(f"SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, '10 minutes', {offset})").windows
    assert found.durations[-1] in ("-90 seconds", "-1 minute -30 seconds")


def test_names_in_quotes():
    query = muntin.sql('SELECT "the key", sum(`a``b`) AS "end" FROM x.t GROUP BY "the key", TUMBLE("group", 5)')
    assert (query.key, query.time, list(query.aggregates)) == (("the key",), "group", ["end"])
    assert query.aggregates["end"].columns == ("a`b",)


def test_upper_and_lower_case():
    statement = "select count(*) as N from tumble(table T, descriptor(TS), 5) group by WINDOW_START, window_end"
    query = muntin.sql(statement)
    assert (query.time, list(query.aggregates), query.windows) == ("TS", ["N"], (window.tumbling(5),))


def test_options_of_the_query():
    options = {
        "watermark": 5,
        "allowed_lateness": 7,
        "emit_empty": True,
        "idle_timeout": 9,
        "emit_early": 3,
        "ordered": True,
    }
    query = muntin.sql("SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, 10)", **options)
    assert {name: getattr(query, name) for name in options} == options
    with pytest.raises(errors.InvalidArgumentError, match="watermark is -1"):
        muntin.sql("SELECT count(*) AS n FROM t GROUP BY TUMBLE(ts, 10)", watermark=-1)


def test_what_is_no_text():
    with pytest.raises(errors.InvalidArgumentError, match="the statement is 3; give a text"):
        muntin.sql(3)
    with pytest.raises(errors.InvalidArgumentError, match="dialect is 'mysql'; it is one of flink, spark"):
        muntin.sql("SELECT 1", dialect="mysql")


@pytest.mark.parametrize("functions", [["energy"], {"energy": 3}, {"energy": muntin.agg.max("v")}, {3: muntin.agg.max}])
def test_functions_that_are_none(functions):
    with pytest.raises(errors.InvalidArgumentError, match="function"):
        muntin.sql("SELECT energy(v) AS e FROM t GROUP BY TUMBLE(ts, 10)", functions=functions)


def test_an_error_goes_through_pickle():
    with pytest.raises(SqlError) as caught:
        muntin.sql("SELECT\n sum(v) FROM t")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line, again.column) == (str(caught.value), 1, 1)


def test_without_the_parser(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(errors.UnsupportedOperationError, match=r"pip install 'muntin\[sql\]'"):
        muntin.sql("SELECT 1")
    with pytest.raises(errors.UnsupportedOperationError, match=r"pip install 'muntin\[sql\]'"):
        muntin.Query(window.tumbling(5), {"n": muntin.agg.count()}).to_sql()


def test_with_a_parser_that_is_compiled(monkeypatch):
    monkeypatch.setattr("sqlglot.parser.__file__", "parser.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(errors.UnsupportedOperationError, match="pip uninstall sqlglotc"):
        muntin.sql("SELECT 1")
