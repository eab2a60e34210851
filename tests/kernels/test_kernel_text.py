"""Kernels as text: constants by name, layouts of named tuples, and kernels that replace others."""

from __future__ import annotations

import types
from typing import Any, NamedTuple

import numpy as np
import pytest

from muntin.kernels import cache
from muntin.kernels.generate import standalone
from muntin.kernels.kernel_text import kernels_text
from muntin.kernels.vocabulary import kernel, replaceable, replaces, undefined

SIZE, PLACE = 3, 1


class Pair(NamedTuple):
    left: Any
    right: Any


@kernel
def sum_at_place(pair: Pair) -> int:
    return int(pair.left[PLACE] + SIZE * pair.right[PLACE])


@kernel
def swapped(pair: Pair) -> int:
    other = Pair(pair.right, pair.left)
    return sum_at_place(other)


@replaceable
@kernel
def step() -> int:
    raise undefined("step")


@replaces(step)
@kernel
def long_step() -> int:
    return 10


@kernel
def walk(count: int) -> int:
    return count * step()


@kernel
def size_here() -> int:
    return SIZE


@kernel
def hides_a_constant(SIZE: int) -> int:  # noqa: N803  # the name is what is tested
    return SIZE


@pytest.mark.parametrize("compiled", [False, True])
def test_constants_and_named_tuples(compiled: bool) -> None:
    module = cache.load(standalone(swapped, within=[sum_at_place]), compiled=compiled)
    pair = Pair(np.array([1, 2]), np.array([3, 4]))
    assert module.swapped(pair) == 4 + 3 * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_a_replaced_kernel(compiled: bool) -> None:
    module = cache.load(standalone(walk, within=[long_step]), compiled=compiled)
    assert module.walk(4) == 40


def test_a_constant_of_another_module_keeps_its_value() -> None:
    elsewhere = types.FunctionType(size_here.__code__, {"SIZE": 8}, "size_here")
    namespace: dict[str, Any] = {}
    exec("def jit(f): return f\n" + kernels_text([sum_at_place, elsewhere]), namespace)
    assert namespace["sum_at_place"](Pair([0, 1], [0, 2])) == 7
    assert namespace["size_here"]() == 8


def test_a_parameter_hides_a_constant() -> None:
    assert "SIZE = " not in kernels_text([hides_a_constant])


def test_the_layout_is_part_of_the_text() -> None:
    assert "# Pair: left, right" in kernels_text([sum_at_place])


def test_two_kernels_of_one_name_are_refused() -> None:
    again = types.FunctionType(walk.__code__, {}, "walk")
    with pytest.raises(TypeError, match="two kernels are named walk"):
        kernels_text([walk, again])


def test_only_what_is_replaceable_is_replaced() -> None:
    with pytest.raises(TypeError, match="walk is not marked as replaceable"):
        replaces(walk)
