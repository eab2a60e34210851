"""What is written to: never the input, never by two runs at once, never what is not ours; and what is written when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from cli.files import read, readings, write
from cli.test_run import answers, expected
from waiting import until

from muntin.cli import local
from muntin.cli.sources import Source
from muntin.cli.work import locked

LOCAL = ("--engine", "local")
FRAMES = "SELECT *, max(watts) OVER (PARTITION BY plug ORDER BY ts ROWS 2 PRECEDING) AS peak FROM t"


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "muntin", *map(str, arguments)]


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("in.parquet", "in.parquet"),
        ("in.parquet", "./x/../in.parquet"),
        ("in.parquet", "link.parquet"),
        ("in.parquet", "hard.parquet"),
        ("in.parquet", "."),
        ("folder", "folder"),
        ("folder", "folder/1.parquet"),
        ("folder", "folder/new.csv"),
        ("folder", "folder/deep/windows"),
        ("folder/1.parquet", "folder"),
        ("out.muntin/parts", "out"),
    ],
)
@pytest.mark.parametrize("command", ["run", "over"])
def test_an_output_that_is_the_input_or_in_it_is_refused(command, given, output, tmp_path, muntin, query_file):
    for name in ("in.parquet", "folder/1.parquet", "out.muntin/parts/1.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(readings(), tmp_path / name)
    (tmp_path / "x").mkdir()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "in.parquet")
    os.link(tmp_path / "in.parquet", tmp_path / "hard.parquet")
    before = sorted(tmp_path.rglob("*"))
    query = (query_file, *LOCAL) if command == "run" else ("--sql", FRAMES)
    result = muntin(command, *query, "--input", tmp_path / given, "--output", tmp_path / output, "--overwrite")
    assert result.exit_code == 2
    assert "are one, or one is in the other; give another output" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert read(tmp_path / "in.parquet").num_rows == read(tmp_path / "folder" / "1.parquet").num_rows == 600


def test_points_are_not_written_over(tmp_path, muntin):
    write(readings(), tmp_path / "in.parquet")
    write(readings().select(["plug", "ts"]), tmp_path / "points.parquet")
    points = ("--at", tmp_path / "points.parquet", "--output", tmp_path / "points.parquet")
    result = muntin("over", "--sql", FRAMES, "--input", tmp_path / "in.parquet", *points, "--overwrite")
    assert result.exit_code == 2
    assert pq.read_table(tmp_path / "points.parquet").num_columns == 2


def test_overwriting_leaves_what_no_run_has_written(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    out = tmp_path / "out"
    command = ("run", query_file, "--input", tmp_path / "in.parquet", "--output", out, *LOCAL)
    assert muntin(*command).exit_code == 0
    (out / "notes.txt").write_text("mine")
    result = muntin(*command, "--overwrite")
    assert result.exit_code == 2
    assert f"{out / 'notes.txt'} was not written by a run, and is not overwritten: move it" in result.stderr
    assert (out / "notes.txt").read_text() == "mine"
    (out / "notes.txt").unlink()
    for name in ("part-00000-0a1b-c000.snappy.parquet", "_SUCCESS", "._SUCCESS.crc", "_spark_metadata/0"):
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("of Spark")
    assert muntin(*command, "--overwrite").exit_code == 0
    assert answers(read(out)) == expected(readings())


def test_a_second_run_of_one_output_is_refused(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    command = ("run", query_file, "--input", tmp_path / "in.parquet", "--output", out)
    with locked(out):
        for more in (LOCAL, (*LOCAL, "--overwrite"), ("--engine", "spark")):
            result = muntin(*command, *more)
            assert result.exit_code == 2
            assert result.stderr == f"muntin: another run is writing to {out}; wait for it, or give another output\n"
        result = muntin("over", "--sql", FRAMES, "--input", tmp_path / "in.parquet", "--output", out)
        assert (result.exit_code, "another run is writing" in result.stderr) == (2, True)
    assert muntin(*command, *LOCAL).exit_code == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.parquet", "out.parquet", "query.toml"]


def test_a_run_waits_for_no_process_that_has_died_and_goes_on_before_its_first_save(tmp_path, muntin, query_file):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    write(readings().slice(0, 300), folder / "1.parquet")
    command = ("run", query_file, "--input", folder, "--output", out, *LOCAL, "--follow")
    running = subprocess.Popen(program(*command), env={**os.environ, "MUNTIN_UNCOMPILED": "1"})
    try:
        until(lambda: out.is_dir() and any(out.glob("part-*")))
        refused = muntin(*command)
        assert (refused.exit_code, "another run is writing" in refused.stderr) == (2, True)
    finally:
        running.kill()
        running.wait()
    write(readings().slice(300), folder / "2.parquet")
    result = muntin(*command[:-1], "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 600
    assert answers(read(out)) == expected(readings())


@pytest.mark.parametrize("name", ["out.parquet", "out.csv"])
def test_a_followed_folder_is_in_one_file_when_it_is_stopped(name, tmp_path, muntin, query_file, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(local.Stop, "wait", lambda self, _: self.ask() or True)
    command = ("run", query_file, "--input", folder, "--output", out, *LOCAL)
    result = muntin(*command, "--follow")
    assert (result.exit_code, out.exists()) == (0, False), result.output
    assert "in out" not in result.stdout
    seen = set()
    for number in range(2):
        write(readings().slice(300 * number, 300), folder / f"{number}.parquet")
        result = muntin(*command, "--follow")
        assert result.exit_code == 0, result.output
        assert f"windows out, in {out}" in result.stdout
        assert answers(read(out)) > seen
        seen = answers(read(out))
    assert seen < expected(readings())
    assert muntin(*command).exit_code == 0
    assert answers(read(out)) == expected(readings())
    assert not out.with_name(f"{name}.muntin").exists()


def test_a_run_that_is_stopped_says_that_its_file_is_to_come(tmp_path, muntin, query_file, monkeypatch):
    write(readings(), tmp_path / "in.parquet")
    out = tmp_path / "out.csv"
    monkeypatch.setattr(Source.batches, "__kwdefaults__", {"rows": 90})
    report = local.LocalRun._report

    def interrupted(self, seconds):
        report(self, seconds)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local.LocalRun, "_report", interrupted)
    result = muntin("run", query_file, "--input", tmp_path / "in.parquet", "--output", out, *LOCAL)
    assert (result.exit_code, out.exists()) == (130, False)
    summary, advice = result.stdout.splitlines()
    assert summary.endswith("windows out")
    assert advice == f"Stopped before the end; without --overwrite the same command goes on from here, to {out}"


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_part_that_is_not_whole_is_not_gone_on_with(damage, tmp_path, muntin, query_file, monkeypatch):
    folder, out = tmp_path / "in", tmp_path / "out.csv"
    folder.mkdir()
    write(readings(), folder / "1.parquet")
    with monkeypatch.context() as patched:
        patched.setattr(local.Stop, "wait", lambda self, _: self.ask() or True)
        assert muntin("run", query_file, "--input", folder, "--output", out, *LOCAL, "--follow").exit_code == 0
    part = tmp_path / "out.csv.muntin" / "parts" / "part-000000.csv"
    size = part.stat().st_size
    if damage == "gone":
        part.unlink()
        says = f"{part} is not there, so that the run cannot go on; give --overwrite"
    else:
        os.truncate(part, 10)
        says = f"{part} has 10 bytes, not {size:,}, so that the run cannot go on"
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    result = muntin("run", query_file, "--input", folder, "--output", out, *LOCAL)
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before
    assert muntin("run", query_file, "--input", folder, "--output", out, *LOCAL, "--overwrite").exit_code == 0
    assert answers(read(out)) == expected(readings())


def test_rows_that_are_refused_leave_an_old_output_as_it_was(tmp_path, muntin, query_file):
    write(readings(), tmp_path / "in.parquet")
    out = tmp_path / "out.csv"
    command = ("run", query_file, "--output", out, *LOCAL, "--input")
    assert muntin(*command, tmp_path / "in.parquet").exit_code == 0
    before = out.read_bytes()
    write(readings().drop_columns("watts"), tmp_path / "bad.parquet")
    result = muntin(*command, tmp_path / "bad.parquet", "--overwrite")
    assert (result.exit_code, "there is no column 'watts'" in result.stderr) == (2, True)
    assert out.read_bytes() == before
    assert not out.with_name("out.csv.muntin").exists()


@pytest.mark.parametrize("module", ["typer", "pyarrow", "numpy", "muntin.cli.local"])
def test_ctrl_c_during_the_imports_is_one_line(module):
    text = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have begun the tests with it ignored
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
sys.meta_path.insert(0, Interrupting())
from muntin.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "muntin: interrupted\n")


def test_ctrl_c_that_is_ignored_stays_so():
    text = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.argv = ["muntin", "--version"]
from muntin.cli import main
try:
    main()
finally:
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
