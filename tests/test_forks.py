"""A fork of a process in the middle of something: it answers, never hangs, and takes nothing from its parent."""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forking import Fork
from waiting import PATIENCE, until

from muntin import Query, agg, aggregators, memory, slide, stores, window
from muntin.aggregations import binding
from muntin.aggregators import boundary
from muntin.errors import ConcurrentUseError, LeaseError
from muntin.kernels import cache, folder, parsing
from muntin.spark import own
from muntin.stores import lmdb
from muntin.testing.faults import Faulty
from muntin.threads import Helper

SOURCE = Path(__file__).parents[1] / "src" / "muntin"


@contextlib.contextmanager
def held_elsewhere(hold: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Hold something in another thread."""
    held, over = threading.Event(), threading.Event()

    def work() -> None:
        with hold():
            held.set()
            over.wait(PATIENCE)

    thread = threading.Thread(target=work)
    thread.start()
    assert held.wait(PATIENCE)
    try:
        yield
    finally:
        over.set()
        thread.join()


# ---------------------------------------------------------------- threads and pools


def fed(made: Any, start: int, stop: int) -> list[Any]:
    answers = []
    for t in range(start, stop):
        made.insert(t, t % 37)
        if len(made) > 64:
            made.evict()
        answers.append(made.query())
    return answers


def test_the_second_thread_of_boundary() -> None:
    made, alone = (aggregators.Boundary(agg.max("v"), threads=threads) for threads in (2, 1))
    assert fed(made, 0, 300) == fed(alone, 0, 300)
    boundary._second_thread.submit(time.sleep, 0.05)  # so that a chunk waits to be flipped when the process is forked
    assert fed(made, 300, 333) == fed(alone, 300, 333)
    expected = fed(alone, 333, 600)
    fork = Fork(lambda: fed(made, 333, 600))
    assert fork.answer() == expected
    assert fed(made, 333, 600) == expected


def test_what_a_helper_has_begun_is_done_before_a_fork() -> None:
    done: list[int] = []
    helper = Helper("helper of a test")

    def work(number: int) -> int:
        time.sleep(0.01)
        done.append(number)
        return number

    futures = [helper.submit(work, number) for number in range(5)]
    fork = Fork(lambda: (list(done), [future.result() for future in futures], helper.submit(work, 9).result()))
    assert fork.answer() == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], 9)
    assert helper.submit(work, 5).result() == 5


def test_a_pool_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = memory.Pool()
    pool.give(np.empty(60, np.uint8))
    timer = pool._timer
    assert timer is not None

    def work() -> tuple[int, int]:
        before = pool.held
        pool.give(np.empty(50, np.uint8))
        held = pool.held
        until(lambda: pool.held == 0)  # by a timer of the fork's own
        return before, held

    assert Fork(work).answer() == (0, 50)
    timer.cancel()


# ---------------------------------------------------------------- locks that another thread holds


def plain_slide() -> list[float]:
    made = type("odd", (), {"lift": _lift, "combine": _combine})
    with cache.uncompiled():
        return slide([1.0, 5.0, 2.0], agg.define(state="f8")(made)("v"), range=2).tolist()


def _lift(v):  # type: ignore[no-untyped-def]  # definitions have no types
    return v


def _combine(a, b):  # type: ignore[no-untyped-def]  # definitions have no types
    return max(a, b)


def write_a_file(path: Path) -> bytes:
    folder.write_atomically(path / "file", b"all")
    return (path / "file").read_bytes()


LOCKS: dict[str, tuple[Callable[[], Any], Callable[[Path], Any], Any]] = {
    "bindings": (binding._lock, lambda _: plain_slide(), [1.0, 5.0, 5.0]),
    "modules": (cache._lock, lambda _: plain_slide(), [1.0, 5.0, 5.0]),
    "parser": (parsing._one_at_a_time, lambda _: ast.unparse(parsing.syntax_tree("1+1")), "1 + 1"),
    "files": (folder.writing, write_a_file, b"all"),
    "LMDB": (lmdb._lock, lambda path: stores.Lmdb(path / "new").get_many([b"a"]), [None]),
    "pickle": (own._LOCK, lambda _: pickle.loads(own.pickled([1])), [1]),
    "pool": (lambda: memory._pool._lock, lambda _: memory.room(memory.LARGE, np.dtype("u1")).shape, (memory.LARGE,)),
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_that_another_thread_holds(name: str, tmp_path: Path) -> None:
    hold, work, expected = LOCKS[name]
    with held_elsewhere(hold):
        fork = Fork(lambda: work(tmp_path))
    assert fork.answer() == expected


def test_the_locks_of_stores() -> None:
    inner = stores.Memory()
    store = Faulty(inner)
    store.put_many({b"a": b"1"})
    for hold in (inner._lock, store._lock):
        with held_elsewhere(hold):
            fork = Fork(lambda: (store.flush(), store.get_many([b"a"]))[1])
        assert fork.answer() == [b"1"]


def test_a_fork_waits_for_the_compiler() -> None:
    from numba.core.compiler_lock import global_compiler_lock

    import muntin.kernels.intrinsics  # noqa: F401  # as every compiled kernel does

    changing = threading.Event()

    def compile_something() -> None:
        with global_compiler_lock:
            changing.set()
            time.sleep(0.05)  # so that the fork begins meanwhile
            changing.clear()

    def work() -> bool:
        with global_compiler_lock:
            return changing.is_set()

    thread = threading.Thread(target=compile_something)
    thread.start()
    assert changing.wait(PATIENCE)
    assert Fork(work).answer() is False
    thread.join()


def test_the_lock_of_a_file_that_is_compiled(tmp_path: Path) -> None:
    """A fork has the handle of the lock as well, and must not go on holding it."""
    read, write = os.pipe()
    with folder.machine_lock(tmp_path / "kernel"):
        fork = Fork(lambda: os.read(read, 1))
    taken = threading.Event()

    def take() -> None:
        with folder.machine_lock(tmp_path / "kernel"):
            taken.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        assert taken.wait(PATIENCE)
    finally:
        os.write(write, b".")
    assert fork.answer() == b"."
    os.close(read)
    os.close(write)


# ---------------------------------------------------------------- streams, windows in stores, metrics, the page


def test_a_stream_that_another_thread_changes() -> None:
    with cache.uncompiled():
        query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
        stream = query.stream()
        stream.push({"t": [1]})
        saved = stream.snapshot()

        def work() -> Any:
            with pytest.raises(ConcurrentUseError, match="this process is a fork"):
                stream.push({"t": [2]})
            return query.stream(saved).close()["n"].to_pylist()

        with held_elsewhere(lambda: stream._turn):  # type: ignore[return-value]  # a lock is a context manager
            with pytest.raises(ConcurrentUseError, match="of your own around each call$"):
                stream.push({"t": [2]})
            fork = Fork(work)
        assert fork.answer() == [1]
        assert stream.close()["n"].to_pylist() == [1]


@pytest.fixture(params=["memory", "lmdb", pytest.param("redis", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[stores.Store]:
    if request.param == "redis":
        made: stores.Store = stores.Redis(request.getfixturevalue("redis").url)
    else:
        made = stores.Lmdb(tmp_path / "store") if request.param == "lmdb" else stores.Memory()
    yield made
    made.close()


def test_a_window_in_a_store_stays_the_parents(store: stores.Store) -> None:
    with cache.uncompiled():
        tree: Any = aggregators.MonoidTree(agg.sum("v"), store=store, window_id="w", chunk_pairs=4)
        tree.bulk_insert(range(100), range(100))
        read, write = os.pipe()

        def work() -> Any:
            with pytest.raises(LeaseError, match="forked from"):
                tree.insert(100, 1)
            with pytest.raises(LeaseError, match="forked from"):
                tree.flush()
            total = tree.query()
            tree.close(flush=False)
            gc.collect()
            if not isinstance(store, stores.Memory):  # of which the fork has a copy
                with pytest.raises(LeaseError, match="open already"):
                    aggregators.MonoidTree.open(store, "w", agg.sum("v"))
            os.write(write, b".")
            os.read(go, 1)
            return total, store.get_many([b"missing"])

        go, going = os.pipe()
        fork = Fork(work)
        assert os.read(read, 1) == b"."
        tree.insert(100, 1)
        tree.close()
        with aggregators.MonoidTree.open(store, "w", agg.sum("v")) as again:  # though the fork lives
            assert again.query() == sum(range(100)) + 1
        os.write(going, b".")
        assert fork.answer() == (sum(range(100)), [None])


def test_a_window_is_opened_in_a_fork(tmp_path: Path) -> None:
    with cache.uncompiled():
        store = stores.Lmdb(tmp_path)
        with aggregators.MonoidTree(agg.sum("v"), store=store, window_id="w", chunk_pairs=4) as tree:
            tree.bulk_insert(range(100), range(100))

        def work() -> Any:
            with aggregators.MonoidTree.open(store, "w", agg.sum("v")) as opened:
                opened.insert(100, 1000)
            store.close()
            with pytest.raises(Exception, match="is closed"):
                store.get_many([b"a"])
            return opened.query()

        assert Fork(work).answer() == 4950 + 1000
        with aggregators.MonoidTree.open(store, "w", agg.sum("v")) as opened:
            assert opened.query() == 4950 + 1000
        store.close()


def test_the_metrics_of_a_stream() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    from muntin import metrics

    registry = prometheus.CollectorRegistry()
    with cache.uncompiled():
        stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        exporter = metrics.prometheus(stream, name="q", registry=registry)

        def work() -> list[int]:
            stream.push({"t": [1]})
            counts = stream.close()["n"].to_pylist()
            exporter.stop()
            return counts

        for hold in (exporter.lock, metrics._registries_lock):
            with held_elsewhere(hold):
                fork = Fork(work)
            assert fork.answer() == [1]
        exporter.stop()


# ---------------------------------------------------------------- nothing is forgotten

MADE = {"Lock", "RLock", "Condition", "Event", "Thread", "Timer", "ThreadPoolExecutor", "Semaphore", "Barrier"}
WHY: dict[tuple[str, str], str] = {
    ("aggregators/base.py", "RLock"): "held elsewhere means half-changed: refused in the fork, see turns.py",
    ("aggregators/enforced.py", "RLock"): "likewise",
    ("streams/stream.py", "Lock"): "likewise",
    ("aggregators/stored/courier.py", "Condition"): "Courier._forked",
    ("aggregators/stored/courier.py", "Thread"): "Courier._forked: the window is the parent's",
    ("aggregators/stored/courier.py", "ThreadPoolExecutor"): "likewise",
    ("stores/lmdb.py", "Condition"): "Lmdb._forked",
    ("memory.py", "RLock"): "Pool is made again",
    ("memory.py", "Timer"): "likewise",
    ("kernels/background.py", "Event"): "a job belongs to the process that requested it",
    ("kernels/background.py", "Lock"): "Background.forked",
    ("kernels/background.py", "Thread"): "likewise",
    ("kernels/compiler.py", "Thread"): "the compiling process, which never forks",
    ("kernels/tiers.py", "Timer"): "ends with the call",
    ("threads.py", "ThreadPoolExecutor"): "in_threads: ends with the call",
    ("threads.py", "Event"): "likewise",
    ("arrays/runner.py", "ThreadPoolExecutor"): "ends with the call",
    ("notebooks.py", "Event"): "ends with the call",
    ("notebooks.py", "Thread"): "likewise",
    ("cli/interrupts.py", "Event"): "of the command, which does not fork",
    ("cli/live_demo.py", "Thread"): "likewise",
    ("watching/watched.py", "Event"): "a fork does not poll",
    ("watching/watched.py", "Thread"): "likewise: to join it returns at once",
    ("watching/server.py", "Event"): "a fork does not serve: Server._forked",
    ("watching/server.py", "Thread"): "likewise",
}


def test_whatever_is_made_for_threads_is_renewed_or_says_why_not() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        renewed: set[int] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name == "Renewed":
                    renewed |= {id(each) for argument in node.args for each in ast.walk(argument)}
                elif name in MADE and id(node) not in renewed:
                    found.add((path.relative_to(SOURCE).as_posix(), name))
    assert found == WHY.keys()
