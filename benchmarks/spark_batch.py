"""Batch on Spark: frames of `Query.spark` and `Query.over` against Spark's own, and one long key on one core and two.

6 M rows, parquet in, noop out, `local[2]`. Spark's frames run by default and with its segment tree. All entrants run in
one session, in turns, and ratios are of the medians. Frames that take minutes get fewer rows, as noted. Other load on
the machine affects figures, and ratios less.

Frames of 10 rows are Spark's own operator. `over` returns what `rowsBetween` does, except that rows of equal time are
in order of arrival, for which a number by arrival is sorted along: 3 to 6 % of the time. So there is a second rival,
which sorts by that number too, and has the same answers. `spark` also returns windows (their first and last time, and
row numbers): a struct of constants alone takes 5 % of the time of a frame, row numbers and first times 10 %.

What was tried: most of the time of a trailing frame is Spark's, which writes rows as Arrow and reads answers; the
windows themselves are a few hundredths of it. Longer Arrow batches (65,536 rows rather than 10,000) and a longer buffer
to Python (1 MiB) made no difference. Rows sent in bundles (one binary per task) and sorted in Python, rather than by
Spark, took 6 to 35 % more CPU time in all of 8 rounds (4 M rows, frames of 10 rows): what Spark saved, Python spent.
Copying rows of a long key into two pieces by `explode` does not show in the time of its stage.

One long key: on `local[1]` Java and Python already keep 1.5 cores busy (4.9 to 5.4 s of CPU time in 3.5 s), so that two
cores could be 1.35 times as fast at most. Cut into pieces it takes 0.9 to 1.1 s more for the survey, one scan of a
sample of the times, and 0.7 s more for the rows, each of which is given its piece: 1.1 to 1.2 times. The four pieces
are equal within 2 %. With two scans, as for a query with a key, the survey takes 0.2 s longer.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import OURS, Figure, Timing, rows_for
from spark_streaming import session

from muntin import Query, agg, rows, window

BEGIN = 1_700_000_000_000_000
TREE = "spark.sql.window.segmentTree.enabled"
ROWS, FILE = 6_000_000, 1_000_000
MOST = {1_000: 500_000, 100_000: 60_000}
"""The rows for Spark's own frames of each length by default; the longest with one key, so that a frame holds 30,000
rows on average. That flatters Spark: a full one takes three times as long."""


def generate(where: Path, count: int, keys: int, seconds: float) -> None:
    """Write rows in order over `seconds` seconds, with random keys."""
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


def seconds(frame: Any) -> float:
    begin = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


Ways: TypeAlias = Mapping[str, tuple[int, Any]]
"""The number of rows of each entrant, and a function that creates its DataFrame; ours is the first."""


def in_turns(ways: Ways, rounds: int) -> dict[str, Timing]:
    """Return the nanoseconds per row of each entrant, over rounds in which they take turns."""
    measured: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (count, frame) in ways.items():
            measured[name].append(seconds(frame) * 1e9 / count)
    notes = {name: f"of {count:,} rows" for name, (count, _) in ways.items()}
    return {name: Timing(statistics.median(each), min(each), notes[name]) for name, each in measured.items()}


def figures(what: str, ways: Ways, targets: Mapping[str, float], rounds: int) -> Iterator[Figure]:
    """Yield our speed relative to each of the others."""
    times = in_turns(ways, rounds)
    for rival, target in targets.items():
        beside = {OURS: times[OURS], rival: times[rival]}
        value = times[rival].median / times[OURS].median
        yield Figure("spark_batch", f"{what}, over {rival}", value, target, True, "x", beside)


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

    def with_ties(self, length: int) -> tuple[int, Any]:
        """Frames by rows with equal times in order of arrival, as ours are."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        def made() -> Any:
            self.spark.conf.set(TREE, "false")
            frame = Window.partitionBy("key").orderBy("ts", "arrival").rowsBetween(1 - length, 0)
            rows = self.read().withColumn("arrival", F.monotonically_increasing_id())
            return rows.select("key", "ts", "v", F.max("v").over(frame).alias("max"))

        return self.count, made

    def ours(self, query: Query, *, over: bool = False) -> tuple[int, Any]:
        def made() -> Any:
            self.spark.conf.set(TREE, "false")  # as it is by default
            return (query.over if over else query.spark)(self.read())

        return self.count, made


AGGREGATES = {"max": agg.max("v"), "sum": agg.sum("v"), "stddev": agg.std("v")}


def by_rows(spark: Any, where: Path, count: int, rounds: int) -> Iterator[Figure]:
    from pyspark.sql import Window

    frames = Frames(spark, where, count)
    for length, target in ((10, 1), (1_000, 10), (100_000, 800)):
        frame = Window.partitionBy("key").orderBy("ts").rowsBetween(1 - length, 0)
        query = Query(window.trailing(rows(length)), {"max": AGGREGATES["max"]}, key="key")
        ways = {
            OURS: frames.ours(query),
            "rowsBetween": frames.theirs(frame, False, ("max",), MOST.get(length)),
            "rowsBetween, segment tree": frames.theirs(frame, True, ("max",)),
        }
        targets = {"rowsBetween": target, "rowsBetween, segment tree": 1.3}
        yield from figures(f"trailing max of {length:,} rows", ways, targets, rounds)
    frame = Window.partitionBy("key").orderBy("ts").rowsBetween(-9, 0)
    ways = {
        OURS: frames.ours(Query(window.trailing(rows(10)), {"max": AGGREGATES["max"]}, key="key"), over=True),
        "rowsBetween": frames.theirs(frame, False, ("max",)),
        "rowsBetween, ties by arrival": frames.with_ties(10),
    }
    targets = {"rowsBetween": 1, "rowsBetween, ties by arrival": 1}
    yield from figures("trailing max of 10 rows beside each row (`over`)", ways, targets, rounds)
    frame = Window.partitionBy("key").orderBy("ts").rowsBetween(-999, 0)
    ways = {
        OURS: frames.ours(Query(window.trailing(rows(1_000)), AGGREGATES, key="key")),
        "rowsBetween, segment tree": frames.theirs(frame, True, tuple(AGGREGATES)),
    }
    targets = {"rowsBetween, segment tree": 3}
    yield from figures("trailing max, sum and stddev of 1,000 rows", ways, targets, rounds)


def by_hour(spark: Any, where: Path, count: int, rounds: int) -> Iterator[Figure]:
    from pyspark.sql import functions as F

    frames = Frames(spark, where, count)
    text = "max(v) over (partition by key order by ts range between interval 1 hour preceding and current row)"

    def theirs(tree: bool, most: int | None = None) -> tuple[int, Any]:
        def made() -> Any:
            spark.conf.set(TREE, str(tree).lower())
            return frames.read(most).select("key", "ts", "v", F.expr(text))

        return min(count, most or count), made

    ways = {
        OURS: frames.ours(Query(window.trailing("1 hour"), {"max": AGGREGATES["max"]}, key="key")),
        "rangeBetween": theirs(False, 400_000),
        "rangeBetween, segment tree": theirs(True),
    }
    targets = {"rangeBetween": 15, "rangeBetween, segment tree": 1.5}
    yield from figures("trailing max of 1 hour, 1,667 rows", ways, targets, rounds)


def one_key(where: Path, count: int, rounds: int) -> Iterator[Figure]:
    """Each number of cores in a separate process: a session cannot change it."""
    times = {}
    for cores in (2, 1):
        command = [sys.executable, __file__, str(where), str(cores), str(rounds)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        taken = float(out[-1]) * 1e9 / count
        times[f"local[{cores}]"] = Timing(taken, taken)
    value = times["local[1]"].median / times["local[2]"].median
    yield Figure("spark_batch", "one key, trailing max of 1 hour, two cores", value, 1.3, True, "x", times)


def hot(where: Path, cores: int, rounds: int) -> None:
    """Print the median seconds of one long key."""
    spark = session(cores)
    query = Query(window.trailing("1 hour"), {"max": AGGREGATES["max"]})
    frame = spark.read.parquet(str(where))
    print(statistics.median([seconds(lambda: query.spark(frame)) for _ in range(rounds + 1)][1:]))


def run(quick: bool) -> Iterator[Figure]:
    """Run all, in one session except for the long key."""
    count, rounds = rows_for(quick, ROWS), 1 if quick else 3
    with tempfile.TemporaryDirectory() as made:
        where = Path(made)
        generate(where / "one", count, 1, 3 * 86400)
        yield from one_key(where / "one", count, rounds)
        spark = session(2)
        generate(where / "ten", count, 10, count / 20_000)
        generate(where / "days", count, 10, 3 * 86400 * count / 1_200_000)
        warm = Query(window.trailing(rows(9)), AGGREGATES, key="key")
        seconds(Frames(spark, where / "ten", count).ours(warm)[1])
        yield from by_rows(spark, where / "ten", count, rounds)
        yield from by_hour(spark, where / "days", count, rounds)


if __name__ == "__main__":
    hot(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
