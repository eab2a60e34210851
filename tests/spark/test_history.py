"""`q.spark(df, history=...)`: a stream that begins on a history answers what the uninterrupted one goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies, streams
from queries.test_stream import same
from sampling import examples
from spark.feed import Feed
from spark.model import Chunks, Handle, Machine, Value
from spark.test_random import KEYS, SCHEMA

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark import memory
from muntin.spark.processor import Processor


class Begun(Machine):
    """The pipeline without Spark, which can begin on a history."""

    def begin(self, history: list[dict[str, Any]]) -> None:
        usual, self.packer = self.packer, replace(self.packer, tells_all=True)
        batches = self.pack_all(history)
        self.packer = usual
        states = (Value(self.store, name) for name in ("muntin_header", "muntin_query"))
        header, facts = states
        processor = Processor(self.job, Handle(self.store), header, Chunks(self.store, "muntin_chunks"), facts)
        now = SimpleNamespace(getCurrentWatermarkInMs=lambda: 0, getCurrentProcessingTimeInMs=lambda: 0)
        for bucket in {each.bucket for each in batches}:
            mine = [each for each in batches if each.bucket == bucket]
            latest = max(each.clock for each in mine if each.clock is not None)
            self.store.bucket = bucket
            parts = [vars(each) for each in mine[::-1] if each.data is not None]
            processor.begin(bucket, SimpleNamespace(watermark=latest // 1000 - self.delay, parts=parts), now)

    def pack_all(self, history: list[dict[str, Any]]) -> list[Any]:
        """Return what two tasks send, with the times as integers."""
        out = []
        half = (len(history) + 1) // 2
        for task, part in enumerate((history[:half], history[half:])):
            table = pa.table([pa.array([row[f.name] for row in part], f.type) for f in self.schema], self.schema)
            for batch in self.packer(iter(table.to_batches())):
                clock = batch["clock"].cast(pa.int64()).to_pylist()
                listed = zip(batch.drop_columns(["clock"]).to_pylist(), clock, strict=True)
                out += [SimpleNamespace(**{**each, "task": task, "clock": at}) for each, at in listed]
        return out


@given(data=st.data())
@settings(max_examples=examples(12))
def test_cut_anywhere(data: st.DataObject) -> None:
    """Late rows, revisions and retractions included: batch by batch the answers are the same, and so is what is lost.

    A bucket without rows of the history knows its watermark, too, though Spark's own begins anew.
    """
    query = replace(data.draw(strategies.queries()), key=data.draw(st.sampled_from(KEYS)), watermark=3)
    query = replace(query, allowed_lateness=data.draw(st.sampled_from([0, 5])))
    table = data.draw(strategies.disordered(data.draw(strategies.tables(40)), 9))
    cut = data.draw(st.integers(0, len(table)))
    buckets, sliced = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    whole, begun = (Begun(query, SCHEMA, buckets, sliced=sliced) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr("muntin.spark.cutter._FEW", 0)
        patch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(data.draw(st.sampled_from([0, 1 << 20]))))
        whole.batch(table[:cut])
        whole.batch([])
        before = len(whole.lost)
        begun.begin(table[:cut])
        pushes = [push.rows for push in data.draw(strategies.cuts(table[cut:]))]
        for rows_now in [*pushes, []]:
            assert same(begun.batch(rows_now), whole.batch(rows_now))
        for each in (whole, begun):
            each.tell(10_000)
        assert same(begun.batch([]), whole.batch([]))
    assert sorted(map(repr, begun.lost)) == sorted(map(repr, whole.lost[before:]))
    assert begun.counts["rows"] == len(table) - cut
    assert begun.held == whole.held


@given(data=st.data())
@settings(max_examples=examples(4))
def test_as_in_a_stream(data: st.DataObject) -> None:
    """`q.stream(history=...)` says the same of rows that are not late."""
    slack = data.draw(st.sampled_from([0, 2, 7]))
    query = replace(data.draw(strategies.queries()), key=data.draw(st.sampled_from(KEYS)), watermark=slack + 1)
    table = data.draw(strategies.disordered(data.draw(strategies.tables(40)), slack))
    cut = data.draw(st.integers(0, len(table)))
    machine = Begun(query, SCHEMA, data.draw(st.integers(1, 3)), sliced=data.draw(st.booleans()))
    local = streams.Stream(query, table)
    local.schema = SCHEMA
    with uncompiled():
        local.stream = streams.asked(query).stream(history=local.table(table[:cut]))
        due = local.push(table[cut:])
        machine.begin(table[:cut])
        said = [each for push in data.draw(strategies.cuts(table[cut:])) for each in machine.batch(push.rows)]
        assert same(said + machine.batch([]), due)


def test_the_watermark_of_the_history_is_kept_until_sparks_own_has_come_as_far() -> None:
    query = oracle.Query([window.tumbling(10)], {"n": agg.count()}, key=("k",), time="t")
    machine = Begun(query, pa.schema({"t": pa.int64(), "k": pa.string()}), 3)
    with uncompiled():
        machine.begin([{"t": 95, "k": "a"}, {"t": 100, "k": "a"}])
        assert len(machine.held) == 3  # those without rows, too
        assert not machine.batch([{"t": t, "k": k} for t, k in [(50, "a"), (99, "b"), (93, "c"), (104, "d")]])
        assert sorted(row["t"] for row in machine.lost) == [50, 93, 99]
        machine.tell(200)
        said = machine.batch([])
    assert sorted((each.key, each.start, each.aggregates["n"]) for each in said) == [(("a",), 100, 1), (("d",), 100, 1)]
    assert machine.held == set()


ROWS = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "v": pa.int64(), "more": pa.float64()})
QUERY = Query(
    [window.sliding("20 seconds", every="5 seconds"), window.session("4 seconds"), window.tumbling(rows(3))],
    {"n": agg.count(), "total": agg.sum("v"), "all": agg.collect("v")},
    key="k",
    time="ts",
    watermark="2500 microseconds",
    allowed_lateness="3 seconds",
)


def table_of(seconds: list[float]) -> pa.Table:
    times = [1_700_000_000_000_000 + int(each * 1_000_000) for each in seconds]
    columns = [times, ["abc"[i % 3] for i in range(len(times))], range(len(times)), [0.5] * len(times)]
    return pa.table([pa.array(each).cast(kind) for each, kind in zip(columns, ROWS.types, strict=True)], ROWS)


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_on_spark_connect(
    spark: Any, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are late by the history's greatest time. `test_state` has a restart, and a classic session."""
    remote = request.getfixturevalue("remote")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    history = table_of([0, 31, 12.0071, 30, 33, 3, 40, 37, 29, 34])
    # Of these 1 is late by the history, and 27 revises a window, though Spark knows nothing of that yet.
    rows_now = table_of([39.9985, 42, 1, 41, 43, 42, 27, 44])
    with uncompiled():
        stream = QUERY.stream(history=history)
        truth = stream.push(rows_now)
    feed = Feed(remote, tmp_path, ROWS)
    feed.add(rows_now)
    # Other columns, and their order, do not matter.
    frame = remote.createDataFrame(history.select(["v", "k", "ts"]))
    whole = pa.concat_tables(feed.run(QUERY, history=frame, buckets=3, late=True))
    assert muntin.spark.progress(feed.query).rows == rows_now.num_rows
    late = whole["late"].combine_chunks()
    assert [row["ts"].second for row in late.filter(late.is_valid()).to_pylist()] == [21]
    assert stream.late.num_rows == 1
    assert listed(whole.filter(late.is_null()).drop_columns("late")) == listed(truth)
    assert 1 in whole["revision"].to_pylist()


def test_a_checkpoint_that_began_without_one() -> None:
    """A history that would be ignored is refused; one that was read may be left out, and named again later."""
    query = oracle.Query([window.tumbling(10)], {"n": agg.count()}, time="t")
    plain = Begun(query, pa.schema({"t": pa.int64()}))
    job = plain.job
    with uncompiled():
        plain.batch([{"t": 3}])
        plain.job = replace(job, history=True)
        with pytest.raises(SnapshotError, match="the checkpoint began without a history.* leave history= out"):
            plain.batch([{"t": 4}])
        begun = Begun(query, plain.schema)
        begun.begin([{"t": 3}])
        for history in (True, False, True):
            begun.job = replace(job, history=history)
            begun.batch([{"t": 4}])
        longer = replace(job.query, windows=[*job.query.windows, window.tumbling(20)])
        for history in (False, True):  # also after a window was added, and all that is remembered was written again
            begun.job = replace(job, query=longer, history=history)
            begun.batch([{"t": 5}])


def test_what_is_no_history(session: Any, tmp_path: Path) -> None:
    frame = Feed(session, tmp_path, ROWS).frame()
    history = session.createDataFrame(table_of([0, 1]))
    with pytest.raises(UnsupportedOperationError, match="history is a streaming DataFrame, and a history is finite"):
        QUERY.spark(frame, history=frame)
    with pytest.raises(UnsupportedOperationError, match="history is for streaming DataFrames, and this one is finite"):
        QUERY.spark(history, history=history)
    with pytest.raises(ColumnError, match="there is no column 'v' in the history; the columns are 'ts', 'k', 'more'"):
        QUERY.spark(frame, history=history.drop("v"))
    with pytest.raises(ColumnTypeError, match="column 'v' of the history holds int32, and that of the stream int64"):
        QUERY.spark(frame, history=history.withColumn("v", history["v"].cast("int")))
    with pytest.raises(InvalidArgumentError, match="history is a Table, not a DataFrame of Spark"):
        QUERY.spark(frame, history=table_of([0]))
    with pytest.raises(InvalidArgumentError, match="history is a DataFrame of another session"):
        QUERY.spark(frame, history=SimpleNamespace(sparkSession=object()))
