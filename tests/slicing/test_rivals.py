"""The strategies that slicing is measured against: each answers, call by call, what the oracle does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from slicing.driver import Driver

from muntin.kernels.cache import uncompiled
from muntin.slicing.buckets import Buckets
from muntin.slicing.tuple_tree import TupleTree

TIMES = ["sliding", "tumbling", "cumulative", "own, context free"]
KINDS: dict[Any, list[str]] = {Buckets: [*TIMES, "session"], TupleTree: [*TIMES, "session"]}


def play(driver: Driver, data: st.DataObject) -> None:
    """Play rows in any order, cut anywhere, with watermarks between them; save and load on the way."""
    early = data.draw(st.booleans())
    table = data.draw(strategies.tables())
    delay = data.draw(st.sampled_from([0, 5, 20]))
    rows = data.draw(st.one_of(strategies.disordered(table, delay), st.permutations(table)))
    for step in data.draw(strategies.advances(data.draw(strategies.cuts(rows)))):
        driver.step(step)
        if data.draw(st.integers(0, 4)) == 0:
            driver.reload()
        if early and data.draw(st.integers(0, 2)) == 0:
            driver.ahead()
    driver.close()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150)
def test_random_queries(kind: Any, data: st.DataObject) -> None:
    with uncompiled():
        play(Driver(data.draw(strategies.queries(st.sampled_from(KINDS[kind]))), kind), data)


SOME = {
    "compiled": ["total", "high", "values"],
    "objects beside numbers": ["total", "all", "median"],
    "in the order of time": ["first", "last"],
}


@pytest.mark.parametrize("names", SOME.values(), ids=SOME)
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=15)
def test_compiled(kind: Any, names: list[str], data: st.DataObject) -> None:
    query = data.draw(strategies.queries(st.sampled_from(KINDS[kind])))
    query = replace(query, aggregates={name: strategies.AGGREGATES[name] for name in names})
    play(Driver(query, kind), data)
