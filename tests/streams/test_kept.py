"""Slices of aggregations that do not commute, against the brute-force oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queries import definitions, oracle, strategies
from sampling import examples
from streams.driver import Driver

from muntin import agg, window
from muntin.errors import InvariantError
from muntin.kernels import cache
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.slices import Slices

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
        if number + 1 in restarts and isinstance(step, strategies.Push):
            undo_of(driver, step.rows)
        if isinstance(step, strategies.Push):
            assert shown(driver.push(step.rows)) == shown(expected.push(step.rows)), step
        else:
            assert shown(driver.advance(step.watermark)) == shown(expected.advance(step.watermark)), step
        assert driver.late == expected.late
    assert shown(driver.close()) == shown(expected.close())
    assert not len(driver.strategy.held_keys())
    assert driver.strategy.metrics()["kept"] == 0
    return driver


def undo_of(driver: Driver, rows: list[Any]) -> None:
    """Push rows, and take that back."""
    before = {**vars(driver), "keys": list(driver.keys), "late": list(driver.late)}
    restore = driver.strategy.restore_point()
    driver.push(rows)
    restore()
    driver.__dict__.update(before)
    driver.strategy.check()


@pytest.mark.parametrize("tree", [False, True])
@given(conversations(), st.sets(st.integers(0, 30)))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_say_what_the_oracle_says(tree: bool, conversation: Any, restarts: Any) -> None:
    with cache.uncompiled():
        play(*conversation, lambda plan: Slices(replace(plan, merge="flat_fat" if tree else "lazy")), restarts)


@st.composite
def delegated(draw: Any) -> Any:
    """Built-in windows, and ones with pauses, of which only the edges are known."""
    return definitions.Delegated(draw(st.one_of(strategies.sliding(), strategies.cumulative())))


@pytest.mark.parametrize("tree", [False, True])
@given(st.data())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
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


@st.composite
def crowds(draw: Any) -> tuple[oracle.Query, list[Any]]:
    """Rows close together in any order, sessions that soon refuse them, long windows that do not; no two values equal.

    So slices are joined between the rows of a push, and rows that a session refused lie within other slices.
    """
    sessions = draw(st.lists(st.integers(1, 6).map(window.session), min_size=1, max_size=2))
    long = draw(st.lists(st.sampled_from([window.tumbling(60), window.sliding(40, every=20)]), max_size=1))
    query = oracle.Query(
        [*sessions, *long],
        draw(st.sampled_from([{"digits": digits("v")}, {"all": agg.collect("v")}])),
        watermark=draw(st.sampled_from([0, 5, 40])),
        allowed_lateness=draw(st.sampled_from([0, 0, 4])),
    )
    times = draw(st.lists(st.integers(0, 30), min_size=4, max_size=16))
    rows = [row(t, i) for i, t in enumerate(times)]
    steps = draw(st.one_of(strategies.cuts(rows), st.just([strategies.Push(rows)])))
    return query, draw(strategies.advances(steps))


@pytest.mark.parametrize("tree", [False, True])
@given(crowds(), st.sets(st.integers(0, 30), max_size=2))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_between_rows(tree: bool, conversation: Any, restarts: Any) -> None:
    with cache.uncompiled():
        play(*conversation, lambda plan: Slices(replace(plan, merge="flat_fat" if tree else "lazy")), restarts)


def row(t: int, v: int, k: str = "a") -> dict[str, Any]:
    return {"t": t, "k": k, "v": v, "km": v, "mark": False}


def kept_set(driver: Driver) -> KeptSet:
    (found,) = (each for each in driver.strategy.sets if isinstance(each, KeptSet))
    return found


def test_a_row_that_a_session_refused_is_within_another_slice() -> None:
    """The session [10, 19) is settled when 12 comes, but the window [0, 100) takes it: 10 and 14 are one slice."""
    query = oracle.Query([window.session(5), window.tumbling(100)], {"all": agg.collect("v")})
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(10, 1), row(14, 3)])
        driver.advance(20)
        driver.push([row(12, 2)])
        kept = kept_set(driver)
        found = kept.find(np.array([0]), (0, 0), 100)
        assert found.definitions.tolist() == [0, 1]
        assert kept._entangled(found).tolist() == [0]
        (result,) = driver.close()
    assert result.aggregates["all"] == [1, 2, 3]


@pytest.mark.parametrize("times", [[0, 4, 2, 3], [0, 6, 3, 4, 5], [9, 5, 7, 6, 8]])
def test_a_row_comes_between_those_of_slices_that_have_just_become_one(times: list[int]) -> None:
    query = oracle.Query([window.session(3)], {"all": agg.collect("v")}, watermark=40)
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(t, t) for t in times])
        (result,) = driver.close()
    assert result.aggregates["all"] == sorted(times)


@pytest.mark.parametrize("tree", [False, True])
def test_a_slice_is_folded_anew_only_when_it_is_asked_for(tree: bool) -> None:
    windows = [window.tumbling(10), window.sliding(40, every=10)]
    query = oracle.Query(windows, {"digits": digits("v"), "all": agg.collect("v")}, watermark=100)
    with cache.uncompiled():
        driver = Driver(query, lambda plan: Slices(replace(plan, merge="flat_fat" if tree else "lazy")))
        for t in (1, 3, 11, 2, 12, 5, 4):
            driver.push([row(t, t)])
        kept, objects = driver.strategy.sets
        assert kept.rows.mixed.sum() == 1
        assert objects.made.sum() == 0
        assert driver.strategy.metrics()["kept"] == 14
        results = driver.advance(10)
        assert [each.aggregates["all"] for each in results] == [[1, 2, 3, 4, 5]] * 2
        assert kept.rows.mixed.sum() == 0
        assert objects.made.sum() == 1
        driver.push([row(11, 13), row(11, 14)])
        assert {tuple(each.aggregates["all"]) for each in driver.advance(20)} == {
            (11, 13, 14, 12),
            (1, 2, 3, 4, 5, 11, 13, 14, 12),
        }


def test_no_rows_are_kept_where_order_was_promised() -> None:
    query = oracle.Query([window.tumbling(10)], {"all": agg.collect("v"), "n": agg.count()})
    with cache.uncompiled():
        driver = Driver(query, lambda plan: Slices(replace(plan, ordered=True)))
        driver.push([row(1, 1), row(2, 2)])
        assert driver.strategy.metrics()["kept"] == 0
        (result,) = driver.close()
    assert result.aggregates == {"all": [1, 2], "n": 2}


def test_rows_that_are_gone_make_room() -> None:
    query = oracle.Query([window.tumbling(10)], {"run": agg.longest_increasing_run("v")}, key=("k",))
    with cache.uncompiled():
        driver = Driver(query, Slices)
        for t in range(0, 2000, 5):
            results = driver.push([row(t, 3, "a"), row(t - 1, 2, "b"), row(t - 2, 1, "a")])
            assert all(each.aggregates["run"]["length"] in (1, 2) for each in results)
        rows = kept_set(driver).rows
        assert len(rows) < 20
        assert len(rows.times) < 1000


def test_check_sees_a_state_that_is_not_that_of_its_rows() -> None:
    query = oracle.Query([window.tumbling(10)], {"digits": digits("v")})
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(1, 1), row(2, 2)])
        kept = kept_set(driver)
        kept.states[kept.slots()[2][0]]["p0_b"] += 1
        with pytest.raises(InvariantError, match="not that of its rows"):
            driver.strategy.check()


def test_check_sees_two_slices_of_one_name() -> None:
    query = oracle.Query([window.tumbling(10)], {"digits": digits("v")}, watermark=100)
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(1, 1), row(2, 2), row(11, 1)])
        kept = kept_set(driver)
        kept.slices.tag[kept.slots()[2]] = 0
        with pytest.raises(InvariantError, match="one name"):
            driver.strategy.check()


@pytest.mark.compiled
def test_compiled() -> None:
    """Slices and kept rows in compiled kernels, for windows of every kind that slices answer."""
    random = np.random.default_rng(3)
    times = np.sort(random.integers(-50, 400, 300)) + 0
    order = np.argsort(times + random.integers(0, 15, 300), kind="stable")
    rows = [row(int(times[i]), int(random.integers(0, 20)), "abc"[i % 3]) for i in order]
    query = oracle.Query(
        [window.tumbling(10), window.session(3), definitions.Shifts()],
        {"run": AGGREGATES["run"], "digits": AGGREGATES["digits"]},
        key=("k",),
        watermark=4,
        allowed_lateness=20,
    )
    steps = [strategies.Push(rows[i : i + 25]) for i in range(0, 300, 25)]
    play(query, steps, lambda plan: Slices(replace(plan, merge="flat_fat")), {3, 7})


class Counted(window.ContextFree):
    """Windows [10 k, 10 k + 30), that count how often they are asked."""

    def __init__(self) -> None:
        self.asked = 0

    def next_edge(self, t: int) -> int:
        self.asked += 1
        return t - t % 10 + 10

    def ended(self, previous: int, watermark: int) -> Any:
        self.asked += 1
        return [(end - 30, end) for end in range(previous - previous % 10 + 10, watermark + 1, 10)]


@pytest.mark.slow
def test_own_windows_are_known_only_near_rows() -> None:
    definition = Counted()
    query = oracle.Query([definition], {"all": agg.collect("v")}, watermark=5)
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(3, 1), row(10**12, 2), row(9, 3), row(10**15 + 7, 4)])
        assert definition.asked < 500
        for t in range(0, 20_000, 10):
            driver.push([row(10**15 + t, 5)])
        assert definition.asked < 20_000
        (known,) = driver.strategy.shapes.own.each
        assert len(known.lows) < 500
        assert len(known.ends) < 500
        assert len(driver.close()) == 4
        assert not len(driver.strategy.held_keys())


def test_a_row_in_no_window_is_late() -> None:
    query = oracle.Query([definitions.Shifts()], {"all": agg.collect("v")})
    with cache.uncompiled():
        driver = Driver(query, Slices)
        driver.push([row(5, 1), row(6, 2), row(13, 3), row(23, 4)])
        assert [each["v"] for each in driver.late] == [1, 4]
        assert driver.strategy.metrics()["slices"] == 0


class Twice(window.ContextFree):
    """[0, 10) and [4, 15), and then never again."""

    def next_edge(self, t: int) -> int | None:
        return next((edge for edge in (0, 4, 10, 15) if edge > t), None)

    def ended(self, previous: int, watermark: int) -> Any:
        return [(start, end) for start, end in ((0, 10), (4, 15)) if previous < end <= watermark]


@pytest.mark.parametrize("beside", [[], [window.session(3)], [window.tumbling(7)]])
def test_windows_that_come_to_an_end(beside: list[Any]) -> None:
    query = oracle.Query([Twice(), *beside], {"all": agg.collect("v")}, watermark=3, allowed_lateness=2)
    times = [-4, 1, 5, 3, 12, 9, 14, 40, 11, 15, 60]
    steps = [strategies.Push([row(t, t)]) for t in times]
    with cache.uncompiled():
        play(query, steps, Slices, {2, 5})
        play(query, [strategies.Push([row(t, t) for t in times])], Slices)
