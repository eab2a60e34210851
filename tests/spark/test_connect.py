"""Spark Connect: what a client needs that has no Java, which sessions are made, and that nothing private is used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin.spark
from muntin import Query, agg, window
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.spark import explained, needs
from muntin.spark.progress import summary
from muntin.spark.session import _remote

PACKAGE = Path(muntin.__path__[0])
OF_THE_JVM = {"_jdf", "_jvm", "_jsc", "_sc", "_jsparkSession", "_jc", "_jschema", "_gateway", "sparkContext", "rdd"}


def names_in(tree: ast.AST) -> set[str]:
    """Return every attribute that a module reads, by a dot or by `getattr`, and every name that it imports."""
    found = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {name.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in node.names}
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return found | {value for value in constants if isinstance(value, str)}


@pytest.mark.parametrize("code", ["frame._jdf.x()", "getattr(s, '_jvm')", "s.sparkContext", "from pyspark import rdd"])
def test_private_names_are_found(code: str) -> None:
    assert names_in(ast.parse(code)) & OF_THE_JVM


def test_nothing_of_the_jvm_is_used() -> None:
    """Sessions of Spark Connect have none of it; `upsert` asks whether there is a context, and does without."""
    modules = sorted(PACKAGE.rglob("*.py"))
    assert PACKAGE / "spark" / "batch.py" in modules
    used = {str(path): names_in(ast.parse(path.read_text())) & (OF_THE_JVM | {"SparkContext"}) for path in modules}
    assert {path: names for path, names in used.items() if names} == {
        str(PACKAGE / "spark" / "upsert.py"): {"sparkContext"}
    }


@pytest.mark.parametrize(
    ("master", "remote", "variable", "chosen"),
    [
        (None, None, None, None),
        ("local[2]", None, None, None),
        (None, "sc://host:1", None, "sc://host:1"),
        (None, "local[2]", None, "local[2]"),
        (None, None, "sc://other", "sc://other"),
        (None, "sc://host", "sc://other", "sc://host"),
    ],
)
def test_which_session(
    master: str | None,
    remote: str | None,
    variable: str | None,
    chosen: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    if variable is not None:
        monkeypatch.setenv("SPARK_REMOTE", variable)
    assert _remote(master, remote) == chosen


def test_a_session_is_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match=r"master is 'local\[2\]' and remote is 'sc://host'"):
        muntin.spark.session("local[2]", remote="sc://host")
    with pytest.raises(InvalidArgumentError, match="remote is 'host:15002'; it is like \"sc://host:15002\""):
        muntin.spark.session(remote="host:15002")
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(InvalidArgumentError, match=r"'local\[2\]' and the environment's SPARK_REMOTE is 'sc://host'"):
        muntin.spark.session("local[2]")


@pytest.mark.parametrize("missing", ["grpc", "grpc_status", "google.rpc", "zstandard"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = needs._is_there
    monkeypatch.setattr(needs, "_is_there", lambda module: module != missing and there(module))
    needs.require_packages()
    with pytest.raises(UnsupportedOperationError, match=r"is missing.*muntin\[connect\]"):
        needs.require_packages(connect=True)


def test_counts_come_as_values_and_a_schema() -> None:
    """So a report of Spark Connect has them; a count of no rows is null."""
    row = {"values": [3, None], "schema": {"type": "struct", "fields": [{"name": "rows"}, {"name": "windows"}]}}
    report = {"observedMetrics": {"muntin 1": row}, "durationMs": {"triggerExecution": 1000}, "eventTime": {}}
    found = summary([report, report])
    assert (found.rows, found.windows, found.rows_per_second) == (6, 0, 3.0)


@pytest.mark.connect
def test_what_spark_knows_of_a_plan(session: Any) -> None:
    """Names that are alike, and text that looks like a plan, do no harm; several threads may ask at once."""
    from pyspark.sql import functions as F

    assert explained.default_parallelism(session) == 2
    text = F.lit("x\n+- EventTimeWatermark y, z")
    frame = session.range(1000).select("id", F.col("id").alias("ID"), F.col("id").alias("a.`b{c}"))
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(explained.size_in_bytes(frame))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(found)) == 1
    assert 8_000 < found[0] < 100_000
    stream = session.readStream.format("rate").load().withColumn("text", text)
    assert not explained.has_watermark(stream)
    # The column that has the watermark need not be there any more.
    assert explained.has_watermark(stream.withWatermark("timestamp", "1 minute").where("value > 1").select("value"))


CLIENT = """
import json, sys
import muntin.spark
from muntin import Query, agg, window

@agg.define(state="f8")
class doubled:
    def lift(v):
        return v * 2.0

    def combine(a, b):
        return a + b

spark = muntin.spark.session()
query = Query(window.sliding("20 seconds", every="10 seconds"), {"n": agg.count(), "d": doubled("v")}, time="ts")
answers = query.spark(spark.read.parquet(sys.argv[1]), path="python").toArrow().to_pylist()
print(json.dumps([[row["n"], row["d"]] for row in sorted(answers, key=lambda row: row["window"]["start"])]))
"""


def test_a_client_without_java(spark: Any, port: int, tmp_path: Path) -> None:
    """Its one door is the address in the environment."""
    import pyarrow.parquet as pq

    table = pa.table({"ts": pa.array([0, 12_000_000, 13_000_000], pa.timestamp("us", "UTC")), "v": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "client.py").write_text(CLIENT)
    environment = {**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{port}", "PATH": "", "JAVA_HOME": ""}
    environment |= {"PYTHONPATH": str(PACKAGE.parent), "PYTHONWARNINGS": "ignore", "MUNTIN_UNCOMPILED": "1"}
    command = [sys.executable, str(tmp_path / "client.py"), str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    query = Query(window.sliding("20 seconds", every="10 seconds"), {"n": agg.count(), "s": agg.sum("v")}, time="ts")
    expected = [[row["n"], row["s"] * 2] for row in query.run(table).to_pylist()]
    assert json.loads(done.stdout) == expected
