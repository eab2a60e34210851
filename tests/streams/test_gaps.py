"""Sessions whose gaps are in a column: what gaps may be, late rows, what is kept, and how much work a push is."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streams.test_rows import counted, total

from muntin import Query, agg, window
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.kernels.cache import uncompiled
from muntin.streams.rows.by_gap import ByGap
from muntin.streams.rows.tree import LEAF

VISITS = window.session(gap_column="gap")


def visits(**options: Any) -> Query:
    return Query(VISITS, {"n": agg.count(), "total": agg.sum("v")}, key="k", time="t", **options)


def table(*cells: tuple[str, int, int | None]) -> pa.Table:
    keys, times, gaps = zip(*cells, strict=True)
    return pa.table({"k": keys, "t": times, "gap": pa.array(gaps, pa.int64()), "v": [1] * len(keys)})


def shown(found: pa.Table) -> list[tuple[Any, ...]]:
    rows = found.to_pylist()
    return [(*row["window"].values(), row["n"], row["revision"], row["retracted"]) for row in rows]


def test_windows_that_meet_are_one() -> None:
    """A long gap reaches over the short ones behind it; a row at the very end belongs to the session."""
    rows = table(("a", 0, 10), ("a", 2, 1), ("a", 5, 2), ("a", 10, 3), ("a", 14, 1), ("b", 5, 1))
    assert shown(visits().run(rows)) == [(0, 13, 4, 0, False), (14, 15, 1, 0, False), (5, 6, 1, 0, False)]


def test_a_late_row_makes_one_session_of_two_and_a_long_gap_takes_in_those_behind_it() -> None:
    with uncompiled():
        stream = visits(allowed_lateness=100).stream()
        assert shown(stream.push(table(("a", 0, 2), ("a", 10, 2), ("a", 20, 2), ("a", 40, 1)))) == [
            (0, 2, 1, 0, False),
            (10, 12, 1, 0, False),
            (20, 22, 1, 0, False),
        ]
        assert shown(stream.push(table(("a", 11, 1)))) == [(10, 12, 2, 1, False)]
        assert sorted(shown(stream.push(table(("a", 1, 19))))) == [
            (0, 2, None, 1, True),
            (0, 22, 5, 0, False),
            (10, 12, None, 2, True),
            (20, 22, None, 1, True),
        ]


def test_a_row_that_would_change_a_final_session_is_late() -> None:
    with uncompiled():
        stream = visits(allowed_lateness=5).stream()
        stream.push(table(("a", 0, 4), ("a", 30, 1), ("b", 29, 1)))
        late = table(("a", 3, 40), ("a", 4, 40), ("a", 5, 40), ("b", 3, 40), ("b", 3, 10))
        assert shown(stream.push(late)) == [(29, 30, None, 1, True)]
        assert stream.take_late()["t"].to_pylist() == [3, 4]  # the first session of a ended at 4
        assert shown(stream.close()) == [(5, 45, 2, 0, False), (3, 43, 3, 0, False)]


@pytest.mark.parametrize("gap", [None, 0])
def test_a_row_without_a_gap_is_in_no_session(gap: int | None) -> None:
    rows = table(("a", 0, 10), ("a", 2, gap), ("a", 4, 1), ("b", 3, gap))
    assert shown(visits().run(rows)) == [(0, 10, 2, 0, False)]
    stream = visits().stream()
    stream.push(rows)
    assert stream.take_late()["t"].to_pylist() == [2, 3]
    assert stream.metrics()["dropped"] == 2
    assert shown(stream.close()) == [(0, 10, 2, 0, False)]


SECONDS = pa.array([0, 90, 200], pa.timestamp("s"))


@pytest.mark.parametrize(
    "gaps",
    [
        pa.array([100, 10, 1], pa.uint8()),
        pa.array([100, 10, 1], pa.duration("s")),
        pa.array([100_000, 10_000, 1_000], pa.duration("ms")),
        pa.array([datetime.timedelta(seconds=s) for s in (100, 10, 1)]),
    ],
    ids=lambda gaps: str(gaps.type),
)
def test_gaps_are_integers_in_the_unit_of_the_times_or_durations(gaps: pa.Array) -> None:
    rows = pa.table({"ts": SECONDS, "gap": gaps})
    query = Query(VISITS, {"n": agg.count()})
    for found in (query.run(rows), pa.concat_tables([(s := query.stream()).push(rows), s.close()])):
        spans = [tuple(each.timestamp() for each in row["window"].values()) for row in found.to_pylist()]
        first = SECONDS[0].as_py().timestamp()
        assert [(a - first, b - first) for a, b in spans] == [(0, 100), (200, 201)]


def test_finer_times_take_coarser_durations() -> None:
    rows = pa.table({"ts": SECONDS.cast(pa.timestamp("us")), "gap": pa.array([100, 10, 1], pa.duration("s"))})
    assert Query(VISITS, {"n": agg.count()}).run(rows)["n"].to_pylist() == [2, 1]
    days = pa.table({"ts": pa.array([0, 2, 9], pa.date32()), "gap": pa.array([172_800, 1, 86_400], pa.duration("s"))})
    with pytest.raises(InvalidArgumentError, match="'gap' holds 1 in row 1, which is finer than the times"):
        Query(VISITS, {"n": agg.count()}).run(days)


@pytest.mark.parametrize(
    ("times", "gaps", "error", "message"),
    [
        ([1, 2], [1, -3], InvalidArgumentError, "the column 'gap' holds -3 in row 1, and a gap is not negative"),
        ([1, 2], [1, 2**62], InvalidArgumentError, f"holds {2**62} in row 1, and a gap is at most"),
        ([1, 2], [1.5, 2.0], ColumnTypeError, "holds double, and gaps are integers, as the times are"),
        ([1, 2], ["5 s", "1 s"], ColumnTypeError, "holds string, and gaps are integers"),
        ([1, 2], pa.array([1, 2], pa.duration("s")), ColumnTypeError, r"holds duration\[s\], and gaps are integers"),
        (SECONDS[:2], [1.5, 2.0], ColumnTypeError, "gaps are durations or integers"),
        ([2**62, 2**63 - 2], [1, 1], InvalidArgumentError, "beyond what int64 can hold"),
    ],
)
def test_gaps_that_are_refused(times: Any, gaps: Any, error: type[Exception], message: str) -> None:
    query = Query(VISITS, {"n": agg.count()}, time="t")
    stream = query.stream()
    for call in (query.run, stream.push):
        with pytest.raises(error, match=message):
            call({"t": times, "gap": gaps})
    assert stream.metrics()["kept"] == 0


def test_definitions_that_are_refused() -> None:
    for options in ({}, {"gap": 5, "gap_column": "gap"}):
        with pytest.raises(InvalidArgumentError, match="give one of them"):
            window.session(**options)
    with pytest.raises(InvalidArgumentError, match="gap_column is 5; give the name of a column"):
        window.session(gap_column=5)  # type: ignore[arg-type]


def part_of(stream: Any) -> ByGap:
    (strategy,) = stream._state.core.strategies
    ((part,),) = (group.parts for group in strategy.groups)
    assert isinstance(part, ByGap)
    return part


def test_keys_that_come_and_go_take_no_memory() -> None:
    """A key is forgotten once no row that is not late can reach its last session, by the longest gap so far."""
    with uncompiled():
        stream = visits(allowed_lateness=3).stream()
        for i in range(300):
            stream.push(table((f"k{i}", 10 * i, 5), (f"k{i}", 10 * i + 2, 1)))
        part = part_of(stream)
        assert len(part.held_keys()) < 5
        assert (part.longest, part.forgotten) == (5, 2985 - 10)
        assert stream.metrics()["keys"] < 150
        assert stream.metrics()["kept"] < 10


def test_no_push_costs_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither within one long session nor among many that are not final."""
    for gap in (10, 1):
        for n in (1_000, 8_000):
            stream = visits(allowed_lateness=10 * n).stream()
            with counted(monkeypatch) as counts:
                t = np.arange(n) * 5
                stream.push({"k": ["a"] * n, "t": t, "gap": [gap] * n, "v": t})
                total(counts)
                for i in range(20):
                    stream.push({"k": ["a"], "t": [5 * (n + i)], "gap": [gap], "v": [1]})
                    stream.push({"k": ["a"], "t": [5 * (n // 2 + i) + 2], "gap": [1], "v": [1]})
                    assert total(counts) <= 16 * LEAF


def test_a_session_that_is_added_has_the_rows_that_are_held() -> None:
    query = Query([window.trailing(1000)], {"n": agg.count("gap")}, key="k", time="t")
    with uncompiled():
        stream = query.stream()
        stream.push(table(("a", 0, 5), ("a", 3, 5), ("a", 100, 5)))
        added = stream.add(VISITS)
        found = stream.push(table(("a", 104, 7), ("a", 200, 1))).to_pylist()
        mine = [(*row["window"].values(), row["n"]) for row in found if row["window_id"] == added]
        assert mine == [(100, 111, 2)]
