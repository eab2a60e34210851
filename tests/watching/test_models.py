"""What a page shows: windows with their revisions, raw rows by key, folders that grow, health that is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError
from muntin.watching.answers_folder import AnswersFolder
from muntin.watching.axis import Axis
from muntin.watching.health import Health, HealthReport
from muntin.watching.m4 import thinned
from muntin.watching.rows import Rows
from muntin.watching.watched import Answers, Live, Poller, RawRows, Reported, Watched
from muntin.watching.windows import Windows

QUERY = Query(
    [window.tumbling(10), window.session(4), window.sliding(rows(3), every=rows(2))],
    {"high": agg.max("v"), "n": agg.count()},
    key="k",
    time="t",
    allowed_lateness=30,
)
ROWS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=12)


def table(found: list[tuple[int, str, int]]) -> pa.Table:
    times, keys, values = zip(*found, strict=True)
    return pa.table({"t": times, "k": keys, "v": pa.array(values, pa.float64())})


# ---------------------------------------------------------------- windows


@given(st.lists(ROWS, min_size=1, max_size=4))
@settings(max_examples=examples(12))
def test_windows_are_the_latest_ones_and_know_what_they_were(pushes: list[list[tuple[int, str, int]]]) -> None:
    stream, windows, emitted = QUERY.stream(), Windows(), []
    for arrival, push in enumerate(pushes):
        emitted.append(stream.push(table(push)))
        windows.add(emitted[-1], float(arrival))
    emitted.append(stream.close())
    windows.add(emitted[-1], 99.0)
    answers = pa.concat_tables(emitted)
    last = muntin.latest(answers).to_pylist()
    assert windows.count == answers.num_rows
    for key, text in enumerate(windows.keys.texts):
        for window_id in windows.ids:
            expected = sorted(
                (row["window"]["end"], row["window"]["start"], row["high"], row["revision"])
                for row in last
                if (row["k"], row["window_id"]) == (text, window_id)
            )
            drawn = windows.look(window_id, key, ["high", "n"], -100, 1000)
            parts = (drawn.ends, drawn.starts, drawn.values["high"], drawn.revisions)
            assert sorted(zip(*(each.tolist() for each in parts), strict=True)) == expected
            for revision, earlier in zip(drawn.revisions.tolist(), drawn.earlier, strict=True):
                assert len([each for each in earlier.split(" → ") if each]) == revision


def test_a_window_that_was_revised_shows_its_earlier_values() -> None:
    stream = Query(window.tumbling(10), {"high": agg.max("v")}, time="t", allowed_lateness=30).stream()
    windows = Windows()
    for arrival, (t, v) in enumerate([(1, 3.0), (12, 1.0), (2, 5.0), (3, 8.0)]):
        windows.add(stream.push({"t": [t], "v": [v]}), float(arrival))
    drawn = windows.look(0, 0, ["high"], 0, 100)
    assert (drawn.values["high"].tolist(), drawn.revisions.tolist(), drawn.earlier) == ([8.0], [2], ["3 → 5"])
    assert drawn.arrivals.tolist() == [3.0]
    assert (windows.revised, windows.retracted, windows.span) == (2, 0, (0, 10))
    assert windows.look(0, 0, ["high"], 11, 100).ends.tolist() == [10]  # from which a line comes into view
    assert len(windows.look(0, 0, ["high"], -9, -1).ends) == 0


def test_earlier_values_that_are_no_numbers_are_told_apart() -> None:
    bounds = pa.array([{"start": 0, "end": 10}] * 5)
    answers = pa.table(
        {
            "window": bounds,
            "window_id": [0] * 5,
            "high": pa.array([None, float("nan"), 3.0, None, 4.0]),
            "revision": range(5),
            "retracted": [False, False, False, True, False],
        }
    )
    windows = Windows()
    windows.add(answers, 0.0)
    assert windows.look(0, 0, ["high"], 0, 100).earlier == ["null → NaN → 3 → retracted"]


def test_answers_of_another_query_are_refused() -> None:
    windows = Windows()
    windows.add(QUERY.run(table([(1, "a", 2)])), 0.0)
    with pytest.raises(InvalidArgumentError, match="answers by no key came, and before those by k"):
        windows.add(Query(window.tumbling(10), {"n": agg.count()}, time="t").run({"t": [1]}), 0.0)
    with pytest.raises(InvalidArgumentError, match="there is no column 'window'"):
        windows.add(pa.table({"x": [1]}), 0.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(-5, 5)), min_size=1, max_size=60), st.integers(1, 8))
@settings(max_examples=examples(40))
def test_a_thinned_line_keeps_what_m4_needs(points: list[tuple[float, int]], width: int) -> None:
    x, y = (np.array(each, np.float64) for each in zip(*sorted(points, key=lambda point: point[0]), strict=True))
    kept = thinned(x, y, 0.0, 10.0, width)
    assert len(kept) <= 4 * (width + 1)
    for column in range(width + 1):
        whole = np.flatnonzero(np.floor(x * (width / 10.0)) == column)
        mine = [i for i in kept.tolist() if i in whole]
        if len(whole):
            assert (mine[0], mine[-1]) == (whole[0], whole[-1])
            assert (y[mine].min(), y[mine].max()) == (y[whole].min(), y[whole].max())


# ---------------------------------------------------------------- rows


def test_rows_by_key_and_which_were_late() -> None:
    found = Rows("t", "v", ["k"], watermark=5)
    found.add(table([(10, "a", 1), (20, "b", 2)]))
    found.add(table([(14, "a", 3), (15, "a", 4), (21, None, 5)]))
    assert found.keys.texts == ["a", "b", "null"]
    assert [each.rows(0, 100)[1].tolist() for each in found.series] == [[1.0, 3.0, 4.0], [2.0], [5.0]]
    assert (found.late, list(found.late_marks), found.watermark, found.span) == (1, [14], 16, (10, 21))


def test_the_span_of_rows_sorts_no_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muntin.watching.series.Series._sort_appended", lambda _: pytest.fail("sorted"))
    found = Rows("t", "v", ["k"])
    assert found.span is None
    found.add(table([(7, "a", 1), (20, "b", 2)]))
    found.add(table([(3, "b", 3)]))
    assert found.span == (3, 20)


def test_rows_that_no_chart_shows_are_counted() -> None:
    found = Rows("t", "v")
    found.add(pa.table({"t": pa.array([1, None, 3, 4]), "v": [1.0, 2.0, None, float("nan")]}))
    assert (found.count, found.skipped, len(found.series[0])) == (4, 3, 1)
    assert (found.watermark, found.late) == (None, 0)


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (Rows("t", "w"), ColumnError, "there is no column 'w'; the columns are 't', 'k', 'v'"),
        (Rows("t", "k"), ColumnTypeError, "the column 'k' holds string; a chart needs numbers"),
        (Rows("k", "v"), ColumnTypeError, "the time column 'k' holds string"),
    ],
)
def test_columns_that_cannot_be_drawn(made: Rows, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made.add(table([(1, "a", 2)]))
    assert made.count == 0


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.date32(), pa.date64(), pa.int32()])
def test_times_become_places_and_come_back(kind: pa.DataType) -> None:
    axis = Axis.of(kind, "t")
    column = pa.array([0, 19_000 if kind == pa.date32() else 1_641_600_000], pa.int32()).cast(
        pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
    )
    ticks = axis.ticks(pa.chunked_array([column.cast(kind)]))
    assert [axis.tick(place) for place in axis.places(ticks).tolist()] == ticks.tolist()
    assert axis.is_time == (kind != pa.int32())


# ---------------------------------------------------------------- folders


def answers_of(value: int) -> pa.Table:
    return Query(window.tumbling(10), {"n": agg.sum("v")}, time="t").run({"t": [1], "v": [value]})


def read(folder: AnswersFolder) -> tuple[bool, list[int]]:
    void, tables = folder.changes()
    return void, [each["n"][0].as_py() for each in tables]


def test_new_files_of_a_run(tmp_path: Path) -> None:
    folder = AnswersFolder(tmp_path / "answers")
    assert read(folder) == (False, [])  # it need not be there yet
    (tmp_path / "answers").mkdir()
    for number in range(2):
        pq.write_table(answers_of(number), tmp_path / "answers" / f"part-{number}.parquet")
    pq.write_table(answers_of(9), tmp_path / "answers" / ".part-2.parquet")  # not whole yet
    assert read(folder) == (False, [0, 1])
    assert read(folder) == (False, [])
    (tmp_path / "answers" / ".part-2.parquet").rename(tmp_path / "answers" / "part-2.parquet")
    assert read(folder) == (False, [9])
    (tmp_path / "answers" / "part-1.parquet").unlink()
    pq.write_table(answers_of(7), tmp_path / "answers" / "part-1.parquet")
    assert read(folder) == (True, [0, 7, 9])  # the run has gone on from an earlier save
    (tmp_path / "answers" / "part-3.parquet").write_bytes(b"nothing")
    with pytest.raises(InvalidArgumentError, match=r"part-3\.parquet cannot be read"):
        read(folder)


def test_only_what_sparks_log_lists_counts(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def listed(*names: str) -> str:
        lines = [json.dumps({"path": (tmp_path / name).as_uri(), "size": 1, "action": "add"}) for name in names]
        return "\n".join(["v1", *lines])

    for number in range(5):
        pq.write_table(answers_of(number), tmp_path / f"part-{9 - number} a.parquet")
    (log / "0").write_text(listed("part-9 a.parquet"))
    folder = AnswersFolder(tmp_path)
    assert read(folder) == (False, [0])
    (log / "1").write_text(listed("part-8 a.parquet", "part-6 a.parquet"))
    (log / ".2.tmp").write_text("half written")
    assert read(folder) == (False, [1, 3])
    (log / "2.compact").write_text(
        listed("part-9 a.parquet", "part-8 a.parquet", "part-6 a.parquet", "part-5 a.parquet")
    )
    for old in ("0", "1"):
        (log / old).unlink()
    assert read(folder) == (False, [4])  # part-7 was left by a batch that was tried twice


def test_answers_in_other_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "part-000000.csv").touch()
    with pytest.raises(InvalidArgumentError, match=r"part-000000.csv is no Parquet: answers can be watched in Parquet"):
        AnswersFolder(tmp_path).changes()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "answers.parquet").touch()
    with pytest.raises(InvalidArgumentError, match="is a file; give the folder"):
        AnswersFolder(tmp_path / "answers.parquet")


# ---------------------------------------------------------------- health, and all together


def test_a_report_is_what_was_written(tmp_path: Path) -> None:
    report = HealthReport(tmp_path / "work")
    assert report.read() is None
    health = Health(at=5.0, rows=7, watermark=3.0, batch_seconds=0.5)
    report.write(health, {"windows": []})
    assert report.read() == (health, {"windows": []})
    assert health.lag == 2.0
    assert Health(at=5.0, rows=7, watermark=3.0, is_time=False).lag is None
    report.path.write_text("{")
    assert report.read() is None


def test_a_stream_is_watched_while_it_runs() -> None:
    stream = QUERY.stream()
    watched = Watched("x", windows=True, rows=Rows("t", "v", ["k"]))
    live = Live(stream)
    poller = Poller(watched, [live])
    stream.push(table([(1, "a", 2), (30, "b", 3)]))
    stream.push_row({"t": 31, "k": "a", "v": 4.0})
    poller.poll()
    assert watched.rows is not None
    assert watched.windows is not None
    assert (watched.rows.count, watched.health[-1][0].rows, watched.health[-1][0].keys) == (3, 3, 2)
    assert watched.windows.count > 0
    assert watched.plan is not None
    assert watched.watermark == 31
    live.end()
    stream.push(table([(50, "a", 2)]))
    poller.poll()
    assert watched.rows.count == 3


def test_what_cannot_be_read_is_said_and_tried_again(tmp_path: Path) -> None:
    broken: list[Any] = [pa.table({"t": [1]})]
    watched = Watched("x", windows=False, rows=Rows("t", "v"))
    poller = Poller(watched, [RawRows(lambda: broken)])
    poller.poll()
    assert watched.problem == "there is no column 'v'; the columns are 't'"
    broken[:] = [None]  # what nobody has thought of ends no thread
    poller.poll()
    assert watched.problem is not None
    assert "Error: " in watched.problem
    broken[:] = [pa.table({"t": [1], "v": [2.0]})]
    poller.poll()
    assert watched.problem is None
    assert watched.health[-1][0].rows == 1


def test_a_run_that_begins_again_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    folder.mkdir()
    watched = Watched("x", windows=True)
    report = HealthReport(tmp_path / "answers.muntin")
    poller = Poller(watched, [Answers(AnswersFolder(folder)), Reported(report)])
    pq.write_table(answers_of(1), folder / "part-0.parquet")
    report.write(Health(at=1.0, rows=5), {"windows": ()})
    poller.poll()
    assert watched.windows is not None
    assert (watched.windows.count, watched.health[-1][0].rows, watched.plan) == (1, 5, {"windows": []})
    (folder / "part-0.parquet").unlink()
    poller.poll()
    assert watched.windows.count == 0
    pq.write_table(answers_of(2), folder / "part-0.parquet")
    pq.write_table(answers_of(3), folder / "part-1.parquet")
    poller.poll()
    assert watched.windows.count == 2
