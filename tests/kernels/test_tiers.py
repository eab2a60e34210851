"""Kernels that answer before they are compiled: the same answers, nobody waits for long, and nothing stays behind."""

from __future__ import annotations

import contextvars
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gates import Gate, closed_gate
from sampling import THOROUGH
from waiting import PATIENCE, until

import muntin
from muntin import Query, agg, slide, window
from muntin.errors import DefinitionError
from muntin.kernels import background, cache, tiers
from muntin.kernels.background import Background, Job
from muntin.kernels.compiler import Reply, Request
from muntin.kernels.folder import WRITING
from muntin.kernels.generate import standalone
from muntin.kernels.tiers import Entry, SameTypes, rows_at_work, working_on
from muntin.streams.driven import DrivenStream
from muntin.tables.sorted_rows import SortedStream

pytestmark = [pytest.mark.compiled, pytest.mark.slow]  # starts processes


def total(values: Any) -> float:
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


VALUES = np.arange(5.0)


@pytest.fixture
def impatient() -> Iterator[None]:
    """Calls wait only where that is worth it, as they do outside the tests."""
    token = tiers._patient.set(False)
    yield
    tiers._patient.reset(token)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    """A compiling process of this test alone."""
    own = Background()
    monkeypatch.setattr(tiers, "background", own)
    monkeypatch.setattr(background, "_reported", [])
    yield own
    own.close()


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    """A kernel that is not compiled, in a folder of its own."""
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_modules", {})
    made = cache.load(standalone(total), compiled=True).total
    assert isinstance(made, Entry)
    return made


def is_compiled(entry: Entry) -> bool:
    return bool(entry._compiled.overloads)


def the_job(entry: Entry) -> Job:
    (job,) = entry._jobs.values()
    return job


# ---------------------------------------------------------------- from plain to compiled


@pytest.mark.usefixtures("impatient")
def test_the_first_call_does_not_wait(entry: Entry, compiler: Background) -> None:
    assert entry(VALUES) == 10.0
    assert not is_compiled(entry)
    until(the_job(entry).over.is_set)
    assert entry(VALUES) == 10.0
    assert is_compiled(entry)


@pytest.mark.usefixtures("impatient", "compiler")
def test_many_rows_wait(entry: Entry) -> None:
    with working_on(10**12):
        assert entry(VALUES) == 10.0
    assert is_compiled(entry)


@pytest.mark.usefixtures("impatient")
def test_machine_code_is_called_by_itself_where_types_stay_the_same(entry: Entry, compiler: Background) -> None:
    asked: list[Any] = []

    def kernel(values: Any) -> Any:
        asked.append(values)
        return entry(values)

    kernels = SameTypes(SimpleNamespace(total=entry))
    assert kernels.total(VALUES) == 10.0
    assert not is_compiled(entry)
    until(the_job(entry).over.is_set)
    assert kernels.total(VALUES) == 10.0
    entry.__class__ = type("Watched", (Entry,), {"__call__": lambda _, values: kernel(values)})
    assert kernels.total(VALUES[1:]) == 10.0
    assert asked == []
    plain = SameTypes(SimpleNamespace(total=total))
    assert [plain.total(VALUES), plain.total(VALUES[:2])] == [10.0, 1.0]


def test_whoever_waits_gets_machine_code(entry: Entry, compiler: Background) -> None:
    assert entry(VALUES) == 10.0
    assert is_compiled(entry)


@pytest.mark.usefixtures("impatient")
def test_a_call_waits_no_longer_than_it_would_take(entry: Entry) -> None:
    entry._row = 1e-3
    for rows, waits in ((1, False), (9_000, False), (11_000, True)):
        with working_on(rows):
            assert entry._worth(10.0) is waits


def test_rows_are_those_of_the_outermost_call() -> None:
    with working_on(5), working_on(3):
        assert rows_at_work() == 5
    assert rows_at_work() == 1


def test_rows_of_a_call_that_was_interrupted_at_its_end_are_forgotten() -> None:
    def interrupted() -> None:
        work = working_on(5)
        work.__enter__()
        assert rows_at_work() == 5

    contextvars.copy_context().run(interrupted)
    assert rows_at_work() == 1
    interrupted()
    assert rows_at_work() == 1


QUERY = Query(
    [window.sliding(12, every=3), window.session(4)],
    {"mean": agg.mean("v")},  # of floats: any other order of the rows would show
    key="k",
    time="t",
    watermark=2,
    allowed_lateness=9,
)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return closed_gate(monkeypatch)


@pytest.mark.parametrize("seed", range(3 if THOROUGH > 1 else 1))
def test_a_stream_goes_over_in_the_middle(seed: int, gate: Gate) -> None:
    rng = random.Random(seed)
    pushes = [
        {
            "t": (times := [max(0, 4 * i + rng.randint(-8, 6)) for _ in range(rng.randint(1, 12))]),
            "k": [rng.choice("ab") for _ in times],
            "v": [rng.random() * 10 ** rng.randint(-3, 3) for _ in times],
        }
        for i in range(12)
    ]

    def answers(change_at: int) -> list[Any]:
        gate.open = False
        stream, out = QUERY.stream(), []
        for i, rows in enumerate(pushes):
            gate.open = i >= change_at
            out.append(stream.push(rows).to_pylist())
        return [*out, stream.close().to_pylist(), stream.late.to_pylist()]

    plain = answers(len(pushes))
    for change_at in (0, 1, rng.randrange(2, len(pushes))):
        assert answers(change_at) == plain


def test_overflow_is_the_same_error(gate: Gate) -> None:
    large = np.array([2**62, 2**62, 2**62])
    errors = []
    for gate.open in (False, True):
        with pytest.raises(muntin.errors.MuntinError) as caught:
            slide(large, agg.sum("v"), range=3)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_mathematics_of_own_definitions_is_that_of_machine_code(gate: Gate) -> None:
    import math

    @agg.define(state="f8")
    class odd:
        def lift(v):
            return v

        def combine(a, b):
            return a + b

        def lower(s):
            return math.sqrt(s) + math.log(abs(s)) + 1.0 / s

    values = np.array([-4.0, 4.0, 0.0, 9.0])
    gate.open = False
    plain = slide(values, odd("v"), range=1)
    gate.open = True
    np.testing.assert_array_equal(plain, slide(values, odd("v"), range=1))


# ---------------------------------------------------------------- a compiler that does not compile


@pytest.mark.usefixtures("impatient")
def test_what_does_not_compile_is_refused_at_once() -> None:
    @agg.define(state="f8")
    class uses_a_string:
        def lift(v):
            return v

        def combine(a, b):
            return str(a).upper()

    with pytest.raises(DefinitionError, match="cannot be compiled"):
        slide(VALUES, uses_a_string("v"), range=2)


@pytest.mark.usefixtures("impatient")
def test_a_kernel_that_the_compiler_refuses_later_stays_plain(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Background):
        def submit(self, path: Path, kernel: str, signature: Any, cost: float) -> Job:
            job = Job(Request(0, path, kernel, signature), cost)
            job.end(Reply(0, 1.0, "no such type", refused=True))
            return job

    monkeypatch.setattr(tiers, "background", Refusing())
    entry._spent = 1e3  # it would pay off to compile it here
    assert entry(VALUES) == 10.0
    assert not is_compiled(entry)


BROKEN = {"not there": "/no/such/python", "fails": "/bin/false"}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", BROKEN)
def test_a_compiler_that_fails_only_costs_speed(
    how: str, entry: Entry, compiler: Background, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", BROKEN[how])
    with caplog.at_level(logging.WARNING, "muntin"):
        assert entry(VALUES) == 10.0
        until(the_job(entry).over.is_set)
        assert entry(VALUES) == 10.0
        assert entry(VALUES.astype(np.float32)) == 10.0
        until(lambda: all(job.over.is_set() for job in entry._jobs.values()))
    assert not is_compiled(entry)
    assert len(caplog.records) == 1, "it is said once"
    with working_on(10**12):
        assert entry(VALUES) == 10.0
    assert is_compiled(entry), "what is worth it is compiled in this process"


def test_a_compiler_that_hangs_is_given_up(
    entry: Entry, compiler: Background, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(tiers, "_LEAST", 0.01)
    monkeypatch.setattr(tiers, "HUNG", 0.0)
    assert entry(VALUES) == 10.0
    assert is_compiled(entry), "who waits gets machine code, of this process where no other makes it"


@pytest.mark.usefixtures("impatient")
def test_a_compiler_that_is_killed_is_started_again(entry: Entry, compiler: Background) -> None:
    assert entry(VALUES) == 10.0
    process = compiler._process
    assert process is not None
    process.kill()
    until(the_job(entry).over.is_set)
    assert the_job(entry).reply is not None
    assert entry(VALUES) == 10.0
    assert is_compiled(entry)


ONE_REPLY = """#!{python}
import pickle, sys
sys.path[:] = {path!r}
from muntin.kernels.compiler import Reply
request = pickle.load(sys.stdin.buffer)
pickle.dump(Reply(request.number, 0.0), sys.stdout.buffer)
"""


def test_a_compiler_that_has_grown_fails_no_job(
    compiler: Background, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "one_reply"
    program.write_text(ONE_REPLY.format(python=sys.executable, path=sys.path))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    jobs = [compiler.submit(tmp_path / "none.py", "none", (), 1.0) for _ in range(4)]
    until(lambda: all(job.over.is_set() for job in jobs))
    assert [job.reply and job.reply.error for job in jobs] == [""] * 4
    assert jobs[-1].tries > background._TRIES, "more often than one is sent that may be to blame"


class Unsent(Background):
    """A queue whose process is never started: nothing in it ends."""

    def _send(self, job: Job) -> None:
        job.tries += 1


def test_a_job_waits_for_the_sum_of_those_ahead(tmp_path: Path) -> None:
    queue = Unsent()
    jobs = [queue.submit(tmp_path / "none.py", "none", (), 1e6) for _ in range(60)]
    for place, job in enumerate(jobs, 1):
        assert job.estimate == pytest.approx(1e6 * place, rel=0.01), f"the wait of job {place}"
        assert job.cost == 1e6
    for job in jobs[:-1]:
        queue._fail(job, "over")
    assert queue.submit(tmp_path / "none.py", "none", (), 1e6).estimate == pytest.approx(61e6, rel=0.01)


@pytest.mark.usefixtures("impatient")
def test_compiling_here_costs_one_kernel_however_long_the_queue(
    entry: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    queue = Unsent()
    monkeypatch.setattr(tiers, "background", queue)
    for _ in range(60):
        queue.submit(tmp_path / "none.py", "none", (), 1e6)
    assert entry(VALUES) == 10.0
    queue.close()  # no process compiles it
    entry._spent = 1e3
    assert entry(VALUES) == 10.0
    assert is_compiled(entry)


@pytest.mark.parametrize(("sent", "status"), [(b"", 0), (b"no request", 1)])
def test_a_compiler_ends_with_its_requests(sent: bytes, status: int) -> None:
    program = f"import sys; sys.path[:] = {sys.path!r}; from muntin.kernels.compiler import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=False)
    assert ended.returncode == status


# ---------------------------------------------------------------- processes and threads

PROGRAM = """
import os, sys
import numpy as np
import muntin
from muntin.kernels.background import background
print(float(muntin.slide(np.array([1.0, 2.0]), muntin.agg.sum("v"), range=2)[-1]), background._process.pid, flush=True)
"""


def start(folder: Path, more: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(folder), "MUNTIN_COMPILE": "", "MUNTIN_UNCOMPILED": ""}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + more],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("end", ["returns", "is killed"])
def test_a_process_that_ends_early_leaves_nothing(tmp_path: Path, end: str) -> None:
    program = start(tmp_path, "input()" if end == "is killed" else "")
    assert program.stdout is not None
    answer, compiler = program.stdout.readline().split()
    if end == "is killed":
        program.send_signal(signal.SIGKILL)
    program.communicate(timeout=PATIENCE)
    assert answer == "3.0"
    until(lambda: not lives(int(compiler)))
    assert not list(tmp_path.rglob(f"{WRITING}*"))


def test_a_fork_compiles_by_itself(tmp_path: Path) -> None:
    fork = """
child = os.fork()
if not child:
    code = float(muntin.slide(np.array([1.0, 4.0]), muntin.agg.sum("v"), range=2)[-1]) == 5.0
    background.close()
    os._exit(0 if code else 1)
print(os.waitpid(child, 0)[1], float(muntin.slide(np.array([1.0, 6.0]), muntin.agg.sum("v"), range=2)[-1]))
"""
    program = start(tmp_path, fork)
    out, _ = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0
    assert out.splitlines()[1] == "0 7.0"


def test_a_spawned_process_compiles_by_itself(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        "import numpy as np, muntin\n"
        "from muntin.kernels.tiers import waiting\n"
        "def work(_):\n"
        "    with waiting():\n"
        "        return float(muntin.slide(np.array([1.0, 4.0]), muntin.agg.sum('v'), range=2)[-1])\n"
    )
    spawn = f"""
sys.path.insert(0, {str(tmp_path)!r})
import multiprocessing, child
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(child.work, [0]))
"""
    program = start(tmp_path / "cache", spawn)
    out, _ = program.communicate(timeout=PATIENCE)
    assert out.splitlines()[1:] == ["[5.0]"]


# ---------------------------------------------------------------- whoever has many rows says so

MANY = 300


def table() -> pa.Table:
    number = np.arange(MANY)
    return pa.table({"t": number // 2, "k": number % 2, "v": number * 1.0})


def sorted_stream(rows: pa.Table) -> None:
    stream = SortedStream(QUERY)
    stream.push(rows.take(pc.sort_indices(rows, [("k", "ascending"), ("t", "ascending")])))
    stream.close()


def run_on_two_threads(rows: pa.Table) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.tables.pieces.LEAST_ROWS", 100)
        QUERY.run(rows, threads=2)


FRAME = Query(window.trailing(9), {"high": agg.max("v")}, key="k", time="t")
DOORS: dict[str, Callable[[pa.Table], Any]] = {
    "slide": lambda rows: slide(rows, agg.max("v"), range=9),
    "slide on two threads": lambda rows: slide(rows, agg.max("v"), range=9, threads=2),
    "run": QUERY.run,
    "run on two threads": run_on_two_threads,
    "over": FRAME.over,
    "stream": lambda rows: QUERY.stream().push(rows),
    "aggregator": lambda rows: muntin.aggregators.Fiba(agg.max("v")).bulk_insert(rows["t"], rows["v"]),
    "Spark's stream": lambda rows: DrivenStream(QUERY, rows.schema).take(rows),
    "Spark's batch": sorted_stream,
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_tells_how_many_rows_there_are(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    def plain(self: Entry, *arguments: Any) -> Any:
        told.append(tiers.rows_at_work())
        return self._run_plain(arguments)

    monkeypatch.setattr(Entry, "__call__", plain)
    DOORS[door](table())
    assert max(told) == MANY
    assert set(told) == {MANY} or "threads" not in door


def test_no_thread_stays(entry: Entry, compiler: Background) -> None:
    before = set(threading.enumerate())
    assert entry(VALUES) == 10.0
    compiler.close()
    until(lambda: set(threading.enumerate()) <= before)


def test_an_idle_compiler_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import queue

    from muntin.kernels import compiler as child

    monkeypatch.setattr(child, "IDLE", 0.01)
    with (tmp_path / "replies").open("wb") as replies:
        child.serve(queue.SimpleQueue(), replies)  # returns: nobody asks


def test_a_grown_compiler_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import queue

    from muntin.kernels import compiler as child

    monkeypatch.setattr(child, "LARGEST", 1)
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    waiting.put(Request(0, tmp_path / "none.py", "none", ()))
    with (tmp_path / "replies").open("wb") as replies:
        child.serve(waiting, replies)
    assert not waiting.empty(), "the next process does that"
