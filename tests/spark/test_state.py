"""`muntin.spark.state`: what a checkpoint holds is what the stream that wrote it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

import muntin
import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import InvalidArgumentError, SnapshotError
from muntin.kernels.cache import uncompiled
from muntin.streams.contents import as_key, key_types, of_key, totals
from muntin.streams.driven import DrivenStream

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.float64()})
TABLE = pa.table({"t": [1, 2, 8, 9, 14, 15, 16], "k": [*"ababa", None, "a"], "v": [1.0] * 7}).cast(SCHEMA)
QUERIES = {
    "slices": Query([window.sliding(10, every=5), window.session(3)], {"n": agg.max("v")}, key="k", time="t"),
    "slices that keep rows": Query(
        window.sliding(10, every=5), {"n": agg.collect("v"), "m": agg.max("v")}, key="k", time="t"
    ),
    "rows": Query([window.tumbling(rows(3)), window.trailing(10)], {"n": agg.collect("v")}, key="k", time="t"),
    "tiles": Query(window.trailing(100, hop=10), {"n": agg.sum("v")}, key="k", time="t", allowed_lateness=9),
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_a_snapshot_holds(name: str) -> None:
    """Counts are those of the stream, and all keys together hold what there is."""
    with uncompiled():
        stream = DrivenStream(QUERIES[name], SCHEMA)
        stream.take(TABLE)
        stream.set_watermark(9)
        stream.emit()
        snapshot, metrics = stream.save(), stream.metrics()
        found = totals({each: len(array) for each, array in snapshot.arrays.items()})
        assert {**found, "emitted": 0} == {
            **{each: metrics[each] for each in ("keys", "slices")},
            "rows": metrics["kept"],
            "emitted": 0,
        }
        types = key_types(snapshot)
        by_key = [of_key(snapshot, as_key(key, types)) for key in ("a", "b", None, "unknown")]
    for each in ("slices", "rows", "emitted"):
        assert sum(counts[each] for counts, _ in by_key) == found[each]
    assert by_key[-1][0] == {"slices": 0, "rows": 0, "emitted": 0}
    if name == "slices":
        assert by_key[0][1].select(["start", "end", "windows"]).to_pylist()[0] == {
            "start": 0,
            "end": 5,
            "windows": [0, 1],
        }


def test_what_is_no_key() -> None:
    with pytest.raises(InvalidArgumentError, match="key is 'a', 1 values, and the key columns are 'k', 'j'"):
        as_key("a", {"k": pa.string(), "j": pa.int64()})
    with pytest.raises(InvalidArgumentError, match="key is 'a', and the key columns are j int64"):
        as_key("a", {"j": pa.int64()})


def test_a_checkpoint(session: Any, tmp_path: Path) -> None:
    """Of a stream that began on a history, which a restart does not read again, and whose words `upsert` keeps."""
    query = Query(
        window.sliding(10, every=5), {"n": agg.count(), "all": agg.collect("v")}, key="k", time="t", allowed_lateness=9
    )
    feed = Feed(session, tmp_path, SCHEMA)
    path, place = str(tmp_path / "checkpoint"), tmp_path / "last"
    with pytest.raises(SnapshotError):
        muntin.spark.state(path)
    history, *pushes = TABLE.slice(0, 3), TABLE.slice(3, 2), TABLE.slice(5)
    for push in pushes:
        feed.add(push)
        answers = query.spark(feed.frame(), history=session.createDataFrame(history), buckets=3)
        writer = answers.writeStream.option("checkpointLocation", path).trigger(availableNow=True)
        running = writer.foreachBatch(lambda batch, number: muntin.spark.upsert(batch, place)).start()
        running.awaitTermination()
        assert json.loads((place / "_muntin_upsert").read_text()) == {"query": str(running.id)}
    with uncompiled():
        stream = query.stream(history=history)
        last = muntin.latest(pa.concat_tables([stream.push(push) for push in pushes]))
        metrics = stream.metrics()
    assert listed(session.read.parquet(str(place)).toArrow()) == listed(last)

    found = muntin.spark.state(path)
    assert (found.buckets, found.version, found.watermark) == (3, 3, 16)
    assert found.query["key"] == "k"
    assert found.query["window 0"] == "window.sliding(10, every=5)"
    sums = {name: sum(found.held[name].to_pylist()) for name in ("keys", "slices", "rows")}
    assert sums == {"keys": 3, "slices": metrics["slices"], "rows": metrics["kept"]}
    assert "watermark 16" in str(found)
    of_a = muntin.spark.state(path, key="a")
    assert of_a.slices is not None
    assert of_a.slices.select(["start", "end", "rows"]).to_pylist()[-1] == {"start": 15, "end": 20, "rows": 1}
    assert of_a.held["slices"].to_pylist() == [of_a.slices.num_rows]


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))
