"""A run that is killed before any file operation, and started again, has the output of one that was not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.crashes import Crash, Disk, crashing
from cli.files import QUERY, read, readings, write
from sampling import some

from muntin.cli import local
from muntin.cli.sources import Source

ROWS = 40
INPUTS = ["in.parquet", "in.csv", "in.jsonl", "in.arrow", "many", "parts"]


@pytest.fixture(autouse=True)
def _many_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SAVE_EVERY", 0.0)
    monkeypatch.setattr(Source.batches, "__kwdefaults__", {"rows": 20})
    monkeypatch.setattr(os, "fsync", lambda _: None)  # what is not synced is lost by power cuts alone


class Place:
    """A folder with an input, and perhaps the output of an earlier run of other rows."""

    def __init__(self, root: Path, given: str, output: str, *, old: bool) -> None:
        self.root, self.input, self.output = root, root / given, root / output
        root.mkdir()
        (root / "query.toml").write_text(QUERY)
        self._write(readings(ROWS))
        if output == "folder.csv":
            self.output.mkdir()
        self.old = None
        if old:
            write(readings(30), root / "old.parquet")
            assert self.run("--input", root / "old.parquet").exit_code == 0
            self.old = self.windows

    def _write(self, rows: Any) -> None:
        if self.input.suffix:
            write(rows, self.input)
            return
        for number in range(2):
            name = f"{number}.csv" if self.input.name == "many" else f"day={number}/plug={number}/0.parquet"
            (self.input / name).parent.mkdir(parents=True, exist_ok=True)
            write(rows.slice(20 * number, 20), self.input / name)

    def run(self, *more: Any) -> Any:
        given = more if "--input" in more else ("--input", self.input, *more)
        command = ("run", self.root / "query.toml", "--output", self.output, "--engine", "local", *given)
        return _invoke(command)

    @property
    def windows(self) -> list[dict[str, Any]] | None:
        """The windows in the output; None if there is none."""
        there = any(self.output.iterdir()) if self.output.is_dir() else self.output.exists()
        files = sorted(self.output.iterdir()) if self.output.is_dir() else [self.output]
        return [row for each in files for row in read(each).to_pylist()] if there else None


def _invoke(command: tuple[Any, ...]) -> Any:
    from typer.testing import CliRunner

    from muntin.cli.app import app

    return CliRunner().invoke(app, [str(each) for each in command])


def expected(root: Path, given: str, output: str, *, old: bool) -> tuple[Any, int]:
    """Return the windows of a run that is not killed, and how many file operations it makes."""
    place = Place(root, given, output, old=old)
    with crashing(None) as crash:
        result = place.run(*(("--overwrite",) if old else ()))
    assert result.exit_code == 0, result.output
    assert not place.output.with_name(place.output.name + ".muntin").exists()
    return place.windows, crash.done


def require_same_in_the_end(place: Place, windows: Any, at: int) -> None:
    """What was killed goes on, or is complete, or was never begun; and it can always be started over."""
    result = place.run()
    if result.exit_code:
        assert "is there already; give --overwrite" in result.stderr, (at, result.output)
        assert place.windows in (windows, place.old), at
        assert place.run("--overwrite").exit_code == 0
    assert place.windows == windows, at


ALL = [
    *(("in.parquet", output, old, 1) for output in ("out.parquet", "out") for old in (False, True)),
    *((given, "out.parquet", False, 4) for given in INPUTS[1:]),
    *(("in.parquet", output, False, 4) for output in ("out.csv", "out.jsonl", "folder.csv")),
]
"""Inputs and outputs, whether there is an old output, and the steps between the kills."""


@pytest.mark.parametrize(("given", "output", "old", "step"), ALL)
def test_a_run_killed_before_any_file_operation_ends_as_if_it_had_not_been(given, output, old, step, tmp_path):
    windows, operations = expected(tmp_path / "whole", given, output, old=old)
    assert windows
    assert operations > 15
    for at in some(range(operations), step):
        place = Place(tmp_path / "killed", given, output, old=old)
        with crashing(at) as crash:
            place.run(*(("--overwrite",) if old else ()))
        assert crash.dead
        require_same_in_the_end(place, windows, at)
        shutil.rmtree(place.root)


@pytest.mark.parametrize("output", ["out.csv", "out"])
def test_a_followed_run_killed_before_any_file_operation_goes_on(output, tmp_path, monkeypatch):
    """A run that is stopped while it follows a folder, or killed on its way; then one that reads to the end."""
    monkeypatch.setattr(local.Stop, "wait", lambda self, _: self.ask() or True)

    def followed(root: Path, at: int | None) -> tuple[Place, Crash]:
        place = Place(root, "many", output, old=False)
        later = (place.input / "1.csv").rename(root / "1.csv")
        assert place.run("--follow").exit_code == 0
        later.rename(place.input / "1.csv")
        with crashing(at) as crash:
            place.run("--follow")
        return place, crash

    whole, counted = followed(tmp_path / "whole", None)
    assert whole.run().exit_code == 0
    assert counted.done > 8
    for at in range(counted.done):
        place, crash = followed(tmp_path / "killed", at)
        assert crash.dead
        assert place.run().exit_code == 0
        assert place.windows == whole.windows, at
        shutil.rmtree(place.root)


NAMES = {
    "no names": lambda path: False,
    "all names": lambda path: True,
    "names of parts": lambda path: path.name in ("out", "parts"),
    "names of outputs": lambda path: not path.name.endswith(".muntin"),
}
"""In which folders a power cut leaves the changes of names that were not synced."""


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize(("output", "old"), [("out.csv", False), ("out.parquet", True), ("out", True)])
def test_a_power_cut_loses_nothing_that_was_counted(output, old, names, tmp_path, monkeypatch):
    windows, operations = expected(tmp_path / "whole", "in.parquet", output, old=old)
    for at in (*some(range(operations), 3), None):
        place = Place(tmp_path / "cut", "in.parquet", output, old=old)
        disk = Disk(place.root, NAMES[names])
        monkeypatch.setattr(os, "fsync", disk.fsync)
        with crashing(at):
            place.run(*(("--overwrite",) if old else ()))
        monkeypatch.setattr(os, "fsync", lambda _: None)
        disk.cut()
        if at is None:
            assert place.windows == windows, "the run has ended, and its windows are lost"
        require_same_in_the_end(place, windows, at)
        shutil.rmtree(place.root)


@pytest.mark.parametrize("at", [9, 17, -3])
def test_processes_that_are_really_killed(at, tmp_path):
    windows, operations = expected(tmp_path / "whole", "in.parquet", "out.csv", old=False)
    place = Place(tmp_path / "killed", "in.parquet", "out.csv", old=False)
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from cli.crashes import crashing
from cli.test_crashes import Place, local, Source
local.SAVE_EVERY = 0.0
Source.batches.__kwdefaults__["rows"] = 20
place = object.__new__(Place)
place.root = Path({str(place.root)!r})
place.input, place.output = place.root / "in.parquet", place.root / "out.csv"
with crashing({at % operations}, really=True):
    place.run()
"""
    environment = {**os.environ, "MUNTIN_UNCOMPILED": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    require_same_in_the_end(place, windows, at)
