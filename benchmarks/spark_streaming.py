"""Streaming on Spark: rows a second of `Query.spark`, of Spark's own windows, and of Python that drops its rows.

    python benchmarks/spark_streaming.py [--rows 20_000_000] [--only "10 keys"] [--rounds 3] [--patience 60]

Parquet in, noop out, `local[2]`. All ways run in one session, one after the other, in several rounds: Java compiles for
minutes, so that the last round is the one that counts. The first micro-batches of each are not counted. A way that
takes longer than the patience is stopped, and what it has done by then counts. Figures of a machine that does other
work besides are worth their ratios only.

What was tried: state by key, rather than by time, is written anew nearly whole when all keys get rows (54 MB a
micro-batch of 1 M rows and 10,000 keys, rather than 29). Where rows are kept as they are, all those of a micro-batch
are state until the next one brings the watermark: that is written whatever the layout. Chunks are named by BLAKE2;
SHA-256 takes half as long where the processor has instructions for it, and longer where not, so it was left. PySpark
collects garbage after each task, which took 0.5 s of processor time a micro-batch until workers froze what they have
loaded. A bucket for each row found by Spark, as one more column, cost a tenth of the whole. With two workers, the one
that is given a bucket has its state from the batch before half of the time; otherwise it reads it, a fifth of the time
at 10,000 keys.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Scenario:
    """What runs side by side, and over which rows."""

    name: str
    keys: int
    ways: Sequence[str]
    batch: int = 1_000_000
    rate: int = 20_000
    """Rows a second of event time."""
    window: tuple[str, str] = ("60 seconds", "1 second")

    @property
    def skip(self) -> int:
        """The micro-batches at the beginning that are not counted."""
        return max(1, 2_000_000 // self.batch)


SCENARIOS = [
    Scenario("10 keys", 10, ["dropped", "muntin", "packed", "two levels", "F.window"]),
    Scenario("5 M rows a batch", 10, ["dropped", "muntin", "packed"], batch=5_000_000),
    Scenario("10,000 keys", 10_000, ["muntin", "two levels", "F.window"]),
    Scenario("100,000 keys", 100_000, ["muntin"]),
    Scenario("24 hours", 10, ["muntin", "two levels", "F.window"], 5_000_000, 10, ("24 hours", "1 minute")),
]


def generate(where: Path, rows: int, scenario: Scenario) -> None:
    """Write files of one micro-batch each: rows in order, so many a second, of keys at random."""
    where.mkdir(parents=True)
    chance = np.random.default_rng(scenario.keys)
    for number, begin in enumerate(range(0, rows, scenario.batch)):
        count = min(scenario.batch, rows - begin)
        times = BEGIN + np.arange(begin, begin + count) * (1_000_000 // scenario.rate)
        table = pa.table(
            {
                "key": chance.integers(0, scenario.keys, count),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "v": chance.standard_normal(count),
            }
        )
        path = where / f"{number:04}.parquet"
        pq.write_table(table, path, row_group_size=max(1, count // 4), use_dictionary=False)
        os.utime(path, (1_700_000_000 + number,) * 2)


def dropped(frame: Any, _: Scenario) -> Any:
    """The ceiling of any way through Python: rows go there, and nothing comes back."""

    def drop(batches: Any) -> Any:
        for _ in batches:
            pass
        yield from ()

    return frame.mapInArrow(drop, "n long")


def spark_window(frame: Any, scenario: Scenario) -> Any:
    from pyspark.sql import functions as F

    late = frame.withWatermark("ts", "1 second")
    return late.groupBy("key", F.window("ts", *scenario.window)).agg(F.max("v"), F.sum("v"), F.avg("v"))


def two_levels(frame: Any, scenario: Scenario) -> Any:
    from pyspark.sql import functions as F

    length, every = scenario.window
    late = frame.withWatermark("ts", "1 second")
    slices = late.groupBy("key", F.window("ts", every).alias("w"))
    slices = slices.agg(F.max("v").alias("m"), F.sum("v").alias("s"), F.count("v").alias("n"))
    slices = slices.withColumn("t", F.window_time("w"))
    spans = F.window("t", length, every)
    return slices.groupBy("key", spans).agg(F.max("m"), F.sum("s"), (F.sum("s") / F.sum("n")).alias("mean"))


def sliding(frame: Any, scenario: Scenario) -> Any:
    length, every = scenario.window
    query = Query(window.sliding(length, every=every), AGGREGATES, key="key", watermark="1 second")
    return query.spark(frame)


def packed(frame: Any, _: Scenario) -> Any:
    """An aggregation that does not commute: rows are packed, and kept as they are."""
    aggregates = {"run": agg.longest_increasing_run("v")}
    query = Query(window.tumbling("1 second"), aggregates, key="key", watermark="1 second")
    return query.spark(frame)


WAYS = {"dropped": dropped, "muntin": sliding, "packed": packed, "two levels": two_levels, "F.window": spark_window}


@dataclass(frozen=True)
class Rate:
    """Rows a second."""

    rows: float
    bound: bool = False
    """Whether there were fewer, at any rate: not one micro-batch that counts was done in time."""

    def __str__(self) -> str:
        return f"{'< ' * self.bound}{self.rows:,.0f} rows/s"


def measure(session: Any, where: Path, scenario: Scenario, way: str, patience: float) -> Rate:
    """Return the rows a second of one way."""
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where))
    checkpoint = tempfile.mkdtemp()
    writer = WAYS[way](frame, scenario).writeStream.format("noop").option("checkpointLocation", checkpoint)
    running = writer.trigger(availableNow=True).start()
    if not running.awaitTermination(patience):
        running.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    reports = [report for report in running.recentProgress if report["numInputRows"]]
    counted = reports[scenario.skip :]
    if not counted:
        return Rate((len(reports) + 1) * scenario.batch / patience, bound=True)
    rows = sum(report["numInputRows"] for report in counted)
    return Rate(rows * 1000 / sum(report["durationMs"]["triggerExecution"] for report in counted))


def compare(session: Any, scenario: Scenario, rows: int, rounds: int, patience: float) -> dict[str, Rate]:
    """Run all ways of a scenario in turn; return the rates of the last round."""
    rates: dict[str, Rate] = {}
    with tempfile.TemporaryDirectory() as made:
        where = Path(made) / "rows"
        generate(where, rows, scenario)
        for _ in range(rounds):
            for way in scenario.ways:
                rates[way] = measure(session, where, scenario, way, patience)
                print(f"{scenario.name:<18} {way:<12} {rates[way]}", file=sys.stderr, flush=True)
    return rates


def ratios(way: str, rates: dict[str, Rate]) -> str:
    """Return how many times as fast as the others one of our ways is."""
    if way not in ("muntin", "packed"):
        return ""
    rivals = {each: rate for each, rate in rates.items() if each not in ("muntin", "packed")}
    return ", ".join(f"{'> ' * r.bound}{rates[way].rows / r.rows:.2f} times {each}" for each, r in rivals.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after which a way is stopped")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in SCENARIOS])
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
    for scenario in SCENARIOS:
        if options.only and scenario.name not in options.only:
            continue
        rates = compare(session, scenario, options.rows, options.rounds, options.patience)
        for way, rate in rates.items():
            print(f"{scenario.name:<18} {way:<12} {rate!s:>20}  {ratios(way, rates)}", flush=True)


if __name__ == "__main__":
    main()
