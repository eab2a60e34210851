"""`idle_timeout` on Spark: without rows the watermark goes on with the clock, by Spark's timers of processing time."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle
from queries.test_stream import same
from sampling import examples
from spark.feed import Feed
from spark.model import Expected, Machine
from waiting import until

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark import memory
from muntin.types import column_type

SECOND = 1_000_000
BEGIN = 1_700_000_000 * SECOND
SCHEMA = pa.schema({"t": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.int64()})
WINDOWS = [
    [window.tumbling("10 seconds"), window.session("4 seconds")],
    [window.sliding("20 seconds", every="5 seconds"), window.trailing("9 seconds")],
    [window.tumbling(rows(3)), window.leading("6 seconds")],
]
KINDS = {"sums": {"n": agg.count(), "total": agg.sum("v")}, "rows": {"n": agg.count(), "all": agg.collect("v")}}
BATCHES = st.lists(
    st.tuples(st.integers(0, 12), st.lists(st.tuples(st.integers(-14, 8), st.sampled_from("abcd")), max_size=5)),
    min_size=3,
    max_size=12,
)
"""How many seconds after the one before a batch begins, and its rows: times around that of the clock, and keys."""


@given(data=st.data())
@settings(max_examples=examples(24))
def test_the_parts(data: st.DataObject) -> None:
    """Batch by batch what the oracle says whose watermark goes on with the clock; all buckets have the same one."""
    kinds = data.draw(st.sampled_from(sorted(KINDS)))
    query = oracle.Query(
        data.draw(st.sampled_from(WINDOWS)),
        KINDS[kinds],
        key=data.draw(st.sampled_from([(), ("k",)])),
        time_type=column_type(SCHEMA.field("t").type),
        watermark="3 seconds",
        allowed_lateness=data.draw(st.sampled_from(["0 seconds", "6 seconds"])),
        emit_empty=data.draw(st.booleans()),
        idle_timeout="5 seconds",
    )
    buckets, sliced = data.draw(st.integers(1, 4)), kinds == "sums" and data.draw(st.booleans())
    machine, expected = Machine(query, SCHEMA, buckets, sliced=sliced), Expected(query, 5 * SECOND)
    now, number = BEGIN, 0
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr("muntin.spark.cutter._FEW", 0)
        patch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(data.draw(st.sampled_from([0, 1 << 20]))))
        for passed, drawn in data.draw(BATCHES):
            now += passed * SECOND + 1000  # each batch begins after the one before
            batch = [{"t": now + at * SECOND, "k": key, "v": number + i} for i, (at, key) in enumerate(drawn)]
            number += len(batch)
            machine.now, told = now // 1000, machine.ticks()
            assert same(machine.batch(batch), expected.batch(batch, told, now))
    assert machine.counts["dropped"] == len(expected.stream.late)
    if not sliced:
        assert sorted(map(repr, machine.lost)) == sorted(map(repr, expected.stream.late))


def test_buckets_wait_until_the_stream_is_idle() -> None:
    """One batch after rows they are told the watermark of these; then they are called when the wait is over."""
    kind = column_type(SCHEMA.field("t").type)
    query = oracle.Query([window.tumbling("10 seconds")], {"n": agg.count()}, time_type=kind, idle_timeout="5 seconds")
    machine = Machine(query, SCHEMA, 1)
    seen = []
    with uncompiled():
        for millis in (0, 100, 200, 5000, 6000):
            machine.now = BEGIN // 1000 + millis
            said = machine.batch([] if millis else [{"t": BEGIN + 4 * SECOND, "k": "a", "v": 1}])
            (timers,) = machine.store.timers.values()
            seen.append((len(said), *(timer - BEGIN // 1000 for timer in timers)))
    # By the clock the row came at 0, and its window ends six seconds after it.
    assert seen == [(0, 1), (0, 5000), (0, 5000), (0, 5001), (1, 6001)]


def test_on_spark(session: Any, tmp_path: Path) -> None:
    """No row comes after the first two, and yet their window does; a row behind that is late, whatever its key."""
    feed = Feed(session, tmp_path, SCHEMA)
    begin = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
    feed.add([{"t": begin, "k": key, "v": 1} for key in "ab"])
    query = Query(window.tumbling("1 second"), {"n": agg.count()}, key="k", time="t", idle_timeout="1 millisecond")
    found: list[dict[str, Any]] = []
    writer = query.spark(feed.frame(), buckets=2, late=True).writeStream
    writer = writer.foreachBatch(lambda batch, number: found.extend(batch.toArrow().to_pylist()))
    running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        until(lambda: len(found) >= 2 or running.exception() is not None)
        feed.add([{"t": begin, "k": "c", "v": 1}])
        until(lambda: len(found) >= 3 or running.exception() is not None)
    finally:
        running.stop()
    with pytest.raises(UnsupportedOperationError, match="has an idle_timeout, '1 millisecond', and so timers"):
        muntin.spark.rescale(tmp_path / "checkpoint", tmp_path / "wider", buckets=4, session=session)
    assert sorted((row["k"] or row["late"]["k"], row["n"]) for row in found) == [("a", 1), ("b", 1), ("c", None)]
