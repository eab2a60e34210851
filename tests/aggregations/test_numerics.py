"""Numbers: sums that do not drift, integers that stay exact, moments that keep their digits."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba import njit
from sampling import THOROUGH

from muntin import Query, agg, aggregators, slide, window
from muntin.kernels import intrinsics, runtime  # noqa: F401  # the first teaches numba the second

U = 2.0**-53


def mixed_magnitudes(rows: int, seed: int = 0) -> np.ndarray:
    """Values from 1e-12 to 1e12 of both signs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=rows) * 10.0 ** rng.integers(-12, 13, rows)


@pytest.mark.compiled
def test_a_long_stream_does_not_drift() -> None:
    """The bound of arithmetic.py, u|S| + (nu)^2 sum|x|, holds at the end of the stream as at its beginning.

    Of four million rows, of a hundred million in a thorough run.
    """
    rows, width = 10**8 if THOROUGH > 1 else 4 * 10**6, 1000
    piece = mixed_magnitudes(10**6)
    stream = np.empty(rows)
    for i, scale in enumerate(np.resize([1.0, 1e-3, 1e3, -1.0], rows // len(piece))):
        np.multiply(piece, scale, out=stream[i * len(piece) : (i + 1) * len(piece)])
    sums = slide(stream, agg.sum("v"), range=width, threads=2)
    means = slide(stream[-(2 * 10**6) :], agg.mean("v"), range=width)
    for row in np.concatenate([np.arange(rows - 300, rows), np.random.default_rng(1).integers(width, rows, 700)]):
        window = stream[row - width + 1 : row + 1]
        exact = math.fsum(window)
        bound = 2 * U * abs(exact) + (width * U) ** 2 * math.fsum(abs(window))
        assert abs(sums[row] - exact) <= bound, f"row {row}"
    for back in range(1, 300):
        window = stream[rows - back - width + 1 : rows - back + 1]
        assert means[-back] == pytest.approx(math.fsum(window) / width, rel=4 * U, abs=1e-300)


@pytest.mark.parametrize("kind", [aggregators.TwoStacks, aggregators.SubtractOnEvict, aggregators.Recalculate])
@pytest.mark.compiled
def test_aggregators_do_not_drift(kind: type) -> None:
    values = mixed_magnitudes(3000, 7)
    values[1000], values[1500], values[2000] = 1e300, math.inf, math.nan
    window = kind(agg.sum("v"))
    for i, value in enumerate(values.tolist()):
        window.insert(i, value)
        if i >= 50:
            window.evict()
        held = values[max(0, i - 49) : i + 1]
        if np.isfinite(held).all():
            exact = math.fsum(held)
            assert abs(window.query() - exact) <= 2 * U * abs(exact) + 1e-25 * math.fsum(abs(held)), f"row {i}"
        else:
            assert not math.isfinite(window.query())


@pytest.mark.compiled
def test_infinities_and_nan() -> None:
    values = np.array([1.0, math.inf, 2.0, -math.inf, 3.0, math.nan, 4.0, 5.0])
    assert str(slide(values, agg.sum("v"), range=2).tolist()) == "[1.0, inf, inf, -inf, -inf, nan, nan, 9.0]"
    assert str(slide(values, agg.mean("v"), range=2).tolist()) == "[1.0, inf, inf, -inf, -inf, nan, nan, 4.5]"
    assert str(slide(values, agg.max("v"), range=2).tolist()) == "[1.0, inf, inf, 2.0, 3.0, nan, nan, 5.0]"
    assert str(slide(values, agg.min("v"), range=2).tolist()) == "[1.0, 1.0, 2.0, -inf, -inf, 3.0, 4.0, 4.0]"
    assert slide(values, agg.max("v", skip_nan=True), range=2).tolist()[5:] == [3.0, 4.0, 5.0]
    assert str(slide(values, agg.median("v"), range=3).tolist()[-2:]) == "[4.0, 5.0]"


def test_integers_are_exact() -> None:
    big = [2**53 + 1, 2**53, 2**62 + 1, -(2**63), 2**63 - 1]
    assert slide(big, agg.max("v"), range=2).tolist() == [max(big[max(0, i - 1) : i + 1]) for i in range(5)]
    assert slide(big, agg.min("v"), range=5).tolist()[-1] == -(2**63)
    assert slide(big, agg.sum("v"), range=5).tolist()[-1] == sum(big)
    for kind in (aggregators.TwoStacks, aggregators.SubtractOnEvict):
        window = kind(agg.sum("v"))
        window.bulk_insert(range(5), big)
        assert window.query() == sum(big)
        window.evict()
        assert window.query() == sum(big[1:])


def test_an_overflow_is_an_error_and_the_window_goes_on() -> None:
    window = aggregators.SubtractOnEvict(agg.sum("v"))
    window.bulk_insert([1, 2, 3], [2**62, 2**62, 5])
    with pytest.raises(OverflowError, match="does not fit int64"):
        window.query()
    window.evict()
    assert window.query() == 2**62 + 5


def exact_variance(window: np.ndarray) -> Fraction:
    return statistics.variance(map(Fraction, window.tolist()))


@pytest.mark.parametrize("aggregator", ["two_stacks", "recalculate", "subtract_on_evict", "fiba"])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, -1e9])
def test_variance_keeps_its_digits_whatever_the_offset(offset: float, aggregator: str) -> None:
    """Two passes lose eight of them at 1e9: they centre by a mean that is rounded."""
    require_digits(offset, aggregator, 300)


@pytest.mark.compiled
@pytest.mark.parametrize("offset", [1e8, -1e10])
def test_variance_keeps_its_digits_compiled(offset: float) -> None:
    require_digits(offset, "two_stacks", 2000)


def require_digits(offset: float, aggregator: str, rows: int) -> None:
    values = np.random.default_rng(2).random(rows) * 1e-3 + offset
    got = slide(values, agg.var("v"), range=100, aggregator=aggregator)
    for row in (1, 50, 99, 177, rows - 1):
        exact = exact_variance(values[max(0, row - 99) : row + 1])
        # What SubtractOnEvict takes out leaves the rounding of what was there.
        assert abs(Fraction(float(got[row])) / exact - 1) < (1e-12 if aggregator == "subtract_on_evict" else 2e-14), row


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e9 + 0.1, -7.7e-5, 1e300])
def test_equal_values_have_no_variance(value: float) -> None:
    values = np.full(60, value)
    for aggregator in ("auto", "two_stacks", "recalculate", "subtract_on_evict", "fiba"):
        assert set(slide(values, agg.std("v"), range=7, aggregator=aggregator)[1:].tolist()) == {0.0}, aggregator
        assert np.isnan(slide(values, agg.skewness("v"), range=7, aggregator=aggregator)).all(), aggregator
    table = {"x": values, "y": np.arange(60.0)}
    assert np.isnan(slide(table, agg.correlation("x", "y"), range=7)).all()
    assert set(slide(table, agg.covariance("x", "y"), range=7)[1:].tolist()) == {0.0}
    query = Query(window.sliding(20, every=5), {"std": agg.std("x")}, time="t")
    times = np.arange(60)
    stream = query.stream()
    pushed = [stream.push({"t": times[a : a + 7], "x": values[a : a + 7]}) for a in range(0, 60, 7)]
    for answer in (query.run({"t": times, "x": values}), pa.concat_tables([*pushed, stream.close()])):
        assert set(answer["std"].to_pylist()) == {0.0}


def test_skewness_and_kurtosis_against_their_definitions() -> None:
    values = np.random.default_rng(4).gamma(2.0, size=500) + 1e4
    for row in (50, 300, 499):
        window = values[row - 49 : row + 1] - 1e4
        centred = window - window.mean()
        m2, m3, m4 = (float((centred**k).mean()) for k in (2, 3, 4))
        assert slide(values, agg.skewness("v"), range=50)[row] == pytest.approx(m3 / m2**1.5, rel=1e-12)
        assert slide(values, agg.kurtosis("v"), range=50)[row] == pytest.approx(m4 / m2**2 - 3, rel=1e-12)


def test_two_column_statistics_against_numpy() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=200) + 1e3, rng.normal(size=200)
    table = {"x": x, "y": y}
    rows = slice(150, 200)
    assert slide(table, agg.covariance("x", "y"), range=50)[-1] == pytest.approx(np.cov(x[rows], y[rows])[0, 1])
    assert slide(table, agg.correlation("x", "y"), range=50)[-1] == pytest.approx(np.corrcoef(x[rows], y[rows])[0, 1])
    slope, intercept = np.polyfit(x[rows], y[rows], 1)
    line = slide(table, agg.linear_regression("y", "x"), range=50)[-1]
    assert line["slope"] == pytest.approx(slope, rel=1e-6)
    assert line["intercept"] == pytest.approx(intercept, rel=1e-6)


def test_geometric_mean_edges() -> None:
    assert (
        str(slide([4.0, 0.0, -1.0, 9.0], agg.geometric_mean("v"), range=2).round(12).tolist()) == "[4.0, 0.0, nan, nan]"
    )


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "lognormal"])
@pytest.mark.compiled
def test_moment_sketch_is_off_by_about_a_percent(shape: str) -> None:
    rng = np.random.default_rng(8)
    values = {
        "normal": rng.normal(10, 3, 20000),
        "uniform": rng.uniform(-5, 5, 20000),
        "exponential": rng.exponential(2.0, 20000),
        "lognormal": rng.lognormal(0.0, 2.0, 20000),
    }[shape]
    sketches = {str(q): agg.moment_sketch("v", q) for q in (0.1, 0.9)}  # compiled together, since lower takes long
    estimates = slide(values, sketches, range=20000, partial=False)
    for q in (0.1, 0.9):
        assert abs((values <= estimates[str(q)][0]).mean() - q) < 0.015, (shape, q)


@pytest.mark.parametrize("distinct", [10, 1000, 20000])
@pytest.mark.compiled
def test_hyperloglog_is_off_by_a_few_percent(distinct: int) -> None:
    values = np.random.default_rng(9).integers(0, 2**60, distinct).repeat(2)
    estimate = slide(values, agg.hyperloglog("v"), range=len(values), slide=len(values))[0]
    assert abs(estimate / len(set(values.tolist())) - 1) < 0.05


def test_bloom_has_no_false_negative_and_few_false_positives() -> None:
    words = [f"word{i}" for i in range(60)]
    window = slide(words, agg.bloom("v", bits=1024), range=60, slide=60)[0]
    assert all(agg.bloom_contains(window, word) for word in words)
    assert sum(agg.bloom_contains(window, f"other{i}") for i in range(1000)) < 30


def test_ties_go_to_the_first_row_in_event_order() -> None:
    table = {"k": [5, 7, 7, 7], "v": ["a", "b", "c", "d"]}
    assert slide(table, agg.arg_max("k", "v"), range=3).tolist() == ["a", "b", "b", "b"]
    assert slide(table, agg.arg_min("k", "v"), range=3).tolist() == ["a", "a", "a", "b"]
    nan = {"k": [1.0, math.nan, math.nan], "v": [1, 2, 3]}
    assert slide(nan, agg.arg_max("k", "v"), range=3).tolist() == [1, 2, 2]


def test_the_longest_increasing_run() -> None:
    values = [1, 2, 3, 1, 2, 3, 4, 0, 9]
    runs = slide(values, agg.longest_increasing_run("v"), range=9)
    assert runs[-1].tolist() == (3, 6, 4)
    assert runs[5].tolist() == (0, 2, 3), "the earliest of equally long ones"


# ---------------------------------------------------------------- sums beyond the largest float, and what is not finite

GIANT = 1.7e308
GIANTS = [
    [GIANT, GIANT, -GIANT],
    [GIANT, GIANT, -GIANT, -GIANT],
    [-GIANT, -GIANT, -GIANT, GIANT, 1e308, 2.5],
    [GIANT, 5.0, GIANT, -GIANT, 1e300],
    [8e307, 8e307, 8e307, -8e307, -8e307],
]


def as_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@pytest.mark.parametrize("aggregator", ["two_stacks", "prefix_sums", "recalculate", "daba", "flat_fat"])
def test_sums_beyond_the_largest_float_come_back(aggregator: str) -> None:
    for values in GIANTS:
        repeated = values * (600 if aggregator == "prefix_sums" else 3)
        for width in (2, 3, len(values)):
            sums, means = (
                slide(repeated, each, range=width, aggregator=aggregator) for each in (agg.sum("v"), agg.mean("v"))
            )
            for row in (*range(2 * len(values)), len(repeated) - 1):
                held = [Fraction(v) for v in repeated[max(0, row - width + 1) : row + 1]]
                total, bound = sum(held), len(held) * U * float(sum(abs(v) / len(held) for v in held))
                if math.isinf(as_float(total)):
                    assert sums[row] == as_float(total)
                else:
                    assert abs(Fraction(float(sums[row])) - total) <= Fraction(bound) * len(held)
                assert abs(Fraction(float(means[row])) - total / len(held)) <= Fraction(bound)


def test_sums_beyond_the_largest_float_in_slices_and_streams() -> None:
    table = {"t": list(range(6)), "v": [GIANT, GIANT, GIANT, -GIANT, -GIANT, 3.0]}
    query = Query(window.sliding(6, every=2), {"sum": agg.sum("v"), "mean": agg.mean("v")}, time="t")
    stream = query.stream()
    emitted = [*stream.push(table).to_pylist(), *stream.close().to_pylist()]
    by_start = {row["window"]["start"]: (row["sum"], row["mean"]) for row in emitted}
    assert by_start == {
        -4: (math.inf, GIANT),
        -2: (math.inf, pytest.approx(GIANT / 2)),
        0: (GIANT + 3.0, GIANT / 6),
        2: (-GIANT + 3.0, pytest.approx(-GIANT / 4)),
        4: (-GIANT + 3.0, pytest.approx(-GIANT / 2)),
    }
    assert sorted(map(repr, query.run(table)["sum"].to_pylist())) == sorted(repr(v) for v, _ in by_start.values())


@pytest.mark.compiled
def test_sums_beyond_the_largest_float_compiled() -> None:
    values = GIANTS[0] * 500
    sums = slide(values, {"sum": agg.sum("v"), "mean": agg.mean("v")}, range=3)
    assert sums["sum"][2:].tolist() == [GIANT, GIANT, GIANT] * 499 + [GIANT]
    assert np.allclose(sums["mean"][2:] / 1e300, GIANT / 3 / 1e300)


def test_infinite_values_stay_infinite() -> None:
    values = np.array([math.inf, 1.0, -math.inf, 2.0, GIANT, GIANT, math.inf, -GIANT])
    assert str(slide(values, agg.sum("v"), range=3).tolist()) == "[inf, inf, nan, -inf, -inf, inf, inf, inf]"
    assert str(slide(values, agg.mean("v"), range=2).tolist()) == (
        "[inf, inf, -inf, -inf, 8.5e+307, 1.7e+308, inf, inf]"
    )


NOT_FINITE = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize("value", NOT_FINITE)
def test_moments_of_what_is_not_finite_are_nan(value: float) -> None:
    """As in Spark SQL: a window of one such row has a population, and no sample, variance."""
    asked = {name: getattr(agg, name)("v") for name in ("var", "std", "var_pop", "std_pop", "skewness", "kurtosis")}
    one, two = slide(pa.array([value, 1.0]), asked, range=2).to_pylist()
    assert str(one) == str(
        {"var": None, "std": None, "var_pop": math.nan, "std_pop": math.nan, "skewness": math.nan, "kurtosis": math.nan}
    )
    assert all(math.isnan(each) for each in two.values())
    pairs = pa.table({"y": [1.0, 2.0], "x": [value, 1.0]})
    lines = slide(pairs, {"line": agg.linear_regression("y", "x")}, range=2)["line"].to_pylist()
    assert all(math.isnan(line["slope"]) for line in lines)
    alone = slide(pa.table({"y": [value], "x": [1.0]}), {"line": agg.linear_regression("y", "x")}, range=2)
    assert alone["line"].to_pylist() == [None]  # x does not vary
    assert (
        slide(pa.array([1.0, 1.0]), {"s": agg.skewness("v"), "k": agg.kurtosis("v")}, range=2).to_pylist()
        == [{"s": None, "k": None}] * 2
    )


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("aggregator", ["two_stacks", "prefix_sums"])
def test_moments_of_large_integers(dtype: str, aggregator: str) -> None:
    """They lie closer together than floats of their size."""
    values = np.array([2**62 + i * 17 % 401 for i in range(2100)], dtype)
    columns = {"v": values, "w": np.arange(2100.0)}
    asked = {"std": agg.std("v"), "cov": agg.covariance("v", "w"), "line": agg.linear_regression("v", "w")}
    got = slide(columns, asked, range=50, aggregator=aggregator)
    for row in (1, 7, 49, 50, 1000, 2099):
        held = range(max(0, row - 49), row + 1)
        small = [int(values[i]) - 2**62 for i in held]
        assert got["std"][row] == pytest.approx(statistics.stdev(small), rel=1e-13)
        assert got["cov"][row] == pytest.approx(statistics.covariance(small, [float(i) for i in held]), rel=1e-12)
        slope = statistics.linear_regression([float(i) for i in held], small).slope
        assert got["line"]["slope"][row] == pytest.approx(slope, rel=1e-12)


def test_what_is_rounded_off_integers_and_decimals() -> None:
    for value in (0, 1, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63), -(2**62) - 5, True):
        assert Fraction(float(value)) + Fraction(runtime.rounded_off(value)) == value
    decimals = [Decimal("100000000000000000.25"), Decimal("100000000000000000.75")]
    assert slide(pa.array(decimals), agg.std_pop("v"), range=2).to_pylist()[-1] == 0.25


@pytest.mark.compiled
def test_what_is_rounded_off_compiled() -> None:
    @njit
    def rounded(value: Any) -> Any:
        return runtime.rounded_off(value)

    for value in (0, 2**53 + 1, 2**62 + 3, 2**63 - 1, -(2**63), -(2**62) - 5):
        assert rounded(np.int64(value)) == runtime.rounded_off(value)
    for value in (2**53 + 1, 2**63 + 1025, 2**64 - 1):
        assert rounded(np.uint64(value)) == runtime.rounded_off(value)
    assert math.copysign(1.0, rounded(2.5)) == -1.0


def test_quantiles_between_giants_and_infinities() -> None:
    assert slide([GIANT, 1.6e308], agg.median("v"), range=2).tolist()[-1] == pytest.approx(1.65e308)
    assert slide([-GIANT, GIANT], agg.quantile("v", 0.25), range=2).tolist()[-1] == pytest.approx(-GIANT / 2)
    assert slide([-math.inf, 5.0], agg.quantile("v", 0.25), range=2).tolist()[-1] == -math.inf
    assert slide([math.inf, math.inf], agg.quantile("v", 0.25), range=2).tolist()[-1] == math.inf
    assert math.isnan(slide([-math.inf, math.inf], agg.median("v"), range=2)[-1])


def test_nan_is_one_value_however_it_is_written() -> None:
    values = np.array([math.nan, 1.0, -math.nan, math.nan, 1.0])
    values[3] = np.uint64(0x7FF8000000000123).view(np.float64)
    assert str(slide(values, agg.collect_distinct("v"), range=5)[-1]) == "[nan, 1.0]"
    assert slide(values, agg.count_distinct("v"), range=5)[-1] == 2
    assert slide(values, agg.hyperloglog("v"), range=5)[-1] == 2
    stream = Query(window.tumbling(10), {"all": agg.collect_distinct("v")}, time="t").stream()
    stream.push({"t": [1, 2], "v": [math.nan, math.nan]})
    stream = Query(window.tumbling(10), {"all": agg.collect_distinct("v")}, time="t").stream(stream.snapshot())
    stream.push({"t": [3], "v": [-math.nan]})
    assert str(stream.close()["all"].to_pylist()) == "[[nan]]"


@pytest.mark.compiled
def test_nan_is_one_value_compiled() -> None:
    assert slide(np.array([math.nan, 1.0, -math.nan]), agg.hyperloglog("v", precision=4), range=3).tolist() == [1, 2, 2]
