"""Frames: against DuckDB, which is asked as the tests run, and as streams in any order against `run`."""

from __future__ import annotations

import os
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from sampling import THOROUGH, examples

from muntin import Query, agg, rows, window
from muntin.kernels.cache import uncompiled
from muntin.windows.lengths import Rows

CASES = int(os.environ.get("MUNTIN_FRAMES", "") or (40 if THOROUGH == 1 else -(-1000 // THOROUGH)))
"""How many random frames are compared with DuckDB's: a thousand in a thorough run."""
FRAMES = st.one_of(*(strategies.KINDS[name] for name in ("trailing", "trailing rows", "leading", "frame")))
FRAMES |= strategies.KINDS["trailing, closed and delayed"] | strategies.KINDS["frame of rows"]
FRAMES |= strategies.KINDS["lifetime"]

AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("v"),
    "low": agg.min("v"),
    "mean": agg.mean("v"),
    "newest": agg.last("i"),
    "ids": agg.collect("i"),
}
SAME = """count(*) OVER w, (sum(v) OVER w)::BIGINT, min(v) OVER w, avg(v) OVER w, last(i ORDER BY t, i) OVER w,
          list(i ORDER BY t, i) OVER w"""


@st.composite
def tables(draw: Any, most: int = 40, *, unique: bool = False) -> pa.Table:
    """Rows of three keys in no order, some of them at the same time unless they are `unique`, some values null."""
    count = draw(st.integers(1, most))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps = chance.choice([1, 2, 3, 20], count) if unique else chance.choice([0, 0, 1, 1, 2, 3, 20], count)
    times = np.cumsum(steps) - draw(st.integers(0, 50))
    values = chance.integers(-50, 50, count)
    return pa.table(
        {
            "t": pa.array(times[chance.permutation(count)], pa.int64()),
            "k": pa.array(chance.choice(["a", "b", "c"], count)),
            "v": pa.array(values, pa.int64(), mask=chance.random(count) < 0.1),
            "i": pa.array(np.arange(count), pa.int64()),
        }
    )


def sql_frame(frame: Any) -> str:
    """Return a frame in SQL, from its words: an open bound is left out by EXCLUDE where it is the row, else by one."""
    by_rows = any(isinstance(each, Rows) for each in vars(frame).values())

    def size(length: Any) -> int:
        return length.count if isinstance(length, Rows) else length or 0

    words = vars(frame)
    if "lifetime" in repr(frame):
        exclude = " EXCLUDE GROUP" if frame.closed == "left" else ""
        return f"ORDER BY t RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW{exclude}"
    if "before" in words:
        low, high = -size(words["before"]), size(words["after"])
    elif "leading" in repr(frame):
        low, high = size(words["delay"]), size(words["delay"]) + size(words["range"])
    else:
        low, high = -size(words["delay"]) - size(words["range"]), -size(words["delay"])
    left, right = frame.closed in ("left", "both"), frame.closed in ("right", "both")
    exclude = " EXCLUDE CURRENT ROW" if by_rows else " EXCLUDE GROUP"
    excluded = (not left and low == 0) or (not right and high == 0)
    low += 0 if left or low == 0 else 1
    high -= 0 if right or high == 0 else 1
    order = "ORDER BY t, i ROWS" if by_rows else "ORDER BY t RANGE"
    return f"{order} BETWEEN {bound(low)} AND {bound(high)}{exclude if excluded else ''}"


def bound(offset: int) -> str:
    return "CURRENT ROW" if not offset else f"{abs(offset)} {'FOLLOWING' if offset > 0 else 'PRECEDING'}"


def by_duckdb(data: pa.Table, frame: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("data", data)
        asked = f"SELECT k, {SAME} FROM data WINDOW w AS (PARTITION BY k {frame}) ORDER BY k, t, i"
        return connection.execute(asked).fetchall()


@given(frame=FRAMES.filter(lambda frame: getattr(frame, "hop", None) is None), data=tables())
@settings(deadline=None, max_examples=examples(CASES))
def test_frames_are_those_of_sql(frame: Any, data: pa.Table) -> None:
    with uncompiled():
        found = Query(frame, AGGREGATES, key="k", time="t").run(data)
    ours = [(row["k"], *(row[name] for name in AGGREGATES)) for row in found.to_pylist()]
    ours.sort(key=lambda row: row[0])  # the rows of a key come in the order of their times
    assert ours == by_duckdb(data, sql_frame(frame)), sql_frame(frame)


@given(st.data())
@settings(deadline=None, max_examples=examples(20))
def test_tiles_begin_at_the_last_multiple_of_the_hop(data: st.DataObject) -> None:
    frame, table = data.draw(strategies.trailing().filter(lambda frame: frame.hop)), data.draw(tables())
    with uncompiled():
        found = Query(frame, {"ids": agg.collect("i")}, time="t").run(table)
    times = table["t"].to_pylist()
    for row, at in zip(found.to_pylist(), sorted(times), strict=True):
        end = at - frame.delay
        start = (end - frame.range) // frame.hop * frame.hop
        held = [i for i, t in enumerate(times) if start <= t < end + (frame.closed == "right")]
        assert (row["window"]["start"], row["window"]["end"]) == (start, end)
        assert sorted(row["ids"] or []) == held


NUMBERED = st.one_of(
    st.builds(
        lambda n, closed: window.trailing(rows(n), closed=closed), st.integers(1, 5), st.sampled_from(["right", "both"])
    ),
    st.builds(
        lambda n, closed: window.leading(rows(n), closed=closed), st.integers(1, 5), st.sampled_from(["left", "both"])
    ),
)
"""Frames by rows that show the number of their row, as the last or the first that they hold."""
BY_TIME = (
    strategies.KINDS["lifetime"]
    | strategies.KINDS["leading"]
    | strategies.KINDS["frame"]
    | strategies.KINDS["trailing, closed and delayed"]
)


def named(frame: Any, answers: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Return the last word on each frame, by its key and row; no two rows of a key have the same time."""
    last = {}
    for row in answers:
        bounds = row["window"]
        place = bounds["at"] if bounds.get("at") is not None else bounds["end"]
        if "from_row" in bounds:
            place = bounds["from_row"] if "leading" in repr(frame) else bounds["to_row"]
        assert row["revision"] == (last[row["k"], place]["revision"] + 1 if (row["k"], place) in last else 0)
        assert not row["retracted"]
        last[row["k"], place] = row
    return {name: {**row, "revision": 0} for name, row in last.items()}


@given(st.data())
@settings(deadline=None, max_examples=examples(40))
def test_streams_in_any_order_end_where_run_does(data: st.DataObject) -> None:
    """All rows come within the lateness, one by one."""
    frame, table = data.draw(BY_TIME | NUMBERED), data.draw(tables(20, unique=True))
    spread = int(np.ptp(table["t"].to_numpy())) + 1
    delay = data.draw(st.sampled_from([0, 3, spread]))
    query = Query(frame, {"ids": agg.collect("i")}, key="k", time="t", watermark=delay, allowed_lateness=spread)
    with uncompiled():
        stream, emitted = query.stream(), []
        for i in data.draw(st.permutations(range(table.num_rows))):
            emitted += stream.push(table.slice(i, 1)).to_pylist()
        emitted += stream.close().to_pylist()
        final = query.run(table).to_pylist()
    assert stream.metrics()["dropped"] == stream.late.num_rows == 0
    assert named(frame, emitted) == named(frame, final)
    assert len(named(frame, final)) == table.num_rows


@pytest.mark.parametrize(("frame", "moved"), [(window.trailing(10), []), (window.trailing(rows(3)), [(104, 3, 0)])])
def test_a_row_without_an_answer_of_its_own_is_late(frame: Any, moved: list[tuple[int, ...]]) -> None:
    """The frames of later rows hold it, but its own would have been final: so it is counted, and delivered.

    Of frames by rows it moves the one before the last on, so that this one has the number of a frame that is not final.
    """
    stream = Query(frame, {"n": agg.count()}, time="t", watermark=5).stream()
    assert answered(stream.push({"t": [100, 104]})) == []
    assert answered(stream.push({"t": [110]})) == [(100, 1, 0), (104, 2, 0)]
    assert answered(stream.push({"t": [102]})) == moved
    assert stream.late.to_pydict() == {"t": [102]}
    assert (stream.metrics()["late"], stream.metrics()["dropped"]) == (1, 1)
    assert answered(stream.close()) == [(110, 3, 0)]


def test_a_late_row_revises_every_frame_that_holds_it_and_has_its_own() -> None:
    stream = Query(window.frame(5, 5), {"n": agg.count()}, time="t", allowed_lateness=20).stream()
    assert answered(stream.push({"t": [10, 14]})) == []
    assert answered(stream.push({"t": [21]})) == [(10, 2, 0), (14, 2, 0)]
    assert answered(stream.push({"t": [12, 8]})) == [(8, 3, 0), (10, 4, 1), (12, 4, 0), (14, 3, 1)]
    assert stream.late.num_rows == 0


def test_a_leading_frame_is_due_when_the_watermark_reaches_its_end() -> None:
    stream = Query(window.leading(10), {"n": agg.count()}, time="t").stream()
    assert answered(stream.push({"t": [0, 9]})) == []
    assert answered(stream.push({"t": [4]})) == []  # late, but its own frame is not
    assert answered(stream.advance(10)) == [(0, 3, 0)]
    assert answered(stream.push({"t": [0]})) == []
    assert stream.late.to_pydict() == {"t": [0]}
    assert answered(stream.close()) == [(4, 2, 0), (9, 1, 0)]


def answered(answers: pa.Table) -> list[tuple[Any, ...]]:
    """Return what is emitted: the time of a frame's row, how many rows it holds, the revision."""
    found = [(row["window"].get("at"), row["window"]["end"], row["n"], row["revision"]) for row in answers.to_pylist()]
    return [(end if at is None else at, n, revision) for at, end, n, revision in found]


def test_frames_without_rows_have_the_answer_of_no_rows() -> None:
    frames = {"left": window.trailing(5, closed="left"), "rows": window.trailing(rows(2), closed="left")}
    frames |= {"ahead": window.leading(rows(2), closed="right"), "far": window.trailing(5, delay=100)}
    query = Query(list(frames.values()), {"n": agg.count(), "high": agg.max("v")}, time="t")
    answers = query.run({"t": [1, 2], "v": [7, 8]})
    found = [(row["window_id"], row["n"], row["high"]) for row in answers.to_pylist()]
    assert found == [
        (0, 0, None),
        (0, 1, 7),
        (1, 0, None),
        (1, 1, 7),
        (2, 1, 8),
        (2, 0, None),
        (3, 0, None),
        (3, 0, None),
    ]
    empty = answers["window"].to_pylist()[2]
    assert empty == {"start": None, "end": None, "from_row": 0, "to_row": 0, "at": 1}


def test_at_is_there_where_a_frame_does_not_end_with_its_row() -> None:
    def fields(*windows: Any) -> list[str]:
        answers = Query(windows, {"n": agg.count()}).run({"ts": [1]})
        return [name for name, value in answers["window"].to_pylist()[0].items() if value is not None]

    plain = [window.trailing(5), window.trailing(5, closed="left"), window.frame(5, 0), window.trailing(5, hop=2)]
    assert all(fields(each) == ["start", "end"] for each in plain)
    others = [window.trailing(5, delay=1), window.leading(5), window.frame(5, 1)]
    assert all(fields(each) == ["start", "end", "at"] for each in others)
    assert fields(window.trailing(rows(5))) == ["start", "end", "from_row", "to_row"]
    assert fields(window.leading(rows(5))) == ["start", "end", "from_row", "to_row", "at"]
    both = Query([window.trailing(5), window.leading(5)], {"n": agg.count()}).run({"ts": [1]})
    assert both["window"].to_pylist() == [{"start": -4, "end": 1, "at": None}, {"start": 1, "end": 6, "at": 1}]


def test_a_late_row_revises_a_frame_whose_row_it_moves() -> None:
    """Of the frames with number 1, one holds the row of number 9 at time 10, the other that of number 10 at time 9."""
    query = Query(window.frame(rows(3), rows(3)), {"n": agg.count()}, key="k", time="t", allowed_lateness=30)
    stream = query.stream()
    arrivals = [
        (10, "b"),
        (10, "a"),
        (10, "a"),
        (11, "a"),
        (15, "a"),
        (9, "b"),
        (12, "a"),
        (12, "b"),
        (17, "b"),
        (17, "b"),
    ]
    for time, key in arrivals:
        stream.push({"t": [time], "k": [key]})
    found = stream.push({"t": [6], "k": ["b"]}).to_pylist()
    assert [(row["window"]["at"], row["window"]["to_row"], row["revision"]) for row in found] == [
        (6, 4, 1),
        (9, 5, 1),
        (10, 6, 0),
    ]
