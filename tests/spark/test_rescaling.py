"""`muntin.spark.rescale`: a checkpoint goes on with more buckets, and with fewer, as if nothing had happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.feed import Feed

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark import rescaling
from muntin.spark.checkpoint import saved_facts
from muntin.streams.driven import DrivenStream

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.int32(), "j": pa.string(), "v": pa.float64()})
QUERY = Query(
    [window.sliding(20, every=5), window.session(3), window.tumbling(rows(4)), window.trailing(10)],
    {"n": agg.count(), "all": agg.collect("v"), "median": agg.median("v")},
    key=["k", "j"],
    time="t",
    watermark=4,
    allowed_lateness=10,
)


def batches(count: int, seed: int) -> list[pa.Table]:
    """Return rows about in the order of time, some late, some too late, some without a part of the key."""
    chance = np.random.default_rng(seed)
    found = []
    for number in range(count):
        times = np.sort(chance.integers(number * 12, number * 12 + 14, 40))
        times -= chance.integers(0, 18, 40) * (chance.random(40) < 0.2)
        names = chance.choice(["a", "b", None], 40).tolist()
        columns = [times, chance.integers(0, 6, 40), names, chance.integers(0, 9, 40) / 2]
        found.append(pa.table([pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA))
    return found


def test_more_buckets_and_fewer(session: Any, tmp_path: Path) -> None:
    """Answers, revisions included, are those of a stream that was not interrupted, in each run between.

    A restart has as many buckets as its checkpoint, whatever the session would have.
    """
    feed = Feed(session, tmp_path, SCHEMA)
    path = str(tmp_path / "0")
    assert saved_facts(session, path) is None
    with uncompiled():
        stream = DrivenStream(QUERY, SCHEMA)
    latest, found = -1, []
    for step, (buckets, table) in enumerate(zip((3, 12, 2), batches(3, seed=3), strict=True)):
        if step:
            session.conf.set("spark.sql.shuffle.partitions", str(step))  # one, and then two again
            path = str(tmp_path / str(step))
            muntin.spark.rescale(tmp_path / str(step - 1), path, buckets=buckets, session=session)
            session.conf.set("spark.sql.shuffle.partitions", "2")
            assert (saved_facts(session, path) or {})["buckets"] == str(buckets)
        feed.add(table)
        options: dict[str, Any] = {"checkpoint": path} if step else {"buckets": buckets}
        answers = feed.collect(QUERY.spark(feed.frame(), **options), "update", checkpoint=str(step))
        with uncompiled():
            wanted = [*driven(stream, latest, table)]
            latest = max(latest, *table["t"].to_pylist())
            wanted += driven(stream, latest, table.slice(0, 0))
        assert listed(pa.concat_tables(answers)) == listed(pa.concat_tables(wanted)), buckets
        found += wanted
    whole = pa.concat_tables(found)
    assert max(whole["revision"].to_pylist()) > 0
    assert any(whole["retracted"].to_pylist())
    facts = saved_facts(session, path)
    assert facts is not None
    assert (facts["key"], facts["window 1"]) == ("k, j", "window.session(3)")


def driven(stream: DrivenStream, latest: int, table: pa.Table) -> Iterator[pa.Table]:
    """Yield what a micro-batch answers: by the watermark that those before it have brought about."""
    if latest >= 0:
        stream.set_watermark(latest - 4)
        yield stream.emit()
    stream.take(table)
    if latest >= 0:
        yield stream.emit()


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_what_cannot_be_rescaled(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    checkpoint, target = tmp_path / "checkpoint", tmp_path / "target"
    with pytest.raises(SnapshotError, match="holds nothing: no batch has been committed"):
        muntin.spark.rescale(checkpoint, target, buckets=8)
    with pytest.raises(InvalidArgumentError, match="buckets is 0; give a number from 1 to 32768"):
        muntin.spark.rescale(checkpoint, target, buckets=0)
    with pytest.raises(InvalidArgumentError, match="target is '.*', which is there already"):
        muntin.spark.rescale(checkpoint, tmp_path / "in", buckets=8)
    feed.add(batches(1, seed=0)[0])
    feed.run(Query(window.tumbling(5), {"n": agg.count()}, time="t"))
    with pytest.raises(UnsupportedOperationError, match="has no key, and so one bucket"):
        muntin.spark.rescale(checkpoint, target, buckets=8)
    assert not target.exists()


@pytest.mark.parametrize("moment", ["_divide", "_graft"])
def test_a_running_query_is_refused(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """One of this session by its id, any other by the batch that it commits meanwhile; the target is not left."""
    feed, query = Feed(session, tmp_path, SCHEMA), Query(window.tumbling(5), {"n": agg.count()}, key="k", time="t")
    checkpoint, target = tmp_path / "checkpoint", tmp_path / "target"
    mine = tmp_path / "target.begin"
    mine.mkdir()
    usual = getattr(rescaling, moment)
    first, second = batches(2, seed=0)
    feed.add(first)
    feed.run(query)

    def meanwhile(*given: Any) -> None:
        usual(*given)
        feed.add(second)
        feed.run(query)

    with monkeypatch.context() as patch:
        patch.setattr(rescaling, moment, meanwhile)
        with pytest.raises(InvalidArgumentError, match="checkpoint' is running: stop it first"):
            muntin.spark.rescale(checkpoint, target, buckets=8)
    assert sorted(each.name for each in tmp_path.iterdir() if "target" in each.name or "muntin" in each.name) == [
        "target.begin"
    ]
    answers = query.spark(feed.frame(), checkpoint=str(checkpoint)).writeStream.format("noop").outputMode("update")
    running = answers.option("checkpointLocation", str(checkpoint)).start()
    try:
        with pytest.raises(InvalidArgumentError, match="checkpoint' is running: stop it first"):
            muntin.spark.rescale(checkpoint, target, buckets=8)
    finally:
        running.stop()
    muntin.spark.rescale(checkpoint, target, buckets=8)
    assert (saved_facts(session, str(target)) or {})["buckets"] == "8"
    assert mine.exists()
