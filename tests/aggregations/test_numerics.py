"""Numbers: sums that do not drift, integers that stay exact, moments that keep their digits."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from sampling import THOROUGH

from muntin import Query, agg, aggregators, slide, window

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
