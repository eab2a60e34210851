"""Kernels that count no references: only where nothing in a definition can allocate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from muntin import agg, slide
from muntin.aggregations.binding import bind
from muntin.kernels.vocabulary import kernel
from muntin.types import FLOAT64


@agg.define(state="f8")
class root_of_sum:
    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def lower(s):
        return math.sqrt(abs(s))


@agg.define(state={"low": "f8", "high": "f8"}, result="f8")
class middle_by_array:
    """A state of numbers, and a lower that needs an array on the way."""

    def lift(v):
        return (v, v)

    def combine(a, b):
        return (min(a.low, b.low), max(a.high, b.high))

    def lower(s):
        both = np.zeros(2)
        both[0] = s.low
        both[1] = s.high
        return both.mean()


@agg.define(state={"low": "f8", "high": "f8"}, result="f8")
class middle_by_list:
    def lift(v):
        return (v, v)

    def combine(a, b):
        return (min(a.low, b.low), max(a.high, b.high))

    def lower(s):
        return sum(sorted((s.high, s.low))) / 2


@pytest.mark.parametrize(
    ("aggregation", "counted"),
    [
        (agg.max("v"), False),
        (agg.sum("v"), False),
        (root_of_sum("v"), False),
        (middle_by_array("v"), True),
        (middle_by_list("v"), True),
        (agg.bloom("v", bits=64), True),
    ],
)
def test_which_count_references(aggregation: agg.Aggregation, counted: bool) -> None:
    binding = bind({"value": aggregation}, {"v": FLOAT64})
    assert any(part.allocates for part in binding.parts) is counted
    assert binding.generate(()).counted is counted


def test_a_definition_that_allocates_still_compiles() -> None:
    values = np.array([1.0, 5.0, 2.0, 8.0])
    assert slide(values, middle_by_array("v"), range=3).tolist() == [1.0, 3.0, 3.0, 5.0]
    assert slide(values, root_of_sum("v"), range=1).tolist() == np.sqrt(values).tolist()


def test_a_kernel_that_makes_arrays_counts_references_and_one_that_speaks_of_it_does_not() -> None:
    from muntin.kernels.kernel_text import any_allocates
    from muntin.streams.sorted_runs.order_keys import value_of

    @kernel
    def speaks(row):
        if row < 0:
            raise ValueError("np.empty(0) would be as good")
        return np.sqrt(np.float64(row))

    assert any_allocates((value_of,))
    assert not any_allocates((speaks,))
