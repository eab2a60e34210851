"""Calendar windows on Spark: as streams and as batches, beside Spark's own `date_trunc` in the same zone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.feed import Feed

from muntin import Query, agg, window

ROWS = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "v": pa.float64()})
UNITS = ("day", "week", "month", "quarter", "year")


def hours(count: int) -> pa.Table:
    """Return rows at full hours from 1955 on, over many clock changes: before, Berlin has seen midnight twice."""
    chance = np.random.default_rng(5)
    times = -470_000_000 // 3600 * 3600 + np.sort(chance.integers(0, 2_500_000_000 // 3600, count)) * 3600
    columns = [pa.array(times * 1_000_000), pa.array(chance.integers(0, 3, count)), pa.array(chance.normal(size=count))]
    return pa.table([each.cast(field.type) for each, field in zip(columns, ROWS, strict=True)], ROWS)


def windows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((r["window_id"], r["k"], *r["window"].values(), r["n"]) for r in table.to_pylist())


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Sao_Paulo"])
def test_batch_is_date_trunc(session: Any, zone: str) -> None:
    from pyspark.sql import functions as F

    table = hours(400)
    frame = session.createDataFrame(table)
    query = Query([window.calendar(f"1 {unit}", zone=zone) for unit in UNITS], {"n": agg.count()}, key="k")
    found = query.spark(frame).toArrow()
    assert windows(found) == windows(query.run(table))
    session.conf.set("spark.sql.session.timeZone", zone)
    try:
        starts = [F.unix_micros(F.date_trunc(unit, "ts")).alias(unit) for unit in UNITS]
        truncated = frame.select("k", *starts).toArrow()
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    expected = Counter(
        (i, k, start)
        for i, unit in enumerate(UNITS)
        for k, start in zip(*(truncated[c].to_pylist() for c in ("k", unit)), strict=True)
    )
    ours = found["window"].combine_chunks().field("start").cast(pa.int64()).to_pylist()
    keys = zip(found["window_id"].to_pylist(), found["k"].to_pylist(), ours, strict=True)
    assert dict(zip(keys, found["n"].to_pylist(), strict=True)) == expected


def test_stream(session: Any, tmp_path: Path) -> None:
    table = hours(300).filter(pa.compute.greater(pa.compute.field("ts"), pa.scalar(0, pa.timestamp("us", "UTC"))))
    feed = Feed(session, tmp_path, ROWS)
    for i in range(3):
        feed.add(table.slice(i * 30, 30) if i < 2 else table.slice(60))
    query = Query(window.calendar("1 month", zone="Europe/Berlin"), {"n": agg.count()}, key="k", time="ts")
    found = pa.concat_tables(feed.run(query))
    run = query.run(table)
    last = table["ts"].to_pylist()[-1]
    closed = [each for each in windows(run) if each[3] <= last]
    assert windows(found) == closed
    assert len(closed) > 50


def test_zones_of_rows(session: Any, tmp_path: Path) -> None:
    """As a batch and as a stream: each row by the clock that it names; those that name none are late."""
    table = hours(300).filter(pa.compute.greater(pa.compute.field("ts"), pa.scalar(0, pa.timestamp("us", "UTC"))))
    names = ["Europe/Berlin", "America/Sao_Paulo", "Europe/Paris", None]
    zones = pa.array([names[i] for i in np.random.default_rng(7).integers(0, 4, len(table))])
    table = table.append_column("zone", zones)
    query = Query(window.calendar("1 month", zone_column="zone"), {"n": agg.count()}, key="k", time="ts")
    run = query.run(table)
    assert windows(query.spark(session.createDataFrame(table)).toArrow()) == windows(run)
    feed = Feed(session, tmp_path, table.schema)
    for i in range(3):
        feed.add(table.slice(i * 30, 30) if i < 2 else table.slice(60))
    found = pa.concat_tables(feed.run(query))
    last = table["ts"].to_pylist()[-1]
    closed = [each for each in windows(run) if each[3] <= last]
    assert windows(found) == closed
    assert len(closed) > 50
