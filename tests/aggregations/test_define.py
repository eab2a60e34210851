"""`agg.define`: what it accepts, what it refuses, and that a definition travels."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from muntin import agg, aggregators, slide
from muntin.errors import ColumnTypeError, DefinitionError

SCALE = 10.0
WEIGHTS = np.array([1.0, 2.0, 4.0])


def _helper(x, y):
    return math.hypot(x, y)


@agg.define(state={"n": "i8", "total": "f8"})
class mean:
    def lift(v):
        return (1, v)

    def combine(a, b):
        return (a.n + b.n, a.total + b.total)

    def lower(s):
        return s.total / s.n

    def invert(a, b):
        return (a.n - b.n, a.total - b.total)

    def neutral():
        return (0, 0.0)


@agg.define(state={"longest": "f8"}, commutative=True, selective=True)
class longest:
    def lift(x, y):
        return (_helper(x, y) * SCALE * WEIGHTS[1],)

    def combine(a, b):
        return a if a.longest >= b.longest else (b.longest,)


@agg.define(state="f8")
class power_sum:
    def lift(v, *, exponent=2.0):
        return v**exponent

    def combine(a, b):
        return a + b

    def lower(s, *, exponent):
        return s ** (1.0 / exponent)


def test_the_contracts_example() -> None:
    assert slide(np.array([1.0, 2.0, 6.0]), mean("v"), range=2).tolist() == [1.0, 1.5, 4.0]
    window = aggregators.SubtractOnEvict(mean("v"))
    window.bulk_insert([1, 2, 3], [1.0, 2.0, 6.0])
    window.evict()
    assert window.query() == 4.0


def test_two_columns_with_helper_constant_and_array() -> None:
    rows = {"x": np.array([3.0, 5.0]), "y": np.array([4.0, 12.0])}
    assert slide(rows, longest("x", "y"), range=2).tolist() == [100.0, 260.0]
    assert slide({"a": rows["x"], "b": rows["y"]}, longest(y="b", x="a"), range=1).tolist() == [100.0, 260.0]


def test_parameters_by_position_by_name_and_by_default() -> None:
    values = np.array([3.0, 4.0])
    assert slide(values, power_sum("v"), range=2)[-1] == pytest.approx(5.0)
    assert slide(values, power_sum("v", 1.0), range=2)[-1] == pytest.approx(7.0)
    assert slide(values, power_sum("v", exponent=1.0), range=2)[-1] == pytest.approx(7.0)


def test_the_result_type_is_what_the_compiler_infers() -> None:
    @agg.define(state="f8")
    class sometimes_half:
        def lift(v):
            return v

        def combine(a, b):
            return a + b

        def lower(s):
            if s < 2.0:
                return 0
            return 0.5

    assert slide(np.array([1.0, 5.0]), sometimes_half("v"), range=1).tolist() == [0.0, 0.5]


def test_several_results_without_names() -> None:
    @agg.define(state="f8")
    class both:
        def lift(v):
            return v

        def combine(a, b):
            return a + b

        def lower(s):
            return (s, s > 2.0)

    assert slide(np.array([1.0, 5.0]), both("v"), range=1).tolist() == [(1.0, False), (5.0, True)]


def test_no_neutral_and_nulls() -> None:
    @agg.define(state="f8")
    class newest:
        def lift(v):
            return v

        def combine(a, b):
            return b

    window = aggregators.TwoStacks(newest("v"))
    assert window.query() is None
    window.insert(1, None)
    assert window.query() is None
    window.insert(2, 4.0)
    window.insert(3, None)
    assert window.query() == 4.0


def _refuse(match: str):
    return pytest.raises(DefinitionError, match=match)


def test_refusals() -> None:
    with _refuse("must define combine"):

        @agg.define(state="f8")
        class no_combine:
            def lift(v):
                return v

    with _refuse("defines 'merge'"):

        @agg.define(state="f8")
        class unknown:
            def lift(v):
                return v

            def combine(a, b):
                return a

            def merge(a, b):
                return a

    with _refuse("must take 2 positional"):

        @agg.define(state="f8")
        class arity:
            def lift(v):
                return v

            def combine(a):
                return a

    with _refuse("'not_there', which is not defined"):

        @agg.define(state="f8")
        class undefined:
            def lift(v):
                return not_there(v)  # noqa: F821

            def combine(a, b):
                return a

    with _refuse("lambda"):

        @agg.define(state="f8")
        class by_lambda:
            lift = lambda v: v  # noqa: E731

            def combine(a, b):
                return a


def test_every_field_gets_a_value() -> None:
    with _refuse("two_for_one.lift returns a tuple of 2 values, but the state has 1, n; return one value"):

        @agg.define(state={"n": "i8"})
        class two_for_one:
            def lift(v):
                return (1, v)

            def combine(a, b):
                return (a.n + b.n,)

    with _refuse("one_arm.combine returns a tuple of 1 value, but the state has 2, n, total"):

        @agg.define(state={"n": "i8", "total": "f8"})
        class one_arm:
            def lift(v):
                return (1, v)

            def combine(a, b):
                if a.n > b.n:
                    return a if b.n == 0 else (a.n,)
                return (a.n + b.n, a.total + b.total)

    @agg.define(state="v")
    class pair_for_a_value:
        def lift(v):
            return v

        def combine(a, b):
            return (a, b)

    with _refuse("pair_for_a_value.combine returns a tuple of 2 values, but the state is one value"):
        slide([1.0, 2.0], pair_for_a_value("v"), range=2)

    def fields(wide):
        return {"low": "f8", "high": "f8"} if wide else {"low": "f8"}

    @agg.define(state=fields)
    class by_parameter:
        def lift(v, *, wide):
            return (v, v)

        def combine(a, b):
            return b

    assert slide([1.0, 2.0], by_parameter("v", wide=True), range=2).tolist() == [(1.0, 1.0), (2.0, 2.0)]
    with _refuse("by_parameter.lift returns a tuple of 2 values, but the state has 1, low"):
        slide([1.0, 2.0], by_parameter("v", wide=False), range=2)


def test_tuples_that_are_no_state_may_have_any_length() -> None:
    @agg.define(state="object")
    class pairs:
        def lift(v):
            return (v, v)

        def combine(a, b):
            return (*a, b[-1])

    assert slide(["a", "b"], pairs("v"), range=2).tolist() == [("a", "a"), ("a", "a", "b")]

    @agg.define(state={"low": "f8", "high": "f8"})
    class extent:
        def lift(v):
            return (v, v)

        def combine(a, b):
            low = min((a.low, b.low), key=lambda x: (x, 0, 0))
            return (*(low,), max(a.high, b.high))

    assert extent("v").columns == ("v",)


def test_define_needs_brackets_and_no_self() -> None:
    with _refuse(r"write @agg.define\(state=...\)"):

        @agg.define
        class unbracketed:
            def lift(v):
                return v

    with _refuse("method.lift takes columns only; functions of a definition have no self: write def lift"):

        @agg.define(state="f8")
        class method:
            def lift(self, v):
                return v

            def combine(a, b):
                return a + b

    with _refuse(r"not 3; functions of a definition have no self: write def combine\(a, b\)"):

        @agg.define(state="f8")
        class other_method:
            def lift(v):
                return v

            def combine(self, a, b):
                return a + b


def test_bad_calls() -> None:
    with _refuse("needs the name of its column 'v'"):
        mean()
    with _refuse("named by a string"):
        mean(3)
    with _refuse("no parameter 'w'"):
        mean("v", w=1)
    with _refuse("takes v"):
        mean("v", 1, 2)
    with _refuse("twice"):
        mean("a", v="b")
    with _refuse("needs the parameter 'q'"):
        agg.quantile("v")


def test_bad_types_name_the_column() -> None:
    with pytest.raises(ColumnTypeError, match="sum of column 'word'"):
        slide({"word": ["a", "b"]}, agg.sum("word"), range=2)


@pytest.mark.compiled
def test_what_cannot_be_compiled_is_explained() -> None:
    @agg.define(state="f8")
    class uses_a_string:
        def lift(v):
            return v

        def combine(a, b):
            return str(a).upper()

    with _refuse("cannot be compiled"):
        slide(np.array([1.0, 2.0]), uses_a_string("v"), range=2)

    class Thing:
        pass

    thing = Thing()

    @agg.define(state="f8")
    class uses_an_object:
        def lift(v):
            return v

        def combine(a, b):
            return a if thing else b

    with _refuse("cannot use 'thing', a Thing"):
        slide(np.array([1.0, 2.0]), uses_an_object("v"), range=2)


def test_any_python_object_as_state() -> None:
    lookup = {"a": 1, "b": 2}

    @agg.define(state="object")
    class histogram:
        def lift(v):
            return {v: lookup[v]}

        def combine(a, b):
            return {k: a.get(k, 0) + b.get(k, 0) for k in sorted({*a, *b})}

    assert slide(["a", "b", "b"], histogram("v"), range=2).tolist() == [{"a": 1}, {"a": 1, "b": 2}, {"b": 4}]


def test_by_type_takes_all_families_of_its_default() -> None:
    middle = agg.by_type("middle", integer=agg.min, any=agg.mean)
    assert slide([7, 9], middle("v"), range=2).tolist() == [7, 7]
    assert slide([7.0, 9.0], middle("v"), range=2).tolist() == [7.0, 8.0]
    assert slide([True, False], middle("v"), range=2).tolist() == [1.0, 0.5]


def test_pickled_aggregations_are_the_same() -> None:
    for aggregation in (agg.sum("v"), agg.quantile("v", 0.9), agg.hyperloglog("v"), agg.moment_sketch("v")):
        again = pickle.loads(pickle.dumps(aggregation))
        assert again.fingerprint == aggregation.fingerprint
        assert again.columns == aggregation.columns


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = "from muntin import agg; print(agg.moment_sketch('v').fingerprint, agg.bloom('v').fingerprint)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert there == [agg.moment_sketch("v").fingerprint, agg.bloom("v").fingerprint]


def test_the_fingerprint_sees_what_changes_the_meaning() -> None:
    assert agg.quantile("v", 0.9).fingerprint != agg.quantile("v", 0.8).fingerprint
    assert agg.max("v").fingerprint != agg.min("v").fingerprint
    assert agg.max("v").fingerprint != agg.max("v", skip_nan=True).fingerprint
    assert agg.std("v").fingerprint != agg.var("v").fingerprint


def test_definitions_reach_a_process_that_never_saw_them(tmp_path: Path) -> None:
    payload = tmp_path / "aggregation"
    payload.write_bytes(pickle.dumps(longest("x", "y")))
    code = (
        "import pickle, pathlib, muntin\n"
        f"a = pickle.loads(pathlib.Path({str(payload)!r}).read_bytes())\n"
        "print(muntin.slide({'x': [3.0], 'y': [4.0]}, a, range=1).tolist())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert out.stdout.strip() == "[100.0]"


def test_repr_is_the_call() -> None:
    assert repr(agg.quantile("v", 0.9)) == "agg.quantile('v', q=0.9)"
    assert repr(agg.max("v", skip_nan=True)) == "agg.max('v', skip_nan=True)"
    assert [repr(agg.count()), repr(agg.count("v"))] == ["agg.count()", "agg.count('v')"]
    assert repr(agg.arg_max) == "agg.arg_max(by, value)"


def test_facts() -> None:
    assert agg.sum("v").invertible
    assert agg.sum("v").commutative
    assert agg.sum("v").kind == "distributive"
    assert agg.mean("v").kind == "algebraic"
    assert agg.median("v").kind == "holistic"
    assert not agg.max("v").invertible
    assert agg.max("v").selective
    assert not agg.longest_increasing_run("v").commutative
    assert agg.collect("v").invertible


def test_a_function_may_have_any_names_of_its_own() -> None:
    @agg.define(state={"np": "f8", "n": "i8"}, commutative=True)
    class named_mean:
        def lift(np):
            return (np, 1)

        def combine(a, b):
            np, n = a.np + b.np, a.n + b.n
            both = (np, n)
            return both if n > 2 else (np, n)

        def lower(s):
            return s.np / s.n

    assert slide([1, 2, 6], named_mean("v"), range=2).tolist() == [1.0, 1.5, 4.0]
    assert slide([1, 2, 6], named_mean("v"), range=3).tolist() == [1.0, 1.5, 3.0]
