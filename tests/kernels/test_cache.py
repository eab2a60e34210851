"""The cache of compiled kernels: it hits in a new process, survives neighbours and accidents, and is never needed."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import pytest
from sampling import THOROUGH, some
from waiting import PATIENCE, until

import muntin
from muntin.kernels import cache, machine_code, shipped, tiers
from muntin.kernels import folder as folders
from muntin.kernels.generate import Generated

pytestmark = [pytest.mark.compiled, pytest.mark.slow]  # starts processes

# One kernel of an aggregation that no other test has, and a report of how its machine code was come by.
PROGRAM = """
import sys, numpy as np, muntin
KERNEL = "slide_blocks"
from muntin import agg
@agg.define(state="f8")
class own:
    def lift(v):
        return v * {factor}
    def combine(a, b):
        return a + b
print(float(muntin.slide(np.array([1.0, 2.0, 3.0]), own("v"), range=3)[-1]))
from muntin.kernels import cache
entry = next(getattr(m, KERNEL) for (_, compiled), m in cache._modules.items() if compiled and hasattr(m, KERNEL))
misses = sum(not job.reply.found for job in entry._jobs.values())
print(len(entry._compiled.overloads) - misses, misses)
"""


def program(folder: Path, factor: float = 1.0, before: str = "") -> subprocess.Popen[str]:
    file = folder.parent / f"program_{factor}.py"
    if not file.exists():  # a process that has started reads it, and must not find it half-written
        file.write_text(before + PROGRAM.format(factor=factor))
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(folder), "MUNTIN_UNCOMPILED": ""}
    return subprocess.Popen(
        [sys.executable, str(file)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[float, int, int]:
    """Return the answer, and how often the cache hit and missed."""
    return finish_all([process])[0]


def finish_all(processes: list[subprocess.Popen[str]]) -> list[tuple[float, int, int]]:
    """Wait for every process before any is judged."""
    outcomes = []
    for process, (out, error) in [(process, process.communicate(timeout=PATIENCE)) for process in processes]:
        assert process.returncode == 0, error
        answer, counts = out.splitlines()
        hits, misses = counts.split()
        outcomes.append((float(answer), int(hits), int(misses)))
    return outcomes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the kernel is compiled."""
    folder = tmp_path_factory.mktemp("made") / "cache"
    assert finish(program(folder)) == (6.0, 0, 1)
    return folder


@pytest.fixture
def filled(tmp_path: Path, made: Path) -> Path:
    """Another one, for a test of its own."""
    return Path(shutil.copytree(made, tmp_path / "cache"))


def whole(folder: Path) -> bool:
    """Say whether there is machine code, and none that a process would refuse. That is deleted."""
    return all(
        [folders.read_checked(file, machine_code._MAGIC) is not None for file in folder.rglob("*.code")] or [False]
    )


def test_a_new_process_finds_the_kernel(filled: Path) -> None:
    assert finish(program(filled)) == (6.0, 1, 0)


def test_what_the_package_ships_needs_no_compiler(tmp_path: Path, made: Path) -> None:
    """And what was shipped before a kernel was changed is not looked at."""
    (code,) = (made / "muntin").iterdir()
    before = f"import pathlib\nfrom muntin.kernels import shipped\nfolder = pathlib.Path({str(code)!r})\n"
    before += "shipped.folder_for_shipping = lambda: folder\n"
    assert finish(program(tmp_path / "cache", before=before)) == (6.0, 1, 0)
    assert finish(program(tmp_path / "cache", 2.0, before)) == (12.0, 0, 1)


def test_shipped_machine_code_is_left_alone_on_lesser_processors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    able = dict.fromkeys(shipped.BASELINES["x86_64"][1], True)
    monkeypatch.setattr(shipped, "folder_for_shipping", lambda: tmp_path)
    monkeypatch.setattr(shipped.platform, "machine", lambda: "x86_64")
    for missing, found in (("", (tmp_path,)), ("avx2", ())):
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda missing=missing: {**able, missing: False})
        assert shipped.shipped_folders.__wrapped__() == found


def test_modules_that_nobody_holds_are_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_MOST_RECENT", 2)
    monkeypatch.setattr(cache, "_recent", OrderedDict())
    texts = [Generated(f"@entry\ndef twice(x):\n    return {i} * x\n", {}, ("twice",)) for i in range(100, 104)]
    held = cache.load(texts[0], compiled=True)
    names = {cache.load(each, compiled=True).__name__ for each in texts}
    gc.collect()
    loaded = names & sys.modules.keys()
    assert held.__name__ in loaded
    assert len(loaded) == 3  # the one that is held, and the two that came last
    assert cache.load(texts[0], compiled=True) is held
    assert cache.load(texts[1], compiled=True).__name__ in sys.modules


def test_processes_warm_it_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    count = 4 if THOROUGH > 1 else 2
    outcomes = finish_all([program(folder) for _ in range(count)])
    assert [answer for answer, _, _ in outcomes] == [6.0] * count
    assert sum(misses for _, _, misses in outcomes) == 1, "it was compiled more than once"


WRITTEN = ["muntin_kernel_*.py", "muntin_kernel_*.lock", "*.code", ".writing-*"]


@pytest.mark.parametrize("turn", range(4 if THOROUGH > 1 else 2))
def test_killed_while_writing(tmp_path: Path, turn: int) -> None:
    """Of the files that are written one after the other: two are drawn in each run, all in a thorough one."""
    written = WRITTEN[turn if THOROUGH > 1 else 2 * turn + random.randrange(2)]
    folder = tmp_path / "cache"
    victim = program(folder)
    until(lambda: any(folder.rglob(written)) or victim.poll() is not None, pause=0.001)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    assert finish(program(folder))[0] == 6.0, written
    assert whole(folder), f"the next process would compile it again: {written}"


def test_damaged_files_are_made_anew(filled: Path) -> None:
    files = [file for file in filled.rglob("*") if file.suffix == ".code"]
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert not whole(filled)
    assert finish(program(filled))[0] == 6.0
    assert whole(filled)


def test_a_damaged_module_is_written_again(filled: Path) -> None:
    for file in filled.rglob("muntin_kernel_*.py"):
        file.write_text("raise SystemExit('damaged')")
    assert finish(program(filled))[0] == 6.0


@pytest.mark.parametrize("where", some(["/proc/no/such/place", "a file"], 2))
def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path, where: str) -> None:
    # The tests may run as root, whom no permission stops; these two places stop root too.
    folder = Path(where) if where.startswith("/") else tmp_path / "file" / "below"
    (tmp_path / "file").write_text("")
    source = tmp_path / "source.py"
    source.write_text(PROGRAM.format(factor=1.0).split("from muntin.kernels")[0])
    done = subprocess.run(
        [sys.executable, str(source)],
        env={**os.environ, "MUNTIN_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "6.0"


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit then fails as it does on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
"""


def test_a_full_disk_only_costs_time(tmp_path: Path) -> None:
    """Of the files of a kernel only the text fits."""
    source = tmp_path / "source.py"
    source.write_text(FULL + PROGRAM.format(factor=1.0).split("from muntin.kernels")[0])
    folder = tmp_path / "cache"
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(folder), "MUNTIN_UNCOMPILED": ""}
    done = subprocess.run([sys.executable, str(source)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "6.0"), done.stderr
    assert any(folder.rglob("muntin_kernel_*.py"))
    assert not any(folder.rglob(f"{folders.WRITING}*")), "half of a file"
    assert not any(folder.rglob("*.code"))
    assert finish(program(folder)) == (6.0, 0, 1), "where there is room again it is compiled and kept"


def test_the_folder_is_named_by_what_decides_the_machine_code() -> None:
    import numba

    name = folders.cache_folder().name
    assert muntin.__version__ in name
    assert f"numba{numba.__version__}" in name
    assert f"py{sys.version_info.major}{sys.version_info.minor}" in name


def test_another_cpu_has_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding

    here = folders.cache_folder()
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_name", lambda: "another")
    folders._machine.cache_clear()
    try:
        assert folders.cache_folder() != here
    finally:
        monkeypatch.undo()
        folders._machine.cache_clear()


def test_info_and_clearing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(filled))
    info = muntin.cache_info()
    assert info.folder.parent == filled / "muntin"
    (filled / "precious.txt").write_text("not muntin's")
    assert info.writable
    assert info.modules >= 1
    assert info.bytes > 1000
    muntin.clear_cache()
    assert (filled / "precious.txt").exists()
    assert muntin.cache_info().modules == 0
    assert finish(program(filled)) == (6.0, 0, 1)


def test_long_compilations_are_announced_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "_PATIENCE", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    printed: list[str] = []

    def announced() -> bool:
        printed.append(capsys.readouterr().err)
        return "compiling slide_rows, about 3 s" in "".join(printed)

    with tiers.progress("slide_rows", 3.0):
        until(announced)
    assert "done in" in capsys.readouterr().err


def test_short_ones_and_pipes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with tiers.progress("slide_rows", 3.0):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("0", False), ("", False)])
def test_the_environment_can_say_that_nothing_is_compiled(value: str, plain: bool) -> None:
    code = "import sys; from muntin.kernels.cache import is_uncompiled; sys.exit(is_uncompiled())"
    environment = {**os.environ, "MUNTIN_UNCOMPILED": value}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == plain
