"""Every built-in aggregation by every aggregator, against folding the window from scratch.

Two kinds of reference are needed: recomputation shows that an answer is right, and running the same steps compiled and
uncompiled shows that the two forms of a kernel agree. `check()` runs after every step of the plain form.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from cases import CASES, DTYPES, POSITIVE, SMALL, STRINGS, Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampling import THOROUGH, examples

from muntin import agg, aggregators
from muntin.aggregators.states import close
from muntin.errors import UnsupportedOperationError
from muntin.testing.oracle import recompute

IN_ORDER = [
    aggregators.BaseIntervals,
    aggregators.Boundary,
    aggregators.Daba,
    aggregators.FlatFat,
    aggregators.FlatFit,
    aggregators.LogMonoidTree,
    aggregators.MonoidTree,
    aggregators.Recalculate,
    aggregators.SlickDeque,
    aggregators.SubtractOnEvict,
    aggregators.TwoStacks,
]
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def steps(values: Any) -> Any:
    """Random sequences of operations, the times a few apart, some equal."""
    insert = st.tuples(st.just("insert"), st.integers(0, 2), values)
    bulk = st.tuples(st.just("bulk_insert"), st.lists(st.tuples(st.integers(0, 2), values), max_size=6))
    evict = st.tuples(st.just("evict"))
    bulk_evict = st.tuples(st.just("bulk_evict"), st.integers(0, 6))
    reload = st.tuples(st.just("reload"))
    return st.lists(st.one_of(insert, insert, insert, bulk, evict, evict, bulk_evict, reload), max_size=25)


class Driver:
    """Runs steps on an aggregator and on a plain list side by side."""

    def __init__(self, kind: type, aggregation: Any, check: bool, **options: Any) -> None:
        self.kind, self.aggregation, self.check, self.options = kind, aggregation, check, options
        self.window: Any = kind(aggregation, **options)
        self.rows: list[tuple[int, Any]] = []
        self.now = 0

    def step(self, name: str, *arguments: Any) -> None:
        answer = self.take(name, *arguments)
        assert same(answer, recompute(self.aggregation, self.rows))

    def take(self, name: str, *arguments: Any) -> Any:
        """Take a step, check the window but for its answer, and return that."""
        getattr(self, name)(*arguments)
        assert len(self.window) == len(self.rows)
        assert self.window.oldest == (self.rows[0][0] if self.rows else None)
        assert self.window.youngest == (self.rows[-1][0] if self.rows else None)
        answer = self.window.query()
        if self.check:
            self.window.check()
        return answer

    def insert(self, pause: int, value: Any) -> None:
        self.now += pause
        self.window.insert(self.now, value)
        self.rows.append((self.now, value))

    def bulk_insert(self, pairs: list[tuple[int, Any]]) -> None:
        times = []
        for pause, _ in pairs:
            self.now += pause
            times.append(self.now)
        self.window.bulk_insert(times, [value for _, value in pairs])
        self.rows += [(time, value) for time, (_, value) in zip(times, pairs, strict=True)]

    def evict(self) -> None:
        if self.rows:
            self.window.evict()
            del self.rows[0]
        else:
            with pytest.raises(IndexError):
                self.window.evict()

    def bulk_evict(self, ahead: int) -> None:
        until = (self.rows[0][0] if self.rows else self.now) + ahead - 1
        self.window.bulk_evict(until)
        self.rows = [row for row in self.rows if row[0] > until]

    def reload(self) -> None:
        self.window = self.kind.restore(self.window.snapshot(), self.aggregation, **self.options)


def same(answer: Any, expected: Any) -> bool:
    """Compare an answer with the oracle's; arrays and records by their parts."""
    if hasattr(expected, "tolist"):
        expected = expected.tolist()
    if hasattr(answer, "tolist"):
        answer = answer.tolist()
    if isinstance(expected, tuple):
        expected = tuple(x.item() if hasattr(x, "item") else x for x in expected)
    return close(answer, expected, 1e-7, 1e-7)


def works(kind: type, case: Case) -> bool:
    """Say whether this aggregator takes this aggregation; that it refuses the others is a test of its own."""
    if case.costly:
        return kind in (aggregators.FlatFat, aggregators.TwoStacks)
    if kind is aggregators.SlickDeque:
        return case.aggregation.selective or case.aggregation.invertible
    return case.aggregation.invertible or not kind.needs_invert  # type: ignore[attr-defined]


TREES = (aggregators.LogMonoidTree, aggregators.MonoidTree)
PAIRS = [(kind, case) for kind in IN_ORDER for case in CASES if works(kind, case)]


class FibaDriver(Driver):
    """Runs the same steps where rows of equal time are one entry: the list holds those rows together."""

    def __init__(self, case: Case, **options: Any) -> None:
        super().__init__(aggregators.Fiba, case.aggregation, check=True, **options)

    def step(self, name: str, *arguments: Any) -> None:
        getattr(self, name)(*arguments)
        times = sorted({time for time, _ in self.rows})
        assert len(self.window) == len(times)
        assert self.window.oldest == (times[0] if times else None)
        assert self.window.youngest == (times[-1] if times else None)
        self.rows.sort(key=lambda row: row[0])
        assert same(self.window.query(), recompute(self.aggregation, self.rows))
        self.window.check()

    def evict(self) -> None:
        oldest = self.window.oldest
        if oldest is None:
            super().evict()
            return
        self.window.evict()
        self.rows = [row for row in self.rows if row[0] > oldest]

    def insert(self, pause: int, value: Any) -> None:
        super().insert(pause, value)
        self.now -= 3 * (pause == 0)  # some of what comes next is out of order


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fiba_plain(case: Case) -> None:
    @given(steps(case.nullable), st.sampled_from([2, 4]))
    @settings(RELAXED, max_examples=case.examples(4))
    def run(sequence: list[tuple[Any, ...]], arity: int) -> None:
        driver = FibaDriver(case, min_arity=arity, compiled=False)
        for step in sequence:
            driver.step(*step)

    run()


def is_sampled(kind: type, case: Case) -> bool:
    """Compiling is slow: each aggregator is compiled for one aggregation, and `TwoStacks` for all of them."""
    if kind is aggregators.TwoStacks or (THOROUGH > 1 and case.name == "bloom"):
        return True
    return case.name == ("max" if kind in TREES else "arg_max")


SAMPLED = [pair for pair in PAIRS if is_sampled(*pair) and pair[0] is not aggregators.TwoStacks]


def state_of(case: Case) -> tuple[bool, ...]:
    """Return all that an aggregator can tell of an aggregation: what a state holds, and the facts that it relies on."""
    known, binding = case.aggregation, aggregators.TwoStacks(case.aggregation, compiled=False)._binding
    columns = case.columns if isinstance(case.columns, tuple) else (case.columns,)
    arrays = binding.fixed and any(kind.shape for kind, *_ in (binding.dtype.fields or {}).values())
    facts = (known.selective, known.invertible, known.commutative, "neutral" in known.definition.functions)
    return (binding.fixed, arrays, STRINGS in columns, *facts)


def one_of_each_state() -> list[tuple[type, Case]]:
    """Return each aggregator with one aggregation of each class of states, and `TwoStacks` with all aggregations.

    An aggregator moves states about and combines them; what `combine` does with them is no matter of its own. Each
    takes another aggregation of a class, as far as there are. A thorough run has all pairs; in any run
    `test_aggregators_agree` compares their answers.
    """
    classes: dict[tuple[bool, ...], list[Case]] = {}
    for case in CASES:
        classes.setdefault(state_of(case), []).append(case)
    chosen = []
    for number, kind in enumerate(IN_ORDER):
        for members in classes.values():
            taken = [case for case in members if works(kind, case)]
            every = THOROUGH > 1 or kind is aggregators.TwoStacks
            chosen += [(kind, case) for case in (taken if every else taken[number % max(len(taken), 1) :][:1])]
    return chosen + [pair for pair in SAMPLED if pair not in chosen]


def named(kind: type, case: Case) -> Any:
    """A pair to test, slow unless it is one of the sample."""
    marks = () if is_sampled(kind, case) and case.name != "moment_sketch" else pytest.mark.slow
    return pytest.param(kind, case, id=f"{kind.__name__}-{case}", marks=marks)


@pytest.mark.parametrize(("kind", "case"), [named(*pair) for pair in one_of_each_state()])
def test_plain(kind: type, case: Case) -> None:
    @given(steps(case.nullable))
    @settings(RELAXED, max_examples=case.examples(15 if is_sampled(kind, case) and kind not in TREES else 3))
    def run(sequence: list[tuple[Any, ...]]) -> None:
        driver = Driver(kind, case.aggregation, check=True, compiled=False)
        for step in sequence:
            driver.step(*step)

    run()


@pytest.mark.parametrize(("kind", "case"), SAMPLED, ids=[f"{kind.__name__}-{case}" for kind, case in SAMPLED])
@pytest.mark.compiled
def test_compiled(kind: type, case: Case) -> None:
    # Undeclared types are learned: a window goes over to other kernels at the first value of a column. One shows that.
    dtype = None if kind is aggregators.Recalculate or THOROUGH > 1 else case.dtypes

    @given(steps(case.nullable))
    @settings(RELAXED, max_examples=examples(15))
    def run(sequence: list[tuple[Any, ...]]) -> None:
        driver = Driver(kind, case.aggregation, check=False, dtype=dtype)
        for step in sequence:
            driver.step(*step)
        driver.window.check()

    run()


def alike() -> list[list[Case]]:
    """Return all cases with machine code, of columns of the same types together: eight compile as long as two alone.

    Those that need values of their own are the first and the last of their type, and never together.
    """
    groups: dict[Any, list[Case]] = {}
    for case in sorted(CASES, key=lambda case: (case.columns is SMALL) - (case.columns is POSITIVE)):
        columns = case.columns if isinstance(case.columns, tuple) else (case.columns,)
        has_fields = all(each.state != "object" for each in case.aggregation.factory.definitions.values())
        if case.aggregation.kind != "holistic" and has_fields and STRINGS not in columns and not case.costly:
            types = tuple(DTYPES[each] for each in columns)
            groups.setdefault((types, tuple(case.aggregation.reads) or ("v",)), []).append(case)
    return [group[i : i + 9] for group in groups.values() for i in range(0, len(group), 9)]


def values_for(cases: list[Case]) -> Any:
    """Return values that all of some cases can take."""
    return next((case for case in cases if case.columns in (POSITIVE, SMALL)), cases[0]).nullable


class DriverOfMany(Driver):
    """Runs steps on an aggregator of many aggregations."""

    def step(self, name: str, *arguments: Any) -> None:
        answers = self.take(name, *arguments)
        for each, aggregation in self.aggregation.items():
            assert same(answers[each], recompute(aggregation, self.rows)), each


@pytest.mark.parametrize("cases", alike(), ids=lambda cases: f"{cases[0]} to {cases[-1]}")
@pytest.mark.compiled
def test_all_compiled(cases: list[Case]) -> None:
    """Every aggregation by one aggregator."""

    @given(steps(values_for(cases)))
    @settings(RELAXED, max_examples=examples(25))
    def run(sequence: list[tuple[Any, ...]]) -> None:
        aggregations = {case.name: case.aggregation for case in cases}
        dtype = {name: kind for case in cases for name, kind in case.dtypes.items()}
        driver = DriverOfMany(aggregators.TwoStacks, aggregations, check=False, dtype=dtype)
        for step in sequence:
            driver.step(*step)
        driver.window.check()
        assert driver.window._binding is None or driver.window._binding.compiled

    run()


@pytest.mark.parametrize("case", [case for case in CASES if not case.costly], ids=str)
def test_aggregators_agree(case: Case) -> None:
    @given(steps(case.nullable))
    @settings(RELAXED, max_examples=case.examples(4))
    def run(sequence: list[tuple[Any, ...]]) -> None:
        drivers = [Driver(kind, case.aggregation, False, compiled=False) for kind in IN_ORDER if works(kind, case)]
        for step in sequence:
            answers = [driver.take(*step) for driver in drivers]
            expected = recompute(case.aggregation, drivers[0].rows)
            assert all(driver.rows == drivers[0].rows for driver in drivers)
            assert all(same(answer, expected) for answer in answers)
            assert all(same(answer, answers[0]) for answer in answers)
            assert all(same(driver.window.query(), expected) for driver in drivers)  # asking again changes nothing

    run()


@pytest.mark.parametrize("kind", IN_ORDER, ids=lambda kind: kind.__name__)
def test_ranges_of_a_window(kind: type) -> None:
    """From any row to the youngest, and inside: the fold of these rows, or an error where the structure has lost it."""
    invertible = kind in (aggregators.SlickDeque, aggregators.SubtractOnEvict)
    aggregation = agg.sum("v") if invertible else agg.concat("v")
    chance = random.Random(7)
    window: Any = kind(aggregation, compiled=False)
    rows: list[tuple[int, Any]] = []
    answered = dict.fromkeys(("whole", "suffix", "inside"), 0)
    for time in range(300):
        value = time if invertible else chr(97 + time % 26)
        window.insert(time, value)
        rows.append((time, value))
        for _ in range(chance.choice([0, 1, 1, 1, 2, 2]) if len(rows) > chance.choice([3, 20, 70]) else 0):
            window.evict()
            del rows[0]
        begin, end = sorted(chance.choices([at for at, _ in rows] or [time], k=2))
        for what, lo, hi in (("whole", 0, time), ("suffix", begin, time), ("inside", begin, end)):
            try:
                found = window.range_query(lo, hi)
            except UnsupportedOperationError:
                assert what != "whole"
            else:
                assert same(found, recompute(aggregation, [row for row in rows if lo <= row[0] <= hi]))
                answered[what] += 1
    assert answered["whole"] == 300
    assert answered["suffix"] > answered["inside"] / 2
