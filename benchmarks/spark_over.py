"""`Query.over(at=points)` on Spark, beside its own ways: a range join, and one `rangeBetween` for each window.

Card payments over 90 days, and points for which features are computed; count, sum, maximum and mean of the last hour,
six hours, day, week and 30 days, excluding rows with the point's own time. Spark joins points with the payments of the
30 days before them, once for all windows, and aggregates by condition; or it sorts both together and has one
`rangeBetween` per window, by default and with its segment tree. Parquet in, noop out, `local[2]`, one session, in
turns; ratios are of the medians. All give the same answers, which is checked first.

The join multiplies points by a card's payments in 30 days, which ours does not: the number of payments per card
decides. At 5,000 the join gets a fifth of the events, lest it take minutes, and `rangeBetween` by default a hundredth.
By CPU time, since others used the machine, for 0.2 M events, the last of two or three rounds: with 250 payments per
card the join took 1.2 times as long as ours and the segment tree 7 times; with 5,000 the join 9.9 times and the segment
tree 2.9 times. For 1 M events with 250 per card the join took 11.1 s, ours 7.1 s, and 5.0 s without the search for long
keys, which has since become one count of a sample.

Where our time goes, for 0.4 M events: reading both, grouping and sorting them, by Spark alone, took 1.8 s of CPU time;
with rows as Arrow for Python that drops them 1.8 to 2.1 s; with the answers 1.9 to 2.6 s. Python takes 0.15 us per row
of that (1.1 M rows in one process), of 5: a third of it was sorting rows that Spark had already sorted, until that was
skipped. So there is little to gain except from a faster shuffle. Sorting by card alone in Spark, which is faster by its
radix sort, and by time in Python was not tried.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import OURS, Figure, Timing, check_equal
from spark_streaming import session

from muntin import Query, agg, window

BEGIN = 1_700_000_000_000_000
DAY = 86_400 * 10**6
LENGTHS = {"hour": DAY // 24, "six": DAY // 4, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
QUERY = Query(
    {name: window.trailing(f"{length // 10**6} seconds", closed="left") for name, length in LENGTHS.items()},
    {"n": agg.count(), "spent": agg.sum("v"), "high": agg.max("v"), "mean": agg.mean("v")},
    key="card",
)
TREE = "spark.sql.window.segmentTree.enabled"
PATIENCE = 30
"""An entrant that takes longer, in seconds, is run once."""


@dataclass(frozen=True)
class Case:
    """The amount of data, and the target speed relative to some of Spark's ways."""

    events: int
    of_card: int
    """The payments of each card, over the whole time."""
    targets: Mapping[str, float]

    @property
    def points(self) -> int:
        """One for every ten payments."""
        return self.events // 10

    def of(self, share: int) -> Case:
        """Return the same with fewer cards."""
        return replace(self, events=max(self.of_card, self.events // share))


TREE_FRAMES = "rangeBetween, segment tree"
CASES = (
    Case(5_000_000, 5_000, {TREE_FRAMES: 2}),
    Case(1_000_000, 5_000, {"range join": 10}),
    Case(1_000_000, 250, {"range join": 10, TREE_FRAMES: 2}),
    Case(50_000, 5_000, {"rangeBetween": 2}),
)


def generate(where: Path, case: Case) -> None:
    """Write payments and points."""
    where.mkdir()
    cards = case.events // case.of_card
    write(where / "events", case.events, cards, 1)
    write(where / "points", case.points, cards, 2)


def write(where: Path, count: int, cards: int, seed: int) -> None:
    """Write payments, or points, in time order."""
    chance = np.random.default_rng(seed)
    times = BEGIN + np.sort(chance.integers(0, 90 * DAY, count))
    amounts = {"v": chance.integers(0, 1000, count) / 4} if seed == 1 else {"i": np.arange(count)}
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": stamps, "card": chance.integers(0, cards, count), **amounts})
    pq.write_table(table, where, row_group_size=250_000)


class Ways:
    """The same query in four ways over the same files."""

    def __init__(self, spark: Any, where: Path) -> None:
        self.spark = spark
        self.events, self.points = (spark.read.parquet(str(where / name)) for name in ("events", "points"))

    def ours(self) -> Any:
        return QUERY.over(self.events, at=self.points)

    def joined(self) -> Any:
        """Points joined with the payments of the longest window; each aggregate takes those in its own."""
        from pyspark.sql import functions as F

        points = self.points.select("i", "card", F.unix_micros("ts").alias("at"))
        events = self.events.select(F.col("card").alias("its_card"), F.unix_micros("ts").alias("t"), "v")
        longest = max(LENGTHS.values())
        near = (F.col("card") == F.col("its_card")) & (F.col("t") < F.col("at")) & (F.col("t") >= F.col("at") - longest)
        columns = []
        for name, length in LENGTHS.items():
            value = F.when(F.col("t") >= F.col("at") - length, F.col("v"))
            columns += [
                F.count(value).alias(f"n_{name}"),
                F.sum(value).alias(f"spent_{name}"),
                F.max(value).alias(f"high_{name}"),
                F.avg(value).alias(f"mean_{name}"),
            ]
        return points.join(events, near, "left").groupBy("i", "card", "at").agg(*columns)

    def framed(self, tree: bool) -> Any:
        """Both sorted together, one frame per window; then the points."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        self.spark.conf.set(TREE, str(tree).lower())
        events = self.events.select("card", F.unix_micros("ts").alias("t"), "v", F.lit(None).cast("long").alias("i"))
        points = self.points.select(
            "card", F.unix_micros("ts").alias("t"), F.lit(None).cast("double").alias("v"), F.col("i")
        )
        columns = []
        for name, length in LENGTHS.items():
            frame = Window.partitionBy("card").orderBy("t").rangeBetween(-length, -1)
            columns += [
                F.count("v").over(frame).alias(f"n_{name}"),
                F.sum("v").over(frame).alias(f"spent_{name}"),
                F.max("v").over(frame).alias(f"high_{name}"),
                F.avg("v").over(frame).alias(f"mean_{name}"),
            ]
        return events.unionByName(points).select("i", *columns).where(F.col("i").isNotNull())

    def some(self, rivals: Iterable[str]) -> dict[str, Any]:
        """Return functions that create the DataFrames of some ways; ours is the first."""
        ways = {
            OURS: self.ours,
            "range join": self.joined,
            "rangeBetween": lambda: self.framed(False),
            TREE_FRAMES: lambda: self.framed(True),
        }
        return {name: ways[name] for name in (OURS, *rivals)}


def seconds(frame: Any) -> float:
    begin = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def check(ways: Mapping[str, Any]) -> None:
    """Reject ways that disagree."""
    found = {name: make().orderBy("i").toPandas() for name, make in ways.items()}
    for name, frame in found.items():
        for column in found[OURS].columns[3:]:
            check_equal(found[OURS][column].astype(float), frame[column].astype(float), f"{name}: {column}")


def compare(ways: Mapping[str, Any], rounds: int) -> dict[str, Timing]:
    """Return the seconds of each way, in turns; of a slow one once."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, make in ways.items():
            if max(taken[name], default=0) < PATIENCE:
                taken[name].append(seconds(make))
    return {name: Timing(statistics.median(each), min(each)) for name, each in taken.items()}


def run(quick: bool) -> Iterator[Figure]:
    """Yield our speed relative to each of Spark's ways."""
    spark = session(2)
    for given in CASES:
        case = given.of(10) if quick else given
        with tempfile.TemporaryDirectory() as made:
            where = Path(made)
            generate(where / "all", case)
            generate(where / "few", case.of(50))
            check(Ways(spark, where / "few").some(case.targets))
            times = compare(Ways(spark, where / "all").some(case.targets), 1 if quick else 2)
        each = {name: Timing(t.median * 1e9 / case.events, t.best * 1e9 / case.events) for name, t in times.items()}
        size = f"{case.events / 1e6:g} M events x {case.points / 1e6:g} M points x 5 windows, {case.of_card:,} a card"
        for rival, target in case.targets.items():
            value = each[rival].median / each[OURS].median
            beside = {OURS: each[OURS], rival: each[rival]}
            yield Figure("spark_over", f"{size}, over Spark's {rival}", value, target, True, "x", beside)
