"""Rows of a state in segments: what is read is what was saved, and a micro-batch writes what it changed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.model import Chunks, Store, Value

from muntin import Query, agg, policies, rows, window
from muntin.kernels.cache import uncompiled
from muntin.spark.bucket_state import BucketState, Header, in_tables
from muntin.spark.local_chunks import LocalChunks
from muntin.streams.contents import totals
from muntin.streams.driven import DrivenStream
from muntin.streams.regrouping import known_keys, regrouped
from muntin.streams.rows import segmenting

SCHEMA = pa.schema(
    {"k": pa.int64(), "t": pa.int64(), "v": pa.float64(), "s": pa.string(), "d": pa.int64(), "p": pa.bool_()}
)
AGGREGATES = {"sum": agg.sum("v"), "all": agg.collect("s"), "median": agg.median("v")}


class Trips(window.ContextAware):
    """A trip begins with each row that says so."""

    columns = ("p",)

    def on_tuple(self, t: int, values: Any, edges: Any) -> None:
        if values["p"]:
            edges.add(t)


WINDOWS: dict[str, Any] = {
    "by time": window.trailing(40),
    "around": [window.frame(20, 9), window.trailing(rows(7))],
    "by rows": [window.trailing(rows(9)), window.tumbling(rows(6))],
    "of rows, by time": window.sliding(rows(12), every=5),
    "of rows, by time, empty ones too": window.sliding(rows(12), every=5),
    "by values": window.delta("d", 30, every=10),
    "by marks": window.punctuated("p"),
    "by policy": window.policy(policies.at_most_rows(8)),
    "by code": Trips(),
}


def micro_batches(count: int, late: float) -> list[pa.Table]:
    """Return rows of keys of which some are seldom seen, late ones among them, equal times and missing values too."""
    chance = np.random.default_rng(count)
    found = []
    for number in range(count):
        size = int(chance.integers(0, 60))
        times = np.sort(chance.integers(10 * number, 10 * number + 14, size))
        times -= chance.integers(0, 30, size) * (chance.random(size) < late)
        values = [None if each < -1.5 else round(float(each), 2) for each in chance.standard_normal(size)]
        words = [None if each == 9 else "x" * each for each in chance.integers(0, 10, size).tolist()]
        columns = [np.minimum(chance.geometric(0.5, size), 6), times, values, words, times, chance.random(size) < 0.1]
        found.append(pa.table([pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)], SCHEMA))
    return found


def query_of(name: str, **options: Any) -> Query:
    return Query(
        WINDOWS[name], AGGREGATES, key="k", time="t", watermark=4, emit_empty=name.endswith("empty ones too"), **options
    )


class Kept:
    """A stream whose state is written to Spark's after each micro-batch."""

    def __init__(self, query: Query) -> None:
        self.query, self.store = query, Store()
        self.stream = DrivenStream(query, SCHEMA)
        self.header: Header | None = None
        self.written = 0

    @property
    def state(self) -> BucketState:
        return BucketState(Value(self.store, "header"), Chunks(self.store, "chunks"), LocalChunks(None))

    def batch(self, table: pa.Table, watermark: int | None) -> pa.Table:
        """Return what a micro-batch answers."""
        stream = self.stream
        if watermark is not None:
            stream.set_watermark(watermark)
        due = stream.emit() if watermark is not None else stream.schema.empty_table()
        stream.take(table)
        answers = pa.concat_tables([due, stream.emit()]) if watermark is not None else due
        snapshot, segments = stream.save_changes()
        self.header, self.written = self.state.write(snapshot, 5, self.header, segments)
        return answers

    @property
    def saved(self) -> Any:
        assert self.header is not None
        return self.state.read(self.header)

    def restart(self) -> None:
        """Go on in another worker."""
        snapshot, known = self.saved
        self.stream = DrivenStream.load(self.query, SCHEMA, snapshot, known=known)
        self.stream.check()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows make a table."""
    monkeypatch.setattr(segmenting, "_LEAST", 1000)
    monkeypatch.setattr(segmenting, "_MOST", 1000)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("late", [0, 0.2])
def test_what_is_read_is_what_is_held(name: str, late: float, small: None) -> None:
    """Array by array, while rows come late, are revised and evicted; a stream that restarts answers the same."""
    query = query_of(name, allowed_lateness=20 if late else 0)
    kept, whole, latest, had = Kept(query), DrivenStream(query, SCHEMA), None, 0
    with uncompiled():
        for number, rows_of_batch in enumerate(micro_batches(25, late)):
            table = rows_of_batch.slice(0, 3) if number == 18 else rows_of_batch  # and most rows are evicted
            answers = kept.batch(table, latest)
            if latest is not None:
                whole.set_watermark(latest)
            expected = [whole.emit()] if latest is not None else []
            whole.take(table)
            expected += [whole.emit()] if latest is not None else []
            assert answers.to_pylist() == [row for each in expected for row in each.to_pylist()]
            found, known = kept.saved
            held = whole.save()
            assert found.arrays.keys() == held.arrays.keys()
            for each, array in held.arrays.items():
                assert found.arrays[each].dtype == array.dtype, each
                assert found.arrays[each].tolist() == array.tolist() or np.array_equal(
                    found.arrays[each], array, equal_nan=True
                ), each
            assert (found.header, found.schema) == (held.header, held.schema)
            had += len(known)
            if number % 3 == 2:
                kept.restart()
            if table.num_rows:
                latest = max(latest or -4, max(table["t"].to_pylist()) - 4)
    if name in ("by time", "around"):
        assert had > 5


def test_only_changed_tables_are_written(small: None) -> None:
    """A restart writes no more than going on; evicted rows leave with their tables, late ones have few written."""
    kept = Kept(Query(window.trailing(1000), {"sum": agg.sum("v")}, key="k", time="t", watermark=0, allowed_lateness=9))

    def batch(number: int, *further: int) -> pa.Table:
        times = [*np.repeat(np.arange(10 * number, 10 * number + 10), 3).tolist(), *further]
        return pa.Table.from_pylist([{"k": i % 3, "t": time, "v": time} for i, time in enumerate(times)], SCHEMA)

    def tables() -> set[bytes]:
        assert kept.header is not None
        return set(kept.header.names)

    with uncompiled():
        for number in range(120):
            kept.batch(batch(number), 10 * number)
        few = kept.header
        assert few is not None
        before, size = tables(), len(kept.stream._core.strategies[0].groups[0].store)  # type: ignore[attr-defined]
        assert len(before) > 80
        kept.batch(batch(120), 1200)
        assert len(tables() - before) <= 5
        assert len(before - tables()) <= 5
        kept.restart()
        before = tables()
        kept.batch(batch(121, 1206), 1210)
        assert len(tables() - before) <= 5
        assert kept.header is not None
        rows_held, size_held = in_tables(json.loads(kept.header.text)["facts"])
        assert rows_held == pytest.approx(size, abs=40)
        assert size_held > 8 * rows_held
        assert len(kept.store.values[0, "chunks"]) == len(tables())


def test_keys_that_are_slow_keep_no_old_tables(small: None) -> None:
    """One key fills its window a hundred times while another waits for its second row."""
    kept = Kept(Query(window.trailing(rows(50)), {"sum": agg.sum("v")}, key="k", time="t", watermark=0))
    with uncompiled():
        for number in range(100):
            times = list(range(50 * number, 50 * number + 50))
            keys = [number % 50 if each % 50 == 0 else 99 for each in times]
            table = pa.table({"k": keys, "t": times, "v": [1.0] * 50})
            for name in ("s", "d", "p"):
                table = table.append_column(name, pa.nulls(50, SCHEMA.field(name).type))
            kept.batch(table.cast(SCHEMA), 50 * number)
            _, known = kept.saved
            held = sum(len(each.store) for each in kept.stream._core.strategies[0].groups)  # type: ignore[attr-defined]
            for each in known.values():
                assert sum(part.rows for part in each.segments) <= 2 * held + 200


def test_a_state_is_divided_by_key(small: None) -> None:
    """Whoever divides it gets all rows, and each half goes on as the whole does."""
    query = query_of("by time", allowed_lateness=20)
    kept = Kept(query)
    with uncompiled():
        for number, table in enumerate(micro_batches(8, 0.2)):
            kept.batch(table, 10 * number)
        snapshot, known = kept.saved
        assert known
        keys = np.array(known_keys(snapshot)[0].to_pylist())
        halves = [DrivenStream.load(query, SCHEMA, regrouped([(snapshot, keys % 2 == i)])) for i in (0, 1)]
        answers = []
        for stream in (kept.stream, *halves):
            stream.check()
            stream.set_watermark(500)
            answers.append(stream.emit())
    whole, *parts = (sorted(map(repr, each.to_pylist())) for each in (answers[0], pa.concat_tables(answers[1:])))
    assert whole
    assert whole == parts[0]


def test_counts_of_a_header(small: None) -> None:
    kept = Kept(query_of("by time"))
    with uncompiled():
        for number, table in enumerate(micro_batches(8, 0)):
            kept.batch(table, 10 * number)
    assert kept.header is not None
    described = json.loads(kept.header.text)
    some = totals({each["name"]: each["rows"] for each in described["arrays"]})["rows"]
    assert some + in_tables(described["facts"])[0] == kept.stream.metrics()["kept"]


def test_a_table_of_another_state(small: None) -> None:
    """What was written elsewhere is not here: no state refers to it."""
    kept = Kept(query_of("by time"))
    with uncompiled():
        for number, table in enumerate(micro_batches(8, 0)):
            kept.batch(table, 10 * number)
        snapshot, segments = kept.stream.save_changes()
        assert segments
        with pytest.raises(RuntimeError, match="a table of rows was written to another state"):
            kept.state.write(snapshot, 5, None, segments)
