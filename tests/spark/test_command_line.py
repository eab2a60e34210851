"""`muntin run` on Spark: a folder of files as one batch, and one that grows as a stream; the demo."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from cli.files import QUERY, readings, write
from typer.testing import CliRunner
from waiting import until

from muntin.cli.app import app
from muntin.cli.query_file import parse_query
from muntin.watching.answers_folder import AnswersFolder
from muntin.watching.health import HealthReport, work_folder


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    query, folder = tmp_path / "query.toml", tmp_path / "in"
    query.write_text(QUERY)
    folder.mkdir()
    return query, folder, tmp_path / "out"


def windows(folder: Path) -> set[tuple]:
    """Return what a reader finds: the files that the log of Spark's sink names, where there is one."""
    logs = [path.read_text().splitlines()[1:] for path in folder.glob("_spark_metadata/[0-9]*")]
    names = {Path(json.loads(line)["path"]).name for lines in logs for line in lines}
    files = [path for path in sorted(folder.glob("*.parquet")) if not logs or path.name in names]
    return {_window(row) for row in ds.dataset(files).to_table().to_pylist()}


def _window(row: dict[str, Any]) -> tuple:
    start, end = (row["window"][name].replace(tzinfo=None) for name in ("start", "end"))
    return (row["plug"], row["window_id"], start, end, row["peak"], row["n"], row["revision"])


def test_a_folder_is_one_batch_on_spark(spark, places):
    query, folder, out = places
    rows = readings()
    write(rows.slice(0, 300), folder / "1.parquet")
    write(rows.slice(300), folder / "2.parquet")
    result = run("run", query, "--input", folder, "--output", out, "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert (summary["engine"], summary["rows"], summary["finished"]) == ("spark", 600, True)
    expected = {_window(row) for row in parse_query(QUERY).run(rows).to_pylist()}
    assert windows(out) == expected
    assert summary["windows"] == len(expected)
    again = run("run", query, "--input", folder, "--output", out)
    assert (again.exit_code, "give --overwrite" in again.stderr) == (2, True)


def test_a_folder_that_grows_is_a_stream_that_stops_and_goes_on(spark, places):
    query, folder, out = places
    rows = readings()
    write(rows.slice(0, 300), folder / "1.parquet")
    done: list[int] = []
    for count, more in ((1, None), (3, rows.slice(300))):
        if more is not None:
            write(more, folder / "2.parquet")
        with _stopped(out, count, done):
            result = run("run", query, "--input", folder, "--output", out, "--follow", "--engine", "spark")
        assert result.exit_code == 0, result.output
    expected = {_window(row) for row in parse_query(QUERY).run(rows).to_pylist()}
    found = windows(out)
    assert found < expected  # those that the watermark has not reached wait in the checkpoint
    assert found
    assert done == [1, 3]
    void, tables = AnswersFolder(out).changes()  # what the live page reads of it
    assert not void
    assert {_window(row) for table in tables for row in table.to_pylist()} == found
    report = HealthReport(out.with_name("out.muntin")).read()
    assert report is not None
    health, plan = report
    assert health.watermark is not None
    assert plan is not None
    assert len(plan["windows"]) == len(parse_query(QUERY).windows)


def test_a_stream_goes_on_with_the_aggregates_in_another_order(spark, places):
    """Readers of CSV take the columns of all files to be in the order of the first one."""
    query, folder, out = places
    out = out.with_suffix(".csv")
    rows, command = readings(), ("run", query, "--input", folder, "--output", out, "--follow", "--engine", "spark")
    write(rows.slice(0, 300), folder / "1.parquet")
    for count, more in ((1, None), (3, rows.slice(300))):
        if more is not None:
            write(more, folder / "2.parquet")
            query.write_text(QUERY[: QUERY.index("peak")] + 'n = "count()"\npeak = "max(watts)"\n')
        with _stopped(out, count, []):
            result = run(*command)
        assert result.exit_code == 0, result.output
    headers = {path.read_text().splitlines()[0] for path in out.glob("*.csv")}
    assert headers == {"plug,window_start,window_end,window_id,peak,n,revision,retracted"}
    query.write_text(QUERY.replace("max(watts)", "min(watts)").replace("count()", "count(watts)"))
    result = run(*command)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1, result.stderr
    assert "its aggregate peak is agg.max('watts'), this one's is agg.min('watts'); its aggregate n" in result.stderr


@pytest.mark.parametrize(("names", "format"), [(["plug"], "parquet"), (["plug"], "csv"), ([], "parquet")])
def test_subfolders_are_read_and_their_names_are_columns(names, format, spark, places):
    query, folder, out = places
    rows = readings(90)
    rows = rows.set_column(
        1, "plug", pa.array([{"a": "01", "b": "2", "c": None}[each] for each in rows["plug"].to_pylist()])
    )
    inner = folder if names else folder / "2024" / "03"
    ds.write_dataset(
        rows, inner, format=format, partitioning=names or None, partitioning_flavor="hive" if names else None
    )
    result = run("run", query, "--input", folder, "--output", out, "--json", "--engine", "spark")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 90
    kind = pa.int32() if names else pa.string()
    expected = parse_query(QUERY).run(rows.set_column(1, "plug", rows["plug"].cast(kind)))
    assert windows(out) == {_window(row) for row in expected.to_pylist()}


@pytest.mark.parametrize("names", [["plug"], []])
def test_subfolders_are_followed(names, spark, places):
    query, folder, out = places
    inner = folder if names else folder / "2024" / "03"
    ds.write_dataset(
        readings(90), inner, format="parquet", partitioning=names or None, partitioning_flavor="hive" if names else None
    )
    with _stopped(out, 2, []):  # the second batch has no rows, and emits by the watermark of the first
        result = run("run", query, "--input", folder, "--output", out, "--follow", "--engine", "spark", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 90
    assert set() < windows(out) < {_window(row) for row in parse_query(QUERY).run(readings(90)).to_pylist()}


def _damaged(path: Path) -> None:
    write(readings(), path)
    data = bytearray(path.read_bytes())
    data[40:400] = bytes(each ^ 0x5A for each in data[40:400])
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"PAR1 and no more PAR1"), "2.parquet cannot be read"),
        (_damaged, "2.parquet"),
        (lambda path: write(readings().set_column(2, "watts", pa.array(["x"] * 600)), path), "2.parquet"),
        (lambda path: write(readings().drop_columns("watts"), path), "2.parquet: there is no column 'watts'"),
        (lambda path: path.with_suffix(".csv").write_bytes(b"ts,plug,watts\n1,\xe9,2\n"), "2.csv, line 2, byte 3"),
    ],
)
def test_files_that_cannot_be_read_are_one_line(make, says, spark, places):
    query, folder, out = places
    write(readings(), folder / "1.parquet")
    make(folder / "2.parquet")
    result = run("run", query, "--input", folder, "--output", out, "--engine", "spark")
    assert result.exit_code == 2
    assert result.stderr.startswith("muntin: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert "SQLSTATE" not in result.stderr


@pytest.mark.parametrize("name", ["typed.parquet", "header.csv", "blank.jsonl"])
def test_files_without_rows_have_no_windows(name, spark, places):
    query, folder, out = places
    if name == "typed.parquet":
        write(readings(0), folder / name)
    else:
        (folder / name).write_text("ts,plug,watts\n" if name == "header.csv" else "")
    result = run("run", query, "--input", folder, "--output", out, "--engine", "spark", "--json")
    assert result.exit_code == 0, result.output
    assert (json.loads(result.stdout)["rows"], json.loads(result.stdout)["windows"]) == (0, 0)


def test_overwriting_on_spark_leaves_what_no_run_has_written(spark, places):
    query, folder, out = places
    write(readings(60), folder / "1.parquet")
    command = ("run", query, "--input", folder, "--output", out, "--engine")
    assert run(*command, "local").exit_code == 0
    (out / "notes.txt").write_text("mine")
    result = run(*command, "spark", "--overwrite")
    assert (result.exit_code, "notes.txt was not written by a run" in result.stderr) == (2, True)
    assert (out / "notes.txt").read_text() == "mine"
    (out / "notes.txt").unlink()
    for engine in ("spark", "local", "spark"):  # each overwrites what the other has written
        result = run(*command, engine, "--overwrite")
        assert result.exit_code == 0, result.output
        assert windows(out) == {_window(row) for row in parse_query(QUERY).run(readings(60)).to_pylist()}
    assert not out.with_name("out.muntin").exists()


@contextmanager
def _stopped(out: Path, count: int, done: list[int]) -> Iterator[None]:
    """Interrupt a run in this process after `count` batches, unless it has ended before: it may have failed."""
    ended = threading.Event()

    def wait() -> None:
        until(lambda: _committed(out, count) or ended.is_set(), pause=0.2)
        if not ended.is_set():
            done.append(count)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _committed(out: Path, batches: int) -> bool:
    commits = work_folder(out) / "checkpoint" / "commits"
    return len(list(commits.glob("[0-9]*"))) >= batches
