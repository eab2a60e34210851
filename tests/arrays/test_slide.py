"""`muntin.slide` against folding each window from scratch: by count, by time, hopping; plain, compiled and in threads.

The windows here are written out row by row, independently of the code that finds them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cases import CASES, SMALL, Case
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import THOROUGH, examples

from muntin import agg, explain, slide
from muntin.aggregators import two_stacks
from muntin.aggregators.states import close
from muntin.aggregators.table import TABLE
from muntin.columns import read_column
from muntin.errors import InvalidArgumentError, NotInvertibleError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.testing.oracle import recompute

COUNTS = st.tuples(st.integers(1, 12), st.integers(1, 5), st.booleans())
TIMES = st.lists(st.integers(0, 3), max_size=30)


def by_rows(n: int, width: int, step: int, partial: bool) -> list[list[int]]:
    """Full windows are [0, width), [step, step + width), ...; partial ones end a step earlier each."""
    ends = [end for end in range(width - (n + width) * step, n + 1, step) if 0 < end <= n]
    return [list(range(max(0, end - width), end)) for end in ends if partial or end >= width]


def trailing(times: list[int], width: int, partial: bool) -> list[list[int]]:
    """For each row the rows in (time - width, time]."""
    return [
        [j for j, u in enumerate(times) if t - width < u <= t] for t in times if partial or t - width + 1 >= times[0]
    ]


def hopping(times: list[int], width: int, step: int, offset: int, partial: bool) -> list[list[int]]:
    """All windows [start, start + width) that reach a row, or lie between rows; start = offset modulo step."""
    if not times:
        return []
    windows = []
    for start in range(times[0] - width - step, times[-1] + step):
        if (start - offset) % step or start + width <= times[0] or start > times[-1]:
            continue
        if partial or (start >= times[0] and start + width <= times[-1] + 1):
            windows.append([j for j, u in enumerate(times) if start <= u < start + width])
    return windows


def expected(case: Case, rows: list[Any], windows: list[list[int]], times: list[int]) -> list[Any]:
    return [recompute(case.aggregation, [(times[i], rows[i]) for i in window]) for window in windows]


def as_columns(case: Case, rows: list[Any]) -> dict[str, list[Any]]:
    names = case.aggregation.reads
    if len(names) > 1:
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return {names[0] if names else "v": list(rows)}


def plain(result: Any) -> list[Any]:
    """Return a result as Python values, None for null."""
    if isinstance(result, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(result)
        mask = mask.view(bool).reshape(len(result), -1).all(axis=1) if len(result) else mask
        return [None if m else v for v, m in zip(result.data.tolist(), mask, strict=True)]
    return result.tolist()


def check(result: Any, wanted: list[Any]) -> None:
    got = plain(result)
    assert len(got) == len(wanted)
    for i, (a, b) in enumerate(zip(got, map(as_python, wanted), strict=True)):
        null = isinstance(a, float) and a != a and b is None  # NumPy's null among floats
        assert null or close(a, b, 1e-7, 1e-7), f"window {i}: {a} instead of {b}"


def as_python(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(x.item() if hasattr(x, "item") else x for x in value) if isinstance(value, tuple) else value


def as_arrays(case: Case, rows: list[Any]) -> dict[str, Any]:
    """Return columns of declared types: kernels are compiled for them alone, and for none of a column of nulls."""
    columns = as_columns(case, rows).items()
    return {
        name: np.ma.array([v or 0 for v in values], case.dtypes[name], mask=[v is None for v in values])
        for name, values in columns
    }


def run_all(
    case: Case,
    rows: list[Any],
    times: list[int],
    shape: tuple[int, int, bool],
    threads: int = 1,
    read: Any = as_columns,
) -> None:
    width, step, partial = shape
    columns = read(case, rows)
    numbers = list(range(len(rows)))
    result = slide(columns, case.aggregation, range=width, slide=step, partial=partial, threads=threads)
    check(result, expected(case, rows, by_rows(len(rows), width, step, partial), numbers))
    result = slide(columns, case.aggregation, range=width, times=times, partial=partial, threads=threads)
    check(result, expected(case, rows, trailing(times, width, partial), times))
    result = slide(
        columns, case.aggregation, range=width, slide=step, times=times, offset=1, partial=partial, threads=threads
    )
    check(result, expected(case, rows, hopping(times, width, step, 1, partial), times))


def rows_and_times(values: Any) -> Any:
    pairs = st.lists(st.tuples(st.integers(0, 3), values), max_size=30)
    return pairs.map(lambda ps: ([v for _, v in ps], np.cumsum([p for p, _ in ps], dtype=int).tolist()))


# What a time-weighted mean says depends on where windows end, which the oracle does not know: see test_by_time.py.
@pytest.mark.parametrize("case", [case for case in CASES if case.name != "time_weighted_mean"], ids=str)
def test_uncompiled(case: Case) -> None:
    @given(rows_and_times(case.nullable), COUNTS)
    @settings(max_examples=case.examples(15))
    def run(data: tuple[list[Any], list[int]], shape: tuple[int, int, bool]) -> None:
        with uncompiled():
            run_all(case, *data, shape)

    run()


COMPILED = {"max": True, "sum_integer": True, "median": False, "m4": THOROUGH > 1}
"""Aggregations, and whether with nulls as well, for which there are other kernels."""


@pytest.mark.parametrize("case", [case for case in CASES if case.name in COMPILED], ids=str)
@pytest.mark.compiled
def test_compiled(case: Case) -> None:
    """A sample of shapes of states: one number, limbs, sorted, several results with times."""
    rows = [case.values, case.nullable] if COMPILED[case.name] else [case.values]

    @given(st.one_of(map(rows_and_times, rows)), COUNTS, st.integers(1, 3))
    @settings(max_examples=examples(60))
    def run(data: tuple[list[Any], list[int]], shape: tuple[int, int, bool], threads: int) -> None:
        run_all(case, *data, shape, threads, as_arrays)

    run()


FORCED = [name for name, entry in TABLE.items() if entry.kind is not None]


def run_forced(case: Case, values: Any, aggregator: str, read: Any) -> None:
    @given(rows_and_times(values), COUNTS)
    @settings(max_examples=examples(30))
    def run(data: tuple[list[Any], list[int]], shape: tuple[int, int, bool]) -> None:
        rows, times = data
        width, step, partial = shape
        columns = read(case, rows)
        result = slide(columns, case.aggregation, range=width, slide=step, partial=partial, aggregator=aggregator)
        check(result, expected(case, rows, by_rows(len(rows), width, step, partial), list(range(len(rows)))))
        result = slide(columns, case.aggregation, range=width, times=times, aggregator=aggregator)
        check(result, expected(case, rows, trailing(times, width, True), times))

    run()


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize("aggregator", FORCED)
def test_every_aggregator_forced(aggregator: str, kind: type) -> None:
    case = Case("sum", agg.sum("v"), st.integers(-9, 9).map(kind))
    run_forced(case, case.nullable, aggregator, as_columns)


@pytest.mark.parametrize("aggregator", ["fiba", "monoid_tree"])
@pytest.mark.compiled
def test_aggregators_forced_compiled(aggregator: str) -> None:
    """Others are compiled in test_soak.py and test_numerics.py."""
    case = Case("max", agg.max("v"), SMALL)
    run_forced(case, case.values, aggregator, as_arrays)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 64, 999, 1000, 1001, 10**9])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.compiled
def test_threads_give_the_same_bits(width: int, threads: int) -> None:
    rng = np.random.default_rng(5)
    integers, floats = rng.integers(-(2**40), 2**40, 1000), rng.normal(size=1000)
    stamps = np.sort(rng.integers(0, 5000, 1000))
    # By the kernels of test_compiled: one that is selective, one that is invertible and exact, one of sorted values.
    for aggregation, values in [(agg.max("v"), floats), (agg.sum("v"), integers), (agg.median("v"), floats)]:
        for options in ({}, {"times": stamps}, {"times": stamps, "slide": max(7, width // 9)}, {"slide": 3}):
            one = slide(values, aggregation, range=width, **options)
            many = slide(values, aggregation, range=width, threads=threads, **options)
            assert str(plain(one)) == str(plain(many)), "NaN in the same places counts as equal"


def test_fused_equals_alone() -> None:
    rng = np.random.default_rng(1)
    table = {"a": rng.normal(size=500), "b": rng.integers(0, 9, 500)}
    aggregations = {
        "n": agg.count(),
        "s": agg.sum("a"),
        "t": agg.sum("b"),
        "c": agg.correlation("a", "b"),
        "m": agg.median("a"),
        "q": agg.quantile("a", 0.1),
        "l": agg.collect("b"),
        "f": agg.first("b"),
    }
    fused = slide(table, aggregations, range=20)
    assert list(fused) == list(aggregations)
    for name, each in aggregations.items():
        check(fused[name], plain(slide(table, each, range=20)))


def test_windows_are_returned_on_request() -> None:
    result, starts, ends = slide([1, 2, 3, 4, 5], agg.sum("v"), range=3, slide=2, return_windows=True)
    assert result.tolist() == [1, 6, 12]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(0, 1), (0, 3), (2, 5)]
    stamps = np.array(["2024-01-01T00:00:10", "2024-01-01T00:01:50"], "M8[s]")
    result, starts, ends = slide(
        [1, 2], agg.sum("v"), range="1 minute", slide="1 minute", times=stamps, return_windows=True
    )
    assert result.tolist() == [1, 2]
    assert starts.tolist() == np.array(["2024-01-01T00:00", "2024-01-01T00:01"], "M8[s]").tolist()
    assert ends.tolist() == np.array(["2024-01-01T00:01", "2024-01-01T00:02"], "M8[s]").tolist()


def test_aggregators_go_by_the_names_of_their_classes() -> None:
    for name in ("TwoStacks", "two_stacks", "Recalculate", "SubtractOnEvict"):
        assert slide([1, 2, 3], agg.sum("v"), range=2, aggregator=name).tolist() == [1, 3, 5]


def chosen(text: str) -> list[str]:
    """Return the rules that an explanation marks."""
    return [line.split()[1] for line in text.splitlines() if line.strip().startswith("->")]


@pytest.mark.compiled
def test_explain_shows_the_table_with_the_rule_that_is_taken() -> None:
    floats, numbers = np.arange(100.0), np.arange(100)
    assert chosen(explain(floats, agg.max("v"), range=10)) == ["two_stacks"]
    assert chosen(explain(floats, agg.max("v"), range=20, slide=10)) == ["boundary"]
    assert chosen(explain(floats, agg.max("v"), range=10, slide=10)) == ["recalculate"]
    assert chosen(explain(floats, agg.max("v"), range=2)) == ["recalculate"]
    assert chosen(explain(numbers, agg.sum("v"), range=10)) == ["subtract_on_evict"]
    assert chosen(explain(floats, agg.mean("v"), range=10)) == ["two_stacks"], "too few rows"
    assert chosen(explain(np.zeros(1 << 17), agg.mean("v"), range=10)) == ["prefix_sums"]
    assert chosen(explain(floats, agg.median("v"), range=10)) == ["order_statistics"]
    assert chosen(explain([Decimal(1)] * 9, agg.median("v"), range=10)) == ["two_stacks"]
    text = explain(floats, {"a": agg.max("v"), "b": agg.median("v"), "c": agg.collect("v")}, range=10)
    assert chosen(text) == ["two_stacks", "order_statistics", "two_stacks"]
    assert text.count("as plain Python") == 1
    with pytest.raises(NotInvertibleError):
        explain(floats, agg.max("v"), range=10, aggregator="subtract_on_evict")
    with pytest.raises(UnsupportedOperationError):
        explain(floats, agg.max("v"), range=10, aggregator="order_statistics")
    with pytest.raises(NotInvertibleError, match="selective"):
        explain(floats, agg.m4("v"), range=10, aggregator="slick_deque")
    assert "runs compiled, by daba, as was asked for" in explain(floats, agg.max("v"), range=10, aggregator="Daba")
    with pytest.raises(InvalidArgumentError, match="no aggregator"):
        explain(floats, agg.max("v"), range=10, aggregator="magic")


def test_numbers_are_read_where_they_are() -> None:
    values = np.arange(1000.0)
    assert np.shares_memory(read_column(values, "v").values, values)
    arrow = pa.array(values)
    assert np.shares_memory(read_column(arrow, "v").values, arrow.to_numpy())
    series = pd.Series(values)
    assert np.shares_memory(read_column(series, "v").values, series.to_numpy())


def test_gaps_are_null_and_counts_zero() -> None:
    out = slide([1.0, 2.0], {"s": agg.sum("v"), "n": agg.count()}, range=10, slide=10, times=[5, 35])
    assert plain(out["n"]) == [1, 0, 0, 1]
    assert np.isnan(out["s"][1:3]).all()
    assert out["s"][[0, 3]].tolist() == [1.0, 2.0]


def test_before_the_epoch() -> None:
    stamps = np.array(["1969-12-31T23:59:59", "1970-01-01T00:00:01"], "M8[s]")
    _, starts, _ = slide([1, 2], agg.sum("v"), range="1 minute", slide="1 minute", times=stamps, return_windows=True)
    assert starts.tolist() == np.array(["1969-12-31T23:59", "1970-01-01T00:00"], "M8[s]").tolist()


def _times_of(pattern: str, rows: int) -> np.ndarray:
    """Return sorted times: in steps, at random, in bursts after silence, many of them equal, or from the least on."""
    random = np.random.default_rng(11)
    gaps = {
        "steps": np.full(rows, 3),
        "random": random.exponential(30, rows),
        "bursts": np.where(random.random(rows) < 0.01, 5_000, 1),
        "equal": random.integers(0, 2, rows) * 7,
        "extremes": random.exponential(2.0**63 / rows, rows),
    }[pattern]
    since = 0 if pattern != "extremes" else -(2**63) + 1
    return np.int64(since) + np.cumsum(gaps.astype(np.int64))


def _trailing_matches(pattern: str, rows: int, width: int, threads: int) -> None:
    """Compare windows by time over more rows than are found together: the first row tells where each begins."""
    times, values = _times_of(pattern, rows), np.arange(rows)
    both = {"first": agg.first("v"), "sum": agg.sum("v")}
    found = slide({"v": values}, both, range=width, times=times, threads=threads)
    first = np.searchsorted(times, np.where(times >= -(2**63) + width, times - width, -(2**63)), "right")
    last = np.searchsorted(times, times, "right")
    before = np.concatenate(([0], np.cumsum(values)))
    assert found["first"].tolist() == first.tolist()
    assert found["sum"].tolist() == (before[last] - before[first]).tolist()


PATTERNS = ("steps", "random", "bursts", "equal", "extremes")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_chunks_of_trailing_windows(pattern: str) -> None:
    with uncompiled():
        _trailing_matches(pattern, two_stacks.CHUNK + 200, 2**55 if pattern == "extremes" else 900, 1)


@pytest.mark.compiled
def test_chunks_of_trailing_windows_compiled() -> None:
    for pattern in PATTERNS:
        for width in (1, 1_000, 100_000, 2**61):
            for threads in (1, 2):
                _trailing_matches(pattern, 3 * two_stacks.CHUNK + 50, width, threads)
