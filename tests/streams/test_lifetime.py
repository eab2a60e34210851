"""Lifetimes in streams: what is kept of a key, what a push costs, and where a frame starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, rows, window
from muntin.aggregations.binding import Binding
from muntin.kernels.cache import load_fresh, uncompiled
from muntin.spark.identity import moving_bounds
from muntin.streams.rows import states
from muntin.streams.rows.states import StateStore

SUMMED = {"n": agg.count(), "total": agg.sum("v")}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count what all stores of states lift and combine."""
    counts = {"lift": 0, "combine": 0}
    modules: dict[tuple[int, str], Any] = {}

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    def module_of(binding: Binding, kernels: Any, *names: str) -> Any:
        if (id(binding), names[0]) not in modules:
            module = load_fresh(binding.generate(kernels))
            for name in counts:
                setattr(module, name, counting(name, getattr(module, name)))
            modules[id(binding), names[0]] = module
        return modules[id(binding), names[0]]

    def folding(store: StateStore, which: int) -> Any:
        return module_of(store.bindings[which], states._FOLDING, "folding")

    with monkeypatch.context() as patch, uncompiled():
        patch.setattr(StateStore, "folding", folding)
        patch.setattr(states, "keeping", lambda binding: module_of(binding, states._KEEPING, "keeping"))
        yield counts


def spent(counts: dict[str, int]) -> int:
    total = sum(counts.values())
    counts.update(dict.fromkeys(counts, 0))
    return total


def table(count: int, since: int = 0, keys: str = "a") -> pa.Table:
    times = np.arange(since, since + count)
    return pa.table({"t": times, "k": [keys[i % len(keys)] for i in range(count)], "v": times % 7})


def test_no_push_costs_what_has_come_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push of m rows lifts and combines O(m), whether a thousand rows came before it or sixteen thousand."""
    query = Query(window.lifetime(), SUMMED, key="k", time="t", allowed_lateness=20)
    for n in (1_000, 16_000):
        with counted(monkeypatch) as counts:
            stream = query.stream()
            stream.push(table(n))
            assert n <= spent(counts) <= 12 * n
            for i in range(n, n + 60):
                stream.push(table(1, i))
                assert 1 <= spent(counts) <= 120
            stream.push(table(500, n + 60))
            assert 500 <= spent(counts) <= 12 * 500
            revised = stream.push({"t": [n + 550], "k": ["a"], "v": [100]})
            assert revised.num_rows == 11  # one is its own
            assert spent(counts) <= 250
            stream.push({"t": [3], "k": ["a"], "v": [100]})  # older than all that can be revised, and held by it
            assert spent(counts) <= 250
            assert stream.ask({"k": ["a"]})["n"].to_pylist() == [n + 562]
            assert stream.metrics()["kept"] < 80


def test_a_key_keeps_one_state_for_old_rows() -> None:
    """However many rows have come; rows that may be revised are kept besides."""
    query = Query(window.lifetime(), SUMMED, key="k", time="t", watermark=5, allowed_lateness=10)
    sizes = []
    with uncompiled():
        stream = query.stream()
        for i in range(20):
            stream.push(table(400, 400 * i, "ab"))
            sizes.append((stream.metrics()["kept"], len(stream.snapshot())))
    held = [kept for kept, _ in sizes]
    assert max(held) <= 2 * (1 + 16) + 16
    assert max(size for _, size in sizes[10:]) <= 1.1 * sizes[1][1]
    (store,) = query.explain(table(0).schema).stores
    assert (store.strategy, store.slices, store.piece) == ("tiles", 1, "tile")


def test_silent_keys_are_not_looked_at() -> None:
    """A push looks at the keys of its rows, however many others live."""
    query = Query(window.lifetime(), SUMMED, key="k", time="t")
    with uncompiled():
        for strategy in ("auto", "rows"):
            stream = query.stream(strategy=strategy)
            stream.push({"k": range(100), "t": range(100), "v": [1] * 100})
            stream.push({"k": [7, 8], "t": [500, 501], "v": [1, 1]})
            (group,) = stream._state.core.strategies[0].groups
            assert len(group.awake(600, early=False)) == 0
            assert len(stream.push({"k": [3], "t": [700], "v": [1]})) == 1


def test_an_upserted_frame_is_known_by_its_end() -> None:
    query = Query([window.trailing(5), window.lifetime(), window.policy(muntin.policies.at_most_rows(2))], SUMMED)
    assert moving_bounds(query)["start"] == [1, 2]


def test_states_without_a_fixed_size_keep_their_rows() -> None:
    for aggregates in ({"all": agg.collect("v")}, {"middle": agg.median("v")}, {"w": agg.time_weighted_mean("v")}):
        query = Query(window.lifetime(), aggregates, key="k", time="t")
        plan = query.explain(table(0).schema)
        assert plan.windows[0].strategy == "rows"
        (store,) = plan.stores
        assert (store.for_ever, store.bytes) == (True, None)
        assert "kept for as long as its key lives" in " ".join(str(plan).split())
        with uncompiled():
            stream = query.stream()
            answers = pa.concat_tables([stream.push(table(60, i)) for i in range(0, 300, 60)])
            assert stream.metrics()["kept"] == 300
            name = next(iter(aggregates))
            assert answers[name].to_pylist() == query.run(table(300))[name].to_pylist()


def test_an_ordered_stream_keeps_one_state_of_what_does_not_commute() -> None:
    query = Query(window.lifetime(), {"w": agg.time_weighted_mean("v")}, time="t", ordered=True)
    with uncompiled():
        stream = query.stream()
        answers = pa.concat_tables([stream.push(table(60, i).drop(["k"])) for i in range(0, 300, 60)])
        assert stream.metrics()["kept"] < 30
    assert answers["w"].to_pylist() == pytest.approx(query.run(table(300))["w"].to_pylist())


def bounds(found: pa.Table) -> list[tuple[Any, ...]]:
    return [(*row["window"].values(), row["n"], row["revision"]) for row in found.to_pylist()]


@pytest.mark.parametrize("strategy", ["auto", "rows"])
def test_a_frame_starts_with_the_first_row_of_its_key(strategy: str) -> None:
    """Which a late row may be; `latest` knows a frame by its end."""
    query = Query(window.lifetime(), {"n": agg.count()}, key="k", time="t", allowed_lateness=10)
    with uncompiled():
        stream = query.stream(strategy=strategy)
        first = stream.push({"k": ["a", "a"], "t": [20, 25]})
        assert bounds(first) == [(20, 20, 1, 0), (20, 25, 2, 0)]
        second = stream.push({"k": ["a"], "t": [17]})
        assert bounds(second) == [(17, 17, 1, 0), (17, 20, 2, 1), (17, 25, 3, 1)]
        assert bounds(muntin.latest(pa.concat_tables([first, second]))) == bounds(second)


@pytest.mark.parametrize("strategy", ["auto", "rows"])
def test_a_frame_without_the_rows_of_its_time_may_hold_none(strategy: str) -> None:
    query = Query(window.lifetime(closed="left"), {"n": agg.count(), "v": agg.max("v")}, key="k", time="t")
    data = {"k": ["a", "a", "a", "b"], "t": [3, 3, 5, 5], "v": [1, 2, 3, 4]}
    wanted = [(3, 3, 0, 0), (3, 3, 0, 0), (3, 5, 2, 0), (5, 5, 0, 0)]
    with uncompiled():
        assert bounds(query.run(data).drop(["v"])) == wanted
        assert bounds(query.stream(strategy=strategy).push(data).drop(["v"])) == wanted


def test_times_keep_their_type() -> None:
    times = pa.array([1_711_846_800, 1_711_861_200], pa.timestamp("s", "Europe/Berlin"))
    query = Query(window.lifetime(), {"n": agg.count()})
    for found in (query.run({"ts": times}), query.stream().push({"ts": times})):
        assert found.schema.field("window").type.field("start").type == times.type
        assert [row["window"]["start"] for row in found.to_pylist()] == [times[0].as_py()] * 2


@pytest.mark.parametrize("strategy", ["auto", "rows"])
def test_a_silent_key_begins_again(strategy: str) -> None:
    """Its lifetime ends with `forget_after`; those of other keys go on, and are answered at any time."""
    query = Query(window.lifetime(), SUMMED, key="k", time="t", forget_after=100)
    with uncompiled():
        stream = query.stream(strategy=strategy)
        stream.push({"k": ["a", "b", "a"], "t": [1, 2, 3], "v": [1, 1, 1]})
        stream.push({"k": ["b"] * 3, "t": [60, 120, 180], "v": [1, 1, 1]})
        assert stream.metrics()["forgotten"] == 1
        stream = query.stream(stream.snapshot(), strategy=strategy)
        again = stream.push({"k": ["a", "b"], "t": [190, 190], "v": [5, 5]})
        assert [(*row["window"].values(), row["n"]) for row in again.to_pylist()] == [(190, 190, 1), (2, 190, 5)]
        assert stream.ask({"k": ["a", "b", "c"], "t": [200] * 3})["total"].to_pylist() == [5, 9, None]


def test_a_point_amid_what_is_one_state_is_refused() -> None:
    query = Query(window.lifetime(), SUMMED, key="k", time="t")
    with uncompiled():
        stream = query.stream()
        stream.push(table(400))
        with pytest.raises(muntin.errors.InvalidArgumentError, match=r"'w0' at 100.* from 399 on"):
            stream.ask({"k": ["a"], "t": [100]})
        assert stream.ask({"k": ["a"], "t": [399]})["n"].to_pylist() == [400]


def test_a_lifetime_that_is_added_begins_then() -> None:
    query = Query([window.trailing(10), window.trailing(rows(1))], {"n": agg.count()}, time="t")
    with uncompiled():
        stream = query.stream()
        stream.push({"t": range(100)})
        added = stream.add(window.lifetime())
        assert stream.complete_from(added) > 80
        found = stream.push({"t": [100]}).to_pylist()
        mine = [row for row in found if row["window_id"] == added][-1]
        assert mine["n"] == 100 - mine["window"]["start"] + 1
        assert stream.ask({"t": [101]})["n_w2"].to_pylist() == [mine["n"]]


def test_a_history_is_part_of_the_lifetime() -> None:
    query = Query(window.lifetime(), SUMMED, key="k", time="t")
    stream = query.stream(history=table(50))
    assert stream.push(table(1, 50))["n"].to_pylist() == [51]
