"""Windows by rows in slices against the brute-force oracle, without a stream around them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from slicing.driver import Driver

from muntin.kernels import cache
from muntin.slicing.counted import Counted

AGGREGATES = ("n", "values", "total", "high", "all", "first", "last", "where")


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
    rows = draw(strategies.disordered(table, query.delay + draw(st.sampled_from([0, 5, 20, 40]))))
    return query, draw(strategies.advances(draw(strategies.cuts(rows))))


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
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_in_row_numbers_say_what_the_oracle_says(conversation: Any, data: Any) -> None:
    with cache.uncompiled():
        play(*conversation, data)
