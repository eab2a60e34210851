"""Rows that would stop a pipeline: each is refused by name, and changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, rows, slide, window
from muntin.durations import END_OF_TIME
from muntin.errors import InvalidArgumentError, MuntinError, TooManyWindowsError
from muntin.windows import limits

COUNT = {"n": agg.count()}


def by_odometer(**steps: Any) -> Query:
    """Return windows by a column that advances."""
    return Query(window.delta("v", **{"range": 10, "every": 5, **steps}), COUNT, time="t")


def refused_by_both(query: Query, good: Mapping[str, Any], bad: Mapping[str, Any]) -> str:
    """Return the words in which `run` and `stream` refuse a row; the stream goes on as if it had never come."""
    with pytest.raises(MuntinError) as in_run:
        query.run({name: [*good[name], *bad[name]] for name in good})
    stream, other = query.stream(), query.stream()
    stream.push(good)
    other.push(good)
    before = stream.snapshot()
    with pytest.raises(MuntinError) as in_stream:
        stream.push(bad)
    assert type(in_run.value) is type(in_stream.value)
    assert stream.snapshot() == before
    assert stream.close() == other.close()
    return str(in_stream.value)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, -1e300, 1e18])
def test_a_delta_window_refuses_values_that_it_cannot_tell_apart(value: float) -> None:
    said = refused_by_both(by_odometer(every=0.5), {"t": [1, 2], "v": [1.0, 12.0]}, {"t": [4, 3], "v": [13.0, value]})
    assert "'v'" in said
    assert "row 1" in said
    assert str(value) in said


@pytest.mark.parametrize("value", [2**63 - 1, 2**63 - 12, -(2**63), -(2**63) + 9])
def test_a_delta_window_refuses_integers_beyond_which_no_window_fits(value: int) -> None:
    said = refused_by_both(by_odometer(), {"t": [1], "v": [1]}, {"t": [2, 3], "v": [5, value]})
    assert "'v'" in said
    assert "row 1" in said
    assert str(value) in said


def test_a_delta_window_takes_what_is_just_within() -> None:
    value = 2**63 - 40
    found = by_odometer().run({"t": [1], "v": [value]})["window"].to_pylist()
    assert all(each["from_value"] <= value < each["to_value"] == each["from_value"] + 10 for each in found)
    assert len(found) == 2
    far = by_odometer(every=0.5, range=1.0).run({"t": [1], "v": [2.0**51]})["window"].to_pylist()
    assert [each["from_value"] for each in far] == [2.0**51 - 0.5, 2.0**51]


def test_a_delta_window_refuses_unsigned_integers_that_int64_does_not_hold() -> None:
    table = pa.table({"t": [1, 2], "v": pa.array([5, 2**63 + 7], pa.uint64())})
    with pytest.raises(InvalidArgumentError, match="'v' holds 9223372036854775815 in row 1"):
        by_odometer().run(table)
    with pytest.raises(InvalidArgumentError, match="'v' holds 9223372036854775815 in row 1"):
        by_odometer().stream().push(table)


def test_a_null_is_no_value_that_is_refused() -> None:
    table = pa.table({"t": [1, 2], "v": pa.array([5, None], pa.uint64())})
    assert by_odometer().run(table)["n"].to_pylist() == [1, 1]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Allow few windows in a call, so that little has to be computed."""
    monkeypatch.setattr(limits, "MOST_WINDOWS", 1000)
    return 1000


WIDE = {
    "sliding": window.sliding(10**9, every=1),
    "cumulative": window.cumulative(10**9, every=1),
    "delta": window.delta("t", 10**9, every=1),
    "delta of floats": window.delta("t", 1e9, every=0.5),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_row_in_a_billion_windows_is_refused_by_run(name: str) -> None:
    with pytest.raises(TooManyWindowsError, match=r"window\.(.*) would have .* hold row 0, at 1"):
        Query(WIDE[name], COUNT, time="t").run({"t": [1, 2]})


@pytest.mark.parametrize("strategy", ["auto", "rows"])
@pytest.mark.parametrize("name", ["sliding", "cumulative"])
@pytest.mark.parametrize("options", [{}, {"emit_early": 1}, {"allowed_lateness": 10**9}], ids=str)
def test_a_row_in_a_billion_windows_is_refused_by_a_stream(name: str, strategy: str, options: dict[str, Any]) -> None:
    stream = Query(WIDE[name], COUNT, time="t", **options).stream(strategy=strategy)
    if strategy == "auto" and "emit_early" not in options:
        stream.push({"t": [1, 2]})
    before = stream.snapshot(), stream.metrics()
    with pytest.raises(TooManyWindowsError, match="row 1 of this push, whose time is 1000000000000"):
        stream.push({"t": [3, 10**12, 4]})
    assert (stream.snapshot(), stream.metrics()) == before
    stream.check()


@pytest.mark.usefixtures("few")
def test_a_stream_goes_on_where_it_refused_to_go_too_far() -> None:
    query = Query(window.sliding(3000, every=1), {"total": agg.sum("v")}, key="k", time="t", watermark=2)
    stream = query.stream()
    first = stream.push({"t": [1, 2, 5], "v": [1, 2, 4], "k": ["a", "b", "a"]})
    before = stream.snapshot()
    for refused in (lambda: stream.advance(10**9), stream.close):
        with pytest.raises(TooManyWindowsError, match=r"window.sliding\(3000, every=1\)"):
            refused()
        assert stream.snapshot() == before
        stream.check()
    parts = [first, *(stream.advance(until) for until in range(400, 3600, 400)), stream.close()]
    limits.MOST_WINDOWS = 10**6  # as the fixture will undo
    whole = query.run({"t": [1, 2, 5], "v": [1, 2, 4], "k": ["a", "b", "a"]})
    order = [("k", "ascending"), ("end", "ascending")]
    both = [
        each.append_column("end", pc.struct_field(each["window"], "end")) for each in (pa.concat_tables(parts), whole)
    ]
    assert both[0].sort_by(order).equals(both[1].sort_by(order))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("strategy", ["auto", "rows"])
def test_a_stream_takes_as_many_windows_as_are_allowed(strategy: str) -> None:
    query = Query(window.sliding(990, every=1), COUNT, time="t")
    stream = query.stream(strategy=strategy)
    stream.push({"t": [5]})
    assert stream.close().num_rows == query.run({"t": [5]}).num_rows == 990
    keys = {"t": [5] * 3000, "k": list(range(3000))}  # one window a row is no reason to refuse
    by_key = Query(window.tumbling(10), COUNT, key="k", time="t")
    stream = by_key.stream(strategy=strategy)
    stream.push(keys)
    assert stream.close().num_rows == by_key.run(keys).num_rows == 3000


@pytest.mark.usefixtures("few")
def test_a_long_gap_without_rows_is_refused_or_taken_in_steps() -> None:
    query = Query(window.tumbling(10), COUNT, time="t", emit_empty=True)
    far = 10 * 1500
    stream = query.stream()
    stream.push({"t": [1]})
    before = stream.snapshot()
    for refused in (lambda: stream.push({"t": [far]}), lambda: stream.advance(far), lambda: stream.advance(2**62)):
        with pytest.raises(TooManyWindowsError, match=r"window.tumbling\(10\).*they hold no row, and go on up to"):
            refused()
        assert stream.snapshot() == before
    with pytest.raises(TooManyWindowsError, match=r"window.tumbling\(10\).*up to the time 15000"):
        query.run({"t": [1, far]})
    parts = [stream.advance(far // 2), stream.push({"t": [far]}), stream.close()]
    assert sum(part.num_rows for part in parts) == 1501


@pytest.mark.usefixtures("few")
def test_arrays_are_refused_where_windows_between_rows_are_too_many() -> None:
    with pytest.raises(TooManyWindowsError, match="0 and 5000, and at most 1,000"):
        slide(np.arange(2.0), agg.sum("v"), range=10, slide=1, times=np.array([0, 5000]))


def test_the_limit_is_a_number() -> None:
    assert limits.MOST_WINDOWS == 100_000_000
    script = "import os; os.environ['MUNTIN_MOST_WINDOWS'] = 'many'; from muntin.windows import limits"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "InvalidArgumentError: MUNTIN_MOST_WINDOWS is 'many'; give a positive integer" in ended.stderr


@given(
    times=st.lists(st.integers(-60, 60), min_size=1, max_size=8),
    length=st.integers(1, 12),
    steps=st.integers(1, 5),
    offset=st.integers(-7, 7),
    growing=st.booleans(),
)
@settings(max_examples=examples(60))
def test_windows_are_counted_before_they_are_found(
    times: list[int], length: int, steps: int, offset: int, growing: bool
) -> None:
    kind = window.cumulative(length * steps, every=length, offset=offset)
    kind = kind if growing else window.sliding(length + steps, every=length, offset=offset)
    rows = {"t": times, "k": [time % 2 for time in times]}
    query = Query(kind, COUNT, key="k", time="t")
    stream = query.stream()
    stream.advance(min(times) - 1)
    stream.push(rows)  # some windows are due by it
    state = stream._state.resolved.strategies[0]
    lead = state.sets[0]
    _, sizes, slots = lead.slots()
    is_first = np.isin(np.arange(len(slots)), np.cumsum(sizes) - sizes)
    after = state.watermark
    for until in (after, after + 7, after + 100, END_OF_TIME):
        counted = state.shapes.count_due(lead.slices.low[slots], is_first, after, until)
        assert counted[0] == len(lead.find(lead.held(), (after, after), until).keys)


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize("kind", [window.delta("v", 10.0), window.frame(0, 0), window.tumbling(rows(1))], ids=repr)
def test_the_ends_of_int64_are_no_times(kind: Any, time: int) -> None:
    query = Query(kind, {"n": agg.count()}, time="t")
    stream = query.stream()
    stream.push({"t": [1], "v": [1.0]})
    before = stream.snapshot()
    for call in (query.run, stream.push):
        with pytest.raises(InvalidArgumentError, match=f"'t' goes from {time} to {time}"):
            call({"t": [time], "v": [1.0]})
    assert stream.snapshot() == before


NO_COUNT = np.timedelta64(5, "s")


@pytest.mark.parametrize(
    "call",
    [
        lambda: rows(NO_COUNT),
        lambda: slide([1, 2], agg.sum("v"), range=NO_COUNT),
        lambda: agg.top_k("v", NO_COUNT),
        lambda: window.delta("v", NO_COUNT),
    ],
)
def test_a_duration_of_numpy_is_no_number(call: Any) -> None:
    with pytest.raises(MuntinError, match="5"):
        call()


@pytest.mark.parametrize("name", ["sum", "mean", "std"])
def test_infinities_of_both_signs_make_nan_without_a_warning(name: str) -> None:
    values = np.array([1.0, np.inf, -np.inf])
    assert np.isnan(slide(values, getattr(agg, name)("v"), range=2)[-1])
