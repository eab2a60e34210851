"""Shared set-up: hypothesis without deadlines (first calls compile), imports of test helpers, and what is compiled."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
collect_ignore = [] if os.environ.get("MUNTIN_SYSTEMS") else ["systems"]  # `make systems` fetches what they need
sys.path.insert(0, str(HERE))
from postgres_server import Postgres  # noqa: E402  # found by the line above
from redis_server import Server  # noqa: E402  # found by the line above
from sampling import QUICK, THOROUGH, examples  # noqa: E402  # found by the line above

OUTSIDE = {"postgres", "redis", "session", "spark"}
"""Fixtures that start a server or Spark."""
LONG = {HERE / "spark" / name for name in ("test_recovery.py", "test_cluster.py")}
"""Tests that take a minute: begun first, so that at the end no process waits for another."""

SESSION = re.compile(r"def test_\w+\([^)]*\b(session|spark|remote)\b")
"""A test of the Spark session."""

# Without bytecode each of some hundred processes would compile the package anew, and each of the four all tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["MUNTIN_COMPILE"] = "wait"  # read when muntin is imported: tests of compiled kernels run compiled ones
if QUICK:
    os.environ["MUNTIN_UNCOMPILED"] = "1"
sys.path.append(str(HERE.parent / "benchmarks"))  # last: its modules have names that tests may have, too
import_module("rivals").register()
settings.register_profile(
    "muntin",
    deadline=None,
    print_blob=True,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no reason to fail
)
settings.load_profile("muntin")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what starts a server or Spark, or is about compiled code; begin with what takes long."""
    if THOROUGH == 1:
        long = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    for item in items:
        outside = OUTSIDE.intersection(getattr(item, "fixturenames", ()))
        if outside or item.path.parent == HERE / "spark" or item.get_closest_marker("compiled"):
            item.add_marker("slow")
    items.sort(key=lambda item: item.path not in LONG)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Look for garbage among what tests make, and not among the tests: that is a fifth of the time to collect them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run on four processes unless asked otherwise: said here, since without xdist pytest does not know the option."""
    option = config.option
    if getattr(option, "numprocesses", 0) is None and not option.usepdb and not hasattr(config, "workerinput"):
        option.numprocesses = 4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one process have all tests of the Spark session, and any of them each other test.

    Spark takes a gigabyte and half a minute to start. A process is at work half of the time, and waits for Spark, for a
    compiler, a server or a sleep in the other: so there are twice as many as there are processors.
    """
    from xdist.scheduler import LoadScopeScheduling

    files = [file for file in (HERE / "spark").glob("test_*.py") if file not in LONG]
    shared = {f"tests/spark/{file.name}" for file in files if SESSION.search(file.read_text())}

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.partition("::")[0] in shared else nodeid

    return OneSpark(config, log)


@pytest.fixture(scope="session")
def redis_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def redis(redis_of_session: Server) -> Server:
    """A Redis server without keys: the windows of other tests have the same names."""
    redis_of_session.clear()
    return redis_of_session


@pytest.fixture(scope="session")
def postgres_of_session() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.end()


@pytest.fixture
def postgres(postgres_of_session: Postgres) -> Postgres:
    """A PostgreSQL server without features."""
    from muntin.serving.urls import store_of

    store = store_of(postgres_of_session.url)
    store.clear(None)
    store.close()
    return postgres_of_session


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test with plain kernels unless it is marked: to compile a set of aggregations takes seconds.

    Machine code is made of the same text, and a sample of everything runs by it.
    """
    from muntin.kernels.cache import uncompiled

    with nullcontext() if item.get_closest_marker("compiled") else uncompiled():
        return (yield)
