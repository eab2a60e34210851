"""Clocks that return no time, or go back: refused by name, or taken to go on from where they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muntin import ProcessingTime, Query, agg, window
from muntin.errors import InvalidArgumentError

COUNT = {"n": agg.count()}
KINDS: dict[str, dict[str, Any]] = {
    "idle": {"time": "t", "idle_timeout": 30},
    "early": {"time": "t", "emit_early": ProcessingTime(30)},
}


class Clock:
    """A clock that shows what it is set to."""

    def __init__(self, now: Any) -> None:
        self.now = now

    def __call__(self) -> Any:
        return self.now


@pytest.mark.parametrize(
    "given", [None, 2.5, "12:00", True, np.datetime64("2024-01-01"), 10**30, float("nan")], ids=repr
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_clock_that_returns_no_integer_is_refused(kind: str, given: Any) -> None:
    clock = Clock(0)
    stream = Query(window.tumbling(100), COUNT, **KINDS[kind]).stream(clock=clock)
    stream.push({"t": [1]})
    before = stream.snapshot()
    clock.now = given
    for call in (lambda: stream.push({"t": [2]}), stream.tick):
        with pytest.raises(InvalidArgumentError, match="the clock returned .*; it must return the time as an integer"):
            call()
    assert stream.snapshot() == before
    clock.now = np.int64(5)
    stream.push({"t": [3]})
    assert stream.close()["n"].to_pylist() == [2]


def test_a_clock_that_returns_no_integer_is_refused_where_rows_get_its_time() -> None:
    clock = Clock("now")
    stream = Query(window.tumbling("1 second"), {"n": agg.count("v")}, time=None).stream(clock=clock)
    with pytest.raises(InvalidArgumentError, match="the clock returned 'now'"):
        stream.push({"v": [1]})
    clock.now = 5 * 10**9
    assert stream.push({"v": [1]}).num_rows == 0


def test_what_is_no_clock_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="clock is 5; give a function"):
        Query(window.tumbling(10), COUNT, time="t").stream(clock=5)  # type: ignore[arg-type]  # the very mistake


@pytest.mark.parametrize("restart", [False, True])
def test_an_idle_stream_does_not_wait_for_a_clock_that_went_back(restart: bool) -> None:
    clock = Clock(10_000)
    query = Query(window.tumbling(10), COUNT, **KINDS["idle"])
    stream = query.stream(clock=clock)
    stream.push({"t": [3]})
    clock.now = 10_000 - 3600
    if restart:
        stream = query.stream(stream.snapshot(), clock=clock)
    assert stream.tick().num_rows == 0
    clock.now += 29
    assert stream.tick().num_rows == 0
    clock.now += 1
    assert stream.tick()["n"].to_pylist() == [1]


@pytest.mark.parametrize("restart", [False, True])
def test_early_results_do_not_wait_for_a_clock_that_went_back(restart: bool) -> None:
    clock = Clock(10_000)
    query = Query(window.tumbling(100), COUNT, **KINDS["early"])
    stream = query.stream(clock=clock)
    stream.push({"t": [3]})
    clock.now = 6_400
    if restart:
        stream = query.stream(stream.snapshot(), clock=clock)
    assert stream.tick().num_rows == 0
    clock.now = 6_430
    assert stream.tick()["n"].to_pylist() == [1]


@pytest.mark.parametrize("restart", [False, True])
def test_rows_that_get_the_time_of_a_clock_that_went_back_are_not_late(restart: bool) -> None:
    clock = Clock(7_200 * 10**9)
    query = Query(window.tumbling("10 seconds"), {"n": agg.count("v")}, time=None)
    stream = query.stream(clock=clock)
    stream.push({"v": [1]})
    clock.now = 3_600 * 10**9
    if restart:
        stream = query.stream(stream.snapshot(), clock=clock)
    stream.push({"v": [2]})
    clock.now += 10 * 10**9
    assert stream.push({"v": [3]})["n"].to_pylist() == [2]
    assert stream.metrics()["dropped"] == 0
