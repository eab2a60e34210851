"""The strategies that slicing is measured against: each answers, call by call, what the oracle does."""

from __future__ import annotations

import doctest
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rivals
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import definitions, strategies
from rivals.buckets import Buckets
from rivals.cutty import Cutty
from rivals.pairs import Pairs
from rivals.tuple_tree import TupleTree
from sampling import examples
from streams.duel import Duel

from muntin import agg, window
from muntin.durations import BEFORE_TIME
from muntin.errors import InvalidArgumentError, OutOfOrderError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.query.plan import Plan
from muntin.streams.plan import STRATEGIES, register
from muntin.streams.strategy import Batch
from muntin.types import INT64

TIMES = ["sliding", "tumbling", "cumulative", "own, context free"]
KINDS: dict[Any, list[str]] = {
    Buckets: [*TIMES, "session"],
    TupleTree: [*TIMES, "session", "trailing", "sliding rows", "trailing rows"],
    Pairs: ["sliding", "tumbling"],
    Cutty: TIMES,
}
ORDERED = (Pairs, Cutty)


def play(driver: Duel, data: st.DataObject) -> None:
    """Play rows in any order, cut anywhere, with watermarks between them; save and load on the way."""
    table = data.draw(strategies.tables())
    delay = data.draw(st.sampled_from([0, 5, 20]))
    rows = data.draw(st.one_of(strategies.disordered(table, delay), st.permutations(table)))
    if driver.kind in ORDERED:
        rows = table
    for step in data.draw(strategies.advances(data.draw(strategies.cuts(rows)))):
        driver.step(step)
        if data.draw(st.integers(0, 4)) == 0:
            driver.reload()
        if driver.strategy.plan.early and data.draw(st.integers(0, 2)) == 0:
            driver.ahead()
    driver.close()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_random_queries(kind: Any, data: st.DataObject) -> None:
    with uncompiled():
        query = data.draw(strategies.queries(st.sampled_from(KINDS[kind])))
        early = not query.emit_empty and data.draw(st.booleans())
        play(Duel(query, kind, ordered=kind in ORDERED, early=early), data)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(15))
@pytest.mark.compiled
def test_compiled(kind: Any, data: st.DataObject) -> None:
    names = ["total", "high", "values"]
    query = data.draw(strategies.queries(st.sampled_from(KINDS[kind])))
    query = replace(query, aggregates={name: strategies.AGGREGATES[name] for name in names})
    play(Duel(query, kind, ordered=kind in ORDERED), data)


def plan(definition: Any, **words: Any) -> Plan:
    return Plan({0: definition.resolve(INT64)}, {"n": agg.count()}, {}, INT64, **words)


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_is_refused(kind: Any) -> None:
    for definition in (window.delta("km", 10), window.punctuated("mark"), definitions.Silence(3)):
        reason = kind.can(plan(definition, ordered=True))
        assert repr(definition) in reason
        assert "take the strategy" in reason
        with pytest.raises(UnsupportedOperationError, match="take the strategy"):
            kind(plan(definition, ordered=True))
    assert kind.can(plan(window.tumbling(5), ordered=True)) is None


@pytest.mark.parametrize("kind", ORDERED)
def test_rows_out_of_order_are_refused_and_change_nothing(kind: Any) -> None:
    assert "in order" in kind.can(plan(window.tumbling(5)))
    strategy = kind(plan(window.tumbling(5), ordered=True))
    strategy.take(Batch(np.array([0, 0]), np.array([1, 4]), {}), BEFORE_TIME)
    before = {name: each.tolist() for name, each in strategy.save().items()}
    for times in ([3, 9], [5, 4]):
        with pytest.raises(OutOfOrderError, match="take the strategy"):
            strategy.take(Batch(np.array([0, 0]), np.array(times), {}), BEFORE_TIME)
    assert {name: each.tolist() for name, each in strategy.save().items()} == before
    (answers,) = strategy.emit(5, 5)
    assert answers.aggregates["n"].to_pylist() == [2]
    assert strategy.held_keys().tolist() == []


def test_slices_are_as_few_as_said() -> None:
    """Of windows of 10 every 4, Pairs cuts twice in each slide and Cutty once; the tree keeps every row."""
    times = np.arange(40)
    slices = {}
    for kind in (Pairs, Cutty, TupleTree):
        strategy = kind(plan(window.sliding(10, every=4), ordered=True))
        strategy.take(Batch(np.zeros(40, np.int64), times, {}), BEFORE_TIME)
        found = strategy.metrics()
        slices[kind] = found.get("slices", found.get("kept"))
    assert slices == {Pairs: 20, Cutty: 10, TupleTree: 40}


@pytest.mark.parametrize("kind", KINDS)
def test_long_gaps_cost_nothing(kind: Any) -> None:
    strategy = kind(plan(window.sliding(3, every=1), ordered=True, lateness=2**40))
    strategy.take(Batch(np.zeros(2, np.int64), np.array([0, 2**40]), {}), BEFORE_TIME)
    answers = strategy.emit(2**41 - 10, 2**41)
    assert sorted(end for each in answers for end in each.end.tolist()) == [1, 2, 3, 2**40 + 1, 2**40 + 2, 2**40 + 3]


@pytest.mark.parametrize("kind", KINDS)
def test_examples(kind: Any) -> None:
    found = doctest.testmod(sys.modules[kind.__module__])
    assert found.attempted
    assert not found.failed


def test_every_one_is_registered() -> None:
    assert set(rivals.STRATEGIES.values()) == set(KINDS)
    assert {name: STRATEGIES[name] for name in rivals.STRATEGIES} == rivals.STRATEGIES
    for name in ("auto", "slices", "rows"):
        with pytest.raises(InvalidArgumentError, match=f"{name!r} is taken; register Buckets"):
            register(name, Buckets)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_settled_is_let_go(kind: Any) -> None:
    strategy = kind(plan(window.sliding(10, every=5), ordered=True, lateness=3))
    for push in range(50):
        times = np.arange(100 * push, 100 * push + 100)
        strategy.take(Batch(times % 7, times, {}), times[0])
        strategy.emit(int(times[-1]), int(times[-1]))
        assert strategy.metrics()["bytes"] < 200_000
        strategy.check()
    assert strategy.held_keys().tolist() == [*range(7)]
    strategy.emit(6000, 6000)
    assert strategy.held_keys().tolist() == []
