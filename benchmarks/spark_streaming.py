"""Streaming on Spark: `Query.spark` beside Spark's own windows, and beside Python that drops its rows.

8 or 20 M rows, parquet in, noop out, `local[2]`. All ways run in one session, one after the other, in three rounds:
Java compiles for minutes, so only the last round counts. The first micro-batches of each are not counted. A way that
takes longer than its patience is stopped, and not run again: then the micro-batches that it has finished count, or, if
only the first have, the time that it spent in the next one without finishing it. On a machine with other load only the
ratios are meaningful. All of it takes about ten minutes.

`F.window` runs once, after all others of all scenarios: it copies rows 60 times, and whatever runs after it in the same
Java is slower (rows dropped 314 to 336 ns rather than 258 to 289, ours 700 to 840 rather than 540 to 680, two levels
750 to 850 rather than 700 to 790).

With many keys, there are more answers than rows: five per row for 100,000 keys and for a million. There the time is
also given per row and answer.

What was tried: state by key, rather than by time, is rewritten almost completely when all keys get rows (54 MB per
micro-batch of 1 M rows and 10,000 keys, rather than 29). If raw rows are kept, all those of a micro-batch are state
until the next one brings the watermark: that is written whatever the layout. Chunks are named by BLAKE2; SHA-256 takes
half as long if the CPU has instructions for it, and longer if not, so it was left. PySpark collects garbage after each
task, which took 0.5 s of CPU time per micro-batch until workers froze what they have loaded. Letting Spark compute each
row's bucket, as one more column, cost a tenth of the whole. With two workers, the one that gets a bucket has its state
from the previous batch half of the time; otherwise it reads it, a fifth of the time at 10,000 keys. Unix sockets,
rather than TCP, between Java and Python made no difference.

Where the time of 10 keys goes, for a micro-batch of 1 M rows: the stateful stage takes 140 to 160 ms, of which the
buckets take 5 to 15 in Python; the rest are about 30 calls to Spark's state server per task, and the commit (30 to 50
ms). Planning takes 25 ms more than for dropped rows. In the map stage Python takes 35 ms of CPU time. Spark splits the
file of a batch 3 to 1, for all ways, so that one of two cores idles for half of the map stage; two files per batch
made no difference to the ratios. As long as batches for Python were limited in bytes, Spark added up their sizes after
each row: dropped rows took 409 to 479 ns rather than 228 to 252, in turns in one session, and ours 642 rather than 445.

With many keys, state and answers are what counts. Spark's state server sends bytes as text, 10 ns per byte; a bucket
that another worker answered before is read from files instead. Answers crossed Java twice, the first time in binaries
of 30 MB, for which each copy takes new pages; they are in files too, until they are unpacked. Together with fewer
copies and sorts of state: 930 to 450-560 ns per row and answer at 1,000,000 keys, 580 to 410-430 at 100,000. Columns of
answers that are constant (window_id, revision, retracted) are added by Spark: 645 ns rather than 767 at the time. What
is left at 1,000,000 keys, in core time per micro-batch of 1 M rows and 4.6 M answers: Java 1.2 to 1.5 s, half of it for
answers, which take 120 to 150 ns each even if they come out of nowhere; Python 2.5 s, of which hashing chunks takes a
tenth, and answering windows a quarter.

Rejected, in pairs of runs: unpacking answers in smaller batches, of 4,096 to 65,536 rows (no difference); packing them
in binaries below a megabyte, which Java's collector can move (610 against 550); windows that Spark knows not to be null
(695 to 742 against 676 to 695); columns of a window sent flat, for Spark to make a struct of (114 against 119); glibc
without mmap, so that pages are used again (no difference).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import OURS, Figure, Timing, rows_for

import muntin.spark
from muntin import Query, agg, window
from muntin.spark.progress import summary

SCHEMA = "key long, ts timestamp, v double"
BEGIN = 1_700_000_000_000_000
AGGREGATES = {"max": agg.max("v"), "sum": agg.sum("v"), "mean": agg.mean("v")}


@dataclass(frozen=True)
class Scenario:
    """The ways to compare, and their rows."""

    name: str
    keys: int
    targets: Mapping[tuple[str, str], float]
    """The target speed of one way relative to another."""
    batch: int = 1_000_000
    skip: int = 2
    """The number of first micro-batches that are not counted."""
    rate: int = 20_000
    """Rows per second of event time."""
    window: tuple[str, str] = ("60 seconds", "1 second")
    patience: int = 40
    """Seconds after which a way is stopped."""
    rows: int = 8_000_000
    answered: float | None = None
    """The most nanoseconds per row and answer."""

    @property
    def ways(self) -> list[str]:
        """The ways to run, in the order of `WAYS`."""
        named = {way for pair in self.targets for way in pair}
        return [way for way in WAYS if way in named]


LAST = "F.window"
FEW = "10 keys, 60 s every 1 s"
SCENARIOS = [
    Scenario(
        FEW,
        10,
        {
            ("muntin", "F.window"): 8,
            ("muntin", "two levels"): 1.3,
            ("muntin", "dropped"): 0.45,
            ("packed", "dropped"): 0.4,
        },
    ),
    Scenario("10 keys, 5 M rows a batch", 10, {("muntin", "dropped"): 0.6}, 5_000_000, 1, rows=20_000_000),
    Scenario("10,000 keys, 60 s every 1 s", 10_000, {("muntin", "F.window"): 30, ("muntin", "two levels"): 10}),
    Scenario("100,000 keys, 60 s every 1 s", 100_000, {("muntin", FEW): 0.5}, answered=500),
    Scenario("1,000,000 keys, 60 s every 1 s", 1_000_000, {("muntin", FEW): 0.5}, rate=200_000, answered=500),
    Scenario(
        "10 keys, 24 h every 1 min, 10 rows a second, 5 M a batch",
        10,
        {("muntin", "F.window"): 100, ("muntin", "two levels"): 50},
        5_000_000,
        1,
        10,
        ("24 hours", "1 minute"),
        100,
        20_000_000,
    ),
]


def session(cores: int) -> Any:
    """Return the session of both Spark benchmarks."""
    return muntin.spark.session(
        f"local[{cores}]",
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


def generate(where: Path, rows: int, scenario: Scenario) -> None:
    """Write files of one micro-batch each: rows in order, `scenario.rate` per second, with random keys."""
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
    """The upper bound of any way through Python: rows go there, and nothing comes back."""

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
    """An aggregation that does not commute: rows are packed, and kept raw."""
    aggregates = {"run": agg.longest_increasing_run("v")}
    query = Query(window.tumbling("1 second"), aggregates, key="key", watermark="1 second")
    return query.spark(frame)


WAYS = {"dropped": dropped, "muntin": sliding, "packed": packed, "two levels": two_levels, "F.window": spark_window}


@dataclass(frozen=True)
class Measured:
    """The measurement of one way."""

    timing: Timing
    """Nanoseconds per row; a lower bound if no micro-batch that counts finished in time."""
    answers: float
    """Answers per row; 0 for ways other than ours."""
    stopped: bool

    @property
    def answered(self) -> Timing:
        """Nanoseconds per row and answer."""
        taken = self.timing.median / (1 + self.answers)
        return Timing(taken, taken, f"{self.answers:.1f} answers a row, {self.timing.median:,.0f} ns a row")


def measure(spark: Any, where: Path, scenario: Scenario, way: str) -> Measured:
    """Run one way."""
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where))
    checkpoint = tempfile.mkdtemp()
    writer = WAYS[way](frame, scenario).writeStream.format("noop").option("checkpointLocation", checkpoint)
    running = writer.trigger(availableNow=True).start()
    stopped = not running.awaitTermination(scenario.patience)
    if stopped:
        running.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    reports = [report for report in running.recentProgress if report["numInputRows"]]
    counted = reports[scenario.skip :]
    if stopped and not counted:
        begun = sum(report["durationMs"]["triggerExecution"] for report in reports) / 1e3
        least = (scenario.patience - begun) * 1e9 / scenario.batch
        return Measured(Timing(least, least, "stopped, at least"), 0, stopped)
    counted = counted or reports
    rows = sum(report["numInputRows"] for report in counted)
    taken = sum(report["durationMs"]["triggerExecution"] for report in counted) * 1e6 / rows
    return Measured(Timing(taken, taken), summary(counted).windows / rows, stopped)


def compare(spark: Any, scenario: Scenario, ways: list[str], rounds: int) -> dict[str, Measured]:
    """Run ways of a scenario in turn; return the times of the last round, when Java has compiled."""
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory() as made:
        where = Path(made) / "rows"
        generate(where, scenario.rows, scenario)
        for _ in range(rounds):
            for way in ways:
                if way not in found or way == OURS or not found[way].stopped:
                    found[way] = measure(spark, where, scenario, way)
    return found


def run(quick: bool) -> Iterator[Figure]:
    """Run all scenarios in one session."""
    spark = session(2)
    scenarios = [
        replace(each, batch=rows_for(quick, each.batch), rows=rows_for(quick, each.rows)) for each in SCENARIOS
    ]
    every = [
        compare(spark, scenario, [way for way in scenario.ways if way != LAST], 1 if quick else 3)
        for scenario in scenarios
    ]
    for scenario, found in zip(scenarios, every, strict=True):
        if LAST in scenario.ways:
            found.update(compare(spark, scenario, [LAST], 1))
    before = {scenario.name: found[OURS].timing for scenario, found in zip(scenarios, every, strict=True)}
    for each, found in zip(scenarios, every, strict=True):
        times = {way: measured.timing for way, measured in found.items()}
        if each.answered is not None:
            ours = found[OURS].answered
            what = f"{each.name}, a row and an answer"
            yield Figure("spark_streaming", what, ours.median, each.answered, False, " ns", {OURS: ours})
        for (way, rival), target in each.targets.items():
            other = times.get(rival) or before[rival]
            what = f"{each.name}, {way} over {rival}"
            value = other.median / times[way].median
            beside = {way: times[way], f"{rival} ({other.note})" if other.note else rival: other}
            yield Figure("spark_streaming", what, value, target, True, "x", beside)
