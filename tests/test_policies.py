"""Slide policies: each built-in one against its definition, one's own, and what they refuse."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sampling import some

from muntin import agg, aggregators, policies
from muntin.errors import (
    ColumnError,
    ColumnTypeError,
    DefinitionError,
    InvalidArgumentError,
    OutOfOrderError,
    PolicyWarning,
    SnapshotError,
)

Rows = list[tuple[int, float]]


def kept_rows(n: int) -> Callable[[Rows], Rows]:
    return lambda rows: rows[-n:]


def kept_duration(d: int) -> Callable[[Rows], Rows]:
    return lambda rows: [row for row in rows if row[0] > rows[-1][0] - d]


def kept_sum(most: float) -> Callable[[Rows], Rows]:
    def keep(rows: Rows) -> Rows:
        kept = len(rows)
        while kept and sum(v for _, v in rows[kept - 1 :]) <= most:
            kept -= 1
        return rows[kept:]

    return keep


def kept_since_maximum(rows: Rows) -> Rows:
    highest = max(v for _, v in rows)
    latest = max(t for t, v in rows if v == highest)
    return [row for row in rows if row[0] >= latest]


def kept_since_run(rows: Rows) -> Rows:
    best, start, length = (0, 0), 0, 0
    for i, (_, v) in enumerate(rows):
        length = length + 1 if i and rows[i - 1][1] < v else 1
        if length > best[0]:
            best = (length, i - length + 1)
    start = rows[best[1]][0]
    return [row for row in rows if row[0] >= start]


@policies.define(high=agg.max("v"))
def tenth_at_most_third(whole: Any, old: Any) -> Any:
    return whole.high * 0.1 == 0.3


def test_a_policy_computes_with_64_bits() -> None:
    """A tenth of 3 is 0.30000000000000004, but not in float32."""
    window = aggregators.MonoidTree(agg.count(), policy=tenth_at_most_third, dtype={"v": "f4"}, compiled=False)
    window.bulk_insert(range(3), [3.0, 3.0, 3.0])
    assert len(window) == 3


CASES: dict[str, tuple[policies.Policy, Callable[[Rows], Rows]]] = {
    "rows": (policies.at_most_rows(7), kept_rows(7)),
    "one row": (policies.at_most_rows(1), kept_rows(1)),
    "duration": (policies.at_most_duration(12), kept_duration(12)),
    "sum": (policies.sum_at_most("v", 60), kept_sum(60)),
    "maximum": (policies.since_maximum("v"), kept_since_maximum),
    "run": (policies.since_longest_run("v"), kept_since_run),
    "any of": (
        policies.any_of(policies.at_most_rows(7), policies.sum_at_most("v", 60)),
        lambda rows: min(kept_rows(7)(rows), kept_sum(60)(rows), key=len),
    ),
    "all of, and any of": (
        policies.all_of(
            policies.at_most_duration(12), policies.any_of(policies.at_most_rows(7), policies.at_most_rows(9))
        ),
        lambda rows: max(kept_duration(12)(rows), kept_rows(7)(rows), key=len),
    ),
}


def stream(seed: int, count: int) -> Rows:
    chance = random.Random(seed)
    now, rows = 0, []
    for _ in range(count):
        now += chance.choice([0, 1, 1, 1, 2, 40]) if chance.random() < 0.3 else 1
        rows.append((now, float(chance.randrange(30)) if chance.random() > 0.03 else 100.0))
    return rows


def two_stacks(aggregation: Any, policy: policies.Policy) -> Any:
    return aggregators.Enforced(aggregators.TwoStacks(aggregation, compiled=False), policy)


def daba(aggregation: Any, policy: policies.Policy) -> Any:
    return aggregators.Enforced(aggregators.Daba(aggregation, compiled=False), policy)


def log_tree(aggregation: Any, policy: policies.Policy) -> Any:
    return aggregators.LogMonoidTree(aggregation, policy=policy, compiled=False)


def tree(aggregation: Any, policy: policies.Policy) -> Any:
    return aggregators.MonoidTree(aggregation, policy=policy, compiled=False)


@pytest.mark.parametrize("make", [tree, log_tree, two_stacks, daba])
@pytest.mark.parametrize("name", CASES)
def test_against_the_definition(name: str, make: Any) -> None:
    policy, keep = CASES[name]
    for seed in range(6):
        window = make({"all": agg.collect("v")}, policy)
        rows: Rows = []
        for row in stream(seed, 120):
            window.insert(*row)
            rows = keep([*rows, row])
            assert window.query()["all"] == ([v for _, v in rows] or None)
            assert len(window) == len(rows)
        window.check()
        together = make({"all": agg.collect("v")}, policy)
        whole = stream(seed, 120)
        together.bulk_insert([t for t, _ in whole], [v for _, v in whole])
        assert together.query() == window.query()
        assert (together.oldest, together.youngest) == (window.oldest, window.youngest)


@pytest.mark.parametrize("name", some(["sum", "run"], 2))  # to compile one takes seconds
@pytest.mark.compiled
def test_compiled(name: str) -> None:
    policy, keep = CASES[name]
    window: Any = aggregators.MonoidTree(agg.max("v"), policy=policy)
    rows: Rows = []
    for row in stream(9, 300):
        window.insert(*row)
        rows = keep([*rows, row])
        assert (window.query(), len(window)) == (max((v for _, v in rows), default=None), len(rows))
    again = aggregators.MonoidTree.restore(window.snapshot(), agg.max("v"), policy=policy)
    assert again.query() == window.query()
    again.insert(10**6, 3.0)
    again.check()


def test_the_running_example() -> None:
    """Keep the newest updates that sum to at most ten, report their maximum."""

    @policies.define(total=agg.sum("v"), newest=agg.last("v"))
    def at_most_ten(whole, old):
        return whole.total - old.total + old.newest > 10

    window = aggregators.MonoidTree(agg.max("v"), policy=at_most_ten, compiled=False)
    window.bulk_insert(range(4), [2, 2, 3, 3])
    assert (window.query(), len(window)) == (3, 4)
    window.insert(4, 4)
    assert (window.query(), len(window)) == (4, 3)
    window.insert(5, 50)
    assert (window.query(), len(window)) == (None, 0), "no suffix of the stream fits"


def test_a_policy_may_use_other_columns_and_several_aggregations_share_the_tree() -> None:
    reported = {"n": agg.count(), "mean": agg.mean("v"), "low": agg.min("v"), "cost": agg.sum("cost")}
    window = aggregators.MonoidTree(reported, policy=policies.sum_at_most("cost", 5), compiled=False)
    window.bulk_insert(range(5), {"v": [1.0, 2.0, 3.0, 4.0, 5.0], "cost": [1, 1, 2, 3, 2]})
    assert window.query() == {"n": 2, "mean": 4.5, "low": 4.0, "cost": 5}
    alone = aggregators.MonoidTree({"low": agg.min("v")}, policy=policies.sum_at_most("cost", 5), compiled=False)
    alone.bulk_insert(range(5), {"v": [1.0, 2.0, 3.0, 4.0, 5.0], "cost": [1, 1, 2, 3, 2]})
    assert alone.query() == {"low": 4.0}


def test_nulls() -> None:
    window = aggregators.MonoidTree(agg.count(), policy=policies.sum_at_most("v", 6), compiled=False)
    window.bulk_insert(range(5), {"v": [None, None, 5, 7, None]})
    assert (window.query(), window.oldest) == (1, 4)
    runs = aggregators.MonoidTree(agg.count(), policy=policies.since_longest_run("v"), compiled=False)
    runs.bulk_insert(range(3), {"v": [None, None, None]})
    assert runs.query() == 3


@pytest.mark.parametrize("policy", [policies.since_maximum("v"), policies.since_longest_run("v")], ids=str)
def test_no_value_is_no_reason_to_go_at_any_time(policy: policies.Policy) -> None:
    window = aggregators.MonoidTree(agg.count(), policy=policy, compiled=False)
    window.bulk_insert(range(-9, -6), {"v": [None, None, None]})
    assert window.query() == 3
    window.bulk_insert(range(-6, -3), {"v": [None, 5, None]})
    assert (window.query(), window.oldest) == (2, -5)


@pytest.mark.parametrize("make", [tree, log_tree, two_stacks])
def test_since_maximum_never_changes_the_maximum(make: Any) -> None:
    chance = random.Random(5)
    window, whole = make(agg.max("v"), policies.since_maximum("v")), aggregators.TwoStacks(agg.max("v"), compiled=False)
    for t in range(200):
        value = chance.choice([1.0, 2.0, 7.0, None, float("nan") if t > 100 else 3.0])
        window.insert(t, value)
        whole.insert(t, value)
        assert repr(window.query()) == repr(whole.query())
    assert whole.query() != whole.query(), "NaN is the greatest"


def test_durations_are_in_the_unit_of_the_times() -> None:
    window = aggregators.MonoidTree(agg.count(), policy=policies.at_most_duration("1 minute"), compiled=False)
    start = np.datetime64("2024-01-01T00:00:00", "ms")
    window.bulk_insert(start + np.array([0, 30_000, 59_999, 60_000, 90_000]))
    assert (window.query(), window.oldest) == (3, start + np.timedelta64(59_999, "ms"))
    integers = aggregators.MonoidTree(agg.count(), policy=policies.at_most_duration("1 minute"), compiled=False)
    with pytest.raises(InvalidArgumentError, match="the times are integers"):
        integers.insert(5)
    assert len(integers) == 0
    integers.insert(start)
    assert integers.query() == 1


def test_a_steady_mean_forgets_what_was_before_a_change() -> None:
    chance = np.random.default_rng(3)
    window = aggregators.MonoidTree(agg.mean("v"), policy=policies.steady_mean("v"), compiled=False)
    window.bulk_insert(range(600), chance.normal(0.0, 0.1, 600))
    assert len(window) == 600, "nothing changed"
    window.bulk_insert(range(600, 800), chance.normal(1.0, 0.1, 200))
    assert 180 <= len(window) <= 220
    assert abs(window.query() - 1.0) < 0.05
    window.check()


def test_a_policy_that_contradicts_itself_is_reported_once() -> None:
    window = aggregators.MonoidTree(agg.count(), policy=policies.sum_at_most("v", 10), compiled=False)
    with pytest.warns(PolicyWarning, match="thorough=True"):
        window.bulk_insert(range(3), {"v": [8, -20, 19]})
    assert window.query() == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        window.insert(3, 0)


def test_a_thorough_policy_need_not_be_monotone() -> None:
    @policies.define(total=agg.sum("v"), thorough=True)
    def no_debt(whole, old):
        return old.total < 0

    window = aggregators.MonoidTree(agg.collect("v"), policy=no_debt, compiled=False)
    window.bulk_insert(range(4), [5, 1, -9, 4])
    assert window.query() == [4]
    window.insert(4, -7)
    assert window.query() is None


def test_refusals() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one row"):
        policies.at_most_rows(0)
    for duration in (0, -5, "0 seconds"):
        with pytest.raises(InvalidArgumentError, match="positive duration"):
            policies.at_most_duration(duration)
    with pytest.raises(InvalidArgumentError, match="is no duration"):
        policies.at_most_duration("a while")
    with pytest.raises(InvalidArgumentError, match="probability"):
        policies.steady_mean("v", 2.0)
    with pytest.raises(InvalidArgumentError, match=r"policies\.define"):
        aggregators.MonoidTree(agg.sum("v"), policy=lambda whole, old: True)
    with pytest.raises(DefinitionError, match=r"\(whole, old\)"):

        @policies.define(n=agg.count())
        def too_few(whole):
            return True

    with pytest.raises(DefinitionError, match="spans="):

        @policies.define(n=agg.count())
        def unknown(whole, old, *, limit):
            return True

    with pytest.raises(DefinitionError, match="needs an aggregation"):

        @policies.define()
        def blind(whole, old):
            return True

    with pytest.raises(DefinitionError, match="n is 5"):

        @policies.define(n=5)
        def wrong(whole, old):
            return True

    with pytest.raises(ColumnError, match="'cost'"):
        aggregators.Enforced(aggregators.TwoStacks(agg.sum("v")), policies.sum_at_most("cost", 5))
    full = aggregators.TwoStacks(agg.sum("v"), compiled=False)
    full.insert(1, 1)
    with pytest.raises(InvalidArgumentError, match="from the first row on"):
        aggregators.Enforced(full, policies.at_most_rows(5))
    assert repr(policies.at_most_rows(5)) == "<policy at_most_rows>"


def test_any_aggregator_under_a_policy() -> None:
    made = aggregators.TwoStacks({"n": agg.count("a"), "s": agg.sum("b")}, compiled=False)
    window = aggregators.Enforced(made, policies.sum_at_most("b", 10))
    window.insert(1, (1, 4))
    window.bulk_insert([2, 3], [(1, 5), (1, 3)])
    assert window.query() == {"n": 2, "s": 8}
    window.bulk_insert([4, 5], {"a": [1, 1], "b": [1, 1]})
    assert window.range_query(4, 5) == {"n": 2, "s": 2}
    window.evict()
    window.bulk_evict(3)
    assert (window.oldest, window.youngest, len(window)) == (4, 5, 2)
    window.check()
    saved = window.snapshot()
    options = {"kind": aggregators.TwoStacks, "policy": policies.sum_at_most("b", 10), "compiled": False}
    again = aggregators.Enforced.restore(saved, {"n": agg.count("a"), "s": agg.sum("b")}, **options)
    again.insert(6, (1, 9))
    assert again.query() == {"n": 2, "s": 10}
    for damaged in (b"", saved[:5], saved[:-3], saved[:40] + b"x" + saved[41:]):
        with pytest.raises(SnapshotError):
            aggregators.Enforced.restore(damaged, {"n": agg.count("a"), "s": agg.sum("b")}, **options)


def fiba(aggregation: Any, policy: policies.Policy) -> Any:
    return aggregators.Enforced(aggregators.Fiba(aggregation, compiled=False), policy)


def parts_of(window: Any) -> Any:
    return window._window.query(), window._judge.query(), len(window._window), len(window._judge)


@pytest.mark.parametrize("make", [two_stacks, daba, fiba])
def test_what_either_structure_refuses_changes_neither(make: Any) -> None:
    window = make({"low": agg.min("a"), "n": agg.count("v")}, policies.sum_at_most("v", 20))
    window.bulk_insert(range(8), {"a": range(8), "v": range(8)})
    before = parts_of(window)
    refused: list[Callable[[], Any]] = [
        lambda: window.insert(9, (1, "word")),
        lambda: window.insert(9, ("word", 19)),
        lambda: window.insert(9, (1, 2, 3)),
        lambda: window.insert("noon", (1, 19)),
        lambda: window.bulk_insert([9, 10], {"a": ["word", "word"], "v": [9.5, 19.5]}),
        lambda: window.bulk_insert([9, 10], [(1, 19), ("word", 5)]),
        lambda: window.bulk_insert([9, 10], {"a": [1], "v": [19, 19]}),
        lambda: window.bulk_insert([9, 10], {"v": [19, 19]}),
        lambda: window.bulk_insert([3], {"a": [1], "v": [19]}),
    ]
    for insert in refused:
        with pytest.raises((ColumnError, ColumnTypeError, InvalidArgumentError, OutOfOrderError)):
            insert()
        assert parts_of(window) == before
        window.check()
    window.bulk_insert([9, 10], ((i, 4) for i in (3, 4)))
    assert window.query() == {"low": 3, "n": 3}, "7, 4 and 4 sum to at most 20"
    window.check()


def test_an_error_of_the_policy_or_of_a_combine_changes_neither() -> None:
    @policies.define(total=agg.sum("v"))
    def picky(whole, old):
        return 10 // (int(whole.total) - 13) > 100

    window = two_stacks(agg.count("v"), picky)
    window.bulk_insert(range(3), [1, 2, 3])
    with pytest.raises(ZeroDivisionError):
        window.insert(3, 7)
    assert (len(window), window.query()) == (3, 3)
    window.insert(3, 8)

    @agg.define(state="object", result="object")
    class last_but_99:
        def lift(v):
            return v

        def combine(a, b):
            if b == 99:
                raise ValueError("no 99")
            return b

    window = two_stacks(last_but_99("v"), policies.at_most_rows(4))
    for count in range(9):
        before = parts_of(window)
        if count:
            with pytest.raises(ValueError, match="no 99"):
                window.bulk_insert([count] * 40, [7] * 39 + [99])
        assert parts_of(window) == before
        window.check()
        window.insert(count, count)
        assert (window.query(), len(window)) == (count, min(4, count + 1))


def test_rows_of_equal_time_that_are_one_entry_stay_together() -> None:
    window = fiba(agg.collect("v"), policies.at_most_rows(3))
    window.bulk_insert([1, 1, 2, 2, 3], [10, 11, 20, 21, 30])
    assert window.query() == [20, 21, 30]
    window.insert(4, 40)
    assert window.query() == [20, 21, 30, 40], "one of the rows of time 2 must stay"
    window.insert(4, 41)
    assert window.query() == [30, 40, 41]
    window.evict()
    assert window.query() == [40, 41]
    window.bulk_insert([5, 6], [50, 60])
    assert window.query() == [40, 41, 50, 60]
    window.evict()
    window.insert(7, 70)
    assert window.query() == [50, 60, 70]


def test_an_enforced_window_of_objects_is_restored() -> None:
    window = two_stacks(agg.collect("v"), policies.at_most_rows(2))
    window.bulk_insert(range(3), [Fraction(7, 2), Fraction(4), Fraction(5)])
    options = {"kind": aggregators.TwoStacks, "policy": policies.at_most_rows(2), "compiled": False}
    with pytest.raises(SnapshotError, match="allow_pickle"):
        aggregators.Enforced.restore(window.snapshot(), agg.collect("v"), **options)
    again = aggregators.Enforced.restore(window.snapshot(), agg.collect("v"), allow_pickle=True, **options)
    again.insert(3, Fraction(1))
    assert again.query() == [5, 1]


def test_a_name_of_the_policy_is_not_reported() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'policy\.n' is the policy's own"):
        aggregators.MonoidTree({"policy.n": agg.sum("v")}, policy=policies.at_most_rows(3))
    window = aggregators.MonoidTree({"policy.n": agg.sum("v")}, compiled=False)
    window.insert(1, 2)
    assert window.query() == {"policy.n": 2}


def test_joined_policies_are_what_they_join() -> None:
    a, b, c = policies.at_most_rows(5), policies.sum_at_most("v", 9), policies.at_most_duration("1 minute")
    assert policies.any_of(a) == policies.all_of(a) == a
    prints = [
        policies.any_of(a, b),
        policies.all_of(a, b),
        policies.any_of(b, a),
        policies.any_of(a, policies.any_of(b, c)),
    ]
    assert len({each.fingerprint for each in [*prints, a, b]}) == 6
    nested = policies.all_of(policies.any_of(a, b), policies.any_of(b, c))
    assert nested.joined == "(({0} or {1}) and ({2} or {3}))"
    assert repr(nested) == "<policy all_of(any_of(at_most_rows, sum_at_most), any_of(sum_at_most, at_most_duration))>"
    assert list(nested.spans.values()) == ["1 minute"]
    for join in (policies.any_of, policies.all_of):
        with pytest.raises(InvalidArgumentError, match="joins policies"):
            join(a, lambda whole, old: True)
        with pytest.raises(InvalidArgumentError, match="got nothing"):
            join()
