"""Keys that come and go, and late rows that nobody takes: a stream holds no more than it was told to."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError, MuntinError, UnsupportedOperationError

SUM = {"total": agg.sum("v")}
BY_ROWS = {
    "sliding": window.sliding(rows(3), every=rows(1)),
    "tumbling": window.tumbling(rows(2)),
    "trailing": window.trailing(rows(3)),
    "leading": window.leading(rows(2)),
    "every": window.sliding(rows(2), every=5),
}


def by_rows(kind: str, **options: Any) -> Query:
    """Return a query by rows that forgets keys."""
    return Query(BY_ROWS[kind], SUM, key="k", time="t", **{"forget_after": 100, **options})


def table(*cells: tuple[str, int, int]) -> pa.Table:
    """Return rows of key, time and value."""
    keys, times, values = zip(*cells, strict=True)
    return pa.table({"k": keys, "t": times, "v": values})


def answers(parts: list[pa.Table]) -> list[tuple[Any, ...]]:
    """Return all answers, sorted."""
    found = [row for part in parts for row in part.to_pylist()]
    return sorted((row["k"], *row["window"].values(), row["total"], row["revision"]) for row in found)


CASES = [(kind, strategy, False) for kind in BY_ROWS for strategy in ("auto", "rows")]


@pytest.mark.parametrize(("kind", "strategy", "partial"), [*CASES, ("sliding", "auto", True)])
def test_a_silent_key_is_forgotten_as_if_it_were_closed_and_begins_again(
    kind: str, strategy: str, partial: bool
) -> None:
    query = by_rows(kind, partial=partial)
    stream = query.stream(strategy=strategy)
    before = [("a", 1, 1), ("a", 2, 2), ("b", 3, 3), ("a", 4, 4)]
    again = [("a", 500, 5), ("a", 501, 6)]
    parts = [stream.push(table(*before)), stream.push(table(("b", 90, 7)))]
    assert stream.metrics()["forgotten"] == 0
    parts.append(stream.push(table(("c", 150, 8))))  # a is silent since 4, b since 90
    assert stream.metrics()["forgotten"] == 1
    stream.check()
    stream = query.stream(stream.snapshot(), strategy=strategy)
    parts += [stream.push(table(("b", 160, 9), ("c", 499, 9))), stream.push(table(*again)), stream.close()]
    assert stream.metrics()["forgotten"] == 2  # c comes again in the very push that would have it forgotten
    plain = Query(BY_ROWS[kind], SUM, key="k", time="t", partial=partial)
    lives = [before, again], [[("b", 3, 3), ("b", 90, 7), ("b", 160, 9)]], [[("c", 150, 8), ("c", 499, 9)]]
    cells = [
        [cell for cell in life if cell[0] == key] for key, group in zip("abc", lives, strict=True) for life in group
    ]
    assert answers(parts) == answers([plain.run(table(*life)) for life in cells])


@pytest.mark.parametrize("kind", ["sliding", "trailing"])
def test_keys_that_come_and_go_take_no_memory(kind: str) -> None:
    stream, forever = by_rows(kind).stream(), by_rows(kind, forget_after=None).stream()
    sizes = []
    for number in range(30):
        names = [f"{number}-{each}" for each in range(20)]
        fresh = pa.table({"k": names, "t": [50 * number] * 20, "v": [1] * 20})
        stream.push(fresh)
        forever.push(fresh)
        sizes.append(stream.metrics()["keys"])
    assert max(sizes) < 250
    assert stream.metrics()["forgotten"] > 400
    assert forever.metrics()["keys"] == 600


@given(
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=25),
    cuts=st.sets(st.integers(1, 24), max_size=6),
)
@settings(max_examples=examples(15))
def test_whatever_keeps_the_rows_forgets_the_same(steps: list[tuple[str, int, int]], cuts: set[int]) -> None:
    cells, now = [], 0
    for key, gap, value in steps:
        now += gap
        cells.append((key, now, value))
    found = []
    for strategy in ("auto", "rows"):
        stream = by_rows("sliding", forget_after=40, watermark=3).stream(strategy=strategy)
        bounds = [0, *sorted(cut for cut in cuts if cut < len(cells)), len(cells)]
        parts = [stream.push(table(*cells[a:b])) for a, b in pairwise(bounds)]
        stream.check()
        found.append((answers([*parts, stream.close()]), stream.metrics()["forgotten"]))
    assert found[0] == found[1]


def test_a_refused_push_forgets_nothing() -> None:
    query = Query([window.sliding(rows(2), every=rows(1))], {"total": agg.sum("v")}, key="k", time="t", forget_after=50)
    stream = query.stream()
    stream.push(table(("a", 1, 1), ("b", 2, 2)))
    before = stream.snapshot(), stream.metrics()
    with pytest.raises(MuntinError):
        stream.push(pa.table({"k": ["b", "b"], "t": [500, 501], "v": [2**63 - 1, 2**63 - 1]}))
    assert (stream.snapshot(), stream.metrics()) == before


def test_windows_without_rows_end_where_their_key_is_forgotten() -> None:
    stream = Query(
        window.tumbling(10), {"n": agg.count()}, key="k", time="t", emit_empty=True, forget_after=40
    ).stream()
    stream.push({"k": ["a", "b"], "t": [1, 2]})
    out = pa.concat_tables([stream.push({"k": ["b"], "t": [t]}) for t in range(10, 200, 10)])
    ends = [row["window"]["end"] for row in out.to_pylist() if row["k"] == "a"]
    assert ends == list(range(10, max(ends) + 1, 10))
    assert 40 < max(ends) < 80
    assert stream.metrics()["keys"] == 2  # numbers are given again when there are many


def test_keys_are_not_forgotten_while_windows_need_their_rows() -> None:
    windows = [window.sliding(rows(2), every=rows(1)), window.tumbling(500)]
    with pytest.raises(
        InvalidArgumentError, match=r"forget_after is 100, and window.tumbling\(500\) needs rows for 500"
    ):
        Query(windows, SUM, key="k", time="t", forget_after=100).stream().push(table(("a", 1, 1)))
    with pytest.raises(InvalidArgumentError, match="forget_after is -1; it must be positive"):
        by_rows("sliding", forget_after=-1)


def test_spark_refuses_to_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.spark.needs.require_packages", lambda: None)
    monkeypatch.setattr("muntin.spark.needs.require_frame", lambda _: None)
    with pytest.raises(UnsupportedOperationError, match="forget_after is 100, which is for streams in one process"):
        by_rows("sliding").spark(object())  # type: ignore[arg-type]  # it is not looked at


def test_late_rows_that_nobody_takes_are_bounded_and_counted() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    stream = query.stream(most_late=5)
    stream.push({"t": [1000]})
    for start in (0, 3, 6):
        stream.push({"t": [start, start + 1, start + 2]})
    assert stream.late["t"].to_pylist() == [4, 5, 6, 7, 8]
    counts = stream.metrics()
    assert (counts["dropped"], counts["late_let_go"]) == (9, 4)
    restored = query.stream(stream.snapshot(), most_late=5)
    restored.push({"t": list(range(100, 120))})
    assert restored.take_late()["t"].to_pylist() == [115, 116, 117, 118, 119]
    assert restored.metrics()["late_let_go"] == 24
    everything = query.stream(most_late=None)
    everything.push({"t": [1000]})
    everything.push({"t": list(range(50))})
    assert everything.late.num_rows == 50
    nothing = query.stream(most_late=0)
    nothing.push({"t": [1000]})
    nothing.push({"t": [3]})
    assert (nothing.late.num_rows, nothing.metrics()["late_let_go"]) == (0, 1)
    with pytest.raises(InvalidArgumentError, match="most_late is 2.5; give a number of rows"):
        query.stream(most_late=2.5)  # type: ignore[arg-type]  # the very mistake
