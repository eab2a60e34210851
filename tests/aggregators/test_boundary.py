"""Boundary: the length of chunks, what the calling thread does and what the second one, and slices of any length."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg, aggregators, slide
from muntin.aggregations.binding import bind
from muntin.aggregators import boundary, growing
from muntin.aggregators.boundary import chunk_of_rows, chunk_of_time, measured_combine
from muntin.errors import InvalidArgumentError, OutOfOrderError
from muntin.types import numpy_type


@pytest.mark.parametrize("range_", [1, 2, 3, 10, 64, 300])
@pytest.mark.parametrize("settled", [True, False])
def test_three_combines_a_slide_on_the_calling_thread(range_: int, settled: bool) -> None:
    """However long the window is: the second thread does what `TwoStacks` would do all at once."""
    window = aggregators.Boundary(agg.last("v"), threads=2, count_combines=True, range=range_ if settled else None)
    for t in range(range_):
        window.insert(t, t)
    worst = 0
    for t in range(range_, 9 * range_):
        before = window.combines
        window.evict()
        window.insert(t, t)
        assert window.query() == t
        if t > 4 * range_:  # chunks that were made while the window grew have left by then
            worst = max(worst, window.combines - before)
        if t % (1 + range_ // 20) == 0:  # it looks at all rows
            window.check()
    assert worst <= 3
    assert window.combines_aside <= 9 * range_, "each row is turned over once"


@pytest.mark.parametrize("range_", [1, 2, 3, 10, 64, 300])
def test_states_in_use(range_: int) -> None:
    """Each row's state, the current chunk's, and those of whole chunks: below the paper's (3n + 13) / 2."""
    window: Any = aggregators.Boundary(agg.concat("v"), range=range_, compiled=False)
    for t in range(5 * range_):
        window.insert(t, "x")
        if len(window) > range_:
            window.evict()
        chunks = int(window._marks[5] - window._marks[4])
        assert chunks <= 3
        assert len(window) + 1 + chunks <= (3 * range_ + 13) / 2


def test_a_growing_window_has_few_chunks() -> None:
    window: Any = aggregators.Boundary(agg.count(), compiled=False)
    for t in range(3000):
        window.insert(t)
    assert window._marks[5] - window._marks[4] <= 20
    assert window.query() == 3000


def test_the_length_of_chunks() -> None:
    """Theorem 1 and 2 of the paper, worked out by hand."""
    assert [chunk_of_rows(n, 1) for n in (1, 2, 3, 10, 1000)] == [1, 2, 2, 6, 501]
    assert chunk_of_rows(10, 5) == 2
    assert chunk_of_rows(1000, 10) == 91
    assert chunk_of_rows(1005, 10) == 92
    assert chunk_of_time(3600 * 10**9, 10**9, 100.0) == 3600
    assert chunk_of_time(1000, 1, 1.0) == (1000 * 2 + 1 + 2) // 3
    assert chunk_of_time(1001, 2, 1.0) == int((500 * 3 + 2 + 2 + 2 * 1 + 1) / 4)
    for slices in range(1, 400):
        chunk = chunk_of_rows(slices, 1)
        assert slices // chunk == 1 or slices == 2 * chunk, (
            "a window covers one whole chunk, and ends in its neighbours"
        )


def test_a_combine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "_measured", {})
    compiled = bind({"x": agg.max("v")}, {"v": numpy_type("f8")})
    ticks = iter([100, 100 + 3 * 1023])
    assert measured_combine(compiled, clock=lambda: next(ticks)) == 3.0
    assert measured_combine(compiled) == 3.0, "measured once"
    assert measured_combine(compiled.uncompiled) == 1000.0


def test_ranges_by_time_settle_the_chunks() -> None:
    window: Any = aggregators.Boundary(agg.max("v"), range="1 hour", slide="1 minute")
    for t in range(200):
        window.insert(t, float(t))
        if len(window) > 60:
            window.evict()
        assert window.query() == float(t)
    assert window._marks[6] == 60
    again: Any = aggregators.Boundary.restore(window.snapshot(), agg.max("v"))
    assert (again._marks[6], again.query()) == (60, 199.0)


def test_bad_options() -> None:
    for bad in (0, 3, "two"):
        with pytest.raises(InvalidArgumentError, match="threads is"):
            aggregators.Boundary(agg.max("v"), threads=bad)  # type: ignore[arg-type]  # a mistake on purpose
    for bad in (0, -5, 2.5, True, "soon"):
        with pytest.raises(InvalidArgumentError):
            aggregators.Boundary(agg.max("v"), range=bad)
    with pytest.raises(InvalidArgumentError, match="slide as a duration too"):
        aggregators.Boundary(agg.max("v"), range="1 hour")
    assert aggregators.Boundary(agg.max("v"), range=np.int64(1000))._marks[6] == 501  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="longer than the range"):
        aggregators.Boundary(agg.max("v"), range=5, slide=6)
    with pytest.raises(InvalidArgumentError, match="0 < slide <= range"):
        aggregators.Boundary(agg.max("v"), range="5 seconds", slide="6 seconds")


@pytest.mark.parametrize("compiled", [True, False])
def test_two_threads_while_the_window_changes_its_size(compiled: bool) -> None:
    chance = random.Random(7)
    window = aggregators.Boundary(agg.concat("v") if not compiled else agg.max("v"), threads=2, compiled=compiled)
    rows: list[Any] = []
    for t in range(600):
        for _ in range(chance.randrange(4)):
            value = chance.randrange(100)
            window.insert(t, str(value) if not compiled else value)
            rows.append((t, value))
        if chance.random() < 0.05:
            window.bulk_evict(t - chance.randrange(60))
            rows = rows[len(rows) - len(window) :]
        while rows and chance.random() < 0.6:
            window.evict()
            del rows[0]
        if compiled:
            assert window.query() == max((v for _, v in rows), default=None)
        else:
            assert window.query() == ("".join(str(v) for _, v in rows) or None)
        if chance.random() < 0.02:
            window.check()
            window.bulk_insert([t] * 50, [str(v) if not compiled else v for v in range(50)])
            rows += [(t, v) for v in range(50)]


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=80),
    st.integers(1, 25),
    st.integers(1, 12),
    st.sampled_from([1, 2]),
    st.lists(st.integers(0, 9), min_size=80, max_size=80),
)
@settings(deadline=None, max_examples=examples(150))
def test_arrays(values: list[int], width: int, step: int, threads: int, pauses: list[int]) -> None:
    """Slides of any length, ranges that are no multiple of them, times with gaps: as recalculating gives it."""
    times = np.cumsum(pauses[: len(values)])
    for more in ({}, {"times": times}):
        for aggregation in (agg.sum("v"), agg.last("v")):
            windows = {"range": width, "slide": step, **more}
            ours = slide(values, aggregation, aggregator="boundary", threads=threads, **windows)
            truth = slide(values, aggregation, aggregator="recalculate", **windows)
            assert np.ma.allequal(ours, truth)
            assert np.array_equal(np.ma.getmaskarray(ours), np.ma.getmaskarray(truth))


@agg.define(state="f8")
class picky:
    """The greatest, of small numbers only."""

    def lift(v):  # type: ignore[no-untyped-def]  # definitions have no types
        if v > 1e6:
            raise OverflowError("too much")
        return v

    def combine(a, b):  # type: ignore[no-untyped-def]  # definitions have no types
        return max(a, b)


@pytest.mark.parametrize("more", [{}, {"slide": 3}])
def test_an_error_on_either_thread_ends_both(more: dict[str, int]) -> None:
    values = np.arange(5000.0)
    values[4000] = 1e9
    with pytest.raises(OverflowError, match="too much"):
        slide(values, picky("v"), range=100, aggregator="boundary", threads=2, **more)


def test_a_window_longer_than_was_said() -> None:
    window = aggregators.Boundary(agg.concat("v"), range=4, compiled=False)
    text = "".join(chr(97 + i % 26) for i in range(2000))
    for t, letter in enumerate(text):
        window.insert(t, letter)
    window.check()
    assert window.query() == text
    for _ in range(1990):
        window.evict()
    window.check()
    assert window.query() == text[1990:]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_restored_with_other_options(before: int, after: int) -> None:
    window = aggregators.Boundary(agg.first("v"), threads=before, range=6)
    window.bulk_insert(range(10), range(10))
    window.bulk_evict(5)
    again: Any = aggregators.Boundary.restore(window.snapshot(), agg.first("v"), threads=after, range=20)
    for t in range(10, 60):
        again.insert(t, t)
        again.evict()
        assert again.query() == t - 3
        again.check()
    assert again._marks[6] == 11


def test_bulk_evictions_do_not_fold_the_same_rows_again() -> None:
    window = aggregators.Boundary(agg.concat("v"), count_combines=True)
    window.bulk_insert(range(1000), "x" * 1000)
    for t in range(1000, 1400):
        window.insert(t, "x")
        window.bulk_evict(t - 400 if t > 1100 else -1)
    before = window.combines
    for t in range(1400, 3000):
        window.insert(t, "x")
        window.bulk_evict(t - 100)
        assert window.query() == "x" * 100
    assert window.combines - before <= 5 * 1600


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("range_", "slide_"), [(5, 2), (10, 3), (23, 7), (7, 7), (100, 9)])
def test_windows_that_end_inside_a_slice(range_: int, slide_: int, threads: int) -> None:
    """Each slice of rows is one slot; a window is some of them and the first rows of the next."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    window: Any = aggregators.Boundary(agg.concat("v"), range=range_, slide=slide_, threads=threads, compiled=False)
    text = ""
    for row in range(12 * range_):
        (window.extend if row % slide_ else window.insert)(row, letters[row % 26])
        text += letters[row % 26]
        window.check()
        begin = row + 1 - range_
        if begin >= 0 and begin % slide_ == 0:
            assert window.query() == text[-range_:]
            assert window.youngest == row
            window.evict()


@pytest.mark.parametrize("range_", [10, 100, 301])
def test_a_partial_slice_takes_few_combines_on_the_calling_thread(range_: int) -> None:
    window = aggregators.Boundary(agg.last("v"), threads=2, count_combines=True, range=range_, slide=3)
    inserted = extended = 0
    for row in range(9 * range_):
        before = window.combines
        if row % 3:
            window.extend(row, row)
            extended = max(extended, window.combines - before)
        else:
            if row >= range_:
                window.evict()
            window.insert(row, row)
            inserted = max(inserted, window.combines - before)
        assert window.query() == row
    assert inserted <= 1
    assert extended <= 2


@given(st.lists(st.tuples(st.sampled_from("ieeevcr"), st.integers(0, 3)), max_size=80), st.sampled_from([1, 2]))
@settings(deadline=None, max_examples=examples(100))
def test_random_extensions(steps: list[tuple[str, int]], threads: int) -> None:
    window: Any = aggregators.Boundary(agg.concat("v"), threads=threads, compiled=False)
    slices: list[tuple[int, str]] = []
    now = 0
    for step, (move, number) in enumerate(steps):
        letter = "abcdefghij"[step % 10]
        now += number
        if move == "i":
            window.insert(now, letter)
            slices.append((now, letter))
        elif move == "e" and slices:
            window.extend(now, letter)
            slices[-1] = (now, slices[-1][1] + letter)
        elif move == "e":
            with pytest.raises(IndexError, match="no slice"):
                window.extend(now, letter)
        elif move == "v" and slices:
            window.evict()
            del slices[0]
        elif move == "c" and slices:
            until = slices[min(number, len(slices) - 1)][0]
            window.bulk_evict(until)
            slices = [each for each in slices if each[0] > until]
        elif move == "r":
            window = aggregators.Boundary.restore(window.snapshot(), agg.concat("v"), compiled=False)
        window.check()
        assert window.query() == ("".join(text for _, text in slices) or None)
        assert len(window) == len(slices)
        for begin in range(len(slices)):
            time = slices[begin][0]
            expected = "".join(text for t, text in slices if t >= time)
            assert window.range_query(time, now) == expected
    if slices:
        with pytest.raises(OutOfOrderError):
            window.extend(slices[-1][0] - 1, "x")


@pytest.mark.compiled
def test_compiled_extensions_while_the_ring_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "_SMALL", 16)
    monkeypatch.setattr(growing, "_BATCH", 1)
    window: Any = aggregators.Boundary({"last": agg.last("v"), "sum": agg.sum("v")}, threads=2, dtype="f8")
    for row in range(900):
        (window.extend if row % 3 else window.insert)(row, float(row))
        assert window.query() == {"last": row, "sum": row * (row + 1) / 2}
        if row % 10 == 0:
            window.check()
