"""Means and moments over arrays as differences of sums: against exact recomputation, and where digits would be lost."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import agg, explain, slide
from muntin.errors import DefinitionError, UnsupportedOperationError

U = 2.0**-53
MOMENTS = {name: getattr(agg, name)("v") for name in ("sum", "mean", "std", "skewness", "kurtosis")}
PAIRS = {name: getattr(agg, name)("v", "w") for name in ("covariance", "correlation", "linear_regression")}


def rows_to_try(width: int, rows: int) -> list[int]:
    """Rows about the borders of lanes and blocks, and elsewhere."""
    borders = [width + step for step in (-1, 0, 1, 255, 256, 257, 1023, 1024, 1025)]
    return [row for row in (0, 1, 254, 255, 256, 511, 512, 800, *borders, rows // 2, rows - 1) if row < rows]


def exact_variance(values: np.ndarray) -> Fraction:
    exact = [Fraction(value) for value in values.tolist()]
    mean = sum(exact) / len(exact)
    return sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1)


@pytest.mark.parametrize("width", [3, 255, 256, 1025])
def test_sums_and_variances_are_exact_but_for_rounding(width: int) -> None:
    values = np.random.default_rng(width).standard_normal(width + 2100) + 1e5
    both = {"sum": agg.sum("v"), "mean": agg.mean("v"), "var": agg.var("v")}
    got = slide({"v": values}, both, range=width, aggregator="prefix_sums")
    for row in rows_to_try(width, len(values)):
        window = values[max(0, row - width + 1) : row + 1]
        total = math.fsum(window)
        assert abs(got["sum"][row] - total) <= 2 * U * abs(total), row
        assert abs(got["mean"][row] - total / len(window)) <= 3 * U * abs(total / len(window)), row
        if row > 0:
            assert abs(Fraction(float(got["var"][row])) / exact_variance(window) - 1) < 3e-15, row


@pytest.mark.parametrize(
    ("what", "width"),
    [
        ("spikes", 300),
        ("nan", 300),
        ("infinite", 7),
        ("steps", 7),
        ("walk", 1100),
        ("zero sums", 300),
        ("integers", 7),
        ("one spike", 1100),
    ],
)
def test_what_would_lose_digits_is_combined(what: str, width: int) -> None:
    random = np.random.default_rng(width)
    number = np.arange(3200)
    normal = random.standard_normal(3200)
    values = {
        "spikes": np.where(number % 401 == 7, 1e100, normal),
        "nan": np.where(number % 701 == 7, np.nan, normal),
        "infinite": np.where(number % 1701 == 7, -np.inf, normal),
        "steps": np.repeat(normal[:32], 100) * 1e7,
        "walk": np.cumsum(normal),
        "zero sums": np.tile([1e16, 1.0, -1e16, -1.0], 800),
        "integers": random.integers(-3, 4, 3200),
        "one spike": np.where(number == 1500, 1e300, normal),
    }[what]
    with np.errstate(all="ignore"):  # plain kernels would warn of what is no number
        # Sums and means of integers are exact, and have no need of it.
        for name in ("kurtosis", "std") if what in ("walk", "integers") else ("sum", "std"):
            got, wanted = (
                slide(values, MOMENTS[name], range=width, aggregator=how) for how in ("prefix_sums", "two_stacks")
            )
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 if name == "kurtosis" else 0)


@pytest.mark.parametrize("width", [7, 700])
@pytest.mark.parametrize("factor", [2.0, 1e3, 1e-3, 1e9, 1e-9])
def test_values_that_grow_or_shrink_are_summed_as_exactly(width: int, factor: float) -> None:
    values = np.random.default_rng(width).standard_normal(4500)
    values[2600:] *= factor  # the step to which they are rounded was chosen for those before
    got = slide(values, agg.sum("v"), range=width, aggregator="prefix_sums")
    for row in (*rows_to_try(width, 4500), *range(2590, 2610), *range(2600 + width - 5, 2600 + width + 5), 4000):
        total = sum(map(Fraction, values[max(0, row - width + 1) : row + 1].tolist()), Fraction(0))
        assert abs(Fraction(float(got[row])) - total) <= Fraction(1.5 * U) * abs(total), row


@pytest.mark.compiled
def test_sums_near_zero_are_exact() -> None:
    half = np.random.default_rng(9).standard_normal(150)
    values = np.tile(np.concatenate([half, -half]), 1000)  # a window of whole periods has the sum 0
    assert not slide(values, agg.sum("v"), range=300)[299:].any()
    slowly = slide(values + 1e-9, agg.sum("v"), range=600)[599::5000]
    for row, got in zip(range(599, len(values), 5000), slowly.tolist(), strict=True):
        assert got == math.fsum((values + 1e-9)[row - 599 : row + 1])


@pytest.mark.compiled
def test_totals_of_many_lanes_are_added_with_their_rounding_errors() -> None:
    values = np.random.default_rng(10).uniform(0.5, 1.0, 60_000)
    got = slide(values, agg.sum("v"), range=10_000, aggregator="prefix_sums")
    exact = np.array([math.fsum(values[row - 9_999 : row + 1]) for row in range(20_000, 60_000, 50)])
    assert (got[20_000::50] == exact).mean() > 0.99  # a second rounding would show in one of ten


@pytest.mark.parametrize("name", PAIRS)
def test_two_columns(name: str) -> None:
    random = np.random.default_rng(3)
    v = random.standard_normal(2200) + 1e4
    table = {"v": v, "w": 0.3 * v + random.standard_normal(2200)}
    got, wanted = (slide(table, PAIRS[name], range=40, aggregator=how) for how in ("prefix_sums", "two_stacks"))
    for field in got.dtype.names or [...]:
        np.testing.assert_allclose(got[field], wanted[field], rtol=1e-9)


@pytest.mark.parametrize("dtype", ["f4", "i2", "u1", "?"])
def test_types_of_numbers(dtype: str) -> None:
    values = np.random.default_rng(4).integers(0, 2, 2200).astype(dtype)
    got = slide(values, agg.var_pop("v"), range=300, aggregator="prefix_sums")
    assert got[1999] == pytest.approx(float(values[1700:2000].astype(float).var()), rel=1e-14)


def test_full_windows_only_and_threads() -> None:
    values = np.random.default_rng(5).standard_normal(5000)
    how: Any = {"range": 100, "aggregator": "prefix_sums"}
    whole = slide(values, agg.std("v"), **how)
    np.testing.assert_allclose(slide(values, agg.std("v"), range=100, aggregator="two_stacks"), whole, rtol=1e-13)
    assert (slide(values, agg.std("v"), partial=False, **how) == whole[99:]).all()
    np.testing.assert_allclose(slide(values, agg.std("v"), threads=2, **how), whole, rtol=1e-14)


def test_equal_values_have_no_variance_and_sums_of_them_are_exact() -> None:
    values = np.repeat([0.1, 7.7e-5], 1600)
    std = slide(values, agg.std("v"), range=300, aggregator="prefix_sums")
    assert not std[1:1600].any()
    assert not std[1900:].any()
    assert (std[1600:1899] > 0).all()


def test_aggregations_that_run_together_give_what_they_give_alone() -> None:
    values = np.random.default_rng(6).standard_normal(2300)
    how: Any = {"range": 257, "aggregator": "prefix_sums"}
    together = slide({"v": values}, MOMENTS, **how)
    for name, each in MOMENTS.items():
        np.testing.assert_allclose(together[name], slide(values, each, **how), rtol=1e-14, err_msg=name)


@pytest.mark.compiled
def test_many_rows_and_aggregations_of_other_kinds() -> None:
    values = np.random.default_rng(8).standard_normal(1 << 17)
    asked = {"n": agg.count(), "high": agg.max("v"), "mean": agg.mean("v"), "std": agg.std("v")}
    assert "agg.mean('v'), agg.std('v')\n  runs compiled, by prefix_sums" in explain({"v": values}, asked, range=300)
    got = slide({"v": values}, asked, range=300)
    for row in (5, 299, 70_000, len(values) - 1):
        window = values[max(0, row - 299) : row + 1]
        assert got["n"][row] == len(window)
        assert got["high"][row] == window.max()
        assert got["mean"][row] == pytest.approx(math.fsum(window) / len(window), rel=4 * U)
        assert got["std"][row] == pytest.approx(window.std(ddof=1), rel=1e-14)


@agg.define(state={"n": "f8", "squares": "f8"})
class mean_square:
    """An aggregation of one's own that follows from sums."""

    def lift(v):
        return (1.0, v * v)

    def combine(a, b):
        return (a.n + b.n, a.squares + b.squares)

    def lower(s):
        return s.squares / s.n

    def terms(v, c):
        return (v * v,)

    def from_sums(n, c, squares):
        return (n, squares)

    def lost(n, squares, error):
        return not error <= squares * 2.0**-53


def test_an_aggregation_of_ones_own() -> None:
    values = np.random.default_rng(7).standard_normal(2000)
    mine = mean_square("v")
    got = slide(values, mine, range=64, aggregator="prefix_sums")
    assert got[1500] == pytest.approx(float((values[1437:1501] ** 2).mean()), rel=1e-15)
    np.testing.assert_allclose(got, slide(values, mine, range=64, aggregator="two_stacks"), rtol=1e-13)


def functions(**changed: Any) -> dict[str, Any]:
    """Return the functions of a definition, some of them changed or, where None, left out."""

    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def terms(v, c):
        return (v,)

    def from_sums(n, c, total):
        return total

    def lost(n, total, error):
        return not error <= abs(total)

    found = {"lift": lift, "combine": combine, "terms": terms, "from_sums": from_sums, "lost": lost, **changed}
    return {name: function for name, function in found.items() if function is not None}


def two_terms(v, c):
    return (v, v)


def one_number(v, c):
    return v


def one_or_two(v, c):
    return (v, v) if v > c else (v,)


def no_centre(v):
    return (v,)


def too_few(n, total):
    return False


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"lost": None}, "broken defines terms; lift, terms, from_sums, lost are needed together"),
        (
            {"terms": two_terms},
            "broken.from_sums must take 4 positional parameters, not 3: the number of rows, centres",
        ),
        ({"terms": one_number}, r"broken.terms must return a tuple, of the same number of terms wherever it returns"),
        ({"terms": one_or_two}, r"broken.terms must return a tuple, of the same number of terms wherever it returns"),
        ({"terms": no_centre}, "broken.terms must take 2 positional parameters, not 1: a value and a centre, one for"),
        ({"lost": too_few}, "broken.lost must take 3 positional parameters, not 2: .* bounds of their errors"),
    ],
)
def test_functions_that_do_not_fit_each_other_are_refused(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DefinitionError, match=complaint):
        agg.define(state="f8")(type("broken", (), functions(**changed)))


def test_sums_do_not_decide_what_a_state_means() -> None:
    with_sums, without = (
        agg.define(state="f8")(type("total", (), functions(**changed)))("v")
        for changed in ({}, dict.fromkeys(("terms", "from_sums", "lost")))
    )
    assert with_sums.fingerprint == without.fingerprint
    values = np.zeros(1 << 17)
    assert "by prefix_sums" in explain(values, with_sums, range=8)
    assert "by two_stacks" in explain(values, without, range=8)


def test_what_does_not_follow_from_sums_is_refused() -> None:
    with pytest.raises(UnsupportedOperationError, match="prefix_sums runs aggregations with `terms`"):
        slide(np.arange(9.0), agg.max("v"), range=3, aggregator="prefix_sums")
    with pytest.raises(UnsupportedOperationError, match="prefix_sums"):
        slide(np.arange(9.0), agg.mean("v"), range=3, slide=2, aggregator="prefix_sums")
    few = slide(np.arange(9.0), agg.mean("v"), range=3, aggregator="prefix_sums")
    assert few.tolist() == [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


@agg.define(state={"n": "f8", "total": "f8"}, result="i8", commutative=True)
class rounded_mean:
    """A mean that is null where it is large: what users may write, with a mask for its nulls."""

    def lift(v):
        return (1.0, v)

    def combine(a, b):
        return (a.n + b.n, a.total + b.total)

    def lower(s):
        return int(s.total / s.n) if abs(s.total) < 1e6 * s.n else None

    def terms(v, c):
        return (v,)

    def from_sums(n, c, total):
        return (n, total)

    def lost(n, total, error):
        return not error <= abs(total) * 2.0**-54


@pytest.mark.parametrize("width", [2, 3, 100])
def test_what_sums_found_null_is_answered_by_combining(width: int) -> None:
    """Sums that have lost digits see no spread where there is one."""
    random = np.random.default_rng(width)
    large = (np.arange(2600) // 300) % 2 == 0
    x = np.where(large, 1e9 * random.random(2600), 1e-3 * random.random(2600))
    columns = {"y": random.standard_normal(2600), "x": x, "steps": np.where(large, 1e20, 3.5)}
    for asked in (agg.linear_regression("y", "x"), rounded_mean("steps")):
        got, wanted = (
            slide(pa.table(columns), asked, range=width, aggregator=how) for how in ("prefix_sums", "two_stacks")
        )
        assert got.is_null().equals(wanted.is_null())
        assert got.null_count == (1 if asked.name == "linear_regression" else wanted.null_count)
