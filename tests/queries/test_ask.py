"""`Stream.ask`: what frames hold now, against `over` at the same points over the rows that each window took."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.strategies import Push
from queries.streams import Stream
from sampling import examples
from streams.test_tiles import queries as tiled_queries

from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.streams.rows import tiles

FRAMES = ("lifetime", "trailing", "trailing rows", "trailing, closed and delayed", "leading", "frame", "frame of rows")
KINDS = st.sampled_from([*FRAMES, *FRAMES, "session", "tumbling", "policy"])


def taken(truth: oracle.Stream, ours: Stream, window_id: int) -> pa.Table:
    """Return the rows that a window took, in the order in which they came."""
    rows = [row for (_, i), part in truth.parts.items() if i == window_id for row in part.rows]
    return ours.table([dict(row.values) for row in sorted(rows, key=lambda row: row.number)])


def expected(query: oracle.Query, truth: oracle.Stream, ours: Stream, points: pa.Table) -> list[list[Any]]:
    """Return the columns of all frames, in the order of windows."""
    columns = []
    for i, each in enumerate(query.windows):
        if each.is_frame:
            alone = Query(each, query.aggregates, key=query.key, time=query.time)
            answered = alone.over(taken(truth, ours, i), points)
            columns += [answered[name].to_pylist() for name in query.aggregates]
    return columns


def compare(query: oracle.Query, truth: oracle.Stream, ours: Stream, points: pa.Table) -> None:
    """Ask a stream; a point that it refuses must be behind the watermark, and the time that it names answered."""
    before = ours.stream.snapshot(), ours.stream.metrics()
    try:
        found = ours.stream.ask(points)
    except InvalidArgumentError as refused:
        if len(points) > 1:
            for i in range(len(points)):
                compare(query, truth, ours, points.slice(i, 1))
            return
        (time,) = points["t"].to_pylist()
        assert time < truth.watermark
        since = re.search(r"answered from (-?\d+) on", str(refused))
        if since is not None:
            later = points.set_column(points.column_names.index("t"), "t", pa.array([int(since[1])]))
            assert since[1] != str(time)
            compare(query, truth, ours, later)
    else:
        answers = found.select(found.column_names[points.num_columns :])
        assert [column.to_pylist() for column in answers.columns] == expected(query, truth, ours, points)
        assert found.select(points.column_names) == points
    assert (ours.stream.snapshot(), ours.stream.metrics()) == before


@given(data=st.data())
@settings(max_examples=examples(15))
def test_a_stream_answers_as_over_does(data: st.DataObject) -> None:
    """Rows in any order, some refused, with watermarks between them; asked after each step, and of a key unknown."""
    query = data.draw(strategies.queries(KINDS) | tiled_queries())
    assume(any(each.is_frame for each in query.windows))
    table = data.draw(strategies.tables())
    late = st.one_of(strategies.disordered(table, query.delay + query.lateness), st.permutations(table))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(data.draw(late)))))
    restarts = data.draw(st.sets(st.integers(0, len(steps)), max_size=2))
    truth, ours = oracle.Stream(query), Stream(query, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_FEW", data.draw(st.sampled_from([1, 16])))
        for number, step in enumerate(steps):
            for stream in (truth, ours):
                stream.push(step.rows) if isinstance(step, Push) else stream.advance(step.watermark)
            if number in restarts:
                ours.restart()
            if ours.stream.watermark is not None and truth.seen > -oracle.NEVER:
                ask(query, truth, ours, data)


def ask(query: oracle.Query, truth: oracle.Stream, ours: Stream, data: st.DataObject) -> None:
    times = st.integers(int(truth.watermark) - 3, int(truth.horizon) + 12) | st.integers(-40, 60)
    points = data.draw(st.lists(st.tuples(times, st.sampled_from("abc")), max_size=4))
    asked_for = {"t": pa.array([t for t, _ in points], pa.int64()), "k": pa.array([k for _, k in points], pa.string())}
    compare(query, truth, ours, pa.table(asked_for))


EDGES = [
    *(window.trailing(3, closed=closed) for closed in ("right", "left", "both", "neither")),
    window.trailing(2, closed="left", delay=2),
    window.trailing(4, hop=3),
    window.lifetime(),
    window.lifetime(closed="left"),
    window.trailing(4, hop=3, closed="left", delay=1),
    window.leading(3, closed="both"),
    window.leading(2, delay=1),
    window.frame(2, 2),
    *(window.trailing(rows(2), closed=closed) for closed in ("right", "left", "both")),
    window.trailing(rows(1), delay=rows(1)),
    window.leading(rows(2)),
    window.leading(rows(1), closed="right", delay=rows(2)),
    window.frame(rows(1), rows(1)),
]


@pytest.mark.parametrize("frame", EDGES, ids=repr)
def test_every_point_around_the_watermark(frame: Any) -> None:
    """Rows close together and at equal times; each point by itself, whether it is answered, and from when on."""
    query = Query(frame, {"n": agg.count(), "total": agg.sum("v")}, time="t", watermark=1)
    stream, came = query.stream(), {"t": [0], "v": [1]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_FEW", 1)
        stream.push(came)
        for step in (0, 2, 0, 0, 1, 5, 1):
            came = {"t": [*came["t"], came["t"][-1] + step], "v": [*came["v"], 2 * came["v"][-1]]}
            stream.push({name: values[-1:] for name, values in came.items()})
            moments = list(range(stream.watermark - 5, came["t"][-1] + 3))
            truth = query.over(came, {"t": moments}).to_pylist()
            found = [answer_or_time(stream, t) for t in moments]
            refused = [each for each in found if isinstance(each, int)]
            assert found[len(refused) :] == truth[len(refused) :]
            assert set(refused) <= {moments[len(refused)]}
            assert moments[len(refused)] <= stream.watermark


def answer_or_time(stream: Any, time: int) -> Any:
    """Return the answer for a point; for one that is refused the time from which on it would not be."""
    try:
        return stream.ask({"t": [time]}).to_pylist()[0]
    except InvalidArgumentError as refused:
        since = re.search(r"answered from (-?\d+) on", str(refused))
        assert since is not None
        return int(since[1])


# ---------------------------------------------------------------- what is asked, and how it is answered

SPENT = {"n": agg.count(), "spent": agg.sum("v")}
CARDS = {"t": [1, 5, 9], "card": ["a", "b", "a"], "v": [3, 4, 5]}


def begun(windows: Any, aggregates: Any = SPENT, **words: Any) -> Any:
    stream = Query(windows, aggregates, key="card", time="t", **words).stream()
    stream.push(CARDS)
    return stream


def test_the_time_is_the_greatest_where_it_is_left_out() -> None:
    stream = begun(window.trailing(5), watermark=3)
    assert stream.ask({"card": ["a", "b"]}).to_pydict() == {"card": ["a", "b"], "n": [1, 1], "spent": [5, 4]}
    stream.advance(10)
    assert stream.ask({"card": ["a", "b"]})["n"].to_pylist() == [1, 0]


def test_a_silent_key_runs_dry() -> None:
    stream = begun(window.trailing(5))
    stream.push({"t": [100], "card": ["b"], "v": [1]})
    assert stream.ask({"card": ["a", "b"]}).to_pydict() == {"card": ["a", "b"], "n": [0, 1], "spent": [None, 1]}


def test_the_same_kind_comes_out() -> None:
    stream = begun({"short": window.trailing(1), "long": window.trailing(10)})
    frame = pandas.DataFrame({"card": ["b", "a"], "t": [5, 9], "note": ["x", "y"]}, index=[7, 7])
    found = stream.ask(frame)
    assert list(found.columns) == ["card", "t", "note", "n_short", "spent_short", "n_long", "spent_long"]
    pandas.testing.assert_frame_equal(found[["card", "t", "note"]], frame)
    truth = {"n_short": [1, 1], "spent_short": [4, 5], "n_long": [1, 2], "spent_long": [4, 8]}
    assert {name: found[name].tolist() for name in truth} == truth
    found = stream.ask(polars.from_pandas(frame))
    assert isinstance(found, polars.DataFrame)
    assert {name: found[name].to_list() for name in truth} == truth
    for each in (pa.table(frame), pa.table(frame).to_batches()[0], frame.to_dict("list")):
        assert stream.ask(each).select(list(truth)).to_pydict() == truth


def test_only_frames_are_answered() -> None:
    stream = begun([window.tumbling(10), window.trailing(10), window.leading(rows(2))])
    found = stream.ask({"card": ["a"], "t": [9]})
    assert found.to_pydict() == {"card": ["a"], "t": [9], "n_w1": [2], "spent_w1": [8], "n_w2": [1], "spent_w2": [5]}
    stream.remove(1)
    assert stream.ask({"card": ["a"]}).column_names == ["card", "n_w2", "spent_w2"]
    with pytest.raises(UnsupportedOperationError, match="has none"):
        begun(window.tumbling(10)).ask({"card": ["a"]})


def test_before_the_first_row() -> None:
    stream = Query(window.trailing(5), {"n": agg.count(), "high": agg.max("v")}, key="card", time="t").stream()
    assert stream.ask({"card": ["a", "b"]}).to_pydict() == {"card": ["a", "b"], "n": [0, 0], "high": [None, None]}
    with pytest.raises(ColumnError, match="card"):
        stream.ask({"t": [4]})


def test_without_a_key() -> None:
    stream = Query(window.trailing(5), {"n": agg.count()}, time="t").stream()
    stream.push({"t": [1, 2]})
    assert stream.ask({"label": ["x", "y"]}).to_pydict() == {"label": ["x", "y"], "n": [2, 2]}
    assert stream.ask({"t": [6, 1, 9]})["n"].to_pylist() == [1, 1, 0]


def test_rows_with_the_times_of_a_clock() -> None:
    now = 10_000
    stream = Query(window.trailing("5 microseconds"), {"n": agg.count()}, key="k", time=None).stream(clock=lambda: now)
    stream.push({"k": ["a", "a"]})
    assert stream.ask({"k": ["a"]})["n"].to_pylist() == [2]
    now += 4_999
    assert stream.ask({"k": ["a"]})["n"].to_pylist() == [2]
    now += 1
    assert stream.ask({"k": ["a"]})["n"].to_pylist() == [0]


@agg.define(state="object")
class joined:
    """Texts one after the other: not commutative, and its state is an object."""

    def lift(v: Any) -> Any:
        return f"{v}"

    def combine(a: Any, b: Any) -> Any:
        return a + b

    def lower(s: Any) -> Any:
        return s


def test_ones_own_aggregation() -> None:
    stream = begun([window.trailing(9), window.trailing(rows(1), delay=rows(1))], {"all": joined("v")}, watermark=10)
    stream.push({"t": [4, 9], "card": ["a", "a"], "v": [6, 7]})
    assert stream.ask({"card": ["a", "c"]}).to_pydict() == {
        "card": ["a", "c"],
        "all_w0": ["3657", None],
        "all_w1": ["5", None],
    }


def test_the_end_of_a_frame_counts() -> None:
    """What a value weighs depends on when the frame ends, and not on the last row."""
    query = Query([window.trailing(100), window.trailing(rows(2))], {"level": agg.time_weighted_mean("v")}, time="t")
    stream = query.stream(history={"t": [0, 10], "v": [1.0, 3.0]})
    points = {"t": [10, 20, 50]}
    assert stream.ask(points) == query.over({"t": [0, 10], "v": [1.0, 3.0]}, points)


# ---------------------------------------------------------------- what was let go


def test_a_point_that_reaches_back_too_far_is_refused() -> None:
    stream = begun({"short": window.trailing(2), "long": window.trailing(10)})
    stream.push({"t": [30], "card": ["c"], "v": [1]})  # 9 and what is before is let go
    points = {"t": [30, 15, 18], "card": ["c", "a", "b"]}
    with pytest.raises(InvalidArgumentError, match=r"row 1 \(card 'a'\).* 'long' at 15, .*answered from 19 on"):
        stream.ask(points)
    assert stream.ask({"t": [19, 30], "card": ["a", "c"]})["n_long"].to_pylist() == [0, 1]


def test_times_are_shown_as_they_are() -> None:
    stream = Query(window.trailing("1 hour"), {"n": agg.count()}).stream()
    times = [datetime.datetime(2026, 1, 1, hour) for hour in (1, 5, 9)]
    stream.push({"ts": times})
    with pytest.raises(InvalidArgumentError, match="at 2026-01-01 05:00:00, .*from 2026-01-01 06:00:00 on"):
        stream.ask({"ts": times[1:]})


def test_a_window_that_was_added_later() -> None:
    """What it never saw is refused, by time as by rows; a key of which nothing is held may have had rows, too."""
    stream = Query([window.trailing(2), window.trailing(rows(9))], SPENT, key="card", time="t").stream()
    stream.remove(1)  # it was there for the columns of answers alone
    stream.push(CARDS)
    stream.push({"t": [30, 31], "card": ["a", "a"], "v": [1, 2]})
    stream.add(window.trailing(25))
    stream.add(window.trailing(rows(2)))
    with pytest.raises(InvalidArgumentError, match="'w2' at 31, .*answered from 34 on"):
        stream.ask({"card": ["a"]})
    stream.push({"t": [50, 52], "card": ["a", "b"], "v": [3, 4]})
    assert stream.ask({"card": ["a"]}).to_pylist()[0] == {
        "card": "a", "n_w0": 0, "spent_w0": None, "n_w2": 3, "spent_w2": 6, "n_w3": 2, "spent_w3": 5,
    }  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="'w3' at 52, .*once more rows have come"):
        stream.ask({"card": ["b"]})


def test_points_before_rows_that_have_melted_are_refused() -> None:
    """Also after a restart: the frame of 38 ends within what is one state by now."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "_FEW", 1)
        stream = Query(window.trailing(100, hop=50), SPENT, key="card", time="t").stream()
        stream.push({"t": range(40), "card": ["a"] * 40, "v": [1] * 40})
        for each in (stream, stream.query.stream(stream.snapshot())):
            assert each.ask({"card": ["a", "a"], "t": [39, 40]})["spent"].to_pylist() == [40, 40]
            with pytest.raises(InvalidArgumentError, match="at 38, .*answered from 39 on"):
                each.ask({"card": ["a"], "t": [38]})


def test_a_key_that_was_forgotten_has_no_rows() -> None:
    """From then on, as the stream has it; of the time before nothing is told that was otherwise."""
    stream = begun([window.trailing(rows(2)), window.trailing(10)], forget_after=50)
    stream.push({"t": [100], "card": ["c"], "v": [1]})
    assert stream.metrics()["forgotten"] == 2
    assert stream.ask({"card": ["a", "c"]}).to_pydict() == {
        "card": ["a", "c"], "n_w0": [0, 1], "spent_w0": [None, 1], "n_w1": [0, 1], "spent_w1": [None, 1],
    }  # fmt: skip
    restored = stream.query.stream(stream.snapshot())
    for each in (stream, restored):
        with pytest.raises(InvalidArgumentError, match="'w0' at 99, .*answered from 100 on"):
            each.ask({"card": ["a"], "t": [99]})
    stream.remove(0)
    with pytest.raises(InvalidArgumentError, match="'w1' at 18, .*answered from 19 on"):
        stream.ask({"card": ["a"], "t": [18]})


def test_the_end_of_time() -> None:
    stream = begun(window.frame(5, 5))
    stream.advance(2**63 - 3)
    with pytest.raises(InvalidArgumentError, match="reach beyond"):
        stream.ask({"card": ["a"]})


def test_a_refused_row_stops_no_question() -> None:
    stream = begun(window.trailing(10))
    stream.push({"t": [5], "card": ["b"], "v": [9]})
    assert stream.late.num_rows == 1
    assert stream.ask({"card": ["a", "b"]})["spent"].to_pylist() == [8, 4]


def test_a_row_is_in_the_windows_that_took_it() -> None:
    """A late row, of which another window still waits for the frame."""
    for late in (window.trailing(10), window.trailing(rows(2))):
        stream = begun([late, window.frame(0, 20)])
        stream.push({"t": [30], "card": ["a"], "v": [1]})
        stream.push({"t": [25], "card": ["a"], "v": [10]})
        assert stream.late.num_rows == 0
        found = stream.ask({"card": ["a"], "t": [30]}).to_pydict()
        assert (found["spent_w0"], found["spent_w1"]) == ([1 if late == window.trailing(10) else 6], [1])
        found = stream.ask({"card": ["a"], "t": [60]}).to_pydict()
        assert (found["spent_w0"], found["spent_w1"]) == ([None if late == window.trailing(10) else 6], [None])


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        ({"t": [9]}, ColumnError, "card"),
        ({"card": [1]}, ColumnTypeError, "'card' holds string in the rows, and int64"),
        ({"card": ["a"], "t": ["x"]}, ColumnTypeError, "'t' holds int64"),
        ({"card": ["a"], "t": [None]}, InvalidArgumentError, "'t' is null in row 0"),
        ({"card": ["a"], "t": [2**63 - 1]}, InvalidArgumentError, "reach beyond"),
        ({"card": ["a"], "n": [1]}, InvalidArgumentError, "'n' is there already"),
        (7, InvalidArgumentError, "a table is needed"),
    ],
)
def test_bad_points_are_refused(points: Any, error: Any, message: str) -> None:
    stream = begun(window.trailing(10))
    before = stream.snapshot()
    with pytest.raises(error, match=message):
        stream.ask(points)
    assert stream.snapshot() == before


def test_a_closed_stream_has_nothing() -> None:
    stream = begun(window.trailing(10))
    stream.close()
    with pytest.raises(UnsupportedOperationError, match="closed"):
        stream.ask({"card": ["a"]})


def test_no_points() -> None:
    found = begun(window.trailing(10)).ask({"card": pa.array([], pa.string())})
    assert (found.num_rows, found.schema.field("spent").type) == (0, pa.int64())


@pytest.mark.compiled
def test_many_rows() -> None:
    """Rows out of order within the lateness; asked at random moments, at any time from the watermark on."""
    chance = np.random.default_rng(7)
    count, pushes = 200_000, 20
    times = np.sort(chance.integers(0, 4_000_000, count))
    order = np.argsort(times + chance.integers(0, 20_000, count), kind="stable")
    data = pa.table({"t": times[order], "k": chance.integers(0, 5_000, count), "v": chance.integers(-9, 9, count)})
    windows = [window.trailing(100_000, closed="left"), window.trailing(rows(9))]
    query = Query(windows, {"total": agg.sum("v")}, key="k", time="t", watermark=20_000)
    stream, size = query.stream(), count // pushes
    moments = {*chance.choice(pushes, 3, replace=False).tolist(), pushes - 1}
    for i in range(pushes):
        stream.push(data[i * size : (i + 1) * size])
        if i in moments:
            now = int(stream.watermark)
            points = pa.table({"k": chance.integers(0, 6_000, 500), "t": chance.integers(now, now + 150_000, 500)})
            truth = query.over(data[: (i + 1) * size], points)
            assert stream.ask(points) == truth
            assert pa.concat_tables([stream.ask(points[j : j + 1]) for j in range(20)]) == truth[:20]
    assert stream.metrics()["dropped"] == 0
