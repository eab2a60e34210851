"""A program whose workers have no muntin of their own. Arguments: a folder, and a zip file of the package.

It asks once with nothing shipped, and writes what it is told to `refusal.txt`; then it ships the zip, asks a finite
and a streaming DataFrame, and writes how many answers each gave to `answers.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spark.interrupted import SETTINGS

import muntin.spark
from muntin import Query, agg, window

QUERY = Query(window.sliding(6, every=2), {"n": agg.count(), "all": agg.collect("t")}, key="k", time="t")
SCHEMA = "t long, k string"


def main(where: Path, package: str) -> None:
    session = muntin.spark.session("local[1]", **{name.replace(".", "__"): value for name, value in SETTINGS.items()})
    rows = session.createDataFrame([(i, "ab"[i % 2]) for i in range(10)], SCHEMA)
    rows.write.parquet(str(where / "in"))
    try:
        QUERY.spark(rows).collect()
    except Exception as error:  # noqa: BLE001  # whatever Spark makes of it
        (where / "refusal.txt").write_text(str(error))
    session.sparkContext.addPyFile(package)
    finite = QUERY.spark(rows).count()
    stream = QUERY.spark(session.readStream.schema(SCHEMA).parquet(str(where / "in")), buckets=2)
    writer = stream.writeStream.option("path", str(where / "out")).option(
        "checkpointLocation", str(where / "checkpoint")
    )
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    found = {"finite": finite, "stream": session.read.parquet(str(where / "out")).count()}
    found["rows"] = muntin.spark.progress(running).rows
    (where / "answers.json").write_text(json.dumps(found))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
