"""Slices of aggregations that do not commute, against the brute-force oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queries import definitions, oracle, strategies
from slicing.driver import Driver

from muntin import agg
from muntin.kernels import cache
from muntin.slicing.slices import Slices

KINDS = ("sliding", "tumbling", "cumulative", "session", "session")


@agg.define(state={"a": "i8", "b": "i8"}, result="i8")
class digits:
    """Affine maps, composed: the simplest group that does not commute."""

    def lift(v):
        return (3, v)

    def combine(a, b):
        return (a.a * b.a % 65537, (a.b * b.a + b.b) % 65537)

    def lower(s):
        return s.b


AGGREGATES: dict[str, Any] = {
    "all": agg.collect("v"),
    "text": agg.concat("v", "-"),
    "run": agg.longest_increasing_run("v"),
    "digits": digits("km"),
    "n": agg.count(),
    "first": agg.first("v"),
    "median": agg.median("v"),
}


@st.composite
def conversations(draw: Any, kinds: Any = KINDS) -> tuple[oracle.Query, list[Any]]:
    query = draw(strategies.queries(st.sampled_from(kinds)))
    names = draw(st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=3, unique=True))
    query = replace(query, aggregates={name: AGGREGATES[name] for name in names}, emit_empty=False)
    table = draw(strategies.tables())
    delay = query.delay + draw(st.sampled_from([0, 5, 20]))
    rows = draw(st.one_of(strategies.disordered(table, delay), st.permutations(table)))
    return query, draw(strategies.advances(draw(strategies.cuts(rows))))


def shown(results: list[Any]) -> list[str]:
    return sorted(repr(plain(result)) for result in results)


def plain(result: oracle.Result) -> oracle.Result:
    def tupled(value: Any) -> Any:
        if isinstance(value, dict | tuple):
            return tuple(map(tupled, value.values() if isinstance(value, dict) else value))
        return value.item() if isinstance(value, np.generic) else value

    return replace(result, aggregates={name: tupled(value) for name, value in result.aggregates.items()})


def play(query: oracle.Query, steps: list[Any], make: Any, restarts: Any = frozenset()) -> Driver:
    """Play steps to the oracle and to a strategy: they must say the same after each."""
    driver, expected = Driver(query, make), oracle.Stream(query)
    for number, step in enumerate(steps):
        if number in restarts:
            driver.restart()
        if isinstance(step, strategies.Push):
            assert shown(driver.push(step.rows)) == shown(expected.push(step.rows)), step
        else:
            assert shown(driver.advance(step.watermark)) == shown(expected.advance(step.watermark)), step
        assert driver.late == expected.late
    assert shown(driver.close()) == shown(expected.close())
    assert not len(driver.strategy.held_keys())
    assert driver.strategy.metrics()["kept"] == 0
    return driver


@pytest.mark.parametrize("tree", [False, True])
@given(conversations(), st.sets(st.integers(0, 30)))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_say_what_the_oracle_says(tree: bool, conversation: Any, restarts: Any) -> None:
    with cache.uncompiled():
        play(*conversation, lambda plan: Slices(replace(plan, merge="flat_fat" if tree else "lazy")), restarts)


@st.composite
def delegated(draw: Any) -> Any:
    """Built-in windows, and ones with pauses, of which only the edges are known."""
    return definitions.Delegated(draw(st.one_of(strategies.sliding(), strategies.cumulative())))


@pytest.mark.parametrize("tree", [False, True])
@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_own_windows_share_slices(tree: bool, data: Any) -> None:
    query, steps = data.draw(conversations(("own, context free", "sliding", "session")))
    own = data.draw(st.lists(st.one_of(delegated(), strategies.KINDS["own, context free"]), min_size=1, max_size=2))
    alone = data.draw(st.booleans())
    query = replace(query, windows=own if alone else [*query.windows, *own])
    with cache.uncompiled():
        play(
            query,
            steps,
            lambda plan: Slices(replace(plan, merge="flat_fat" if tree else "lazy")),
            data.draw(st.sets(st.integers(0, 30))),
        )
