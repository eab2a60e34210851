"""Write the Spark checkpoints of all cases that have none yet: `python -m golden.write_spark FOLDER`, in tests/."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from golden.cases import Case
from golden.spark_cases import SPARK_CASES

HERE = b"@CHECKPOINT@"


def session(scratch: Path) -> Any:
    """Return a small session whose workers run kernels as plain Python."""
    os.environ |= {"MUNTIN_UNCOMPILED": "1", "PYSPARK_PYTHON": sys.executable}
    from pyspark.sql import SparkSession

    from muntin.spark.needs import DAEMON

    settings = {
        **DAEMON,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tables(case: Case, calls: Any) -> list[pa.Table]:
    """Return the micro-batches of some calls of a case."""
    return [case.table(given) for word, given in calls if word == "push"]


def run(spark: Any, case: Case, where: Path) -> None:
    """Answer the first rows of a case, and leave a checkpoint."""
    from pyspark.sql.pandas.types import from_arrow_schema

    given = tables(case, case.before)
    (where / "in").mkdir()
    for number, table in enumerate(given):
        pq.write_table(table, where / "in" / f"{number}.parquet")
        os.utime(where / "in" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    schema = from_arrow_schema(given[0].schema, prefer_timestamp_ntz=True)
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(where / "in"))
    writer = case.query.spark(frame, buckets=2).writeStream.option("checkpointLocation", str(where / "checkpoint"))
    writer.trigger(availableNow=True).outputMode("append").format("noop").start().awaitTermination()


def pack(checkpoint: Path, path: Path) -> None:
    """Put a checkpoint into one file."""
    with tarfile.open(path, "w:xz") as packed:
        for each in sorted(checkpoint.rglob("*")):
            if each.is_file() and not each.name.endswith(".crc"):
                data = each.read_bytes()
                if "_metadata" in each.parts:  # Spark notes where the schemas of states are
                    data = data.replace(str(checkpoint).encode(), HERE)
                entry = tarfile.TarInfo(str(each.relative_to(checkpoint)))
                entry.size = len(data)
                packed.addfile(entry, io.BytesIO(data))


def unpack(path: Path, checkpoint: Path) -> None:
    """Put a checkpoint where a query can resume from it."""
    with tarfile.open(path) as packed:
        packed.extractall(checkpoint, filter="data")
    for each in checkpoint.glob("state/*/_metadata/*/*"):
        each.write_bytes(each.read_bytes().replace(HERE, str(checkpoint).encode()))


def main(folder: Path) -> None:
    """Write what is not there."""
    folder.mkdir(exist_ok=True)
    missing = [name for name in SPARK_CASES if not (folder / f"{name}.tar.xz").exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        spark = session(Path(scratch))
        for name in missing:
            where = Path(scratch) / name
            where.mkdir()
            run(spark, SPARK_CASES[name], where)
            pack(where / "checkpoint", folder / f"{name}.tar.xz")
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
