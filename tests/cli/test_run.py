"""`muntin run`: formats, resuming, following, refusals. What it writes is what `Query.run` answers."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.files import QUERY, read, readings, write

from muntin.cli import local
from muntin.cli.query_file import parse_query
from muntin.cli.sinks import flat
from muntin.cli.sources import BATCH_ROWS, Position, Source

LOCAL = ("--engine", "local")


def answers(windows: pa.Table) -> set[tuple]:
    """Windows as they can be compared, whatever the format they were in."""
    table = flat(windows)
    assert set(table["revision"].to_pylist()) == {0}
    rows = zip(*(table[name].to_pylist() for name in ("plug", "window_id", "peak", "n")), strict=True)
    times = zip(
        *(table[f"window_{name}"].cast(pa.timestamp("us")).to_pylist() for name in ("start", "end")), strict=True
    )
    return {(*row, *span) for row, span in zip(rows, times, strict=True)}


def expected(rows: pa.Table) -> set[tuple]:
    return answers(parse_query(QUERY).run(rows))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow", ".feather"])
def test_every_format_in(suffix, tmp_path, muntin, query_file):
    write(readings(), tmp_path / f"in{suffix}")
    out = tmp_path / "out.parquet"
    result = muntin("run", query_file, "--input", tmp_path / f"in{suffix}", "--output", out, *LOCAL)
    assert result.exit_code == 0, result.output
    assert "600 rows" in result.stdout
    assert answers(pq.read_table(out)) == expected(readings())
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"in{suffix}", "out.parquet", "query.toml"]


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "folder"])
def test_every_format_out(name, tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    out = tmp_path / name
    result = muntin("run", query_file, "--input", tmp_path / "in.parquet", "--output", out, *LOCAL, "--json")
    assert result.exit_code == 0, result.output
    assert answers(read(out)) == expected(readings())
    summary = json.loads(result.stdout)
    assert summary["rows"] == 600
    assert summary["windows"] == len(expected(readings()))
    assert summary["finished"] is True


def test_without_an_output_windows_are_lines_of_json(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    result = muntin("run", query_file, "--input", tmp_path / "in.parquet")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == len(expected(readings()))
    assert lines[0].keys() == {"plug", "window", "window_id", "peak", "n", "revision", "retracted"}


def test_a_folder_of_files_is_read_by_name(tmp_path, muntin, query_file):
    rows, folder = readings(), tmp_path / "in"
    folder.mkdir()
    write(rows.slice(0, 200), folder / "1.csv")
    write(rows.slice(200, 250), folder / "2.parquet")
    write(rows.slice(450), folder / "3.jsonl")
    (folder / "_unfinished.parquet").write_text("not yet")
    (folder / "notes.txt").write_text("not rows")
    result = muntin("run", query_file, "--input", folder, "--output", tmp_path / "out.csv", *LOCAL)
    assert result.exit_code == 0, result.output
    assert answers(read(tmp_path / "out.csv")) == expected(rows)


def shuffled() -> pa.Table:
    return readings().take(np.random.default_rng(1).permutation(600))


@pytest.mark.parametrize("rows", [readings, shuffled])
@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "folder"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_run_that_is_interrupted_goes_on_exactly(rows, out, kind, tmp_path, muntin, query_file, monkeypatch):
    write(rows(), tmp_path / f"in.{kind}")
    monkeypatch.setattr(Source.batches, "__kwdefaults__", {"rows": 90})
    pushes = iter(range(10_000))
    count = local.LocalRun._count

    def interrupted(self, begun):
        count(self, begun)
        if next(pushes) in (0, 3):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local.LocalRun, "_count", interrupted)
    command = ("run", query_file, "--input", tmp_path / f"in.{kind}", "--output", tmp_path / out, *LOCAL)
    results = [muntin(*command)]
    while results[-1].exit_code == 130:
        assert "goes on from here" in results[-1].stdout
        results.append(muntin(*command))
    assert results[-1].exit_code == 0, results[-1].output
    assert len(results) == 3
    assert answers(read(tmp_path / out)) == expected(readings())
    assert not (tmp_path / f"{out}.muntin").exists()


def test_parts_of_a_run_that_died_are_replaced(tmp_path, muntin, query_file, monkeypatch):
    """What was written after the last save does not belong to it."""
    write(readings(), tmp_path / "in.parquet")
    monkeypatch.setattr(Source.batches, "__kwdefaults__", {"rows": 90})
    monkeypatch.setattr(local, "SAVE_EVERY", 0.0)
    push, pushes = local.Stream.push, iter(range(10_000))

    def dying(self, table):
        if next(pushes) == 4:
            raise RuntimeError("power cut")
        return push(self, table)

    monkeypatch.setattr(local.Stream, "push", dying)
    command = ("run", query_file, "--input", tmp_path / "in.parquet", "--output", tmp_path / "out", *LOCAL)
    died = muntin(*command)
    assert isinstance(died.exception, RuntimeError)
    pq.write_table(pa.table({"stray": [1]}), tmp_path / "out" / "part-000099.parquet")
    assert muntin(*command).exit_code == 0
    assert answers(read(tmp_path / "out")) == expected(readings())


def test_a_folder_that_grows_is_followed_until_interrupted(tmp_path, muntin, query_file, monkeypatch):
    rows, folder, out = readings(), tmp_path / "in", tmp_path / "out.parquet"
    folder.mkdir()
    write(rows.slice(0, 300), folder / "1.parquet")
    wait, looks = local.Stop.wait, iter(range(10_000))

    def wait_while_it_grows(self, seconds):
        match next(looks):
            case 1:
                write(rows.slice(300), folder / "_2.parquet")
                (folder / "_2.parquet").rename(folder / "2.parquet")
            case 3:
                os.kill(os.getpid(), signal.SIGINT)
        return wait(self, 0.02)

    monkeypatch.setattr(local.Stop, "wait", wait_while_it_grows)
    result = muntin("run", query_file, "--input", folder, "--output", out, *LOCAL, "--follow", "--json")
    assert next(looks) > 3
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 600
    assert json.loads(result.stdout)["finished"] is False
    assert muntin("run", query_file, "--input", folder, "--output", out, *LOCAL).exit_code == 0
    assert answers(read(out)) == expected(rows)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("watts", "volts"), "there is no column 'volts'; the columns are 'ts', 'plug', 'watts'"),
        (('time = "ts"', 'time = "tz"'), "'watts'. The query's `time` names the column that holds the times"),
        (("max(watts)", "sum(plug)"), "plug"),
        (
            ("session", "sesion"),
            "query.toml:9: windows[1].sesion: there is no such kind of window; did you mean session?",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(change, says, tmp_path, muntin, query_file):
    query_file.write_text(QUERY.replace(*change))
    write(readings(), tmp_path / "in.parquet")
    result = muntin("run", query_file, "--input", tmp_path / "in.parquet", "--output", tmp_path / "out.csv", *LOCAL)
    assert result.exit_code == 2
    assert result.stderr.startswith("muntin: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    query_file.write_text(QUERY)
    again = muntin("run", query_file, "--input", tmp_path / "in.parquet", "--output", tmp_path / "out.csv", *LOCAL)
    assert again.exit_code == 0, again.output


def test_paths_that_are_wrong(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    (tmp_path / "rows.xls").write_text("")
    (tmp_path / "broken.parquet").write_text("PAR")
    (tmp_path / "out.parquet").write_text("precious")
    cases = {
        ("nowhere.csv", "o.csv"): "nowhere.csv does not exist",
        ("rows.xls", "o.csv"): "rows.xls has no suffix that is known",
        ("broken.parquet", "o.csv"): "broken.parquet cannot be read",
        ("in.parquet", "o.xls"): "o.xls has no suffix that can be written",
        ("in.parquet", "out.parquet"): "out.parquet is there already; give --overwrite",
    }
    for (source, output), says in cases.items():
        result = muntin("run", query_file, "--input", tmp_path / source, "--output", tmp_path / output, *LOCAL)
        assert (result.exit_code, says in result.stderr) == (2, True), result.output
    assert (tmp_path / "out.parquet").read_text() == "precious"
    follow = muntin("run", query_file, "--input", tmp_path / "in.parquet", "--follow", *LOCAL)
    assert (follow.exit_code, "only a folder can be followed" in follow.stderr) == (2, True)


def test_overwrite_begins_anew(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    command = ("run", query_file, "--input", tmp_path / "in.parquet", "--output", tmp_path / "out", *LOCAL)
    assert muntin(*command).exit_code == 0
    assert muntin(*command).exit_code == 2
    assert muntin(*command, "--overwrite").exit_code == 0
    assert answers(read(tmp_path / "out")) == expected(readings())


def test_another_query_does_not_go_on_with_what_is_saved(tmp_path, muntin, query_file, monkeypatch):
    folder = tmp_path / "in"
    folder.mkdir()
    write(readings(), folder / "1.parquet")
    command = ("run", query_file, "--input", folder, "--output", tmp_path / "out.csv", *LOCAL)
    monkeypatch.setattr(local.Stop, "wait", lambda self, _: self.ask() or True)
    assert muntin(*command, "--follow").exit_code == 0
    query_file.write_text(QUERY.replace("5 minutes", "6 minutes"))
    result = muntin(*command)
    assert result.exit_code == 2
    assert "is of another query" in result.stderr
    assert "--overwrite" in result.stderr


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.jsonl", "folder"])
def test_a_run_goes_on_with_the_aggregates_in_another_order(name, tmp_path, muntin, query_file, monkeypatch):
    """The columns of the output stay in the order of the first run, whose parts are there already."""
    rows, folder = readings(), tmp_path / "in"
    folder.mkdir()
    write(rows.slice(0, 300), folder / "1.parquet")
    command = ("run", query_file, "--input", folder, "--output", tmp_path / name, *LOCAL)
    monkeypatch.setattr(local.Stop, "wait", lambda self, _: self.ask() or True)
    assert muntin(*command, "--follow").exit_code == 0
    write(rows.slice(300), folder / "2.parquet")
    turned = 'n = "count()"\npeak = "max(watts)"\n'
    query_file.write_text(
        QUERY[: QUERY.index("peak")].replace("1 minute", "60s").replace("5 minutes", "300 seconds") + turned
    )
    result = muntin(*command)
    assert result.exit_code == 0, result.output
    found = read(tmp_path / name)
    assert answers(found) == expected(rows)
    assert [each for each in found.column_names if each in ("peak", "n")] == ["peak", "n"]


def test_a_position_moves_only_past_rows_that_were_used(tmp_path):
    write(readings(), tmp_path / "in.parquet")
    source, position = Source(tmp_path / "in.parquet", parse_query(QUERY)), Position()
    seen = []
    for table in source.batches(position, rows=100):
        seen.append(position.rows)
        assert table.num_rows == 100 <= BATCH_ROWS
    assert seen == [0, 100, 200, 300, 400, 500]
    assert position == Position({"in.parquet"})
    assert next(iter(source.batches(Position(file="in.parquet", rows=450), rows=100))).num_rows == 50


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_all_rows_of_a_finite_input_count_in_whatever_order(suffix, tmp_path, muntin, query_file, monkeypatch):
    monkeypatch.setattr(Source.batches, "__kwdefaults__", {"rows": 50})
    (tmp_path / "in").mkdir()
    write(shuffled().slice(300), tmp_path / "in" / f"a{suffix}")
    write(shuffled().slice(0, 300), tmp_path / "in" / f"b{suffix}")
    out = tmp_path / "out.parquet"
    result = muntin("run", query_file, "--input", tmp_path / "in", "--output", out, *LOCAL, "--json")
    assert result.exit_code == 0, result.output
    assert (json.loads(result.stdout)["late"], json.loads(result.stdout)["dropped"]) == (0, 0)
    assert answers(pq.read_table(out)) == expected(readings())
