"""What a query is made of: the names of its windows, and what it refuses."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from muntin import Query, agg, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError

COUNT = {"n": agg.count()}
HOUR, DAY = window.trailing("1 hour"), window.trailing("1 day")


@pytest.mark.parametrize(
    ("windows", "names"),
    [(HOUR, ("w0",)), ([HOUR, DAY], ("w0", "w1")), ({"hour": HOUR, "day": DAY}, ("hour", "day"))],
)
def test_windows_are_given_in_three_ways(windows: Any, names: tuple[str, ...]) -> None:
    query = Query(windows, COUNT)
    assert (query.windows.names, query.windows) == (names, (HOUR, DAY)[: len(names)])
    assert query == eval(repr(query), {"Query": Query, "window": window, "agg": agg})
    assert pickle.loads(pickle.dumps(replace(query, aggregates=COUNT))).windows.names == names
    assert (query == Query(list(query.windows), COUNT)) == (names[0] == "w0")


def test_a_window_that_is_added_to_a_stream_has_a_name_too() -> None:
    stream = Query({"hour": HOUR}, COUNT).stream()
    stream.add(DAY)
    assert stream.query.windows.names == ("hour", "w1")


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ({}, "at least one window"),
        ({"": HOUR}, "a window has the name ''"),
        ({3: HOUR}, "a window has the name 3; give it a text"),
        ("10 minutes", r"windows is '10 minutes'; give one, such as window.tumbling\('10 minutes'\)"),
        ("hourly", r"windows is 'hourly'; give one, such as window.tumbling\('1 minute'\)"),
        ({"hour": "1 hour"}, "a window is made by window.tumbling"),
    ],
)
def test_refusals(windows: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Query(windows, COUNT)


def test_run_takes_no_frame_of_spark() -> None:
    with pytest.raises(UnsupportedOperationError, match=r"for a DataFrame of Spark use Query.spark\(frame\)"):
        Query(HOUR, COUNT).run(SimpleNamespace(sparkSession=None, columns=["ts"]))  # what such a DataFrame is known by


@pytest.mark.parametrize(
    "ask", [lambda q, rows: q.run(rows), lambda q, rows: q.over(rows), lambda q, rows: q.stream().push(rows)]
)
def test_a_time_column_that_was_not_named(ask: Any) -> None:
    with pytest.raises(ColumnError, match=r"no column 'ts'; the columns are 'day'\. 'ts' is the default: give .*time="):
        ask(Query(window.trailing(3), COUNT), {"day": [1, 2]})
    with pytest.raises(ColumnError, match=r"no column 'hour'; the columns are 'day'$"):
        ask(Query(window.trailing(3), COUNT, time="hour"), {"day": [1, 2]})
