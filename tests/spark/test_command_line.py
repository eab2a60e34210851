"""`muntin run` on Spark: a folder of files as one batch, and one that grows as a stream; the demo."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from cli.files import QUERY, readings, write
from typer.testing import CliRunner
from waiting import until

from muntin.cli.app import app
from muntin.cli.query_file import parse_query
from muntin.watching.answers_folder import AnswersFolder
from muntin.watching.health import HealthReport


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
    ended = threading.Event()

    def stop_after(count: int) -> threading.Thread:
        def wait() -> None:
            until(lambda: _committed(out, count) or ended.is_set(), pause=0.2)
            if not ended.is_set():
                done.append(count)
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    for count, more in ((1, None), (3, rows.slice(300))):
        if more is not None:
            write(more, folder / "2.parquet")
        ended.clear()
        thread = stop_after(count)
        result = run("run", query, "--input", folder, "--output", out, "--follow", "--engine", "spark")
        ended.set()  # else a run that fails would be waited for
        thread.join()
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


def _committed(out: Path, batches: int) -> bool:
    commits = out.with_name("out.muntin") / "checkpoint" / "commits"
    return len(list(commits.glob("[0-9]*"))) >= batches
