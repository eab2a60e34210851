"""Lists, histograms and aggregates by a second column on Spark: batches, streams, frames, and the types of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from spark.feed import Feed
from spark.test_batch import listed

from muntin import Query, agg, window

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "shop": pa.string(),
        "product": pa.string(),
        "amount": pa.int64(),
        "price": pa.float64(),
    }
)
ASKED = {
    "last": agg.last_k("product", 2),
    "first": agg.first_k("amount", 2),
    "least": agg.bottom_k("price", 2),
    "mode": agg.mode("product"),
    "bins": agg.histogram("price", edges=[0.5, 1.5]),
    "top": agg.per("product", agg.sum("amount"), top=2),
    "means": agg.per("product", agg.mean("price")),
    "medians": agg.per("product", agg.median("price"), top=1),
    "names": agg.per("amount", agg.concat("product", "+"), top=1),
}
SECOND = 1_000_000


def table(count: int = 120) -> pa.Table:
    chance = np.random.default_rng(3)
    names = np.array(["tea", "jam", "rye", "oil"])[chance.integers(0, 4, count)]
    columns = [
        pa.array(np.sort(chance.choice(600, count, replace=False)) * SECOND),
        pa.array(np.array(["n", "s"])[chance.integers(0, 2, count)]),
        pa.array(names, mask=chance.random(count) < 0.1),
        pa.array(chance.integers(0, 5, count), mask=chance.random(count) < 0.1),
        pa.array(chance.integers(0, 9, count) / 4, mask=chance.random(count) < 0.1),
    ]
    return pa.table([column.cast(field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def test_batch_and_over(session: Any) -> None:
    query = Query([window.sliding("2min", every="1min"), window.tumbling("5min")], ASKED, key="shop", time="ts")
    frame = session.createDataFrame(table())
    answers = query.spark(frame)
    assert answers.schema["top"].dataType.simpleString() == "array<struct<value:string,result:bigint>>"
    assert answers.schema["bins"].dataType.simpleString() == "array<bigint>"
    assert answers.schema["names"].dataType.simpleString() == "array<struct<value:bigint,result:string>>"
    assert listed(answers.toArrow()) == listed(query.run(table()))
    beside = Query(window.trailing("2min"), ASKED, key="shop", time="ts")
    assert listed(beside.over(frame).toArrow()) == listed(beside.over(table()))


def test_stream(session: Any, tmp_path: Path) -> None:
    """Over several batches, with states in Spark's store between them."""
    feed = Feed(session, tmp_path, SCHEMA)
    data = table()
    for low, high in ((0, 40), (40, 80), (80, 120)):
        feed.add(data.slice(low, high - low))
    windows = [window.sliding("2min", every="1min"), window.trailing("3min"), window.session("20s")]
    query = Query(windows, ASKED, key="shop", time="ts", watermark="10s")
    answers = pa.concat_tables(feed.run(query))
    assert listed(answers) == listed(query.stream().push(data))


def test_top_products_of_a_stream_without_key(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    data = table()
    feed.add(data)
    top = {"top": agg.per("product", agg.sum("amount"), top=3)}
    query = Query(window.sliding("5min", every="1min"), top, time="ts", watermark="10s")
    assert listed(pa.concat_tables(feed.run(query))) == listed(query.stream().push(data))
