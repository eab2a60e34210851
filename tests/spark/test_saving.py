"""Checkpoints that are asked, and copied, while their query runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError, SnapshotError

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64()})
FRAMES = Query(
    {"time": window.trailing(10), "rows": window.trailing(rows(3)), "tiles": window.trailing(40, hop=5)},
    {"n": agg.count(), "total": agg.sum("v"), "all": agg.collect("v")},
    key="k",
    time="t",
    watermark=5,
)
PLAIN = Query(FRAMES.windows, {"n": agg.count(), "total": agg.sum("v")}, key="k", time="t", watermark=5)


def some_rows(begin: int, end: int) -> pa.Table:
    times = list(range(begin, end))
    return pa.table({"t": times, "k": ["abcdefg"[t * t % 7] for t in times], "v": [t % 13 for t in times]})


def test_a_checkpoint_is_asked(session: Any, tmp_path: Path) -> None:
    """As `over(at=)` says of the rows of committed batches; keys that nobody knows hold nothing."""
    feed = Feed(session, tmp_path, SCHEMA)
    path = str(tmp_path / "checkpoint")
    for begin in (0, 40):
        feed.add(some_rows(begin, begin + 40))
    feed.run(PLAIN, buckets=4)
    feed.add(some_rows(80, 90))  # not read yet
    state = muntin.spark.state(path)
    points = {"k": ["a", "nobody", "c", "e", "b"], "t": [79, 80, 85, 79, 90]}
    whole = PLAIN.over(some_rows(0, 80), at=points)
    assert state.ask(points, PLAIN).to_pydict() == whole.to_pydict()
    assert (
        state.ask({"k": ["a"]}, PLAIN).to_pydict()
        == PLAIN.over(some_rows(0, 80), at={"k": ["a"], "t": [79]}).drop_columns("t").to_pydict()
    )
    assert state.ask({"k": ["nobody"]}, PLAIN)["n_time"].to_pylist() == [0]
    frame = state.ask(pa.table(points).to_pandas(), PLAIN)
    assert list(frame["n_rows"]) == whole["n_rows"].to_pylist()
    with pytest.raises(SnapshotError, match="another query"):
        state.ask(points, FRAMES)
    with pytest.raises(InvalidArgumentError, match="let go"):
        state.ask({"k": ["a"], "t": [3]}, PLAIN)


def test_a_savepoint(session: Any, tmp_path: Path) -> None:
    """Of a query that runs: it goes on, and the copy gives the same answers on its own, also to another query."""
    feed = Feed(session, tmp_path, SCHEMA)
    for begin in (0, 40, 80):
        feed.add(some_rows(begin, begin + 40))
    query = Query(window.sliding(20, every=10), {"n": agg.count()}, key="k", time="t", watermark=5)
    writer = query.spark(feed.frame(), buckets=4).writeStream.format("memory").queryName("running")
    running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    running.processAllAvailable()
    last = muntin.spark.savepoint(tmp_path / "checkpoint", tmp_path / "copy")
    assert last >= 2
    feed.add(some_rows(120, 160))
    running.processAllAvailable()
    running.stop()
    with pytest.raises(InvalidArgumentError, match="there already"):
        muntin.spark.savepoint(tmp_path / "checkpoint", tmp_path / "copy")
    with pytest.raises(SnapshotError, match="no batch has been committed"):
        muntin.spark.savepoint(tmp_path / "in", tmp_path / "other")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["checkpoint", "copy", "in"]
    shutil.rmtree(tmp_path / "checkpoint")  # the copy needs nothing of it
    answers = {(r["k"], r["window"]["start"]): r["n"] for r in query.run(some_rows(0, 160)).to_pylist()}
    more = Query(query.windows, {"n": agg.count(), "high": agg.max("v")}, key="k", time="t", watermark=5)
    found = feed.collect(more.spark(feed.frame(), checkpoint=str(tmp_path / "copy"), adopt=True), checkpoint="copy")
    rows = [row for table in found for row in table.to_pylist()]
    assert rows
    for row in rows:
        assert row["n"] == answers[row["k"], row["window"]["start"]]
        assert (row["high"] is None) == (row["window"]["start"] < 120)
    muntin.spark.rescale(tmp_path / "copy", tmp_path / "wider", buckets=8)
    assert muntin.spark.state(str(tmp_path / "wider")).buckets == 8
