"""`Query.run` on several threads: the answer of one, row by row, wherever keys and rows are cut."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_run import as_table, asked
from sampling import examples

from muntin import Query, agg, policies, rows, window
from muntin.columns import Column
from muntin.errors import AggregationOverflowError, InvalidArgumentError
from muntin.kernels.cache import is_uncompiled, uncompiled
from muntin.kernels.tiers import working_on
from muntin.keys import order as ordering
from muntin.keys.order import by_key_and_time, placed, row_of_each
from muntin.keys.table import key_numbers
from muntin.tables import pieces
from muntin.tables.pieces import Piece, pieces_of
from muntin.threads import in_threads
from muntin.types import INT64
from muntin.windows.base import Window
from muntin.windows.found import Arrival, SortedRows

THREADS = st.integers(2, 5)


@pytest.fixture(autouse=True)
def _few_rows_are_worth_a_thread() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr(pieces, "LEAST_ROWS", 1)
        patch.setattr(pieces, "MOST_TWICE", math.inf)
        yield


@given(strategies.queries(most_windows=2), strategies.tables(), THREADS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(40))
def test_the_answer_is_that_of_one_thread(
    query: oracle.Query, listed: list[dict[str, Any]], threads: int, random: Any
) -> None:
    assume(listed)
    random.shuffle(listed)
    table = as_table(listed, query)
    one, several = (asked(query).run(table, threads=n) for n in (1, threads))
    assert several.schema == one.schema
    assert several.to_pylist() == one.to_pylist()


def test_floats_of_keys_that_are_not_cut_are_the_same_bit_for_bit() -> None:
    random = np.random.default_rng(3)
    count = 200
    table = {"t": np.arange(count), "k": random.integers(0, 20, count), "v": random.standard_normal(count)}
    aggregates = {"sum": agg.sum("v"), "std": agg.std("v"), "high": agg.max("v")}
    for each in (window.sliding(100, every=7), window.trailing(90), window.sliding(rows(5), every=rows(2))):
        query = Query(each, aggregates, key="k", time="t")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pieces, "MOST_TWICE", 0)
            assert query.run(table, threads=3).to_pylist() == query.run(table).to_pylist()


def cut(keys: list[int], each: Window, threads: int) -> list[Piece]:
    """Return the pieces of keys with so many rows each, one at each time."""
    count = sum(keys)
    found = SortedRows(np.arange(count), np.cumsum(keys), np.arange(count), {}, INT64)
    return pieces_of(found, each.resolve(INT64), threads)


def described(found: list[Piece]) -> list[tuple[int, int, bool, bool]]:
    return [(len(each.rows.times), each.first_key, each.since is not None, each.until is not None) for each in found]


def test_where_rows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    short = window.trailing(10)
    assert described(cut([400, 390, 10], short, 2)) == [(400, 0, False, False), (400, 1, False, False)]
    # A key's end that is near is as good; inside of a key, the piece after has all its rows at hand, and skips most.
    assert described(cut([390, 410], short, 2)) == [(390, 0, False, False), (410, 1, False, False)]
    assert described(cut([100, 700], short, 2)) == [(400, 0, False, True), (700, 1, True, False)]
    assert described(cut([900], short, 3)) == [(300, 0, False, True), (600, 0, True, True), (900, 0, True, False)]
    assert described(cut([700, 100], window.policy(policies.at_most_rows(5)), 2)) == [
        (700, 0, False, False),
        (100, 1, False, False),
    ]
    monkeypatch.setattr(pieces, "MOST_TWICE", 0.5)
    assert described(cut([100, 700], window.trailing(250), 2)) == [(100, 0, False, False), (700, 1, False, False)]
    assert described(cut([800], window.trailing(250), 2)) == [(800, 0, False, False)]


def test_few_rows_take_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "LEAST_ROWS", 100)
    assert [pieces.worth_it(count, 4) for count in (0, 199, 200, 1000)] == [1, 1, 2, 4]


ORDERS: dict[str, Any] = {"none": lambda row: 0, "time": lambda row: row[1], "key and time": lambda row: row}


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=40), THREADS, st.sampled_from([*ORDERS]))
@settings(deadline=None, max_examples=examples(60))
def test_rows_are_numbered_and_sorted_as_by_one_thread(
    listed: list[tuple[int, int]], threads: int, order_of: str
) -> None:
    listed = sorted(listed, key=ORDERS[order_of])
    times = np.array([time for _, time in listed], np.int64)
    keys = [pa.chunked_array([pa.array([f"key {key}" for key, _ in listed], pa.string())])]
    (codes, count), (others, found) = (key_numbers(keys, len(listed), n) for n in (1, threads))
    assert (codes.tolist(), count) == (others.tolist(), found)
    places, ends = by_key_and_time(codes, count, times, threads)
    wanted = np.argsort(np.lexsort((times, codes)))
    assert (np.arange(len(listed)) if places is None else places).tolist() == wanted.tolist()
    assert places is None or order_of != "key and time"
    assert codes[row_of_each(codes, count)].tolist() == list(range(count))
    assert ends.tolist() == np.cumsum(np.bincount(codes, minlength=count)).tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("in_order", [True, False])
def test_many_rows_are_counted_not_sorted(monkeypatch: pytest.MonkeyPatch, threads: int, in_order: bool) -> None:
    monkeypatch.setattr(ordering, "_MANY", 4)
    chance = np.random.default_rng(6)
    codes, times = chance.integers(0, 7, 300), chance.integers(0, 50, 300)
    times = np.sort(times) if in_order else times
    with uncompiled():
        places, ends = by_key_and_time(codes, 7, times, threads)
    assert places is not None
    assert places.tolist() == np.argsort(np.lexsort((times, codes))).tolist()
    assert ends.tolist() == np.cumsum(np.bincount(codes, minlength=7)).tolist()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("many", [4, 10**6])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "f8", "i8", "O", "S3", "c16", "i4,f8"])
def test_values_of_any_type_are_moved_to_their_places(
    monkeypatch: pytest.MonkeyPatch, dtype: str, many: int, threads: int
) -> None:
    monkeypatch.setattr(ordering, "_MANY", many)
    chance = np.random.default_rng(7)
    values, places = chance.integers(0, 100, 50).astype(dtype), chance.permutation(50)
    with uncompiled():
        column = placed(Column(values, values.astype("?") if dtype == "f8" else None, INT64), places, threads)
    assert column.values.dtype == values.dtype
    assert column.values.tolist() == values[np.argsort(places)].tolist()
    assert dtype != "f8" or column.valid is not None
    assert column.valid is None or column.valid.tolist() == values.astype("?")[np.argsort(places)].tolist()


def test_arrival_numbers_are_those_of_the_rows_at_each_place() -> None:
    places = np.random.default_rng(8).permutation(20)
    arrival = Arrival(places)
    assert np.asarray(arrival).tolist() == np.argsort(places).tolist()
    assert np.asarray(arrival[5:15][2:4]).tolist() == np.argsort(places)[7:9].tolist()


def test_columns_of_any_type_are_taken_in_parts() -> None:
    values = [None, "b", "a", "d", "c", "e"]
    table = pa.table(
        {
            "t": pa.array([5, 1, 4, 2, 3, 0], pa.timestamp("s")),
            "text": values,
            "number": pa.array([None, 1, 2, 3, 4, 5], pa.int8()),
            "key": pa.array(["x", "y", "x", "y", "x", "y"]).dictionary_encode(),
        }
    )
    query = Query(
        window.tumbling("3 seconds"), {"all": agg.collect("text"), "low": agg.min("number")}, key="key", time="t"
    )
    assert query.run(table, threads=3).to_pylist() == query.run(table).to_pylist()


def test_the_first_error_is_raised_whichever_thread_has_it() -> None:
    query = Query(window.tumbling(10), {"sum": agg.sum("v")}, key="k", time="t")
    table = {"t": np.arange(8), "k": np.arange(8) // 2, "v": np.full(8, 2**62)}
    for threads in (1, 2, 4):
        with pytest.raises(AggregationOverflowError, match=r"agg.sum\('v'\)"):
            query.run(table, threads=threads)


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "2", None])
def test_what_is_no_number_of_threads_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="threads is .*; it must be a positive integer"):
        Query(window.tumbling(1), {"n": agg.count()}, time="t").run({"t": [1]}, threads=wrong)


# ---------------------------------------------------------------- threads


def test_tasks_know_what_the_caller_knows() -> None:
    from muntin.kernels import tiers

    def told() -> tuple[bool, int, bool]:
        return is_uncompiled(), tiers.rows_at_work(), threading.current_thread() is threading.main_thread()

    outside = tiers.rows_at_work()
    with working_on(outside + 77):
        assert in_threads([told, told, told], 2) == 3 * [(True, outside + 77, False)]
    assert in_threads([told], 2) == [(True, outside, True)]


def test_after_an_error_nobody_is_at_work_and_no_task_begins() -> None:
    begun: list[str] = []
    failed = threading.Event()

    def slow() -> None:
        begun.append("slow")
        assert failed.wait(60)
        time.sleep(0.02)
        begun.append("over")

    def fail() -> None:
        failed.set()
        raise ValueError("it fails")

    def late() -> None:
        begun.append("late")

    with pytest.raises(ValueError, match="it fails"):
        in_threads([slow, fail, *(late for _ in range(100))], 2)
    assert begun == ["slow", "over"]
    assert not [each for each in threading.enumerate() if each.name.startswith("muntin_")]


def test_the_error_of_the_first_task_is_raised() -> None:
    failed = threading.Event()

    def first() -> None:
        assert failed.wait(60)
        raise ValueError("the first")

    def second() -> None:
        failed.set()
        raise ValueError("the second")

    with pytest.raises(ValueError, match="the first"):
        in_threads([first, second], 2)


def test_an_interrupt_stops_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future

    done: list[int] = []

    def task() -> None:
        time.sleep(0.02)
        done.append(1)

    def interrupted(self: Any, timeout: Any = None) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        in_threads([task] * 50, 2)
    assert len(done) < 50
    assert not [each for each in threading.enumerate() if each.name.startswith("muntin_")]
