"""The laws hold for every built-in, and the checker finds what breaks them."""

from __future__ import annotations

import pytest
from cases import CASES, NOT_AGGREGATIONS, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg
from muntin.errors import LawError
from muntin.testing import laws


@pytest.mark.parametrize("case", CASES, ids=str)
def test_built_ins_on_generated_values(case: Case) -> None:
    laws.check(case.aggregation)


@pytest.mark.parametrize("case", [case for case in CASES if case.aggregation.columns], ids=str)
def test_built_ins_on_given_values(case: Case) -> None:
    @given(st.lists(case.values, min_size=3))
    @settings(max_examples=examples(10), deadline=None)
    def run(values: list[object]) -> None:
        laws.check(case.aggregation, values, rounds=10)

    run()


def test_every_built_in_has_a_case() -> None:
    tested = {case.aggregation.name for case in CASES} | {"count"}
    assert set(agg.__all__) - NOT_AGGREGATIONS <= tested


@agg.define(state="f8")
class _subtract:
    def lift(v):
        return v

    def combine(a, b):
        return a - b


@agg.define(state={"v": "f8"}, commutative=True)
class _newest:
    def lift(v):
        return (v,)

    def combine(a, b):
        return b


@agg.define(state="f8", commutative=True)
class _bad_neutral:
    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def neutral():
        return 1.0


@agg.define(state="f8", commutative=True)
class _bad_invert:
    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def invert(a, b):
        return a + b


@agg.define(state="f8", selective=True)
class _not_selective:
    def lift(v):
        return v

    def combine(a, b):
        return a + b


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (_subtract, "is not associative"),
        (_newest, "claims to be commutative, and is not"),
        (_bad_neutral, "neutral element that changes a state"),
        (_bad_invert, "does not take out what was put in"),
        (_not_selective, "claims to be selective"),
    ],
)
def test_a_false_claim_is_found(broken: agg.Factory, complaint: str) -> None:
    with pytest.raises(LawError, match=complaint) as caught:
        laws.check(broken("v"))
    assert "a=" in str(caught.value), "the counter-example is missing"
    assert "seed 0" in str(caught.value)


def test_a_counter_example_among_given_values() -> None:
    @agg.define(state="f8", commutative=True)
    class sum_but_for_seven:
        def lift(v):
            return v

        def combine(a, b):
            return a + b if b != 7.0 else a

    laws.check(sum_but_for_seven("v"), [1.0, 100.0])
    with pytest.raises(LawError):
        laws.check(sum_but_for_seven("v"), [1.0, 7.0, 100.0])


def test_values_that_nothing_takes() -> None:
    @agg.define(state="object")
    class of_sets:
        def lift(v):
            return v | {1}

        def combine(a, b):
            return a | b

    with pytest.raises(LawError, match="give some with values="):
        laws.check(of_sets("v"))
    laws.check(of_sets("v"), [{1}, {2}, {3}])
