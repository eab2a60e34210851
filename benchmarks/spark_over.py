"""`Query.over(at=points)` on Spark, beside its own ways: a range join, and one `rangeBetween` for each window.

Card payments over 90 days, and points at which features are asked for; count, sum, maximum and mean of the last hour,
six hours, day, week and 30 days, without what has the point's own time. Spark joins points with the payments of 30 days
before them, once for all windows, and aggregates by condition; or it sorts both together and has one `rangeBetween` for
each window, as it is by default and with its segment tree. Parquet in, noop out, `local[2]`, one session, in turns;
ratios are of the medians. All give the same answers, which is checked first.

A card has 250 payments here, of which a point sees 83 at most. The join multiplies points by these: the more a card
has, the longer it takes, which ours does not. With so few the join is the quicker one. On a machine with eight times as
much to do as it has cores, for 2 M events of 8,000 cards and 200,000 points, it took 7 s of processor time, ours 21 s
and `rangeBetween` 36 s (once each; ours without its compilation). The segment tree took 3.6 times as long as ours for
0.5 M events. Most of ours is Spark's: the shuffle, the sort, and rows as Arrow.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import OURS, Figure, Timing, check_equal, rows_for
from spark_streaming import session

from muntin import Query, agg, window

EVENTS, POINTS, CARDS = 5_000_000, 500_000, 20_000
BEGIN = 1_700_000_000_000_000
DAY = 86_400 * 10**6
LENGTHS = {"hour": DAY // 24, "six": DAY // 4, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}
QUERY = Query(
    {name: window.trailing(f"{length // 10**6} seconds", closed="left") for name, length in LENGTHS.items()},
    {"n": agg.count(), "spent": agg.sum("v"), "high": agg.max("v"), "mean": agg.mean("v")},
    key="card",
)
TREE = "spark.sql.window.segmentTree.enabled"
TARGETS = {"range join": 10.0, "rangeBetween": 2.0, "rangeBetween, segment tree": 2.0}


def generate(where: Path, count: int, cards: int, seed: int) -> None:
    """Write payments, or points, in the order of their times."""
    chance = np.random.default_rng(seed)
    times = BEGIN + np.sort(chance.integers(0, 90 * DAY, count))
    amounts = {"v": chance.integers(0, 1000, count) / 4} if seed == 1 else {"i": np.arange(count)}
    stamps = pa.array(times, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": stamps, "card": chance.integers(0, cards, count), **amounts})
    pq.write_table(table, where, row_group_size=250_000)


class Ways:
    """The same question, asked in four ways of the same files."""

    def __init__(self, spark: Any, where: Path) -> None:
        self.spark = spark
        self.events, self.points = (spark.read.parquet(str(where / name)) for name in ("events", "points"))

    def ours(self) -> Any:
        return QUERY.over(self.events, at=self.points)

    def joined(self) -> Any:
        """Points with the payments of the longest window, of which each aggregate takes what is in its own."""
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
        """Both sorted together, one frame for each window; then the points."""
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

    def all(self) -> dict[str, Any]:
        """Return what makes the DataFrame of each way; ours is the first."""
        return {
            OURS: self.ours,
            "range join": self.joined,
            "rangeBetween": lambda: self.framed(False),
            "rangeBetween, segment tree": lambda: self.framed(True),
        }


def seconds(frame: Any) -> float:
    begin = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def check(ways: Ways) -> None:
    """Refuse to time those that disagree."""
    found = {name: make().orderBy("i").toPandas() for name, make in ways.all().items()}
    for name, frame in found.items():
        for column in found[OURS].columns[3:]:
            check_equal(found[OURS][column].astype(float), frame[column].astype(float), f"{name}: {column}")


def run(quick: bool) -> Iterator[Figure]:
    """Yield how many times as fast as each of Spark's ways ours is."""
    events, points, cards = (rows_for(quick, each) for each in (EVENTS, POINTS, CARDS))
    with tempfile.TemporaryDirectory() as made:
        where, spark = Path(made), session(2)
        (where / "few").mkdir()
        for place, share in ((where, 1), (where / "few", 50)):
            generate(place / "events", events // share, max(1, cards // share), 1)
            generate(place / "points", points // share, max(1, cards // share), 2)
        check(Ways(spark, where / "few"))
        ways = Ways(spark, where).all()
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(1 if quick else 3):
            for name, make in ways.items():
                taken[name].append(seconds(make) * 1e9 / events)
        times = {name: Timing(statistics.median(each), min(each)) for name, each in taken.items()}
        what = f"{events / 1e6:g} M events x {points / 1e6:g} M points x 5 windows"
        for rival, target in TARGETS.items():
            value = times[rival].median / times[OURS].median
            beside = {OURS: times[OURS], rival: times[rival]}
            yield Figure("spark_over", f"{what}, over Spark's {rival}", value, target, True, "x", beside)
