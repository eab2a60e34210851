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
    {"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.float64(), "paid": pa.bool_(), "big": pa.bool_()}
)
PAID = {
    "n": agg.count(),
    "paid": agg.count(where="paid"),
    "high": agg.max("v", where="paid"),
    "mean": agg.mean("v", where="big"),
    "total": agg.sum("v"),
}
"""What Spark's own operators can answer."""
MORE = {**PAID, "all": agg.collect("v", where="paid"), "median": agg.median("v", where="big"), "std": agg.std("v")}


def table(count: int = 200) -> pa.Table:
    chance = np.random.default_rng(11)
    columns = {
        "ts": pa.array(np.sort(chance.integers(0, 600, count)) * 1_000_000),
        "k": pa.array([f"k{i}" for i in chance.integers(0, 3, count)]),
        "v": pa.array(chance.integers(-9, 9, count) / 4, mask=chance.random(count) < 0.1),
        "paid": pa.array(chance.random(count) < 0.5, mask=chance.random(count) < 0.2),
        "big": pa.array(chance.random(count) < 0.1),
    }
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], SCHEMA)


@pytest.mark.parametrize("path", ["native", "python"])
def test_batch(session: Any, path: str) -> None:
    query = Query(window.sliding("1min", every="15s"), PAID if path == "native" else MORE, key="k")
    assert listed(query.spark(session.createDataFrame(table()), path=path).toArrow()) == listed(query.run(table()))


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
