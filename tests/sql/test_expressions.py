"""Statements with expressions: WHERE, inside of aggregates, in FILTER, and in subqueries that compute and filter."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import SqlError, UnsupportedOperationError

HOUR = "TUMBLE(ts, INTERVAL '1' HOUR)"
READ = {
    "a condition": (
        f"SELECT country, count(*) n FROM sales WHERE price > 0 AND country IN ('DE', 'FR') GROUP BY country, {HOUR}",
        Query(
            window.tumbling("1 hour"),
            {"n": agg.count()},
            key="country",
            where="price > 0 AND country IN ('DE', 'FR')",
        ),
    ),
    "an expression": (
        f"SELECT SUM(price*pieces) AS revenue, max(s.price) AS high FROM sales s GROUP BY {HOUR}",
        Query(
            window.tumbling("1 hour"),
            {"revenue": agg.sum("price * pieces"), "high": agg.max("price")},
            columns={"price * pieces": "price * pieces"},
        ),
    ),
    "conditions of aggregates": (
        (f"SELECT sum(v) FILTER (WHERE v > 3) AS a, count_if(v < 0) AS b, sum(v) FILTER (WHERE f = FALSE) AS c FROM t "
        f"GROUP BY {HOUR}"),
        Query(
            window.tumbling("1 hour"),
            {"a": agg.sum("v", where="v > 3"), "b": agg.count(where="v < 0"), "c": agg.sum("v", where="f = FALSE")},
            columns={"v > 3": "v > 3", "v < 0": "v < 0", "f = FALSE": "f = FALSE"},
        ),
    ),
    "a subquery": (
        (f"SELECT zone, max(revenue) AS m FROM (SELECT *, upper(country) AS zone, price * pieces AS revenue FROM sales "
        f"WHERE price > 0) AS q WHERE q.revenue > 5 GROUP BY zone, {HOUR}"),
        Query(
            window.tumbling("1 hour"),
            {"m": agg.max("revenue")},
            key="zone",
            columns={"zone": "UPPER(country)", "revenue": "price * pieces"},
            where="price > 0 AND price * pieces > 5",
        ),
    ),
    "subqueries of subqueries": (
        ("SELECT sum(c / 2) AS s FROM (SELECT t, b + 1 AS c FROM (SELECT at AS t, a * 2 AS b FROM x WHERE a > 0) AS y "
        "WHERE b > 1) AS z GROUP BY TUMBLE(t, 10)"),
        Query(
            window.tumbling(10),
            {"s": agg.sum("(a * 2 + 1) / 2")},
            time="t",
            columns={"(a * 2 + 1) / 2": "(a * 2 + 1) / 2", "t": "at"},
            where="a > 0 AND a * 2 > 1",
        ),
    ),
    "beside the rows": (
        "SELECT ts, k, sum(v * 2) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS x FROM t WHERE v > 0",
        Query(
            window.trailing(rows(3)), {"x": agg.sum("v * 2")}, key="k", columns={"v * 2": "v * 2"}, where="v > 0"
        ),
    ),
    "a table function": (
        ("SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10)) WHERE v IS NOT NULL "
        "GROUP BY window_start, window_end"),
        Query(window.tumbling(10), {"n": agg.count()}, where="NOT v IS NULL"),
    ),
    "a field": (
        "SELECT sum(t.device.volts + t.v) AS s FROM t GROUP BY TUMBLE(ts, 10)",
        Query(
            window.tumbling(10),
            {"s": agg.sum("device.volts + v")},
            columns={"device.volts + v": "device.volts + v"},
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "query"), READ.values(), ids=READ)
def test_a_statement_is_a_query(statement: str, query: Query) -> None:
    found = muntin.sql(statement)
    assert found == query
    assert list(found.expressions) == list(query.expressions) or set(found.expressions) == set(query.expressions)


REFUSED = {
    "a group in a subquery": (
        "SELECT count(*) AS n FROM (SELECT k FROM t GROUP BY k) GROUP BY TUMBLE(ts, 10)", 44, "it has no GROUP BY",
    ),
    "a union in a subquery": (
        "SELECT count(*) AS n FROM (SELECT k FROM t UNION SELECT k FROM u) GROUP BY TUMBLE(ts, 10)", 27, "one SELECT",
    ),
    "a column that a subquery lacks": (
        "SELECT sum(zz) AS n FROM (SELECT ts, v FROM t) GROUP BY TUMBLE(ts, 10)", 12, "no column zz in the subquery",
    ),
    "a time that a subquery lacks": (
        "SELECT sum(v) AS n FROM (SELECT v FROM t) GROUP BY TUMBLE(ts, 10)", 59, "no column ts in the subquery",
    ),
    "a function that is not there": (
        "SELECT sum(v + sqrt(v)) AS n FROM t GROUP BY TUMBLE(ts, 10)", 16, "there is no function sqrt",
    ),
    "another table": ("SELECT sum(u.v + 1) AS n FROM t GROUP BY TUMBLE(ts, 10)", 12, "u.v is no column of t"),
    "no name": ("SELECT sum(v) AS n FROM (SELECT v + 1 FROM t) GROUP BY TUMBLE(ts, 10)", 33, "needs a name"),
    "one name twice": (
        "SELECT sum(v) AS n FROM (SELECT a AS v, b AS v FROM t) GROUP BY TUMBLE(ts, 10)", 41, "two columns v",
    ),
    "a window in WHERE": (
        ("SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10)) WHERE window_start > 3 "
        "GROUP BY window_start, window_end"), 76, "WHERE is for rows",
    ),
    "a table function in a subquery": (
        "SELECT sum(v) AS n FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10))) GROUP BY TUMBLE(ts, 10)",
        40, "outside of subqueries",
    ),
    "a computed item beside the rows": (
        "SELECT z, sum(v) OVER (PARTITION BY z ORDER BY t ROWS 2 PRECEDING) AS x FROM (SELECT *, k + 1 AS z FROM t)",
        8, "z is computed",
    ),
    "a field of what is computed": (
        "SELECT sum(q.z.x) AS n FROM (SELECT *, v + 1 AS z FROM t) AS q GROUP BY TUMBLE(ts, 10)", 12, "has no field x",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "column", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_such_statement_is_refused_at_its_place(statement: str, column: int, reason: str) -> None:
    with pytest.raises(SqlError) as refused:
        muntin.sql(statement)
    assert reason in str(refused.value)
    assert (refused.value.line, refused.value.column) == (1, column)


@pytest.mark.parametrize("dialect", [None, "spark"])
@pytest.mark.parametrize(("_", "query"), READ.values(), ids=READ)
def test_what_is_written_is_read_as_the_same(_: str, query: Query, dialect: str | None) -> None:
    if dialect == "spark" and query.windows[0] == window.tumbling(10):
        query = replace(query, windows=window.tumbling("1 hour"))
    statement = query.to_sql("sales", dialect=dialect)
    again = muntin.sql(statement, dialect=dialect)
    assert (again.windows, again.aggregates, again.key, again.time) == (
        query.windows, query.aggregates, query.key, query.time,
    )  # fmt: skip
    assert again.to_sql("sales", dialect=dialect) == statement


def test_a_key_that_is_called_as_it_is_written_is_computed_in_a_subquery() -> None:
    query = Query(window.tumbling("1 hour"), {"n": agg.count()}, key="UPPER(k)", columns={"UPPER(k)": "UPPER(k)"})
    assert "AS `UPPER(k)`" in query.to_sql("t")
    assert muntin.sql(query.to_sql("t")) == query


def test_how_expressions_are_written() -> None:
    inline = READ["an expression"][1]
    assert "sum(price * pieces) AS revenue" in inline.to_sql("sales")
    named = READ["a subquery"][1]
    assert named.to_sql("sales", dialect="spark") == (
        "SELECT zone, window, max(revenue) AS m\n"
        "FROM (SELECT UPPER(country) AS zone, ts, price * pieces AS revenue FROM sales "
        "WHERE price > 0 AND price * pieces > 5) AS computed\n"
        "GROUP BY zone, window(ts, '1 hour')"
    )
    assert named.to_sql("sales").endswith("AS computed\nGROUP BY zone, TUMBLE(ts, INTERVAL '1' HOUR)")
    quoted = Query(window.tumbling("1 hour"), {"n": agg.count()}, where=r"name = 'it\'s' AND b LIKE '%\n'")
    assert "name = 'it''s'" in quoted.to_sql("t")
    assert r"name = 'it\'s'" in quoted.to_sql("t", dialect="spark")


def test_what_flink_means_otherwise_is_refused() -> None:
    for text in ("a / 2 > 1", "a > 1.5D", "ts > TIMESTAMP '2024-03-01'", "LENGTH(a) > 3"):
        query = Query(window.tumbling("1 hour"), {"n": agg.count()}, where=text)
        with pytest.raises(UnsupportedOperationError, match="Flink"):
            query.to_sql("t", dialect="flink")
    plain = Query(window.tumbling("1 hour"), {"n": agg.count()}, where="a * 2 > 1")
    assert "WHERE a * 2 > 1" in plain.to_sql("t", dialect="flink")
    cumulative = replace(READ["a subquery"][1], windows=window.cumulative("1 day", every="1 hour"))
    with pytest.raises(UnsupportedOperationError, match="a table function has no subquery"):
        cumulative.to_sql("t")


def test_answers_are_those_of_another_database() -> None:
    draw = random.Random(1)
    sales = pa.table(
        {
            "ts": [i // 3 for i in range(300)],
            "price": [draw.choice([None, 0.5, 2.0, -1.0, 4.25]) for _ in range(300)],
            "pieces": [draw.randint(0, 9) for _ in range(300)],
            "country": [draw.choice(["DE", "FR", "IT", None]) for _ in range(300)],
        }
    )
    statement = """
        SELECT zone, sum(price * pieces) AS revenue, count(*) FILTER (WHERE big) AS n, max(half) AS half
        FROM (SELECT *, lower(country) AS zone, pieces > 4 AS big, price / 2 AS half FROM sales WHERE price > 0) AS s
        WHERE country <> 'IT'
        GROUP BY zone, {window}
    """
    found = muntin.sql(statement.format(window="TUMBLE(ts, 10)")).run(sales)
    names = ("zone", "window", "revenue", "n", "half")
    ours = [tuple(row[name] for name in names) for row in found.to_pylist()]
    connection = duckdb.connect()
    connection.register("sales", sales)
    plain = statement.format(window="ts // 10 * 10").replace("zone, sum", "zone, ts // 10 * 10, sum")
    theirs = sorted(connection.execute(plain).fetchall())
    assert sorted((row[0], row[1]["start"], *row[2:]) for row in ours) == theirs
