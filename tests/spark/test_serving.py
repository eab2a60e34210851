"""`q.spark(frame, serve=url)` on Spark itself: what its tasks publish is what `over(at=)` says of committed batches."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

import muntin
import muntin.spark
from muntin import Query, agg, window
from muntin.errors import UnsupportedOperationError

SCHEMA = pa.schema({"t": pa.timestamp("us"), "card": pa.string(), "amount": pa.int64()})
QUERY = Query(
    {"hour": window.trailing("1 hour"), "day": window.trailing("1 day", hop="10 minutes")},
    {"n": agg.count(), "spent": agg.sum("amount")},
    key="card",
    time="t",
    watermark="5 minutes",
)
MINUTE = 60_000_000


def rows_of(number: int, cards: int = 20) -> pa.Table:
    """Return some rows of each card, ten minutes after those of the number before."""
    begin = number * 10 * MINUTE
    cells = [(begin + i * MINUTE // 4, f"card {(i * 7 + number) % cards}", i * number % 11) for i in range(2 * cards)]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*cells, strict=True), SCHEMA.types, strict=True)]
    return pa.table(columns, SCHEMA)


def points_at(micros: int, cards: int = 22) -> pa.Table:
    times = pa.array([micros] * cards, pa.timestamp("us"))
    return pa.table({"card": [f"card {i}" for i in range(cards)], "t": times})


@pytest.mark.connect
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_streaming_query_publishes(kind: str, session: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path / 'features.db'}" if kind == "sqlite" else request.getfixturevalue(kind).url
    feed, came = Feed(session, tmp_path, SCHEMA), []
    for number in range(6):
        came.append(rows_of(number))
        feed.add(came[-1])
        if number in (0, 2, 3):
            continue  # two or three batches a run
        feed.run(QUERY, serve=url, buckets=2)
        with muntin.serving.open(url, QUERY) as served:
            assert served.watermark is not None
            for ahead in (0, 1, 40):
                points = points_at(served.watermark + ahead * MINUTE)
                assert served.ask(points) == QUERY.over(pa.concat_tables(came), at=points)
    muntin.serving.delete(url, QUERY)


def test_a_history_is_published_and_a_new_checkpoint_begins_anew(session: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'features.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, of pandas
        history = session.createDataFrame(rows_of(0).to_pandas(), Feed(session, tmp_path, SCHEMA).spark_schema)
    for name in ("one", "other"):
        feed = Feed(session, tmp_path / name, SCHEMA)
        feed.add(rows_of(1))
        feed.run(QUERY, serve=url, history=history, buckets=2)
        with muntin.serving.open(url, QUERY) as served:
            points = points_at(served.watermark)
            assert served.ask(points) == QUERY.over(pa.concat_tables([rows_of(0), rows_of(1)]), at=points)
        progress = muntin.spark.progress(feed.query)
        assert progress.published >= 20
        assert progress.published_bytes > 1000


def test_what_cannot_be_served(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    url = f"sqlite:///{tmp_path / 'features.db'}"
    with pytest.raises(UnsupportedOperationError, match="serve= is for frames"):
        replace(QUERY, windows=window.tumbling("1 hour")).spark(feed.frame(), serve=url)
    with pytest.raises(UnsupportedOperationError, match="time=None"):
        replace(QUERY, time=None).spark(feed.frame(), serve=url)
    with pytest.raises(UnsupportedOperationError, match="serve= is for streaming DataFrames"):
        QUERY.spark(session.createDataFrame(rows_of(0).to_pandas()), serve=url)
    with pytest.raises(muntin.errors.InvalidArgumentError, match="no store of features"):
        QUERY.spark(feed.frame(), serve="features.db")
