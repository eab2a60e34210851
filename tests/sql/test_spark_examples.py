"""What Spark's documentation shows of `window` and `session_window`: our own rows, against windows by hand."""

from __future__ import annotations

import pytest
from sql.plain import SALES, answered, expected, hop, session, table, total

import muntin
from muntin import window
from muntin.errors import SqlError

STATEMENT = "SELECT shop, {0}.start, {0}.end, count(*) AS n, sum(amount) AS total FROM sales GROUP BY shop, {1}"
KEY = ("shop",)
EXAMPLES = {
    "window(sold_at, '5 minutes')": hop(SALES, 5, 5, key=KEY),
    "window(sold_at, '10 minutes', '5 minutes')": hop(SALES, 10, 5, key=KEY),
    "window(sold_at, '10 minutes', '5 minutes', '2 minutes')": hop(SALES, 10, 5, 2, key=KEY),
    "window(sold_at, '1 hour', '1 hour', '15 minutes')": hop(SALES, 60, 60, 15, key=KEY),
    "window(sold_at, INTERVAL '10' MINUTES)": hop(SALES, 10, 10, key=KEY),
    "session_window(sold_at, '5 minutes')": session(SALES, 5, key=KEY),
    "session_window(sold_at, INTERVAL 8 MINUTES)": session(SALES, 8, key=KEY),
}


@pytest.mark.parametrize("function", EXAMPLES)
def test_windows(function):
    query = muntin.sql(STATEMENT.format(function.partition("(")[0], function))
    found = answered(query.run(table()), KEY, "n", "total")
    assert found == expected(EXAMPLES[function], len, total)


@pytest.mark.parametrize(
    "selected",
    ["window", "window.start", "window.start AS start, window.end AS end", "window(sold_at, '5 minutes')", "shop"],
)
def test_how_a_window_is_selected(selected):
    query = muntin.sql(f"SELECT {selected}, count(*) AS n FROM sales GROUP BY shop, window(sold_at, '5 minutes')")
    assert query.windows == (window.tumbling("5 minutes"),)


def test_double_quotes_are_text_in_spark():
    statement = 'SELECT count(*) AS n FROM sales GROUP BY window(sold_at, "5 minutes")'
    assert muntin.sql(statement, dialect="spark").windows == (window.tumbling("5 minutes"),)
    with pytest.raises(SqlError, match='^line 1, column 58: "5 minutes" is no fixed duration'):
        muntin.sql(statement)


REFUSED = {
    "a gap that depends on the row": (
        """SELECT shop, count(*) AS n
FROM sales
GROUP BY shop, session_window(sold_at, CASE WHEN shop = 'north' THEN '5 minutes' ELSE '1 minute' END)""",
        3,
        40,
        "CASE .* END is no fixed duration",
    ),
    "the last moment of a window": (
        "SELECT window_time(window), count(*) FROM s GROUP BY window(sold_at, '5 minutes')",
        1,
        8,
        "no such time",
    ),
    "a window of windows": (
        "SELECT sum(n) FROM (SELECT count(*) AS n FROM s GROUP BY window(t, '1 minute')) GROUP BY window(t, '1 hour')",
        1,
        49,
        "it has no GROUP BY",
    ),
    "answers in order": (
        "SELECT count(*) FROM s GROUP BY window(t, '5 minutes') ORDER BY window.start",
        1,
        56,
        "no order",
    ),
    "rows that are written down": (
        "SELECT count(*) FROM VALUES (1, 2) AS t(a, b) GROUP BY window(b, '5 minutes')",
        1,
        22,
        "reads a table",
    ),
    "months": ("SELECT count(*) FROM s GROUP BY window(t, '1 month')", 1, 43, "months and years differ"),
    "a slide longer than the window": ("SELECT count(*) FROM s GROUP BY window(t, '1 hour', '1 day')", 1, 33, "longer"),
    "a window by another name": (
        "SELECT window(t, '1 hour') AS w, count(*) FROM s GROUP BY window(t, '1 hour')",
        1,
        31,
        "AS w: the answer has it as window",
    ),
    "an unknown field": (
        "SELECT window.middle, count(*) FROM s GROUP BY window(t, '1 hour')",
        1,
        8,
        "window.middle is no column of s",
    ),
}


@pytest.mark.parametrize("example", REFUSED)
def test_what_a_query_cannot_say(example):
    statement, line, column, reason = REFUSED[example]
    with pytest.raises(SqlError, match=f"^line {line}, column {column}: .*{reason}"):
        muntin.sql(statement)
