"""Means weighted by time against plain recomputation: in any order, grouping and unit, before 1970 and far apart."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import Query, agg, rows, window
from muntin.aggregators import Fiba, TwoStacks
from muntin.errors import ColumnTypeError, DefinitionError, InvalidArgumentError, MuntinError
from muntin.kernels.cache import uncompiled

Rows = list[tuple[int, float]]
LEAST, MOST = -(2**63), 2**63 - 1


def ewm(found: Rows, half_life: float) -> float | None:
    if not found:
        return None
    latest = max(t for t, _ in found)
    weights = [0.5 ** min(5000.0, (latest - t) / half_life) for t, _ in found]
    return math.fsum(w * v for w, (_, v) in zip(weights, found, strict=True)) / math.fsum(weights)


def time_weighted(found: Rows, end: int | None) -> float | None:
    """Return the mean, exactly: rows are in event order."""
    if not found:
        return None
    stops = [t for t, _ in found[1:]] + [found[-1][0] if end is None else max(end, found[-1][0])]
    lasted = [(stop - t, Fraction(v)) for (t, v), stop in zip(found, stops, strict=True)]
    whole = sum(d for d, _ in lasted)
    return float(sum(d * v for d, v in lasted) / whole) if whole else found[-1][1]


def near(ours: Any, truth: float | None) -> bool:
    if truth is None or ours is None:
        return ours is None and truth is None
    return math.isclose(ours, truth, rel_tol=1e-9, abs_tol=1e-9)


VALUES = st.integers(-1000, 1000).map(lambda v: v / 8)
TIMES = st.one_of(st.integers(-40, 40), st.integers(-(10**6), 10**6), st.sampled_from([-(2**61), 0, 2**61]))
ROWS = st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=12)


@given(ROWS, st.sampled_from([1, 3, 10**6, 2**40]), st.data())
@settings(max_examples=examples(100))
def test_merged_in_any_grouping(found: Rows, half_life: int, data: st.DataObject) -> None:
    found.sort(key=lambda row: row[0])
    decaying, lasting = agg.ewm_mean("v", half_life=half_life), agg.time_weighted_mean("v")
    for each, truth in ((decaying, ewm(found, half_life)), (lasting, time_weighted(found, None))):
        states = [each.lift(v, time=t) for t, v in found]
        if each.commutative:
            states = data.draw(st.permutations(states))
        while len(states) > 1:
            at = data.draw(st.integers(0, len(states) - 2))
            states[at : at + 2] = [each.combine(states[at], states[at + 1])]
        assert near(float(each.lower(states[0])), truth)


def test_times_at_the_ends_of_int64() -> None:
    for first, last in ((LEAST, MOST), (LEAST, LEAST + 1), (MOST - 1, MOST)):
        for each in (agg.ewm_mean("v", half_life=1), agg.time_weighted_mean("v")):
            held = [Fiba(each, compiled=False), TwoStacks(each, compiled=False)]
            for window_of in held:
                window_of.insert(first, 1.0)
                window_of.insert(last, 4.0)
            gap = last - first
            truth = 1.0 if each.name == "time_weighted_mean" else 4.0 if gap > 2000 else 3.0
            assert [window_of.query() for window_of in held] == [truth, truth]
    with np.errstate(over="raise", invalid="raise"):
        assert agg.ewm_mean("v", half_life=1).lower(
            agg.ewm_mean("v", half_life=1).combine(
                *(agg.ewm_mean("v", half_life=1).lift(2.0, time=t) for t in (0, MOST))
            )
        ) == pytest.approx(2.0)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.one_of(st.none(), VALUES)), min_size=1, max_size=30),
    st.integers(0, 3),
    st.data(),
)
@settings(max_examples=examples(60))
def test_every_window_in_run_and_stream(cells: list[tuple[int, Any]], cut: int, data: st.DataObject) -> None:
    """Of rows of equal time the last to arrive lasts; rows come in any order, in several pushes, over a restart."""
    table = pa.table(
        {"t": pa.array([t for t, _ in cells], pa.int64()), "v": pa.array([v for _, v in cells], pa.float64())}
    )
    windows = [window.tumbling(10), window.sliding(12, every=5), window.session(4), window.trailing(9)]
    windows += [window.tumbling(rows(3)), window.trailing(rows(3)), window.leading(7), window.trailing(9, delay=2)]
    asked = {"recent": agg.ewm_mean("v", half_life=5), "level": agg.time_weighted_mean("v"), "n": agg.count()}
    query = Query(windows, asked, time="t", watermark=1000, partial=True)
    in_order = sorted(cells, key=lambda cell: cell[0])
    with uncompiled():
        answers = query.run(table)
        stream, size = query.stream(), 1 + len(cells) // (cut + 1)
        for low in range(0, len(cells), size):
            stream.push(table.slice(low, size))
            stream = query.stream(stream.snapshot())
        closed = stream.close()
    exact = {
        i: (lambda t, w, i=i: w["start"] < t <= w["end"]) if i in (3, 7) else (lambda t, w: w["start"] <= t < w["end"])
        for i in (0, 1, 2, 3, 6, 7)
    }
    for row in answers.to_pylist():
        span = row["window"]
        if row["window_id"] in (4, 5):
            members = in_order[span["from_row"] : span["to_row"]]
        else:
            members = [cell for cell in in_order if exact[row["window_id"]](cell[0], span)]
        found = [(t, v) for t, v in members if v is not None]
        assert row["n"] == len(members)
        assert near(row["recent"], ewm(found, 5)), row
        assert near(row["level"], time_weighted(found, span["end"])), row

    def rounded(each: pa.Table) -> list[str]:
        return sorted(
            repr([f"{v:.9g}" if isinstance(v, float) else v for v in row.values()]) for row in each.to_pylist()
        )

    assert rounded(closed) == rounded(answers)


def test_over_counts_until_the_point() -> None:
    table = pa.table({"t": [0, 5, 6], "v": [1.0, 3.0, 9.0]})
    query = Query(window.trailing(20), {"level": agg.time_weighted_mean("v")}, time="t")
    with uncompiled():
        assert query.over(table)["level"].to_pylist() == [1.0, 1.0, pytest.approx(8 / 6)]
        at = query.over(table, at=pa.table({"t": [6, 10, -5, 100]}))["level"].to_pylist()
    assert at == [pytest.approx(8 / 6), pytest.approx((8 + 36) / 10), None, None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_half_lives_in_any_unit(unit: str) -> None:
    """The same moments, before 1970, in other units, give the same means."""
    seconds = np.array([-5_000, -4_000, -400, 0], "M8[s]")
    values = [8.0, 4.0, 2.0, 1.0]
    for half_life in ("1h", datetime.timedelta(hours=1), np.timedelta64(60, "m")):
        with uncompiled():
            times = seconds.astype(f"M8[{unit}]")
            ours = muntin.slide(values, agg.ewm_mean("v", half_life=half_life), range="1d", times=times)
            held = TwoStacks(agg.ewm_mean("v", half_life=half_life), compiled=False)
            held.bulk_insert(times, values)
        truth = ewm(list(zip(seconds.astype(int).tolist(), values, strict=True)), 3600)
        assert near(float(ours[-1]), truth)
        assert near(held.query(), truth)


def test_infinite_and_missing_values() -> None:
    with uncompiled():
        values = [math.inf, 1.0, 2.0]
        lasting = muntin.slide(values, agg.time_weighted_mean("v"), range=10, times=[0, 0, 4]).tolist()
        assert lasting[2] == 1.0  # what lasts no time counts for nothing
        assert muntin.slide([1, 2], agg.time_weighted_mean("v"), range=1).tolist() == [1.0, 2.0]
        assert muntin.slide([True, False], agg.ewm_mean("v", half_life=1), range=2).round(3).tolist() == [1.0, 0.333]
        assert muntin.slide(pa.array([None], pa.float64()), agg.time_weighted_mean("v"), range=1).to_pylist() == [None]
        by_condition = {"v": [1.0, 100.0, 3.0, 3.0], "ok": [True, False, True, True]}
        asked = agg.time_weighted_mean("v", where="ok")
        assert muntin.slide(by_condition, asked, range=10, times=[0, 1, 2, 4]).tolist() == [1.0, 1.0, 1.0, 2.0]


@agg.define(state={"n": "i8", "since": "i8"}, result="f8")
class rows_per_unit:
    """A rate until the window's end, as a user would write it."""

    def lift(v, *, time):
        return (1, time)

    def combine(a, b):
        return (a.n + b.n, a.since)

    def lower(s, *, end):
        return s.n * 1.0 if end is None else s.n / (end - s.since)


def test_an_own_aggregation_may_ask_for_the_end() -> None:
    query = Query(window.tumbling(10), {"rate": rows_per_unit("v")}, time="t")
    with uncompiled():
        assert query.run({"t": [0, 5, 18], "v": [1, 1, 1]})["rate"].to_pylist() == [0.2, 0.5]
        assert TwoStacks(rows_per_unit("v"), compiled=False).query() is None
        assert muntin.slide([1, 1, 1], rows_per_unit("v"), range=2).tolist() == [math.inf, 2.0, 2.0]


@pytest.mark.compiled
def test_compiled() -> None:
    chance = np.random.default_rng(2)
    times, values = np.cumsum(chance.integers(0, 5, 500)), chance.normal(size=500)
    asked = {"recent": agg.ewm_mean("v", half_life=20), "level": agg.time_weighted_mean("v")}
    ours = muntin.slide({"v": values}, asked, range=100, slide=10, times=times)
    with uncompiled():
        plain = muntin.slide({"v": values}, asked, range=100, slide=10, times=times)
    for name in asked:
        np.testing.assert_allclose(ours[name], plain[name], rtol=1e-12)


def test_what_is_refused() -> None:
    for wrong, message in {
        "0s": "half_life is '0s'; it must be positive",
        -3: "it must be positive",
        "1m": "'m' may mean minutes or months",
        "soon": "is no duration",
        None: "half_life is None; give a duration",
    }.items():
        with pytest.raises(DefinitionError, match=message):
            agg.ewm_mean("v", half_life=wrong)
    with pytest.raises(DefinitionError, match="needs the parameter 'half_life'"):
        agg.ewm_mean("v")
    hours = agg.ewm_mean("v", half_life="1h")
    integers = "ewm_mean: half_life is '1h', but the times are integers: give it as an integer in their unit"
    held = TwoStacks(hours, compiled=False)
    query = Query(window.tumbling(10), {"x": hours}, time="t")
    data = {"t": [1, 2], "v": [1.0, 2.0]}
    for call in (
        lambda: held.insert(1, 2.0),
        lambda: held.bulk_insert([1], [2.0]),
        lambda: muntin.slide([1.0], hours, range=2),
        lambda: query.run(data),
        lambda: query.stream().push(data),
    ):
        with pytest.raises(InvalidArgumentError, match=integers):
            call()
    held.insert(np.datetime64(0, "s"), 2.0)
    assert held.query() == 2.0
    for each in (hours, agg.time_weighted_mean("v")):
        with pytest.raises(ColumnTypeError, match="it takes floating, integer"):
            muntin.slide(["a"], each, range=2, times=np.zeros(1, "M8[s]"))

    @muntin.policies.define(level=agg.time_weighted_mean("v"))
    def high(whole, old):
        return whole.level > 1

    with pytest.raises(MuntinError, match="asks for the end of its window, which no policy knows"):
        muntin.aggregators.MonoidTree(agg.sum("v"), policy=high, compiled=False).insert(0, 1.0)
    with pytest.raises(DefinitionError, match="wrong.lift asks for end; only lower is told where a window ends"):

        @agg.define(state={"a": "f8", "b": "f8"}, result="f8")
        class wrong:
            def lift(v, *, end):
                return (v, v)

            def combine(a, b):
                return a

    with pytest.raises(DefinitionError, match="a lower that asks for end needs a state of several fields"):

        @agg.define(state="f8", result="f8")
        class narrow:
            def lift(v):
                return v

            def combine(a, b):
                return a

            def lower(s, *, end):
                return s

    with pytest.raises(DefinitionError, match="has no parameter 'span', which durations= names"):

        @agg.define(state="f8", durations=("span",))
        class unknown:
            def lift(v):
                return v

            def combine(a, b):
                return a


def test_ewm_mean_is_that_of_pandas() -> None:
    import pandas

    chance = np.random.default_rng(6)
    times = np.cumsum(chance.integers(1, 100, 200)).astype("M8[s]")
    values = chance.normal(size=200)
    theirs = pandas.Series(values).ewm(halflife="5min", times=pandas.Series(times)).mean()
    with uncompiled():
        ours = muntin.slide(values, agg.ewm_mean("v", half_life="5min"), range="100d", times=times)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


# ---------------------------------------------------------------- the end of a window, whatever its last row holds

LAST = {
    "null": ({"t": [0, 10, 20], "v": pa.array([1.0, 3.0, None])}, {}),
    "skipped by where": ({"t": [0, 10, 20], "v": [1.0, 3.0, 9.0], "ok": [True, True, False]}, {"where": "ok"}),
    "null by where": ({"t": [0, 10, 20], "v": [1.0, 3.0, 9.0], "ok": pa.array([True, True, None])}, {"where": "ok"}),
    "NaN, skipped": ({"t": [0, 10, 20], "v": [1.0, 3.0, math.nan]}, {"skip_nan": True}),
}
FRAMES = {
    "trailing rows": (window.trailing(rows(3)), [1.0, 1.0, 2.0]),
    "rows around": (window.frame(rows(2), rows(2)), [2.0, 2.0, 2.0]),
    "leading rows": (window.leading(rows(3)), [2.0, 3.0, None]),
    "rows before": (window.trailing(rows(3), closed="left"), [None, 1.0, 1.0]),
    "trailing": (window.trailing(25), [1.0, 1.0, 2.0]),
    "leading": (window.leading(25), [(10 + 45) / 25, 3.0, None]),
}


@pytest.mark.parametrize("what", LAST)
@pytest.mark.parametrize("name", FRAMES)
def test_a_value_lasts_until_the_end_of_the_window_in_every_engine(what: str, name: str) -> None:
    given, options = LAST[what]
    table = pa.table(given)
    frame, wanted = FRAMES[name]
    query = Query(frame, {"level": agg.time_weighted_mean("v", **options)}, time="t")
    with uncompiled():
        assert query.run(table)["level"].to_pylist() == wanted
        stream = query.stream()
        emitted = pa.concat_tables([stream.push(table), stream.close()]).sort_by("window_id")
        answers = muntin.latest(emitted)["level"].to_pylist()
        assert sorted(answers, key=repr) == sorted(wanted, key=repr)
        assert query.over(table)["level"].to_pylist() == wanted


@pytest.mark.parametrize("what", LAST)
def test_a_value_lasts_until_the_end_of_the_window_in_slide(what: str) -> None:
    given, options = LAST[what]
    table = pa.table({**given, "k": ["a", "a", "a"]})
    level = agg.time_weighted_mean("v", **options)
    for asked in ({"range": 25}, {"range": 25, "by": "k"}, {"range": 25, "closed": "both"}):
        assert muntin.slide(table, level, times="t", **asked).to_pylist() == [1.0, 1.0, 2.0]
    assert muntin.slide(table, level, times="t", range=25, slide=25).to_pylist() == [(10 + 45) / 25]
    for asked in ({}, {"by": "k"}):  # times are numbers of rows
        assert muntin.slide(table, level, range=3, **asked).to_pylist() == [1.0, 1.0, 2.0]


POINTS = {"t": [5, 20, 40]}


@pytest.mark.parametrize(
    ("frame", "wanted"),
    [
        (window.trailing(rows(2)), [1.0, 2.0, 2.5]),
        (window.trailing(rows(2), closed="left"), [1.0, 2.0, 2.5]),
        (window.trailing(rows(2), delay=rows(1)), [None, 1.0, 1.0]),
        (window.frame(rows(2), rows(1)), [1.0, 2.0, 2.5]),
        (window.leading(rows(2)), [3.0, None, None]),
        (window.trailing(100), [1.0, 2.0, 2.5]),
    ],
    ids=repr,
)
def test_a_value_lasts_until_the_point(frame: Any, wanted: list[Any]) -> None:
    table = {"t": [0, 10], "v": [1.0, 3.0]}
    query = Query(frame, {"level": agg.time_weighted_mean("v")}, time="t")
    with uncompiled():
        assert query.over(table, at=POINTS)["level"].to_pylist() == wanted
        assert query.stream(history=table).ask(POINTS)["level"].to_pylist() == wanted
        one_by_one = [query.stream(history=table).ask({"t": [t]})["level"].to_pylist() for t in POINTS["t"]]
        assert one_by_one == [[each] for each in wanted]


def test_a_frame_by_rows_ends_with_a_null_row_at_a_point_before_it() -> None:
    table = pa.table({"t": [0, 10, 20], "v": pa.array([1.0, 3.0, None])})
    query = Query(window.leading(rows(3)), {"level": agg.time_weighted_mean("v")}, time="t")
    with uncompiled():
        assert query.over(table, at={"t": [-5, 15]})["level"].to_pylist() == [2.0, None]
