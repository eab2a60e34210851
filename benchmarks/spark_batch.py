"""Batch on Spark: trailing windows of `Query.spark` against Spark's own frames, and one long key on one core and two.

    python benchmarks/spark_batch.py [--rows 20_000_000] [--only rows hour hot sliding]

Parquet in, noop out, `local[2]`. Spark's frames run as they are by default and with its segment tree. All ways run in
one session, in turns, and ratios are of the medians. Frames that take minutes get fewer rows, as is said; figures are
rows a second. What else the machine does changes figures, and ratios less.

What was tried: of a trailing frame most of the time is Spark's, which writes rows as Arrow and reads answers; the
windows themselves are some hundredths of it. Longer Arrow batches (65,536 rows rather than 10,000) and a longer buffer
to Python (1 MiB) made no difference. Rows that were sent in bundles (one binary for each task) and sorted in Python,
rather than by Spark, took 6 to 35 % more processor time in all of 8 rounds (4 M rows, frames of 10 rows): what Spark
saved, Python spent. That rows of a long key are copied into two pieces by `explode` is not to be seen in the time of
its stage.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin import Query, agg, rows, window

BEGIN = 1_700_000_000_000_000
TREE = "spark.sql.window.segmentTree.enabled"
FILE = 1_000_000
MOST = {1_000: 500_000, 100_000: 60_000}
"""Of so many rows Spark's own frames of this length are asked by default; of the longest with one key, so that a frame
holds 30,000 rows on average. That flatters Spark: a full one takes three times as long."""


def generate(where: Path, count: int, keys: int, seconds: float) -> None:
    """Write rows in order over so many seconds, of keys at random."""
    where.mkdir(parents=True)
    chance = np.random.default_rng(keys)
    step = seconds * 1e6 / count
    for begin in range(0, count, FILE):
        size = min(FILE, count - begin)
        times = BEGIN + (np.arange(begin, begin + size) * step).astype(np.int64)
        table = pa.table(
            {
                "key": chance.integers(0, keys, size),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "v": chance.standard_normal(size),
            }
        )
        pq.write_table(table, where / f"{begin:012}.parquet", row_group_size=FILE // 4, use_dictionary=False)


def session(cores: int) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{cores}]")
    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": tempfile.gettempdir(),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def seconds(frame: Any) -> float:
    begin = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def in_turns(ways: dict[str, tuple[int, Any]], rounds: int) -> dict[str, float]:
    """Return rows a second of each way: the median of some rounds, in which they take turns."""
    measured: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (count, frame) in ways.items():
            measured[name].append(count / seconds(frame))
    return {name: statistics.median(each) for name, each in measured.items()}


def report(title: str, ways: dict[str, tuple[int, Any]], rounds: int) -> None:
    found = in_turns(ways, rounds)
    ours = found["muntin"]
    print(title)
    for name, speed in found.items():
        print(
            f"  {name:34} {speed:12,.0f} rows/s of {ways[name][0]:,}   muntin is {ours / speed:.2f} times that",
            flush=True,
        )


class Frames:
    """Spark's own frames, and ours, over the same files."""

    def __init__(self, spark: Any, where: Path, count: int) -> None:
        self.spark, self.where, self.count = spark, where, count

    def read(self, most: int | None = None) -> Any:
        from pyspark.sql import functions as F

        frame = self.spark.read.parquet(str(self.where))
        if most == MOST[100_000]:
            frame = frame.withColumn("key", F.lit(0))
        return frame if most is None or most >= self.count else frame.limit(most)

    def theirs(self, frame: Any, tree: bool, names: tuple[str, ...], most: int | None = None) -> tuple[int, Any]:
        from pyspark.sql import functions as F

        def made() -> Any:
            self.spark.conf.set(TREE, str(tree).lower())
            over = [getattr(F, name)("v").over(frame).alias(name) for name in names]
            return self.read(most).select("key", "ts", "v", *over)

        return min(self.count, most or self.count), made

    def ours(self, query: Query, **options: Any) -> tuple[int, Any]:
        return self.count, lambda: query.spark(self.read(), **options)


OURS = {"max": agg.max("v"), "sum": agg.sum("v"), "stddev": agg.std("v")}


def by_rows(spark: Any, where: Path, count: int, rounds: int) -> None:
    from pyspark.sql import Window

    frames = Frames(spark, where, count)
    for length in (10, 1_000, 100_000):
        frame = Window.partitionBy("key").orderBy("ts").rowsBetween(1 - length, 0)
        query = Query(window.trailing(rows(length)), {"max": OURS["max"]}, key="key")
        ways = {
            "muntin": frames.ours(query),
            "rowsBetween": frames.theirs(frame, False, ("max",), MOST.get(length)),
            "rowsBetween, segment tree": frames.theirs(frame, True, ("max",)),
        }
        report(f"trailing max of {length:,} rows", ways, rounds)
    frame = Window.partitionBy("key").orderBy("ts").rowsBetween(-999, 0)
    ways = {
        "muntin": frames.ours(Query(window.trailing(rows(1_000)), OURS, key="key")),
        "rowsBetween, segment tree": frames.theirs(frame, True, tuple(OURS)),
    }
    report("trailing max, sum and stddev of 1,000 rows", ways, rounds)


def by_hour(spark: Any, where: Path, count: int, rounds: int) -> None:
    from pyspark.sql import functions as F

    frames = Frames(spark, where, count)
    text = "max(v) over (partition by key order by ts range between interval 1 hour preceding and current row)"

    def theirs(tree: bool, most: int | None = None) -> tuple[int, Any]:
        def made() -> Any:
            spark.conf.set(TREE, str(tree).lower())
            return frames.read(most).select("key", "ts", "v", F.expr(text))

        return min(count, most or count), made

    ways = {
        "muntin": frames.ours(Query(window.trailing("1 hour"), {"max": OURS["max"]}, key="key")),
        "rangeBetween": theirs(False, 400_000),
        "rangeBetween, segment tree": theirs(True),
    }
    report("trailing max of 1 hour, 1,667 rows", ways, rounds)


def one_key(where: Path, rounds: int, count: int) -> None:
    """Each number of cores in a process of its own: a session cannot change it."""
    speeds = {}
    for cores in (1, 2):
        command = [sys.executable, __file__, "--hot", str(where), "--cores", str(cores), "--rounds", str(rounds)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        speeds[cores] = count / float(out[-1])
    print("one key, trailing max of 1 hour")
    for cores, speed in speeds.items():
        print(f"  local[{cores}]   {speed:12,.0f} rows/s   {speed / speeds[1]:.2f} times one core", flush=True)


def hot(where: Path, cores: int, rounds: int) -> None:
    spark = session(cores)
    query = Query(window.trailing("1 hour"), {"max": OURS["max"]})
    frame = spark.read.parquet(str(where))
    print(statistics.median([seconds(lambda: query.spark(frame)) for _ in range(rounds + 1)][1:]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=["rows", "hour", "hot"])
    parser.add_argument("--hot", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, default=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if arguments.hot:
        hot(arguments.hot, arguments.cores, arguments.rounds)
        return
    count, rounds = arguments.rows, arguments.rounds
    where = Path(tempfile.mkdtemp(prefix="spark batch "))
    try:
        if "hot" in arguments.only:
            generate(where / "one", count, 1, 3 * 86400)
            one_key(where / "one", rounds, count)
        if {"rows", "hour"} & set(arguments.only):
            spark = session(2)
            generate(where / "ten", count, 10, count / 20_000)
            generate(where / "days", count, 10, 3 * 86400 * count / 1_200_000)
            seconds(Frames(spark, where / "ten", count).ours(Query(window.trailing(rows(9)), OURS, key="key"))[1])
            if "rows" in arguments.only:
                by_rows(spark, where / "ten", count, rounds)
            if "hour" in arguments.only:
                by_hour(spark, where / "days", count, rounds)
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
