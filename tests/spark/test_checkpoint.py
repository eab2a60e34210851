"""Checkpoints: what is read of one before a query goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

from muntin import Query, agg, window
from muntin.errors import SnapshotError, UnsupportedOperationError
from muntin.spark.buckets import default_count
from muntin.spark.checkpoint import saved_buckets, saved_facts
from muntin.spark.explained import default_parallelism

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string()})
QUERY = Query(window.tumbling(4), {"n": agg.count()}, key="k", time="t")


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"t": t, "k": "abc"[t % 3]} for t in range(begin, end)]


def test_a_restart_on_another_cluster(session: Any, tmp_path: Path) -> None:
    """The buckets are those of the checkpoint, whatever the session would have now."""
    feed = Feed(session, tmp_path, SCHEMA)
    path = str(tmp_path / "checkpoint")
    assert saved_buckets(session, path) is None
    feed.add(rows(0, 10))
    answers = feed.run(QUERY, checkpoint=path)
    assert saved_buckets(session, path) == 8
    facts = saved_facts(session, path)
    assert facts is not None
    assert (facts["key"], facts["window 0"]) == ("k", "window.tumbling(4)")
    feed.add(rows(10, 30))
    session.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        assert default_count(default_parallelism(session), 3) == 9  # if nothing were read
        answers += feed.run(QUERY, checkpoint=path)
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "2")
    found = pa.concat_tables(answers)
    table = pa.Table.from_pylist(rows(0, 30), SCHEMA)
    truth = [row for row in QUERY.run(table).to_pylist() if row["window"]["end"] <= 29]
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, truth))


def test_what_is_no_checkpoint(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    feed.add(rows(0, 4))
    feed.collect(feed.frame().dropDuplicates(["k"]))
    path = str(tmp_path / "checkpoint")
    with pytest.raises(SnapshotError, match="is no checkpoint of a query of muntin that can be read"):
        QUERY.spark(feed.frame(), checkpoint=path)
    with pytest.raises(UnsupportedOperationError, match="checkpoint are for streaming DataFrames"):
        QUERY.spark(session.createDataFrame(pa.Table.from_pylist(rows(0, 4), SCHEMA)), checkpoint=path)
