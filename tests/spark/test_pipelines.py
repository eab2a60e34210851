"""Declarative pipelines: the example, run by Spark's own program, and what needs no Spark to be refused."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyspark
import pytest
from spark.played import sample
from spark.processes import TRIES
from spark.test_on_spark import comparable

from muntin import Query, agg, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark import needs
from muntin.spark.batch import batch_of_given
from muntin.spark.given import struct_of

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipeline"
TABLES = ("longest", "totals", "busy", "hourly")


def test_the_example(spark: Any, port: int, tmp_path: Path) -> None:
    """Its streaming table and its materialized views hold what `stream`, `run` and `over` say.

    A file of transcripts beside it is answered as everywhere else.
    """
    shutil.copytree(EXAMPLE, tmp_path / "pipeline")
    spec = tmp_path / "pipeline" / "spark-pipeline.yml"
    text = spec.read_text().replace("file:///tmp/muntin-pipeline", (tmp_path / "storage").as_uri())
    one = 'partitions: "1"\n  spark.sql.pipelines.execution.maxConcurrentFlows: "1"'  # which takes less time
    spec.write_text(text.replace('partitions: "4"', one))
    transcripts = sample(tmp_path)
    for each in transcripts:
        each.write()
    more = f"import pathlib\nfrom spark import played\nplayed.define(pathlib.Path({str(tmp_path)!r}))\n"
    (tmp_path / "pipeline" / "definitions" / "transcripts.py").write_text(more)
    played = [f"played_{number}" for number in range(len(transcripts))]
    found = tables_of(spark, port, spec, [*TABLES, *played])
    for name, each in zip(played, transcripts, strict=True):
        each.require(found[name])
    kinds = {"ts": pa.timestamp("us", "UTC"), "region": pa.string(), "len": pa.float64(), "caller": pa.string()}
    options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(kinds))
    rows = pa.concat_tables(
        pyarrow.json.read_json(path, parse_options=options) for path in sorted(EXAMPLE.glob("calls/*.json"))
    )
    definitions = asked_by(tmp_path)
    longest, totals = definitions["LONGEST"], definitions["TOTALS"]
    with uncompiled():
        stream = longest.stream()
        due = stream.push(rows)
        assert comparable(found["longest"], longest) == comparable(due, longest)
        assert comparable(found["totals"], totals) == comparable(totals.run(rows), totals)
        beside = definitions["BEFORE"].over(rows)
        hours = rows.select(["region"]).append_column("ts", pc.floor_temporal(rows["ts"], unit="hour"))
        hourly = definitions["BEFORE"].over(rows, at=hours.group_by(["region", "ts"]).aggregate([]))
    assert due.num_rows > 50
    assert sorted(map(repr, found["busy"].to_pylist())) == sorted(map(repr, beside.to_pylist()))
    assert sorted(map(repr, found["hourly"].to_pylist())) == sorted(map(repr, hourly.to_pylist()))
    assert max(hourly["before"].to_pylist()) > 1


def tables_of(spark: Any, port: int, spec: Path, names: list[str]) -> dict[str, pa.Table]:
    """Run the pipeline, and return what its tables hold; again, where Spark did not wait for its worker."""
    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    command = [str(program), "run", "--remote", f"sc://127.0.0.1:{port}", "--spec", str(spec)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"}
    for _ in range(TRIES):
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=spec.parents[1], check=False
        )
        try:
            if done.returncode == 0:
                return {name: spark.table(name).toArrow() for name in names}
        finally:
            for name in ("calls", *names):
                spark.sql(f"DROP TABLE IF EXISTS {name}")
            shutil.rmtree(spec.parents[1] / "storage", ignore_errors=True)
        assert "Python worker failed to connect back" in done.stdout + done.stderr, done.stdout + done.stderr
    raise TimeoutError("this machine is too busy for Spark")


def asked_by(where: Path) -> dict[str, Any]:
    """Return what the example defines before its first table: its queries."""
    text = (EXAMPLE / "definitions" / "calls.py").read_text()
    (where / "queries.py").write_text(text.partition("\ndef source")[0])
    return runpy.run_path(str(where / "queries.py"))


def test_settings_that_cannot_be_set_are_named() -> None:
    from pyspark.errors import PySparkException

    class Conf:
        def get(self, name: str, default: Any) -> Any:
            return "true" if name == needs.CHANGELOG else default

        def set(self, name: str, value: str) -> None:
            condition = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF"
            raise PySparkException(errorClass=condition, messageParameters={"method": "'RuntimeConf.set'"})

    expected = f'write into spark-pipeline.yml\nconfiguration:\n  {needs.PROVIDER}: "{needs.ROCKSDB}"$'
    with pytest.raises(UnsupportedOperationError, match=expected):
        needs.apply_settings(SimpleNamespace(conf=Conf()))  # type: ignore[arg-type]


def test_what_is_no_schema() -> None:
    assert struct_of({"t": pa.int64()}).simpleString() == "struct<t:bigint>"
    assert struct_of(pa.schema({"a.b": pa.string()})).names == ["a.b"]
    with pytest.raises(InvalidArgumentError, match="schema is 't long'; .* StructType.fromDDL makes one of a text"):
        struct_of("t long")
    with pytest.raises(InvalidArgumentError, match="schema is 5; give a StructType of Spark, an Arrow schema"):
        struct_of(5)


def test_windows_without_rows_need_an_answer() -> None:
    query = Query(window.tumbling(5), {"n": agg.count()}, time="t", emit_empty=True)
    with pytest.raises(UnsupportedOperationError, match="emit_empty is True, .* where schema= is given"):
        batch_of_given(query, None, path="auto", pieces=None)  # type: ignore[arg-type]


def test_over_with_a_schema() -> None:
    query = Query(window.trailing(5), {"n": agg.count()}, time="t")
    with pytest.raises(InvalidArgumentError, match="schema= is for DataFrames of Spark"):
        query.over({"t": [1]}, schema={"t": pa.int64()})
    frame: Any = SimpleNamespace(sparkSession=None)
    with pytest.raises(
        InvalidArgumentError, match=r"there are points: give a pair, schema=\(of the rows, of the points\)"
    ):
        query.over(frame, at=frame, schema={"t": pa.int64()})


def test_a_schema_on_a_classic_session(session: Any) -> None:
    """Columns are chosen by name, which Spark looks at without running anything."""
    frame = session.createDataFrame(pa.table({"more": [1.5], "v`x": [1], "t": [1]}))
    query = Query(window.sliding(10, every=5), {"total": agg.sum("v`x")}, time="t")
    found = query.spark(frame, schema={"t": pa.int64(), "v`x": pa.int64()})
    assert found.columns == ["window", "window_id", "total", "revision", "retracted"]
    with pytest.raises(ColumnError, match="there is no column 'v`x'; the columns are 't', 'more'"):
        query.spark(frame, schema={"t": pa.int64(), "more": pa.float64()})
