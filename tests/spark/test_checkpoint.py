"""Which checkpoints a query resumes from; test_rescaling has more of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.feed import Feed

from muntin import Query, agg, window
from muntin import rows as wide
from muntin.errors import SnapshotError, UnsupportedOperationError

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string()})
QUERY = Query(window.tumbling(4), {"n": agg.count()}, key="k", time="t")


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"t": t, "k": "abc"[t % 3]} for t in range(begin, end)]


def test_what_is_no_checkpoint(session: Any, tmp_path: Path) -> None:
    feed = Feed(session, tmp_path, SCHEMA)
    feed.add(rows(0, 4))
    feed.collect(feed.frame().dropDuplicates(["k"]))
    path = str(tmp_path / "checkpoint")
    with pytest.raises(SnapshotError, match="is no checkpoint of a query of muntin that can be read"):
        QUERY.spark(feed.frame(), checkpoint=path)
    with pytest.raises(UnsupportedOperationError, match="checkpoint are for streaming DataFrames"):
        QUERY.spark(session.createDataFrame(pa.Table.from_pylist(rows(0, 4), SCHEMA)), checkpoint=path)


WINDOWS = [window.sliding("6 seconds", every="2 seconds"), window.session("3 seconds"), window.tumbling(wide(4))]
SOME = {
    "hi": agg.max("v"),
    "lo": agg.min("v"),
    "n": agg.count(),
    "sum": agg.sum("v"),
    "all": agg.collect("v"),
    "mid": agg.median("v"),
    "first": agg.first("v"),
}
TIMED = pa.schema({"t": pa.timestamp("us", tz="UTC"), "k": pa.string(), "v": pa.float64()})


def timed(begin: int, end: int) -> list[dict[str, Any]]:
    return [{"t": t * 1_000_000, "k": "abc"[t % 3], "v": float(t * 7 % 11)} for t in range(begin, end)]


def listed(tables: list[pa.Table]) -> list[str]:
    return sorted(repr(sorted(row.items())) for table in tables for row in table.to_pylist())


@pytest.mark.parametrize("windows", [WINDOWS[:1], WINDOWS], ids=["slices sent", "rows sent"])
def test_a_restart_with_the_aggregates_in_another_order(session: Any, tmp_path: Path, windows: Any) -> None:
    """It answers as if it had never stopped, from the state and from streams that workers still have."""
    aggregates = {name: SOME[name] for name in list(SOME)[: 4 if len(windows) == 1 else None]}
    query = Query(windows, aggregates, key="k", time="t", watermark="2 seconds", allowed_lateness="4 seconds")
    turned = replace(query, aggregates=dict(reversed(aggregates.items())), watermark="2000 ms", allowed_lateness="4s")
    found: dict[str, list[pa.Table]] = {}
    for name, second in (("same", query), ("other", turned)):
        feed = Feed(session, tmp_path / name, TIMED)
        path = str(tmp_path / name / "checkpoint")
        found[name] = []
        for step, asked in enumerate((query, second, query)):
            feed.add(timed(8 * step, 8 * step + 10))
            found[name] += feed.collect(asked.spark(feed.frame(), checkpoint=path, buckets=3), "update")
            assert [each for each in found[name][-1].column_names if each in aggregates] == list(asked.aggregates)
    assert listed(found["other"]) == listed(found["same"])
    assert sum(table.num_rows for table in found["same"]) > 0


def test_a_restart_with_another_query(session: Any, tmp_path: Path) -> None:
    """All differences are in one message: at the head of Spark's error, or before the start if the path is known."""
    from pyspark.errors import PySparkException

    aggregates = {name: SOME[name] for name in ("hi", "lo", "n")}
    query = Query(WINDOWS[:1], aggregates, key="k", time="t", watermark="2 seconds")
    changed = {"hi": agg.min("v"), "n": agg.count(), "sum": agg.sum("v")}
    other = replace(query, aggregates=changed, windows=[window.tumbling("4 seconds")], watermark="3 seconds")
    feed = Feed(session, tmp_path, TIMED)
    feed.add(timed(0, 9))
    feed.run(query, buckets=3)
    wanted = (
        "the checkpoint is of another query: its window 0 is window.sliding('6 seconds', every='2 seconds'), this "
        "one's is window.tumbling('4 seconds'); its aggregate hi is agg.max('v'), this one's is agg.min('v'); its "
        "aggregate sum is none, this one's is agg.sum('v'); its watermark is '2 seconds', this one's is '3 seconds'; "
        "its aggregate lo is agg.min('v'), this one's is none. Go on with the query it was made for, or begin with a "
        "new checkpoint"
    )
    with pytest.raises(SnapshotError) as refused:
        other.spark(feed.frame(), checkpoint=str(tmp_path / "checkpoint"))
    assert str(refused.value) == wanted
    with pytest.raises(SnapshotError, match="its buckets is 3, this one's is 4; pass buckets=3"):
        query.spark(feed.frame(), checkpoint=str(tmp_path / "checkpoint"), buckets=4)
    feed.add(timed(9, 12))
    writer = other.spark(feed.frame(), buckets=3).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(PySparkException) as failed:
        writer.start().awaitTermination()
    text = str(failed.value)
    assert wanted in text
    assert "Traceback" not in text[: text.index(wanted)], text
    assert feed.run(query, buckets=3)  # nothing was changed by either
