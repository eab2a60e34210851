"""Millions of slides through every in-order structure, and as many answers: no memory is gained on the way."""

from __future__ import annotations

import gc
import resource
from pathlib import Path

import numpy as np
import pytest
from sampling import THOROUGH

from muntin import agg, aggregators, slide

pytestmark = pytest.mark.compiled
ROWS, CALLS = 250_000, 8 * THOROUGH
KINDS = ["BaseIntervals", "Boundary", "Daba", "FlatFat", "FlatFit", "SlickDeque", "TwoStacks"]


def resident() -> int:
    """Return the bytes that this process holds in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.random.default_rng(3).random(ROWS)


@pytest.fixture(scope="module")
def truth(values: np.ndarray) -> np.ndarray:
    return slide(values, agg.max("v"), range=1000, aggregator="recalculate", slide=997)


def slide_by(kind: str, values: np.ndarray, truth: np.ndarray) -> None:
    answers = slide(values, agg.max("v"), range=1000, aggregator=kind, threads=2 if kind == "Boundary" else 1)
    assert np.array_equal(answers[(1000 - 1) % 997 :: 997], truth)


@pytest.mark.parametrize("kind", KINDS)
def test_many_slides_are_right(kind: str, values: np.ndarray, truth: np.ndarray) -> None:
    slide_by(kind, values, truth)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_millions_of_slides_gain_no_memory(kind: str, values: np.ndarray, truth: np.ndarray) -> None:
    after_first = 0
    for call in range(CALLS):
        slide_by(kind, values, truth)
        after_first = after_first or (resident() if call == 1 else 0)
    assert resident() - after_first < 8 * 2**20


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*KINDS, "Recalculate", "SubtractOnEvict"])
def test_a_window_of_constant_length_gains_no_memory(kind: str) -> None:
    """The structure itself, in bulk, for many times its length; by the kernels of test_against_recomputation.py."""
    aggregation = agg.sum("a") if kind == "SubtractOnEvict" else agg.arg_max("a", "b")
    window = getattr(aggregators, kind)(aggregation, dtype="f8")
    numbers = np.arange(1000.0)
    batch = {name: values for name, values in (("a", numbers), ("b", -numbers)) if name in aggregation.reads}
    window.bulk_insert(np.arange(1000), batch)
    before = 0
    for turn in range(1, 101):
        window.bulk_insert(np.arange(1000) + 1000 * turn, batch)
        window.bulk_evict(1000 * turn - 1)
        assert len(window) == 1000
        assert window.query() == (-999.0 if kind != "SubtractOnEvict" else numbers.sum())
        before = before or (resident() if turn == 10 else 0)
    window.check()
    assert resident() - before < 6 * 2**20
