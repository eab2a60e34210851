"""Spark with Delta and Iceberg, whose jars `make systems` has fetched into `.systems/jars`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".systems" / "jars"
EXTENSIONS = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with a catalog of Iceberg, `ice`, and Delta in the catalog of the session."""
    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        pytest.fail(f"there are no jars in {JARS}: run these tests by `make systems`")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])
    scratch = tmp_path_factory.mktemp("lake")
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(scratch / "ice"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sql("CREATE NAMESPACE ice.db")
        yield session
        session.stop()
