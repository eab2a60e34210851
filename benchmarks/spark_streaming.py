"""Streaming on Spark: rows a second of `Query.spark`, of Spark's own windows, and of Python that drops its rows.

    python benchmarks/spark_streaming.py [--rows 20_000_000] [--keys 10 10000] [--batch 1_000_000]

Parquet in, noop out, `local[2]`. All ways run in one session, one after the other, in several rounds; the first two
micro-batches of each are not counted. Figures of a machine that does other work besides are worth their ratios only.

What was tried: state by key, rather than by time, is written anew nearly whole when all keys get rows (54 MB a
micro-batch of 1 M rows and 10,000 keys, rather than 29). Where rows are kept as they are, all those of a micro-batch
are state until the next one brings the watermark: that is written whatever the layout. Chunks are named by BLAKE2;
SHA-256 takes half as long where the processor has instructions for it, and longer where not, so it was left.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import muntin.spark
from muntin import Query, agg, window

SCHEMA = "key long, ts timestamp, v double"
BEGIN = 1_700_000_000_000_000
AGGREGATES = {"max": agg.max("v"), "sum": agg.sum("v"), "mean": agg.mean("v")}
SKIP = 2


def generate(where: Path, rows: int, batch: int, keys: int, rate: int = 20_000) -> None:
    """Write files of one micro-batch each: rows in order, so many a second, of keys at random."""
    where.mkdir(parents=True)
    chance = np.random.default_rng(keys)
    for number, begin in enumerate(range(0, rows, batch)):
        count = min(batch, rows - begin)
        times = BEGIN + np.arange(begin, begin + count) * (1_000_000 // rate)
        table = pa.table(
            {
                "key": chance.integers(0, keys, count),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "v": chance.standard_normal(count),
            }
        )
        path = where / f"{number:04}.parquet"
        pq.write_table(table, path, row_group_size=max(1, count // 4), use_dictionary=False)
        os.utime(path, (1_700_000_000 + number,) * 2)


def dropped(frame: Any) -> Any:
    """The ceiling of any way through Python: rows go there, and nothing comes back."""

    def drop(batches: Any) -> Any:
        for _ in batches:
            pass
        yield from ()

    return frame.mapInArrow(drop, "n long")


def spark_window(frame: Any) -> Any:
    from pyspark.sql import functions as F

    spans = F.window("ts", "60 seconds", "1 second")
    late = frame.withWatermark("ts", "1 second")
    return late.groupBy("key", spans).agg(F.max("v"), F.sum("v"), F.avg("v"))


def two_levels(frame: Any) -> Any:
    from pyspark.sql import functions as F

    late = frame.withWatermark("ts", "1 second")
    slices = late.groupBy("key", F.window("ts", "1 second").alias("w"))
    slices = slices.agg(F.max("v").alias("m"), F.sum("v").alias("s"), F.count("v").alias("n"))
    slices = slices.withColumn("t", F.window_time("w"))
    spans = F.window("t", "60 seconds", "1 second")
    return slices.groupBy("key", spans).agg(F.max("m"), F.sum("s"), (F.sum("s") / F.sum("n")).alias("mean"))


def sliding(frame: Any) -> Any:
    query = Query(window.sliding("60 seconds", every="1 second"), AGGREGATES, key="key", watermark="1 second")
    return query.spark(frame)


def sliding_packed(frame: Any) -> Any:
    """An aggregation that does not commute: rows are packed, and kept as they are."""
    aggregates = {"run": agg.longest_increasing_run("v")}
    query = Query(window.tumbling("1 second"), aggregates, key="key", watermark="1 second")
    return query.spark(frame)


WAYS = {
    "dropped": dropped,
    "muntin": sliding,
    "muntin, not commutative": sliding_packed,
    "two levels": two_levels,
    "F.window": spark_window,
}


def measure(session: Any, where: Path, way: Any) -> float:
    """Return rows a second."""
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where))
    checkpoint = tempfile.mkdtemp()
    writer = way(frame).writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    reports = [report for report in running.recentProgress if report["numInputRows"]][SKIP:]
    shutil.rmtree(checkpoint)
    rows = sum(report["numInputRows"] for report in reports)
    return rows * 1000 / sum(report["durationMs"]["triggerExecution"] for report in reports)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    options = parser.parse_args()
    session = muntin.spark.session(
        "local[2]",
        spark__driver__memory="4g",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__ui__enabled="false",
        spark__ui__showConsoleProgress="false",
        spark__log__level="OFF",
        spark__sql__shuffle__partitions="2",
        spark__sql__session__timeZone="UTC",
        spark__sql__streaming__numRecentProgressUpdates="1000",
    )
    with tempfile.TemporaryDirectory() as made:
        for keys in options.keys:
            where = Path(made) / str(keys)
            generate(where, options.rows, options.batch, keys)
            found: dict[str, list[float]] = {name: [] for name in options.ways}
            for _ in range(options.rounds):
                for name in options.ways:
                    found[name].append(measure(session, where, WAYS[name]))
                    print(f"{keys:>7} keys  {name:<26} {found[name][-1]:>12,.0f} rows/s", file=sys.stderr, flush=True)
            ceiling = statistics.median(found.get("dropped", [float("nan")]))
            for name, rates in found.items():
                rate = statistics.median(rates)
                print(f"{keys:>7} keys  {name:<26} {rate:>12,.0f} rows/s  {rate / ceiling:5.2f} of dropped", flush=True)


if __name__ == "__main__":
    main()
