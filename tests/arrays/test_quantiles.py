"""Exact quantiles over arrays: ranks that are near the last one, far from it, and in words without others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg, slide
from muntin.aggregators import order_statistics
from muntin.kernels.runtime import nth_bit

QS = (0.0, 0.1, 0.5, 0.93, 1.0)
ASKED = {str(q): agg.quantile("v", q) for q in QS} | {"median": agg.median("v")}


def wanted(window: np.ndarray, q: float) -> float:
    """The quantile by its definition, between infinite values as in Spark SQL; NaN is the greatest."""
    ordered = np.sort(window)
    at = (len(ordered) - 1) * q
    low = int(at)
    below, above = float(ordered[low]), float(ordered[min(low + 1, len(ordered) - 1)])
    if at == low or below == above:
        return below
    share = at - low
    return below + (above - below) * share if np.isfinite(above - below) else below * (1 - share) + above * share


def wanted_median(window: np.ndarray) -> float:
    ordered = np.sort(window)
    below, above = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    return below if below == above else (below + above) / 2


def check(values: np.ndarray, width: int, rows: range | list[int]) -> None:
    got = slide({"v": values}, ASKED, range=width)
    alone = slide(values, ASKED["0.93"], range=width)
    for row in rows:
        window = values[max(0, row - width + 1) : row + 1]
        for q in QS:
            np.testing.assert_equal(got[str(q)][row], wanted(window, q), err_msg=f"row {row}, q {q}")
        np.testing.assert_equal(got["median"][row], wanted_median(window), err_msg=f"row {row}, median")
        np.testing.assert_equal(alone[row], got["0.93"][row], err_msg=f"row {row}, alone")


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 3.0, 1e300, np.inf, -np.inf, np.nan]), min_size=1, max_size=300),
    st.integers(1, 200),
)
@settings(max_examples=examples(25))
def test_any_values(values: list[float], width: int) -> None:
    with np.errstate(invalid="ignore"):  # between infinities there is no number
        check(np.array(values), width, range(len(values)))


@pytest.mark.parametrize("shape", ["two heaps", "descending", "steps"])
def test_long_windows(shape: str) -> None:
    """Windows of 2,500 rows have several groups of words, and of two heaps all ranks of one may be far off."""
    random = np.random.default_rng(5)
    number = np.arange(5200)
    values = {
        "two heaps": np.where(random.random(5200) < 0.5, -1e9, 1e9) + random.standard_normal(5200),
        "descending": -number.astype(float),
        "steps": (number // 1000 % 2) * 1e6 + random.standard_normal(5200),
    }[shape]
    check(values, 2500, [0, 1, 2499, 2500, 2501, 2559, 2560, 2561, 4000, 5199])


@pytest.mark.parametrize("holes", ["first", "second", "both", "neither"])
def test_blocks_with_and_without_nan_are_merged(holes: str) -> None:
    """Of two blocks of 64 rows the first, the second, both or none hold NaN; values are equal in both."""
    values = np.random.default_rng(3).integers(0, 40, 64 * 5).astype(float)
    for block, name in enumerate(("first", "second")):
        if holes in (name, "both"):
            values[64 * (2 + block) : 64 * (3 + block) : 7] = np.nan
    check(values, 64, range(0, len(values), 5))


@pytest.mark.compiled
def test_compiled_code_finds_the_same() -> None:
    values = np.random.default_rng(7).integers(-50, 50, 40_000)
    check(values, 9_000, [0, 1, 4095, 8_999, 9_000, 9_001, 17_999, 18_000, 20_003, 26_999, 31_000, 39_999])


def test_the_tree_is_asked_for_what_is_far_off() -> None:
    """Of 13,000 rows in three groups the first, the last and one between, from wherever the last look was."""
    groups, rows = 3, 3 * 4096
    memory = np.zeros(order_statistics.HEAD + groups + 64 * groups, np.int64)
    memory[order_statistics.GROUPS] = groups
    ranks = np.arange(0, rows, 3)
    ranks = ranks[(ranks < 200) | (ranks > 9000)]  # many words in a row are empty
    order_statistics.refill(memory, ranks, 0, len(ranks))
    view = order_statistics.SortedWindow(np.arange(rows), memory)
    for rank in (0, len(ranks) - 1, 5, 60, 66, 67, 68, 900, 0, 67, 66, len(ranks) - 2):
        assert order_statistics.nth(view, rank) == ranks[rank], rank
    order_statistics.toggle(memory, 0, -1)
    assert [order_statistics.nth(view, rank) for rank in (0, 66, 1000)] == [ranks[1], ranks[67], ranks[1001]]


@pytest.fixture(autouse=True)
def words_have_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels of this module be called as they stand."""
    monkeypatch.setattr(order_statistics, "index", int)


def test_bits_are_found_by_rank() -> None:
    random = np.random.default_rng(6)
    for bits in (1, 1 << 62, -(1 << 63), -1, *random.integers(-(2**63), 2**63, 20).tolist()):
        places = [place for place in range(64) if (bits >> place) & 1]
        assert [nth_bit(bits, rank) for rank in range(len(places))] == places


@pytest.mark.compiled
def test_bits_are_found_by_rank_in_compiled_code() -> None:
    """Both forms, where the processor has the instruction for one of them, and what kernels take here."""
    import llvmlite.binding
    from numba import njit

    from muntin.kernels import intrinsics

    def asked(bits: int, rank: int) -> int:
        return nth_bit(bits, rank)

    forms = [intrinsics.halved, asked]
    if llvmlite.binding.get_host_cpu_features().get("bmi2"):
        forms.append(intrinsics.laid_out)
    for form in forms:
        found = njit(form)
        for bits in (1, 1 << 62, -(1 << 63), -1, 0x5555_0000_1234_8001):
            places = [place for place in range(64) if (bits >> place) & 1]
            assert [found(bits, rank) for rank in range(len(places))] == places, form
