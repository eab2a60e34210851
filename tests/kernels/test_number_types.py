"""Arithmetic on columns of every numeric type: the same plain and compiled, and exact as far as 64 bits are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from muntin import agg, slide
from muntin.kernels.cache import uncompiled

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

TYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")
ROWS = 40


@agg.define(state={"square": "f8", "twice": "f8", "tenth": "f8", "negated": "f8", "inverse": "f8", "held": "v"})
class arithmetic:
    """What promotes narrow types: products, numbers in the text, a division by zero; and a narrow state."""

    def lift(v):
        x = float(v)
        return (float(v) * float(v), v * 2, v * 0.1, -x, 1.0 / x, v)

    def combine(a, b):
        half = float(a.held) * 0.5 + b.held * 0.5
        return (a.square + b.square, a.twice + b.twice, a.tenth + b.tenth, a.negated, b.inverse, half)

    def lower(s):
        return (s.square, s.twice, s.tenth, s.negated, s.inverse, s.held * 0.3, float(s.held) / 3.0)


@agg.define(state={"square": "f8", "sum": "i8"})
class products:
    """Products of a column by itself, which NumPy wraps around in narrow types."""

    def lift(v):
        return (v * v, v + v + v)

    def combine(a, b):
        return (a.square + b.square, a.sum + b.sum)

    def lower(s):
        return (s.square, s.sum)


@agg.define(state="v")
class mixed:
    """A bare state of the column's type."""

    def lift(v):
        return v

    def combine(a, b):
        return a * 0.75 + float(b) * 0.25

    def lower(s):
        return s * 0.1


@agg.define(state="sorted", result="f8")
class outer:
    """Arithmetic on values of the sorted window."""

    def lower(s):
        return s[0] * 0.1 + float(s[len(s) - 1]) * 0.3


def values(dtype: str) -> Any:
    random = np.random.default_rng(7)
    if np.dtype(dtype).kind == "f":
        return np.concatenate([[0.0], random.uniform(-100, 100, ROWS - 1)]).astype(dtype)
    most = 1 if dtype == "?" else min(np.iinfo(dtype).max, 1 << 50)
    return np.concatenate([[0], random.integers(0, most, ROWS - 1, endpoint=True)]).astype(dtype)


def both(columns: Any, aggregations: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    with uncompiled():
        plain = slide(columns, aggregations, range=3, **options)
    return plain, slide(columns, aggregations, range=3, **options)


def test_definitions_compute_with_64_bits_in_both_tiers() -> None:
    columns = {dtype: values(dtype) for dtype in TYPES}
    made = {f"arithmetic {dtype}": arithmetic(dtype) for dtype in TYPES}
    made |= {f"products {dtype}": products(dtype) for dtype in TYPES if dtype != "?"}
    made |= {f"mixed {dtype}": mixed(dtype) for dtype in TYPES if dtype != "?"}
    plain, compiled = both(columns, made)
    for name in made:
        assert plain[name].tobytes() == compiled[name].tobytes(), name
    for dtype in TYPES:
        alone = [float(v) for v in columns[dtype].tolist()]
        squares = [sum(x * x for x in alone[max(0, i - 2) : i + 1]) for i in range(ROWS)]
        assert np.allclose(plain[f"arithmetic {dtype}"]["f0"], squares, rtol=1e-15, atol=0), dtype


@pytest.mark.parametrize("dtype", ["?", "f2", "f4", "i1"])
def test_values_of_the_sorted_window_have_64_bits(dtype: str) -> None:
    plain, compiled = both(values(dtype), {"it": outer("v"), "median": agg.median("v"), "q": agg.quantile("v", 0.3)})
    for name, answers in compiled.items():
        assert answers.tobytes() == plain[name].tobytes(), name
