"""A program that may be killed at any moment and started again: two streaming queries, each from its checkpoint.

One writes to Spark's parquet sink, the other by `foreachBatch`, which overwrites by batch id. The first argument says
whether to wait `forever` for more files in the folders `in` of all folders that follow, or to go on `to the end` in one
after the other: when all files are answered, what a reader finds is written to `files.parquet` and `batches.parquet`.
Where a folder has a `history.parquet`, its queries begin on that. Where it has a file `adopt`, they go on as another
query; where it has a file `whole`, they have what both ask for.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import muntin.spark
from muntin import Query, agg, rows, window

SCHEMA = "ts timestamp, region string, line int, v long"
SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # State goes back to a snapshot and the changes since then, rather than to the changes alone.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}


@agg.define(state={"first": "i8", "last": "i8", "hash": "i8"})
class in_order:
    """The first and last value, and a number that another order of the rows, or one row twice, would change."""

    def lift(v):
        return (v, v, v + 1)

    def combine(a, b):
        return (a.first, b.last, (a.hash * 31 + b.hash * 7 + a.last * b.first) % 1_000_003)

    def lower(s):
        return s.hash


QUERY = Query(
    [
        window.sliding("20 seconds", every="5 seconds"),
        window.session("2 seconds"),
        window.tumbling(rows(7)),
        window.trailing("90 days"),
    ],
    {"n": agg.count(), "total": agg.sum("v"), "order": in_order("v"), "all": agg.collect("v")},
    key=["region", "line"],
    time="ts",
    watermark="4 seconds",
    allowed_lateness="15 seconds",
)
WHOLE = replace(QUERY, aggregates={**QUERY.aggregates, "high": agg.max("v")})
OTHER = replace(
    WHOLE,
    windows=[QUERY.windows[i] for i in (2, 0, 1)],
    aggregates={name: each for name, each in WHOLE.aggregates.items() if name != "all"},
)
"""Fewer windows in another order, and one aggregate more and one less."""


def start(session: Any, where: Path, trigger: dict[str, Any]) -> list[Any]:
    """Start both queries on the rows of a folder, a file a batch."""
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where / "in"))
    past = where / "history.parquet"
    history = session.read.parquet(str(past)) if past.exists() else None

    def overwrite(batch: Any, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(where / "batches" / f"number={number}"))

    started = []
    for name in ("files", "batches"):
        checkpoint = str(where / f"checkpoint of {name}")
        if (where / "adopt").exists():
            answers = OTHER.spark(frame, checkpoint=checkpoint, adopt=True)
        else:
            asked = WHOLE if (where / "whole").exists() else QUERY
            answers = asked.spark(frame, history=history, buckets=4)
        writer = answers.writeStream.trigger(**trigger).option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(overwrite) if name == "batches" else writer.option("path", str(where / name))
        started.append(writer.start())
    return started


def main(folders: list[Path], *, forever: bool) -> None:
    # Batches without rows come when there is time for them, and would not be the same in another life.
    settings = {**SETTINGS, "spark.sql.streaming.noDataMicroBatches.enabled": "false" if forever else "true"}
    session = muntin.spark.session("local[1]", **{name.replace(".", "__"): value for name, value in settings.items()})
    for where in folders:
        (where / "up").mkdir(exist_ok=True)
        (where / "up" / session.sparkContext.applicationId).touch()
        queries = start(session, where, {"processingTime": "0 seconds"} if forever else {"availableNow": True})
        if forever:
            continue
        for query in queries:
            query.awaitTermination()
        for name in ("files", "batches"):
            found = session.read.option("mergeSchema", "true").parquet(str(where / name))
            pq.write_table(found.toArrow(), where / f"{name}.parquet")
    if forever:
        session.streams.awaitAnyTermination()
    session.stop()


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[2:]], forever=sys.argv[1] == "forever")
