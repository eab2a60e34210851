"""One Spark for all tests of a process, small and quiet: a classic session, and a Spark Connect server beside it.

Every test runs on the classic session, those marked `connect` on Spark Connect as well. `MUNTIN_SPARK_SESSIONS` is
`connect` to run all of them there, `both` to run all of them on both.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.java import require_java
from muntin.spark.needs import DAEMON

TESTS = Path(__file__).parents[1]
SESSIONS = os.environ.get("MUNTIN_SPARK_SESSIONS", "sample")
UNCOMPILED = "MUNTIN_UNCOMPILED"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
"""It lives for minutes; the code of all tests does not fit into the 48 MB that Java has without its second compiler."""
FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say on which kinds of session a test runs."""
    if "session" not in metafunc.fixturenames:
        return
    sample = ["classic", "connect"] if metafunc.definition.get_closest_marker("connect") else ["classic"]
    kinds = {"sample": sample, "both": ["classic", "connect"], "connect": ["connect"]}[SESSIONS]
    metafunc.parametrize("session", kinds, indirect=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def port() -> int:
    """The port of the Connect server."""
    return free_port()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Any]:
    """Spark on two threads; its workers find the test helpers as the driver does, and run kernels as plain Python."""
    paths = [str(TESTS), str(TESTS.parent / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    require_java()
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv(UNCOMPILED, "1")
        warnings.simplefilter("ignore")  # pyspark's own: of the newest pandas, of sockets it leaves open
        from pyspark.sql import SparkSession

        scratch = tmp_path_factory.mktemp("spark")
        settings = {
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            **DAEMON,  # else each of some hundred workers begins with a second of imports
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
            # By default Spark starts a process, chmod, for each file that it writes to a checkpoint.
            "spark.sql.streaming.checkpointFileManagerClass": FILES,
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
            "spark.sql.streaming.fileSink.log.compactInterval": "1000",  # `Feed` reads the log of each batch
        }
        builder = SparkSession.builder.master("local[2]")  # a task that fails once fails the test
        for name, value in settings.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def remote(spark: Any, port: int) -> Iterator[Any]:
    """A session of Spark Connect."""
    from pyspark.sql.connect.session import SparkSession

    made = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield made
    made.stop()


@pytest.fixture
def session(spark: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The session of a test. On a classic one workers run compiled kernels where a test is marked so."""
    if request.param == "connect":
        made = request.getfixturevalue("remote")
        # What `builder.remote` has set: pyspark's functions, and `getOrCreate`, then are those of Spark Connect.
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
        yield made
        return
    variables = spark.sparkContext.environment  # Spark has other workers for other variables
    if request.node.get_closest_marker("compiled"):
        variables[UNCOMPILED] = ""
    yield spark
    variables.pop(UNCOMPILED, None)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """pyspark warns of the newest pandas, and leaves sockets to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
