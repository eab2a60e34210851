"""What Flink's documentation shows of windows: each kind of example, over our own rows, against windows by hand."""

from __future__ import annotations

import pytest
from sql.plain import SALES, amounts, answered, cumulate, expected, hop, session, table, total

import muntin
from muntin import agg, window
from muntin.errors import SqlError

BY_TABLE = "SELECT window_start, window_end, SUM(amount) AS total FROM {} GROUP BY window_start, window_end"

TABLE_FUNCTIONS = {
    "tumbling": ("TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES)", hop(SALES, 10, 10)),
    "tumbling, by names": (
        "TUMBLE(DATA => TABLE Sales, TIMECOL => DESCRIPTOR(sold_at), SIZE => INTERVAL '10' MINUTES)",
        hop(SALES, 10, 10),
    ),
    "hopping: the slide, then the size": (
        "HOP(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)",
        hop(SALES, 10, 5),
    ),
    "hopping, by names": (
        """HOP(DATA => TABLE Sales, TIMECOL => DESCRIPTOR(sold_at), SIZE => INTERVAL '10' MINUTES,
               SLIDE => INTERVAL '5' MINUTES)""",
        hop(SALES, 10, 5),
    ),
    "hopping, with an offset": (
        "HOP(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES, INTERVAL '2' MINUTES)",
        hop(SALES, 10, 5, 2),
    ),
    "cumulating: the step, then the size": (
        "CUMULATE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)",
        cumulate(SALES, 10, 2),
    ),
    "cumulating, by names": (
        """CUMULATE(DATA => TABLE Sales, TIMECOL => DESCRIPTOR(sold_at), STEP => INTERVAL '2' MINUTES,
                    SIZE => INTERVAL '10' MINUTES)""",
        cumulate(SALES, 10, 2),
    ),
    "cumulating, with an offset": (
        "CUMULATE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES, INTERVAL '3' MINUTES)",
        cumulate(SALES, 10, 2, 3),
    ),
    "sessions of all rows": (
        "SESSION(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES)",
        session(SALES, 5),
    ),
    "with an offset": (
        "TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES, INTERVAL '1' MINUTES)",
        hop(SALES, 10, 10, 1),
    ),
    "with an offset, by names": (
        """TUMBLE(DATA => TABLE Sales, TIMECOL => DESCRIPTOR(sold_at), SIZE => INTERVAL '10' MINUTES,
                  `OFFSET` => INTERVAL '1' MINUTES)""",
        hop(SALES, 10, 10, 1),
    ),
}


@pytest.mark.parametrize("around", ["TABLE({})", "{}", "TABLE({}) AS w"])
@pytest.mark.parametrize("example", TABLE_FUNCTIONS)
def test_table_functions(example, around):
    function, windows = TABLE_FUNCTIONS[example]
    query = muntin.sql(BY_TABLE.format(around.format(function)))
    assert answered(query.run(table()), (), "total") == expected(windows, total)


@pytest.mark.parametrize("offset", [-16, -6, -4, 0, 4, 6, 16])
def test_offsets_of_any_sign(offset):
    function = f"TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTE, INTERVAL '{offset}' MINUTE)"
    query = muntin.sql(BY_TABLE.format(function))
    assert answered(query.run(table()), (), "total") == expected(hop(SALES, 10, 10, offset), total)


def test_the_windows_of_each_key():
    query = muntin.sql("""
        SELECT window_start, window_end, shop, SUM(amount) AS total, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))
        GROUP BY window_start, window_end, shop
    """)
    assert query.key == ("shop",)
    found = answered(query.run(table()), ("shop",), "total", "n")
    assert found == expected(hop(SALES, 10, 10, key=("shop",)), total, len)


@pytest.mark.parametrize(
    "arguments",
    [
        "TABLE Sales PARTITION BY shop, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES",
        "TABLE Sales PARTITION BY (shop), DESCRIPTOR(sold_at), INTERVAL '5' MINUTES",
        "DATA => TABLE Sales PARTITION BY shop, TIMECOL => DESCRIPTOR(sold_at), GAP => INTERVAL '5' MINUTES",
    ],
)
def test_the_sessions_of_each_key(arguments):
    query = muntin.sql(f"""
        SELECT window_start, window_end, shop, COUNT(*) AS n
        FROM SESSION({arguments})
        GROUP BY shop, window_start, window_end
    """)
    found = answered(query.run(table()), ("shop",), "n")
    assert found == expected(session(SALES, 5, key=("shop",)), len)


def test_an_aggregate_without_a_name_is_called_as_it_is_written():
    query = muntin.sql(BY_TABLE.format("TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), 10)").replace(" AS total", ""))
    assert query.aggregates == {"SUM(amount)": agg.sum("amount")}


def test_the_time_of_a_window_may_be_in_group_by():
    query = muntin.sql("""
        SELECT shop, window_start, window_end, SUM(amount) AS total
        FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES))
        GROUP BY shop, window_start, window_end, window_time
    """)
    assert query.key == ("shop",)


GROUP_WINDOWS = {
    "TUMBLE(sold_at, INTERVAL '15' MINUTE)": hop(SALES, 15, 15, key=("shop",)),
    "HOP(sold_at, INTERVAL '5' MINUTE, INTERVAL '15' MINUTE)": hop(SALES, 15, 5, key=("shop",)),
    "SESSION(sold_at, INTERVAL '8' MINUTE)": session(SALES, 8, key=("shop",)),
}


@pytest.mark.parametrize("function", GROUP_WINDOWS)
def test_group_windows(function):
    name, arguments = function.split("(", 1)
    query = muntin.sql(f"""
        SELECT shop, {name}_START({arguments}, {name}_END({arguments} AS window_end, SUM(amount) AS total
        FROM Sales
        GROUP BY {function}, shop
    """)
    assert answered(query.run(table()), ("shop",), "total") == expected(GROUP_WINDOWS[function], total)


def test_the_statement_of_the_contract():
    query = muntin.sql(
        "SELECT plug, max(watts) AS peak FROM readings "
        "GROUP BY plug, HOP(ts, INTERVAL '1' MINUTE, INTERVAL '24' HOURS)",
        watermark="10 seconds",
    )
    assert query.windows == (window.sliding("24 hours", every="1 minute"),)
    assert (query.aggregates, query.key, query.time) == ({"peak": agg.max("watts")}, ("plug",), "ts")
    assert query.watermark == "10 seconds"


def test_the_time_of_the_clock():
    assert muntin.sql("SELECT count(*) AS n FROM t GROUP BY TUMBLE(PROCTIME(), INTERVAL '1' SECOND)").time is None


def test_filter_skips_rows():
    query = muntin.sql("""
        SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE paid) AS of_paid, SUM(amount) FILTER (WHERE paid IS TRUE) AS total
        FROM Sales
        GROUP BY TUMBLE(sold_at, INTERVAL '10' MINUTE)
    """)

    def paid(rows):
        return [row for row in rows if row["paid"]]

    found = answered(query.run(table()), (), "n", "of_paid", "total")
    assert found == expected(hop(SALES, 10, 10), len, lambda rows: len(paid(rows)), lambda rows: total(paid(rows)))


def test_a_mean_of_what_is_known():
    query = muntin.sql(BY_TABLE.format("TUMBLE(TABLE s, DESCRIPTOR(sold_at), 600000000)").replace("SUM", "AVG"))
    found = answered(query.run(table()), (), "total")
    assert found == expected(hop(SALES, 10, 10), lambda rows: sum(amounts(rows)) / len(amounts(rows)))


STAR = "SELECT * FROM TABLE(\n  {}(TABLE Sales, DESCRIPTOR(sold_at), {}));"
REFUSED = {
    "rows with their windows": (STAR.format("TUMBLE", "INTERVAL '10' MINUTES"), 1, 8, "a query aggregates"),
    "rows with hopping windows": (
        STAR.format("HOP", "INTERVAL '5' MINUTES, INTERVAL '10' MINUTES"),
        1,
        8,
        "aggregates",
    ),
    "rows with sessions": (STAR.format("SESSION", "INTERVAL '5' MINUTES"), 1, 8, "aggregates"),
    "grouping sets": (
        """SELECT window_start, window_end, shop, SUM(amount) AS total
FROM TABLE(
  TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, GROUPING SETS ((shop), ())""",
        4,
        36,
        "one set of keys",
    ),
    "rollup": (
        """SELECT SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, ROLLUP (shop)""",
        3,
        36,
        "one set of keys",
    ),
    "cube": (
        """SELECT SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, CUBE (shop, paid)""",
        3,
        36,
        "one set of keys",
    ),
    "a window of windows": (
        """CREATE VIEW first_windows AS
SELECT window_start, window_end, window_time AS rowtime, SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES))
GROUP BY shop, window_start, window_end, window_time""",
        1,
        1,
        "one SELECT",
    ),
    "the time of a window, selected": (
        """SELECT window_start, window_end, window_time AS rowtime, SUM(amount) AS total
FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '5' MINUTES))
GROUP BY shop, window_start, window_end, window_time""",
        1,
        34,
        "no such time",
    ),
    "a start by another name": (
        """SELECT shop, TUMBLE_START(sold_at, INTERVAL '1' DAY) AS begun, SUM(amount)
FROM Sales
GROUP BY TUMBLE(sold_at, INTERVAL '1' DAY), shop""",
        1,
        57,
        "AS begun: the answer has it as window.start",
    ),
    "the start of another window": (
        "SELECT TUMBLE_START(sold_at, INTERVAL '2' DAY), count(*) FROM s GROUP BY TUMBLE(sold_at, INTERVAL '1' DAY)",
        1,
        8,
        "no aggregation TUMBLE_START",
    ),
    "an attribute of time": (
        "SELECT HOP_ROWTIME(t, 1, 2), count(*) FROM s GROUP BY HOP(t, 1, 2)",
        1,
        8,
        "no such time",
    ),
    "half of the window": (
        "SELECT count(*) FROM TUMBLE(TABLE s, DESCRIPTOR(t), 10) GROUP BY window_start",
        1,
        57,
        "both window_start and window_end",
    ),
    "the greatest of each window": (
        """SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY amount DESC) AS place
  FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))
) WHERE place <= 3""",
        2,
        26,
        "cannot be computed",
    ),
    "the last of each window": (
        """SELECT sold_at, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY sold_at DESC) AS place
FROM TABLE(TUMBLE(TABLE Sales, DESCRIPTOR(sold_at), INTERVAL '10' MINUTES))""",
        2,
        12,
        "not both",
    ),
    "windows that are joined": (
        """SELECT l.shop, r.shop, COUNT(*)
FROM TUMBLE(TABLE a, DESCRIPTOR(t), INTERVAL '5' MINUTES) l
FULL JOIN TUMBLE(TABLE b, DESCRIPTOR(t), INTERVAL '5' MINUTES) r ON l.window_start = r.window_start
GROUP BY l.shop, r.shop""",
        3,
        1,
        "join before",
    ),
    "sessions of one key, aggregated by another": (
        "SELECT count(*) FROM SESSION(TABLE s PARTITION BY a, DESCRIPTOR(t), 10) GROUP BY b, window_start, window_end",
        1,
        22,
        "PARTITION BY names a, and GROUP BY b",
    ),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_a_query_cannot_say(example):
    statement, line, column, reason = REFUSED[example]
    with pytest.raises(SqlError, match=f"^line {line}, column {column}: .*{reason}"):
        muntin.sql(statement)
