"""Windows by rows in slices against the brute-force oracle, without a stream around them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from sampling import examples, some
from streams.driver import Driver

from muntin import Query, agg, rows, window
from muntin.aggregators.states import counting
from muntin.columns import read_column
from muntin.durations import BEFORE_TIME
from muntin.kernels import cache
from muntin.query.plan import Plan
from muntin.streams.buffer.tuples import Tuples
from muntin.streams.plan import Forced, strategies_for
from muntin.streams.row_slices.counted import Counted
from muntin.streams.row_slices.due import FEW
from muntin.streams.strategy import Batch
from muntin.types import FLOAT64, INT64

AGGREGATES = ("n", "values", "total", "high", "all", "first", "last", "where", "marked", "marked high")


@st.composite
def queries(draw: Any) -> oracle.Query:
    query = draw(strategies.queries(st.just("sliding rows"), 4))
    names = draw(st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True))
    longer = [each for each in query.windows if each.range.count > 1]
    return replace(
        query,
        windows=longer or query.windows[:2],
        aggregates={name: strategies.AGGREGATES[name] for name in names},
    )


@st.composite
def conversations(draw: Any) -> tuple[oracle.Query, list[Any]]:
    query = draw(queries())
    table = draw(strategies.tables(40))
    shuffled = draw(strategies.disordered(table, query.delay + draw(st.sampled_from([0, 5, 20, 40]))))
    return query, draw(strategies.advances(draw(strategies.cuts(shuffled))))


def shown(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


def play(query: oracle.Query, steps: list[Any], data: Any) -> None:
    driver = Driver(query, Counted)
    expected = oracle.Stream(query)
    for step in steps:
        if data.draw(st.integers(0, 4)) == 0:
            driver.restart()
        if isinstance(step, strategies.Push):
            assert shown(driver.push(step.rows)) == shown(expected.push(step.rows)), step
        else:
            assert shown(driver.advance(step.watermark)) == shown(expected.advance(step.watermark)), step
        assert driver.late == expected.late
    assert shown(driver.close()) == shown(expected.close())
    assert driver.strategy.metrics()["kept"] == driver.strategy.metrics()["slices"] == 0


@given(conversations(), st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_in_row_numbers_say_what_the_oracle_says(conversation: Any, data: Any) -> None:
    with cache.uncompiled():
        play(*conversation, data)


@pytest.mark.parametrize("name", some(["total", "values", "high"], 2))  # to compile one takes seconds
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.compiled
def test_compiled_kernels_say_the_same(name: str, data: Any) -> None:
    query, steps = data.draw(conversations())
    play(replace(query, aggregates={name: strategies.AGGREGATES[name]}), steps, data)


def test_windows_of_one_row_are_numbered_apart() -> None:
    plan = planned({"total": agg.sum("v")}, [window.tumbling(rows(1)), window.tumbling(rows(5))])
    assert "one row" in str(Counted.can(plan))
    kept = strategies_for(plan, Forced())
    assert [type(each) for each in kept] == [Counted, Counted]


@pytest.mark.parametrize(("length", "every", "few"), [(12, 4, True), (40, 1, False), (41, 3, False), (5, 1, True)])
def test_windows_of_few_slices_need_no_tree_and_say_the_same(length: int, every: int, few: bool) -> None:
    query = Query(window.sliding(rows(length), every=rows(every)), {"s": agg.sum("v"), "h": agg.max("v")}, time="t")
    values = np.random.default_rng(7).integers(0, 100, 120)
    stream = query.stream()
    answers = pa.concat_tables(
        [*(stream.push({"t": range(i, i + 30), "v": values[i : i + 30]}) for i in range(0, 120, 30)), stream.close()]
    )
    begins = range(0, 120 - length + 1, every)
    assert answers["s"].to_pylist() == [int(values[i : i + length].sum()) for i in begins]
    assert answers["h"].to_pylist() == [int(values[i : i + length].max()) for i in begins]
    (strategy,) = stream._state.resolved.strategies
    assert isinstance(strategy, Counted)
    assert (strategy.shapes.most_slices <= FEW) is few


def test_other_windows_and_sorted_values_are_left_to_others() -> None:
    assert "nor sliding by rows" in str(Counted.can(planned({"n": agg.count()}, [window.tumbling(5)])))
    assert "in order" in str(Counted.can(planned({"m": agg.median("v")}, [window.tumbling(rows(5))])))


# ---------------------------------------------------------------- early results


@given(conversations(), st.data())
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_early_results_are_those_of_the_tuple_buffer(conversation: Any, data: Any) -> None:
    query, steps = conversation
    with cache.uncompiled():
        drivers = [Driver(query, lambda plan, kind=kind: kind(replace(plan, early=True))) for kind in (Counted, Tuples)]
        for step in steps:
            early = data.draw(st.booleans())
            said = [shown(answered(driver, step, early)) for driver in drivers]
            assert said[0] == said[1], step
        assert shown(drivers[0].close()) == shown(drivers[1].close())


def answered(driver: Driver, step: Any, early: bool) -> list[Any]:
    """Play a step, and look at all windows after it where early results are asked for."""
    results = driver.push(step.rows) if isinstance(step, strategies.Push) else driver.advance(step.watermark)
    if early:
        found = driver.strategy.emit(driver.watermark, driver.horizon, early=True)
        results += [result for each in found for result in driver._results(each)]
    return results


# ---------------------------------------------------------------- rows in order


@given(queries(), strategies.tables(40), st.data())
@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_in_order_are_not_kept_once_they_are_in_slices(query: Any, table: Any, data: Any) -> None:
    with cache.uncompiled():
        driver = Driver(query, lambda plan: Counted(replace(plan, ordered=True)))
        expected = oracle.Stream(query)
        for push in data.draw(strategies.cuts(table)):
            assert shown(driver.push(push.rows)) == shown(expected.push(push.rows))
            waiting = sum(row["t"] > driver.watermark for row in table[: driver.arrived])
            assert driver.strategy.metrics()["kept"] == waiting
        assert shown(driver.close()) == shown(expected.close())


# ---------------------------------------------------------------- what a late row costs


def planned(aggregates: Any, windows: list[Any], **options: Any) -> Plan:
    return Plan(dict(enumerate(windows)), aggregates, {"v": INT64}, INT64, **options)


def cost_of_a_late_row(aggregation: Any, values: list[int]) -> tuple[int, dict[str, int]]:
    """Put 1000 rows into 10 slices, and one more after the first 50: count what it combines and inverts."""
    plan = planned({"x": aggregation}, [window.tumbling(rows(100))], lateness=10_000)
    with cache.uncompiled():
        counted = Counted(plan)
        (only,) = counted.sets
        counter = [0]
        only.folding = counting(only.binding, only.kernels, counter)
        times = np.arange(1000) * 2
        counted.take(batch(times, values), BEFORE_TIME)
        counted.emit(1998, 1998)
        counter[0] = 0
        counted.take(batch(np.array([99]), [5]), 1998)
        spent = counter[0]
        counted.check()
    return spent, counted.metrics()


def batch(times: Any, values: list[int]) -> Batch:
    return Batch(np.zeros(len(times), np.int64), times, {"v": read_column(np.array(values), "v")})


def test_a_late_row_takes_a_combine_and_an_invert_for_each_slice_after_it() -> None:
    spent, metrics = cost_of_a_late_row(agg.sum("v"), list(range(1000)))
    assert spent == 20
    assert metrics["shifts"] == 10


def test_max_is_not_folded_anew_where_a_row_leaves_that_is_not_the_greatest() -> None:
    falling = [1000 - i for i in range(1000)]
    rising = list(range(1000))
    assert cost_of_a_late_row(agg.max("v"), falling)[0] <= 40  # a look at the row that leaves, one that comes
    assert cost_of_a_late_row(agg.max("v"), rising)[0] > 900  # the greatest leaves every slice


def test_others_are_folded_anew_from_the_late_row_on() -> None:
    assert 900 < cost_of_a_late_row(agg.product("v"), [1] * 1000)[0] <= 1000
    assert 900 < cost_of_a_late_row(agg.collect("v"), [1] * 1000)[0] <= 1000


def test_disorder_within_the_watermark_moves_nothing() -> None:
    plan = planned({"x": agg.sum("v")}, [window.tumbling(rows(7))])
    with cache.uncompiled():
        counted = Counted(plan)
        times = np.array([(i ^ 3) for i in range(200)])
        for i in range(0, 200, 10):
            counted.take(batch(times[i : i + 10], [1] * 10), i - 8 if i else BEFORE_TIME)
            counted.emit(i + 2, i + 9)
    assert counted.metrics()["shifts"] == 0
    assert counted.metrics()["kept"] < 30


def test_floats_that_lost_their_digits_are_folded_anew() -> None:
    plan = planned({"x": agg.sum("v")}, [window.tumbling(rows(3))], lateness=100)
    plan = replace(plan, types={"v": FLOAT64})
    with cache.uncompiled(), np.errstate(all="ignore"):
        counted = Counted(plan)
        values = [0.1, 0.2, float("inf"), 0.3, 1e300, 0.5]
        columns = {"v": read_column(np.array(values), "v")}
        counted.take(Batch(np.zeros(6, np.int64), np.arange(6) * 2, columns), BEFORE_TIME)
        counted.emit(10, 10)
        counted.take(Batch(np.zeros(1, np.int64), np.array([1]), {"v": read_column(np.array([0.4]), "v")}), 10)
        (revised,) = counted.emit(10, 10)
    assert revised.aggregates["x"].to_pylist() == [pytest.approx(0.7), float("inf")]
    assert revised.revision.tolist() == [1, 1]
