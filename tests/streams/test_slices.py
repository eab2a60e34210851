"""Slices against the brute-force oracle, without a stream around them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from sampling import examples
from streams.driver import Driver

from muntin.kernels import cache
from muntin.streams.mergers import merger_names
from muntin.streams.slices.slices import Slices

KINDS = st.sampled_from(["sliding", "tumbling", "cumulative", "session"])
COMMUTATIVE = ("n", "values", "total", "high", "first", "last", "where", "median", "distinct", "marked distinct")


@st.composite
def conversations(draw: Any) -> tuple[oracle.Query, list[Any]]:
    query = draw(strategies.queries(KINDS))
    names = [name for name in query.aggregates if name in COMMUTATIVE] or ["n"]
    query = replace(query, aggregates={name: strategies.AGGREGATES[name] for name in names}, emit_empty=False)
    table = draw(strategies.tables())
    rows = draw(strategies.disordered(table, query.delay + draw(st.sampled_from([0, 5, 20]))))
    return query, draw(strategies.advances(draw(strategies.cuts(rows))))


def shown(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


@pytest.mark.parametrize("merge", [name for name in merger_names() if name not in ("slick_deque", "subtract_on_evict")])
@given(conversations(), st.data())
@settings(max_examples=examples(25))
def test_slices_say_what_the_oracle_says(merge: str, conversation: Any, data: Any) -> None:
    query, steps = conversation
    with cache.uncompiled():
        driver = Driver(query, lambda plan: Slices(replace(plan, merge=merge)))
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
        assert not len(driver.strategy.held_keys())
