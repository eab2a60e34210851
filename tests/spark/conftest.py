"""One Spark session for all tests of a process, small and quiet."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.java import require_java

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark on two threads; its workers find the test helpers as the driver does."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(TESTS), str(TESTS.parent / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    require_java()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own: of the newest pandas, of sockets it leaves open
        from pyspark.sql import SparkSession

        scratch = tmp_path_factory.mktemp("spark")
        settings = {
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # it lives for minutes
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.numRecentProgressUpdates": "1000",
        }
        builder = SparkSession.builder.master("local[2]")  # a task that fails once fails the test
        for name, value in settings.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
    yield made
    made.stop()


@pytest.fixture
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session; kernels run as plain Python in its workers too, unless a test is marked as compiled."""
    variables = spark.sparkContext.environment  # Spark has other workers for other variables
    if not request.node.get_closest_marker("compiled"):
        variables["MUNTIN_UNCOMPILED"] = "1"
    yield spark
    variables.pop("MUNTIN_UNCOMPILED", None)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """pyspark warns of the newest pandas, and leaves sockets to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
