"""The other commands: explain, doctor, bench, and what all have in common."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading

import pytest

from muntin.cli import bench as benchmarks
from muntin.cli import doctor


@pytest.mark.parametrize("command", ["run", "demo", "bench", "explain", "warm", "watch", "serve", "doctor"])
def test_every_command_has_help(command, muntin):
    result = muntin(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_version(muntin):
    assert muntin("--version").stdout.startswith("muntin 0.")


def test_explain_says_what_runs_each_window(muntin, query_file):
    result = muntin("explain", query_file)
    assert result.exit_code == 0
    assert "window.session('5 minutes')" in result.stdout
    assert "slices" in result.stdout
    plan = json.loads(muntin("explain", query_file, "--json").stdout)
    assert plan["windows"][1]["window"] == "window.session('5 minutes')"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the folder of answers, or raw rows with --rows"),
        (["answers", "--query", "none.toml"], "none.toml cannot be read"),
        (["--rows", "none"], "raw rows need --time"),
        (["--rows", "none", "--time", "ts", "--column", "v"], "none does not exist"),
    ],
)
def test_watch_refuses_what_is_not_there(arguments, message, muntin):
    result = muntin("watch", *arguments, "--port", "0")
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("there", [False, True])
def test_watch_says_that_it_waits_for_a_folder(there, muntin, monkeypatch, tmp_path):
    stopped = threading.Event()
    stopped.set()
    page = contextlib.nullcontext()
    page.url = "http://here"
    monkeypatch.setattr("muntin.cli.watching.open_page", lambda *_, **__: page)
    monkeypatch.setattr("muntin.cli.app.stop_on_interrupt", lambda: contextlib.nullcontext(stopped))
    folder = tmp_path if there else tmp_path / "none"
    result = muntin("watch", folder)
    assert result.exit_code == 0
    assert result.stdout == "The live page is at http://here\n"
    assert result.stderr == ("" if there else f"{folder} is not there yet; waiting for it\n")


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "muntin", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("muntin 0.")
    without = "import runpy, sys; sys.modules['typer'] = None; runpy.run_module('muntin', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "muntin: the package typer is missing: pip install 'muntin[cli]'\n")


@pytest.mark.compiled
def test_warm_compiles_for_what_will_be_read(muntin, query_file, tmp_path):
    result = muntin("warm", query_file, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["modules"] > 0
    assert "compiled; " in muntin("warm", query_file).stdout
    missing = muntin("warm", query_file, "--input", tmp_path / "none.parquet")
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr


def test_explain_of_a_wrong_file_names_line_and_key(muntin, query_file):
    query_file.write_text(query_file.read_text().replace("count()", "cuont()"))
    result = muntin("explain", query_file)
    assert result.exit_code == 2
    assert f"{query_file}:13: aggregates.n: there is no aggregation 'cuont'; did you mean count?" in result.stderr


def test_doctor_examines_everything(muntin):
    result = muntin("doctor", "--json")
    findings = {each["name"]: each for each in json.loads(result.stdout)}
    assert list(findings) == [
        "Python", "Arrow", "numba", "kernel cache", "Java", "Spark", "LMDB store", "Redis store", "charts", "SQL",
    ]  # fmt: skip
    assert {findings[name]["state"] for name in ("Python", "Arrow", "numba", "kernel cache")} == {"ok"}
    assert all(each["advice"] for each in findings.values() if each["state"] != "ok")
    assert "kernel cache" in muntin("doctor").stdout


def test_advice_is_shown_with_its_brackets(muntin, monkeypatch):
    finding = doctor.Finding("charts", "missing", "none", "pip install 'muntin[plot]'")
    monkeypatch.setattr(doctor, "examine", lambda: [finding])
    assert "pip install 'muntin[plot]'" in muntin("doctor").stdout


def test_doctor_says_what_to_do_without_java_or_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    finding = doctor._java()
    assert finding.state == "missing"
    assert str(tmp_path) in finding.detail
    assert "muntin[java]" in finding.advice
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path / "file"))
    finding = doctor._cache()
    assert finding.state == "broken"
    assert "MUNTIN_CACHE_DIR" in finding.advice


def test_doctor_refuses_an_old_java(monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = doctor._java()
    assert (finding.state, finding.detail) == ("broken", f"11, {java}")
    assert "17, 21 or 25" in finding.advice


def test_the_shell_completes_names_of_benchmarks(muntin):
    assert benchmarks.names_like("slide_") == ["slide_extremes", "slide_moments", "slide_by_time"]
    assert benchmarks.names_like("nonsense") == []
    assert "--install-completion" in muntin("--help").stdout


def test_a_benchmark_says_what_is_missing_before_it_measures():
    without = "u.find_spec = lambda name, find=u.find_spec: None if name == 'polars' else find(name)"
    program = f"import importlib.util as u; {without}; import run; run.main(['--quick', 'median'])"
    folder = str(benchmarks.runner().parent)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"the benchmark median needs [a-z, ]*polars: pip install 'muntin\[bench\]'\n", done.stderr)


def test_a_reader_that_has_gone_is_no_error():
    program = "from muntin.cli.errors import one_clear_line\nwith one_clear_line():\n    print('windows ' * 10_000)"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_bench_lists_and_refuses():
    command = [sys.executable, "-c", "from muntin.cli import main; main()", "bench"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True)
    assert "slide_extremes" in listed.stdout
    refused = subprocess.run([*command, "nonsense"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "there is no benchmark 'nonsense'" in refused.stderr
