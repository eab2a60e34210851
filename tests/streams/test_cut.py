"""Windows between edges: in small nodes, the work of a push, splits, and what becomes of the rows behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import definitions, strategies
from sampling import examples
from streams.duel import Duel
from streams.small_nodes import small_nodes
from streams.test_rows_kinds import CUT, play

from muntin import Query, agg, rows, window
from muntin.kernels.cache import uncompiled
from muntin.streams.rows.ledger import Ledger
from muntin.streams.rows.rows import Rows


@pytest.mark.parametrize("kind", CUT)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_random_queries_in_small_nodes(kind: str, data: st.DataObject) -> None:
    with small_nodes():
        query = data.draw(strategies.queries(st.just(kind), 2))
        play(Duel(query, Rows, early=data.draw(st.booleans())), data)


# ---------------------------------------------------------------- the work of a push


@contextmanager
def kernel_lines() -> Iterator[list[int]]:
    """Count the lines that plain kernels run: a bound of the entries that they touch."""
    count = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "muntin_plain" not in frame.f_code.co_filename:
            return None
        count[0] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def table(times: Any, every: int) -> dict[str, Any]:
    """Return rows whose column `km` grows with time, with a mark at each `every`-th one."""
    times = np.asarray(times)
    return {"t": times, "v": np.ones(len(times)), "km": times.astype(float), "mark": times % every == 0}


HELD: dict[str, Callable[[int], Any]] = {
    "delta": lambda n: window.delta("km", float(n), every=n / 4),
    "punctuated": lambda n: window.punctuated("mark"),
    "rows every": lambda n: window.sliding(rows(n), every=n // 4),
    "own, context aware": definitions.Silence,
    "windows without rows": lambda n: window.sliding(n, every=n // 4),
}
"""Windows of about n rows of times 0, 1, 2, ..., of which each kind holds all that a stream is given."""


@pytest.mark.parametrize("lateness", [0, 100_000])
@pytest.mark.parametrize("kind", HELD)
def test_no_push_costs_what_is_held(kind: str, lateness: int) -> None:
    """The median of some: now and then rows leave, or state is copied to be restored."""
    spent = []
    for n in (512, 8_192):
        empty = kind == "windows without rows"
        query = Query(HELD[kind](n), {"s": agg.sum("v")}, time="t", allowed_lateness=lateness, emit_empty=empty)
        lines_of = []
        with uncompiled():
            stream = query.stream()
            stream.push(table(np.arange(1, 2 * n - 4), n))
            for t in range(2 * n - 4, 2 * n + 5):
                with kernel_lines() as lines:
                    stream.push(table([t], n))
                lines_of.append(lines[0])
        spent.append(sorted(lines_of)[len(lines_of) // 2])
    assert spent[0] > 0
    assert spent[1] <= 2 * spent[0] + 100  # 16 times as many rows are a few levels more


@pytest.mark.parametrize("kind", ["delta", "punctuated", "rows every"])
def test_a_late_row_revises_the_windows_that_hold_it(kind: str) -> None:
    """Of windows of about 10 rows among 2,000, and in steps that do not depend on how many there are."""
    spent = []
    for count in (500, 8_000):
        made = {"delta": window.delta("km", 10.0), "punctuated": window.punctuated("mark")}
        made["rows every"] = window.sliding(rows(10), every=10)
        query = Query(made[kind], {"n": agg.count()}, time="t", allowed_lateness=10**6)
        with uncompiled():
            stream = query.stream()
            stream.push(table(2 * np.arange(1, count), 20))
            with kernel_lines() as lines:
                revised = stream.push(table([2 * count - 95], 20)).to_pylist()
            spent.append(lines[0])
        late = [row for row in revised if row["revision"] > 0]
        # A row more moves all later windows on by one, if they count rows; else it is in a single one.
        assert len(late) >= 4 if kind == "rows every" else len(late) == 1
    assert spent[1] <= 2 * spent[0] + 400


# ---------------------------------------------------------------- edges


def test_splits_are_counted() -> None:
    query = Query(window.punctuated("mark"), {"all": agg.collect("v")}, time="t", allowed_lateness=100)
    with uncompiled():
        stream = query.stream()
        stream.push({"t": [1, 2, 3, 4], "v": [1, 2, 3, 4], "mark": [False, False, False, True]})
        assert stream.metrics()["splits"] == 0
        split = stream.push({"t": [2], "v": [20], "mark": [True]}).to_pylist()
    assert stream.metrics()["splits"] == 1
    said = [(row["window"]["start"], row["all"], row["revision"], row["retracted"]) for row in split]
    assert sorted(said, key=repr) == [(1, None, 1, True), (1, [1, 2, 20], 0, False), (3, [3, 4], 0, False)]


def test_a_window_that_comes_back_goes_on_with_its_revision() -> None:
    """(5, 20) is first emitted, then begins at 3, and is cut back by a mark at 4."""
    query = Query(window.punctuated("mark"), {"n": agg.count()}, time="t", allowed_lateness=100)
    with uncompiled():
        stream = query.stream()
        stream.push({"t": [5, 20], "mark": [False, True]})
        stream.push({"t": [3], "mark": [False]})
        back = stream.push({"t": [4], "mark": [True]}).to_pylist()
    said = [(row["window"]["start"], row["window"]["end"], row["revision"], row["retracted"]) for row in back]
    assert sorted(said) == [(3, 4, 0, False), (3, 20, 1, True), (5, 20, 2, False)]


def test_values_that_do_not_ascend_are_found_all_the_same() -> None:
    query = Query(window.delta("km", 10), {"all": agg.collect("v")}, time="t")
    with uncompiled():
        stream = query.stream()
        said = stream.push({"t": [1, 2, 3, 4, 5], "km": [1, 12, 3, 14, 25], "v": [1, 2, 3, 4, 5]}).to_pylist()
        part = stream._state.core.strategies[0].groups[0].parts[0]
        assert part._unordered.keys().tolist() == [0]
        said += stream.push({"t": [6, 7, 8], "km": [26, 37, 48], "v": [6, 7, 8]}).to_pylist()
        assert part._unordered.keys().tolist() == []  # the rows that broke the order are gone
        said += stream.close().to_pylist()
    assert [row["all"] for row in said] == [[1, 3], [2, 4], [5, 6], [7], [8]]


def test_what_is_final_leaves_the_ledger() -> None:
    query = Query(window.punctuated("mark"), {"n": agg.count()}, time="t", allowed_lateness=50)
    with uncompiled():
        stream = query.stream()
        for t in range(0, 2_000, 10):
            stream.push({"t": [t], "mark": [True]})
        part = stream._state.core.strategies[0].groups[0].parts[0]
    assert isinstance(part.ledger, Ledger)
    assert 5 <= len(part.ledger) <= 7
    assert len(part._marks) <= 9
    assert stream.metrics()["kept"] <= 9


def test_a_final_window_stays_so_where_others_hold_no_rows() -> None:
    """The row of 29 is too late for the windows that end at 30 and 33; those from 37 to 60 are looked at, and empty."""
    query = Query(window.cumulative(12, every=3), {"n": agg.count()}, time="t")
    with uncompiled():
        stream = query.stream(strategy="rows")
        stream.push({"t": [25]})
        stream.advance(33)
        said = stream.push({"t": [29, 69]}).to_pylist()
    assert [(row["window"]["end"], row["n"]) for row in said] == [(36, 2)]
