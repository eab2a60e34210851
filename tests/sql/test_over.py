"""OVER: the very statement that DuckDB answers, and what a query cannot say of it."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import agg, rows, window
from muntin.errors import SqlError

ORDERS = pa.table(
    {
        "order_time": pa.array([0, 1200, 1200, 3600, 3601, 4800, 7200, 7200, 9000, 20000], pa.timestamp("s")),
        "product": ["tea", "tea", "rice", "tea", "rice", "tea", "rice", "tea", "tea", "rice"],
        "amount": [5, 3, None, 8, 2, 1, 9, 4, None, 6],
        "id": np.arange(10),
    }
)
FRAMES = {
    "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW": window.trailing("1 hour", closed="both"),
    "RANGE BETWEEN INTERVAL '30' MINUTE PRECEDING AND CURRENT ROW": window.trailing("30 minutes", closed="both"),
    "RANGE INTERVAL '1' HOUR PRECEDING": window.trailing("1 hour", closed="both"),
    "RANGE BETWEEN INTERVAL '20' MINUTE PRECEDING AND INTERVAL '40' MINUTE FOLLOWING": window.frame(
        "20 minutes", "40 minutes"
    ),
    "RANGE BETWEEN CURRENT ROW AND INTERVAL '1' HOUR FOLLOWING": window.leading("1 hour", closed="both"),
    "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND INTERVAL '20' MINUTE PRECEDING": window.trailing(
        "40 minutes", delay="20 minutes", closed="both"
    ),
    "RANGE BETWEEN INTERVAL '20' MINUTE FOLLOWING AND INTERVAL '1' HOUR FOLLOWING": window.leading(
        "40 minutes", delay="20 minutes", closed="both"
    ),
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW": window.frame(0, 0),
    "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW EXCLUDE GROUP": window.trailing("1 hour", closed="left"),
    "RANGE BETWEEN CURRENT ROW AND INTERVAL '1' HOUR FOLLOWING EXCLUDE GROUP": window.leading("1 hour", closed="right"),
    "": window.lifetime(),
    "RANGE UNBOUNDED PRECEDING": window.lifetime(),
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW": window.lifetime(),
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP": window.lifetime(closed="left"),
    "ROWS BETWEEN 10 PRECEDING AND CURRENT ROW": window.trailing(rows(11)),
    "ROWS 1 PRECEDING": window.trailing(rows(2)),
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE NO OTHERS": window.trailing(rows(2)),
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING": window.frame(rows(2), rows(1)),
    "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING": window.leading(rows(3)),
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING": window.trailing(rows(3), delay=rows(1)),
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING": window.leading(rows(2), delay=rows(1)),
    "ROWS BETWEEN CURRENT ROW AND CURRENT ROW": window.trailing(rows(1)),
    "ROWS BETWEEN 0 PRECEDING AND 0 FOLLOWING": window.trailing(rows(1)),
}
STATEMENT = """
    SELECT id, order_time, amount,
      SUM(amount) OVER (PARTITION BY product ORDER BY order_time {0}) AS total,
      COUNT(*) OVER (PARTITION BY product ORDER BY order_time {0}) AS n,
      AVG(amount) OVER (PARTITION BY product ORDER BY order_time {0}) AS mean
    FROM orders
"""


def by_duckdb(statement: str) -> list[tuple]:
    """Return what DuckDB answers, in the order of the rows."""
    with duckdb.connect() as connection:
        connection.register("orders", ORDERS)
        return sorted(connection.execute(statement).fetchall())


def in_rows(found: pa.Table) -> list[tuple]:
    """Return a table as tuples."""
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("frame", FRAMES)
def test_frames(frame):
    query = muntin.sql(STATEMENT.format(frame))
    assert query.windows == (FRAMES[frame],)
    assert (query.key, query.time) == (("product",), "order_time")
    found = query.over(ORDERS).select(["id", "order_time", "amount", "total", "n", "mean"])
    assert in_rows(found) == by_duckdb(STATEMENT.format(frame))


NAMED = """
    SELECT id, order_time, amount, SUM(amount) OVER w AS sum_amount, AVG(amount) OVER w AS avg_amount
    FROM orders
    WINDOW w AS (
      PARTITION BY product ORDER BY order_time RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)
"""


def test_a_named_window():
    query = muntin.sql(NAMED)
    assert query.aggregates == {"sum_amount": agg.sum("amount"), "avg_amount": agg.mean("amount")}
    found = query.over(ORDERS).select(["id", "order_time", "amount", "sum_amount", "avg_amount"])
    assert in_rows(found) == by_duckdb(NAMED)


SEVERAL = """
    SELECT id, sum(amount) OVER short AS spent_short, sum(amount) OVER long AS spent_long,
      count(*) OVER short AS n_short, count(*) OVER long AS n_long
    FROM orders
    WINDOW short AS (PARTITION BY product ORDER BY order_time RANGE INTERVAL '30' MINUTES PRECEDING),
      long AS (PARTITION BY product ORDER BY order_time ROWS 3 PRECEDING)
"""


def test_several_windows_have_the_names_that_over_gives_their_columns():
    query = muntin.sql(SEVERAL)
    assert query.windows.names == ("short", "long")
    assert query.aggregates == {"spent": agg.sum("amount"), "n": agg.count()}
    found = query.over(ORDERS).select(["id", "spent_short", "spent_long", "n_short", "n_long"])
    assert in_rows(found) == by_duckdb(SEVERAL)


def test_lower_case():
    query = muntin.sql(
        "select sum(v) over (partition by k order by t rows between 1 preceding and 2 following) as s from x"
    )
    assert query.windows == (window.frame(rows(1), rows(2)),)
    query = muntin.sql(
        "select sum(v) over (order by t range between current row and interval '5' minutes following) as s from x"
    )
    assert query.windows == (window.leading("5 minutes", closed="both"),)


def test_a_star_and_no_key():
    query = muntin.sql("SELECT *, max(v) OVER (ORDER BY t ROWS 2 PRECEDING) AS high FROM x")
    assert query.over({"t": [1, 2, 3, 4], "v": [9, 1, 2, 3]})["high"].to_pylist() == [9, 9, 9, 3]


def test_nulls_are_skipped_by_first_and_last():
    """As with IGNORE NULLS, which may be written or not."""
    frame = "OVER (ORDER BY t ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)"
    query = muntin.sql(f"SELECT FIRST_VALUE(v) IGNORE NULLS {frame} AS a, LAST_VALUE(v) {frame} AS b FROM x")
    found = query.over({"t": [1, 2, 3, 4], "v": [None, 5, 6, None]})
    assert found["a"].to_pylist() == [5, 5, 5, 6]
    assert found["b"].to_pylist() == [5, 6, 6, 6]


def over(inside: str) -> str:
    return f"SELECT sum(v) OVER ({inside}) AS s FROM x"


_ONE_BACK = "OVER (ORDER BY t ROWS 1 PRECEDING)"
REFUSED = {
    "some columns replaced": (
        f"SELECT * REPLACE (sum(v) {_ONE_BACK} AS v) FROM z",
        8,
        "answers stand beside all columns",
    ),
    "some columns left out": (
        f"SELECT * EXCEPT (v), sum(v) {_ONE_BACK} AS s FROM z",
        8,
        "answers stand beside all columns",
    ),
    "a named window that adds to another": (
        "SELECT sum(v) OVER x AS s FROM z WINDOW w AS (PARTITION BY k ORDER BY t), x AS (w ROWS 1 PRECEDING)",
        77,
        "cannot be added to",
    ),
    "a window that is defined twice": (
        "SELECT sum(v) OVER w AS s FROM z WINDOW w AS (ORDER BY t), w AS (ORDER BY t ROWS 2 PRECEDING)",
        62,
        "defined twice",
    ),
    "ranks": ("SELECT a, RANK() OVER (PARTITION BY b ORDER BY c) AS r FROM x", 11, "no aggregation RANK"),
    "dense ranks": (
        "SELECT DENSE_RANK() OVER (PARTITION BY b ORDER BY c ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM x",
        8,
        "no aggregation DENSE_RANK",
    ),
    "distributions": ("SELECT CUME_DIST() OVER (ORDER BY c) FROM x", 8, "no aggregation CUME_DIST"),
    "the row before": ("SELECT LAG(a) OVER (PARTITION BY k ORDER BY t) AS before FROM x", 8, "no aggregation LAG"),
    "the row after": ("SELECT LEAD(a, 1, 0) OVER (ORDER BY t) AS after FROM x", 8, "no aggregation LEAD"),
    "the second row": ("SELECT NTH_VALUE(v, 2) OVER w FROM x WINDOW w AS (ORDER BY t)", 8, "no aggregation NTH_VALUE"),
    "all rows so far": (
        over("ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        45,
        "RANGE UNBOUNDED PRECEDING holds",
    ),
    "all rows but the last": (
        over("ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING"),
        46,
        "goes with AND CURRENT ROW",
    ),
    "all rows at all": (
        over("ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
        46,
        "goes with AND CURRENT ROW",
    ),
    "all rows but this one": (
        over("ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES"),
        46,
        "not with TIES",
    ),
    "all rows to come": (over("ORDER BY t ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"), 61, "never complete"),
    "groups of peers": (over("ORDER BY t GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW"), 15, "GROUPS"),
    "no order": (over("PARTITION BY k ROWS 2 PRECEDING"), 15, "needs ORDER BY"),
    "from the latest": (over("ORDER BY t DESC ROWS 2 PRECEDING"), 30, "DESC"),
    "two orders": (over("ORDER BY t, u ROWS 2 PRECEDING"), 33, "order of one column"),
    "an order that is computed": (over("ORDER BY t + 1 ROWS 2 PRECEDING"), 30, "the time of a window is a column"),
    "a key that is computed": (over("PARTITION BY lower(k) ORDER BY t ROWS 2 PRECEDING"), 34, "PARTITION BY names"),
    "without the row itself": (over("ORDER BY t ROWS 2 PRECEDING EXCLUDE CURRENT ROW"), 15, "EXCLUDE CURRENT ROW"),
    "without peers in the midst": (
        over("ORDER BY t RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING EXCLUDE GROUP"),
        15,
        "EXCLUDE GROUP goes with a RANGE that ends or begins with CURRENT ROW, and this frame is not one",
    ),
    "rows without peers": (
        over("ORDER BY t ROWS BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE GROUP"),
        15,
        "and this frame is not one",
    ),
    "without ties": (
        over("ORDER BY t RANGE BETWEEN 5 PRECEDING AND CURRENT ROW EXCLUDE TIES"),
        15,
        "and EXCLUDE TIES goes with none",
    ),
    "an end before the beginning": (over("ORDER BY t ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING"), 15, "ends before"),
    "one moment": (over("ORDER BY t RANGE BETWEEN 5 PRECEDING AND 5 PRECEDING"), 15, "where it begins"),
    "rows that are no number": (over("ORDER BY t ROWS BETWEEN n PRECEDING AND CURRENT ROW"), 45, "a number of rows"),
    "a moment that is no duration": (
        over("ORDER BY t RANGE BETWEEN x PRECEDING AND CURRENT ROW"),
        46,
        "no fixed duration",
    ),
    "a bound on no side": (over("ORDER BY t ROWS BETWEEN 3 AND CURRENT ROW"), 45, "PRECEDING or FOLLOWING"),
    "a row on a side": (
        over("ORDER BY t ROWS BETWEEN CURRENT ROW FOLLOWING AND 3 FOLLOWING"),
        15,
        "a bound is CURRENT ROW",
    ),
    "no key": (over("PARTITION BY ORDER BY t ROWS 3 PRECEDING"), 34, "expecting a column"),
    "a moment before the row, and negative": (over("ORDER BY t RANGE -3 PRECEDING"), 38, "not negative"),
    "an unknown window": ("SELECT sum(v) OVER ww AS s FROM x WINDOW w AS (ORDER BY t ROWS 1 PRECEDING)", 20, "mean w"),
    "a window with more": (
        "SELECT sum(v) OVER (w ROWS 1 PRECEDING) AS s FROM x WINDOW w AS (ORDER BY t)",
        21,
        "cannot be added to",
    ),
    "two keys": (
        """SELECT sum(v) OVER (PARTITION BY a ORDER BY t ROWS 1 PRECEDING), max(v) OVER (ORDER BY t ROWS 1 PRECEDING)
           FROM z""",
        73,
        "same PARTITION BY",
    ),
    "windows without names": (
        "SELECT sum(v) OVER (ORDER BY t ROWS 1 PRECEDING) AS x, sum(v) OVER (ORDER BY t ROWS 2 PRECEDING) AS y FROM z",
        8,
        "each has a name in the clause WINDOW",
    ),
    "windows with different aggregates": (
        """SELECT sum(v) OVER a AS s_a, max(v) OVER b AS s_b FROM z
           WINDOW a AS (ORDER BY t ROWS 1 PRECEDING), b AS (ORDER BY t ROWS 2 PRECEDING)""",
        8,
        "no s_b that is the same",
    ),
    "a column by another name": (
        "SELECT a AS b, sum(v) OVER (ORDER BY t ROWS 1 PRECEDING) AS s FROM x",
        13,
        "AS b: answers stand beside the rows",
    ),
    "an aggregate of no window": (
        "SELECT max(a), sum(v) OVER (ORDER BY t ROWS 1 PRECEDING) AS s FROM x",
        8,
        "no aggregation OVER a window",
    ),
    "groups, too": (
        "SELECT sum(v) OVER (ORDER BY t ROWS 1 PRECEDING) AS s FROM x GROUP BY TUMBLE(t, 5)",
        62,
        "not both",
    ),
    "a table function, too": (
        "SELECT sum(v) OVER (ORDER BY t ROWS 1 PRECEDING) AS s FROM TUMBLE(TABLE x, DESCRIPTOR(t), 5)",
        60,
        "not both",
    ),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_a_query_cannot_say(example):
    statement, column, reason = REFUSED[example]
    with pytest.raises(SqlError, match=f"^line 1, column {column}: .*{reason}"):
        muntin.sql(statement)
