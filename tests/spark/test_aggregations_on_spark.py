"""Aggregations whose way through Spark is their own: `where=`, in batch, in Spark's own operators and on streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.feed import Feed
from spark.test_batch import listed

import muntin.spark
from muntin import Query, agg, rows, window

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "k": pa.string(),
        "v": pa.float64(),
        "paid": pa.bool_(),
        "big": pa.bool_(),
        "text": pa.string(),
    }
)
PAID = {
    "n": agg.count(),
    "paid": agg.count(where="paid"),
    "high": agg.max("v", where="paid"),
    "mean": agg.mean("v", where="big"),
    "total": agg.sum("v"),
}
"""What Spark's own operators can answer."""
DISTINCT = {"values": agg.count_distinct("v"), "days": agg.count_distinct("ts"), "texts": agg.count_distinct("text")}
MORE = {
    **PAID,
    **DISTINCT,
    "all": agg.collect("v", where="paid"),
    "median": agg.median("v", where="big"),
    "std": agg.std("v"),
    "recent": agg.ewm_mean("v", half_life="30s"),
    "level": agg.time_weighted_mean("v"),
}


def table(count: int = 200) -> pa.Table:
    chance = np.random.default_rng(11)
    columns = {
        "ts": pa.array(np.sort(chance.integers(0, 600, count)) * 1_000_000),
        "k": pa.array([f"k{i}" for i in chance.integers(0, 3, count)]),
        "v": pa.array(chance.integers(-9, 9, count) / 4, mask=chance.random(count) < 0.1),
        "paid": pa.array(chance.random(count) < 0.5, mask=chance.random(count) < 0.2),
        "big": pa.array(chance.random(count) < 0.1),
        "text": pa.array([f"t{i}" for i in chance.integers(0, 9, count)]),
    }
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], SCHEMA)


@pytest.mark.parametrize("path", ["native", "python"])
def test_batch(session: Any, path: str) -> None:
    query = Query(window.sliding("1min", every="15s"), PAID if path == "native" else MORE, key="k")
    assert listed(query.spark(session.createDataFrame(table()), path=path).toArrow()) == listed(query.run(table()))


def test_distinct_values_are_those_of_spark(session: Any) -> None:
    from pyspark.sql import functions as F

    query = Query(window.tumbling("1min"), DISTINCT, key="k")
    counts = [F.countDistinct(name).alias(f"c{i}") for i, name in enumerate(("v", "ts", "text"))]
    odd = table(20).set_column(2, "v", pa.array([0.0, -0.0, float("nan"), float("nan"), None] * 4))
    data = pa.concat_tables([table(), odd])
    native = session.createDataFrame(data).groupBy("k", F.window("ts", "1 minute").alias("w")).agg(*counts).collect()
    theirs = {(r.k, r.w.start.replace(tzinfo=None)): (r.c0, r.c1, r.c2) for r in native}
    ours = {
        (r["k"], r["window"]["start"].replace(tzinfo=None)): tuple(r[name] for name in DISTINCT)
        for r in query.spark(session.createDataFrame(data)).toArrow().to_pylist()
    }
    assert ours == theirs


def test_stream(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    data = table()
    for low, high in ((0, 70), (70, 140), (140, 200)):
        feed.add(data.slice(low, high - low))
    query = Query([window.tumbling("1min"), window.trailing(rows(5))], MORE, key="k", watermark="10s")
    answers = pa.concat_tables(feed.run(query))
    stream = query.stream()
    assert listed(answers) == listed(stream.push(data))
    assert muntin.spark.progress(feed.query).rows == 200
