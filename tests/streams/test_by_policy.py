"""Windows of slide policies over rows in order: against the oracle, in small nodes, against `run`, and their work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from sampling import examples
from streams.duel import Duel
from streams.small_nodes import small_nodes
from streams.test_rows_kinds import play

from muntin import Query, agg, policies, window
from muntin.errors import PolicyWarning
from muntin.kernels.cache import load_fresh, uncompiled
from muntin.streams.rows import by_policy, judging
from muntin.streams.rows.rows import Rows
from muntin.streams.rows.tree import LEAF


@policies.define(n=agg.count(), total=agg.sum("v"), newest=agg.last("v"))
def of_two_conditions(whole: Any, old: Any) -> Any:
    return whole.n - old.n >= 12 or whole.total - old.total + old.newest > 40


@policies.define(n=agg.count(), valued=agg.count("v"), thorough=True)
def tried_everywhere(whole: Any, old: Any) -> Any:
    """It is monotone, also where values are null, so that the parts that are tried decide nothing."""
    return whole.n - old.n >= 12 or whole.valued - old.valued >= 5


@policies.define(total=agg.sum("v"), thorough=True)
def not_monotone(whole: Any, old: Any) -> Any:
    return old.total % 5 == 1 and whole.total - old.total > 9


SHORT = policies.any_of(policies.at_most_rows(9), policies.sum_at_most("v", 50))
LONG = policies.all_of(policies.at_most_duration(9), SHORT)

POLICIES = st.one_of(
    strategies.POLICIES,
    st.sampled_from([of_two_conditions, tried_everywhere, policies.since_maximum("v"), SHORT, LONG]),
    st.integers(5, 30).map(policies.at_most_rows),
    st.integers(20, 120).map(lambda most: policies.sum_at_most("v", most)),
).map(window.policy)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_random_queries_in_small_nodes(data: st.DataObject) -> None:
    with small_nodes(), pytest.MonkeyPatch.context() as patch:
        patch.setitem(strategies.KINDS, "policy", POLICIES)
        early = data.draw(st.booleans())
        others = [] if early else ["trailing", "frame of rows"]
        query = data.draw(strategies.queries(st.sampled_from(["policy", "policy", *others])))
        play(Duel(query, Rows, early=early), data)


@given(data=st.data())
@settings(max_examples=examples(15))
@pytest.mark.compiled
def test_compiled(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(strategies.KINDS, "policy", st.just(window.policy(of_two_conditions)))
        query = data.draw(strategies.queries(st.just("policy")))
        query = replace(query, aggregates={"total": agg.sum("v"), "high": agg.max("v")})
        play(Duel(query, Rows), data)


# ---------------------------------------------------------------- any policy, as by `run`


@policies.define(middle=agg.median("v"), n=agg.count())
def of_a_median(whole: Any, old: Any) -> Any:
    return whole.n > 60 and old.n <= whole.n // 3


@policies.define(seen=agg.collect("v"), thorough=True)
def of_a_list(whole: Any, old: Any) -> Any:
    return len(old.seen) % 7 == 3 and sum(old.seen) > 40


@policies.define(kinds=agg.count_distinct("name"))
def of_words(whole: Any, old: Any) -> Any:
    return whole.kinds >= 20 and old.kinds <= 3


@policies.define(first=agg.min("day"), last=agg.max("day"), n=agg.count())
def of_days(whole: Any, old: Any) -> Any:
    return whole.n > 30 and old.n < 9


@policies.define(n=agg.count())
def that_does_not_compile(whole: Any, old: Any) -> Any:
    try:
        return {"kept": max(number for number in [whole.n, old.n])}["kept"] - old.n >= 50
    except KeyError:
        return False


ANY = [
    SHORT,
    LONG,
    policies.any_of(not_monotone, policies.at_most_rows(40)),
    policies.steady_mean("v", 0.3),
    policies.since_longest_run("v"),
    policies.sum_at_most("gappy", 300),
    policies.sum_at_most("cost", 300),
    policies.at_most_duration(40),
    not_monotone,
    of_a_median,
    of_a_list,
    of_words,
    of_days,
    that_does_not_compile,
]


def table_of(count: int) -> pa.Table:
    random = np.random.default_rng(count)
    gappy = [None if value < 3 else float(value) for value in random.integers(0, 20, count)]
    return pa.table(
        {
            "t": np.arange(count) // 2,
            "k": random.integers(0, 2, count),
            "v": random.integers(0, 20, count),
            "gappy": pa.array(gappy),
            "cost": [Decimal(value) for value in random.integers(0, 5, count).tolist()],
            "name": [str(value) for value in random.integers(0, 40, count)],
            "day": pa.array(random.integers(0, 9, count).astype("i4")).cast(pa.date32()),
        }
    )


def last_said(answers: list[pa.Table]) -> list[Any]:
    """Return the windows that stand after all revisions; rows of equal time, which look alike, are told by arrival."""
    stand: dict[Any, Any] = {}
    for row in (row for table in answers for row in table.to_pylist()):
        stand.setdefault((row["k"], row["window"]["end"]), []).append(row)
    return sorted(repr((key, sorted((row["n"], row["s"]) for row in rows))) for key, rows in stand.items())


@pytest.mark.parametrize("policy", ANY, ids=repr)
def test_a_stream_answers_what_run_does(policy: policies.Policy) -> None:
    """In order, however it is cut: what is evicted, and the parts that are tried, depend on the rows alone."""
    table = table_of(500)
    query = Query(window.policy(policy), {"n": agg.count(), "s": agg.sum("v")}, key="k", time="t")
    with uncompiled():
        truth = last_said([query.run(table)])
        for cuts in ([0, 500], [0, 1, 5, 64, 65, 300, 301, 302, 500], list(range(0, 501, 50))):
            stream = query.stream()
            said = [stream.push(table.slice(low, high - low)) for low, high in pairwise(cuts)]
            assert last_said([*said, stream.close()]) == truth
    assert len(truth) > 100


@pytest.mark.parametrize("policy", [not_monotone, of_two_conditions, policies.steady_mean("v", 0.3)], ids=repr)
def test_late_rows_lead_to_what_run_answers(policy: policies.Policy) -> None:
    random = np.random.default_rng(5)
    table = pa.table({"t": np.arange(300), "v": random.integers(0, 20, 300)})
    mixed = table.take(np.argsort(np.arange(300) + random.integers(0, 40, 300)))
    query = Query(window.policy(policy), {"n": agg.count(), "s": agg.sum("v")}, time="t", allowed_lateness=100)
    with small_nodes():
        stream = query.stream()
        steps = [stream.push(mixed.slice(low, 7)) for low in range(0, 300, 7)]
        truth = {row["window"]["end"]: (row["n"], row["s"]) for row in query.run(table).to_pylist()}
    stand: dict[int, Any] = {}
    revisions: dict[int, int] = {}
    for row in (row for step in steps for row in step.to_pylist()):
        end = row["window"]["end"]
        assert row["revision"] == revisions.get(end, -1) + 1
        revisions[end] = row["revision"]
        stand[end] = (row["n"], row["s"])
        if row["retracted"]:
            del stand[end]
    assert stand == truth
    assert max(revisions.values()) > 1


@pytest.mark.parametrize("policy", [policies.at_most_rows(3), policies.sum_at_most("v", 3)], ids=repr)
def test_a_policy_that_is_added_goes_on_from_the_rows_that_are_held(policy: policies.Policy) -> None:
    """It is asked about them too, so that it begins with what it would have left."""
    first, later = window.trailing(100), window.policy(policy)
    with small_nodes():
        stream = Query(first, {"s": agg.sum("v")}, time="t").stream()
        whole = Query([first, later], {"s": agg.sum("v")}, time="t").stream()
        for each in (stream, whole):
            each.push({"t": range(30), "v": [1] * 30})
        assert stream.add(later) == 1
        (mine, theirs) = (each.push({"t": range(30, 40), "v": [1] * 10}).to_pylist() for each in (stream, whole))
    assert [row["s"] for row in mine if row["window_id"] == 1] == [3] * 10
    assert sorted(map(repr, mine)) == sorted(map(repr, theirs))


def test_a_contradiction_is_reported_once() -> None:
    with uncompiled():
        stream = Query(window.policy(policies.sum_at_most("v", 10)), {"n": agg.count()}, time="t").stream()
        with pytest.warns(PolicyWarning, match="thorough=True"):
            stream.push({"t": [0, 1, 2], "v": [8, -20, 19]})
        stream.push({"t": [3, 4, 5], "v": [8, -20, 19]})  # another warning would be an error


# ---------------------------------------------------------------- work


WORDS = ("lift", "combine", "must_leave")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Count what policies lift and combine, and how often they are asked."""
    counts = dict.fromkeys(WORDS, 0)
    modules: dict[int, Any] = {}

    def counting(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    def kernels_of(binding: Any) -> Any:
        if id(binding) not in modules:
            module = load_fresh(binding.generate(*judging.kernels_for(binding)))
            for name in WORDS:
                setattr(module, name, counting(name, getattr(module, name)))
            modules[id(binding)] = module
        return modules[id(binding)]

    with monkeypatch.context() as patch, uncompiled():
        patch.setattr(judging, "kernels_of", kernels_of)
        patch.setattr(by_policy, "kernels_of", kernels_of)
        yield counts


def total(counts: dict[str, int], *words: str) -> int:
    spent = sum(counts[word] for word in words or WORDS)
    counts.update(dict.fromkeys(WORDS, 0))
    return spent


def stream_of(policy: policies.Policy, lateness: int = 0) -> Any:
    aggregates = {"n": agg.count(), "s": agg.sum("v")}
    return Query(window.policy(policy), aggregates, time="t", allowed_lateness=lateness).stream()


@pytest.mark.parametrize("lateness", [0, 5_000])
def test_no_push_costs_what_is_held(lateness: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1_000, 8_000):
        with counted(monkeypatch) as counts:
            stream = stream_of(policies.at_most_rows(n), lateness)
            stream.push({"t": np.arange(n + 500), "v": np.ones(n + 500)})
            assert total(counts) <= 16 * (n + 500)
            for t in range(n + 500, n + 540):
                stream.push({"t": [t], "v": [1.0]})
                assert total(counts) <= 8 * LEAF
            stream.push({"t": np.arange(n + 540, n + 1_540), "v": np.ones(1_000)})
            assert total(counts) <= 16 * 1_000


def test_many_rows_are_evicted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whole nodes, not row by row: O(LEAF + log n) questions, however many rows go, and wherever they end."""
    for n in (1_000, 8_000):
        for left in (0, 1, 70, n // 2):
            with counted(monkeypatch) as counts:
                stream = stream_of(policies.sum_at_most("v", 10 * n))
                stream.push({"t": np.arange(n), "v": np.ones(n)})
                total(counts)
                (row,) = stream.push({"t": [n], "v": [10 * n - left]}).to_pylist()
                assert row["n"] == left + 1
                assert total(counts, "must_leave") <= 5 * LEAF


def test_after_a_late_row_a_policy_is_asked_until_windows_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as counts:
        stream = stream_of(policies.at_most_rows(20), lateness=5_000)
        stream.push({"t": np.arange(0, 8_000, 2), "v": np.ones(4_000)})
        total(counts)
        revised = stream.push({"t": [4_001], "v": [1.0]}).to_pylist()
        assert total(counts) <= 16 * LEAF
    assert [(row["window"]["end"], row["revision"]) for row in revised] == [
        (4_001, 0),
        *((t, 1) for t in range(4_002, 4_040, 2)),
    ]


# ---------------------------------------------------------------- rows that are too late


def thorough(policy: policies.Policy) -> policies.Policy:
    """Return a policy that claims not to be monotone, so that other kernels judge."""
    return replace(policy, thorough=True)


TOO_LATE = [
    (1, 15, [30]),
    (2, 15, [20, 30]),
    (3, 15, [15, 20, 30]),
    (3, 20, [20, 20, 30]),
    (9, 5, [10, 20, 30]),  # it belongs before the window that was left: rows that were evicted may lie between
]


@pytest.mark.parametrize("change", [lambda policy: policy, thorough], ids=["monotone", "thorough"])
@pytest.mark.parametrize(("most", "late", "kept"), TOO_LATE)
def test_a_row_that_is_too_late_is_taken_if_the_next_window_holds_it(
    most: int, late: int, kept: list[int], change: Any
) -> None:
    query = Query(window.policy(change(policies.at_most_rows(most))), {"all": agg.collect("t")}, time="t", watermark=5)
    with uncompiled():
        stream = query.stream()
        stream.push({"t": [10, 20, 30]})
        assert stream.push({"t": [late]}).num_rows == 0
        (row,) = stream.close().to_pylist()
    assert row["all"] == kept
    assert stream.late.num_rows == (kept.count(late) == [10, 20, 30].count(late))
