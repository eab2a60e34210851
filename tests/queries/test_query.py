"""What a query is made of: the names of its windows, and what it refuses."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from muntin import Query, agg, window
from muntin.errors import InvalidArgumentError

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
        ({"hour": "1 hour"}, "a window is made by window.tumbling"),
    ],
)
def test_refusals(windows: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Query(windows, COUNT)
