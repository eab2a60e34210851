"""Every transcript, played to the parts of the pipeline; Spark itself plays them in test_transcripts_on_spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from queries import oracle, streams, transcript
from queries.transcript import Case
from spark.model import Expected, Machine, as_spark_has_it

from muntin import ProcessingTime, Query, agg, window
from muntin.spark import memory
from muntin.spark.buckets import labels
from muntin.spark.clock import Clock
from muntin.spark.pack import Packer, from_binary
from muntin.types import column_type

CASES = [
    case
    for case in transcript.load()
    if not isinstance(case.query.emit_early, ProcessingTime) and case.query.idle_timeout is None
]
"""All but those by the clock, which is Spark's own there: test_idle has streams that are idle."""


def in_any_order(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


@pytest.mark.parametrize("way", ["rows", "rows, state read anew", "slices"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transcript(case: Case, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch answers what the oracle does that is told the same watermark."""
    monkeypatch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(1 << 20 if way == "rows" else 0))
    monkeypatch.setattr("muntin.spark.cutter._FEW", 0)
    sliced = way == "slices"
    query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps])
    schema = streams.Stream(query, [row for batch in batches for row in batch]).schema
    machine, expected = Machine(query, schema, sliced=sliced), Expected(query)
    for step, rows in zip(case.steps, batches, strict=True):
        if step.action == "advance":
            machine.tell(step.watermark)
        now, known, late = machine.ticks(), len(machine.lost), len(expected.stream.late)
        emitted = machine.batch(rows)
        assert in_any_order(emitted) == in_any_order(expected.batch(rows, now)), f"line {step.line}"
        if not sliced:
            assert in_any_order(machine.lost[known:]) == in_any_order(expected.stream.late[late:]), f"line {step.line}"
        assert machine.counts["dropped"] == len(expected.stream.late)
    assert in_any_order(machine.batch([])) == in_any_order(expected.batch([], machine.ticks()))


@pytest.mark.parametrize("sliced", [False, True])
def test_early_by_the_clock(sliced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time at which a batch began, from a key's first batch on; buckets without rows are called too."""
    monkeypatch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(0))
    monkeypatch.setattr("muntin.spark.cutter._FEW", 0)
    schema = pa.schema({"t": pa.timestamp("us"), "k": pa.string()})
    query = oracle.Query(
        [window.tumbling("1 hour")],
        {"n": agg.count()},
        key=["k"],
        time_type=column_type(pa.timestamp("us")),
        emit_early=ProcessingTime("10 seconds"),
    )
    machine = Machine(query, schema, sliced=sliced)
    said = []
    for second, keys in ((0, "ab"), (5, "a"), (10, "a"), (19, "b"), (20, "a"), (30, "a")):
        machine.now = 10**12 + second * 1000
        answers = machine.batch([{"t": (1 + second) * 1_000_000, "k": key} for key in keys])
        said.append(sorted((each.key[0], each.aggregates["n"], each.revision) for each in answers))
    assert said == [[], [], [("a", 3, 0), ("b", 1, 0)], [], [("a", 4, 1), ("b", 2, 1)], [("a", 5, 2)]]


def test_state_is_let_go() -> None:
    """A bucket of which nothing is kept has no state and no timer."""
    (case,) = [case for case in CASES if case.name == "time: tumbling, in order"]
    query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps])
    schema = streams.Stream(query, [row for batch in batches for row in batch]).schema
    machine = Machine(query, schema)
    for rows in batches:
        machine.batch(rows)
    assert machine.held
    machine.tell(10**6)
    machine.batch([])
    assert not machine.held
    assert not any(machine.store.timers.values())


@pytest.mark.parametrize(
    ("windows", "aggregates", "sliced"),
    [
        ([window.sliding(10, every=2), window.cumulative(20, every=5)], {"m": agg.max("v"), "n": agg.count()}, True),
        ([window.tumbling(10), window.session(3)], {"n": agg.count()}, False),
        ([window.tumbling(10), window.trailing(3)], {"n": agg.count()}, False),
        ([window.tumbling(10)], {"all": agg.collect("v")}, False),
        ([window.tumbling(10)], {"run": agg.longest_increasing_run("v")}, False),
    ],
)
def test_rows_are_cut_where_they_are(windows: list[Any], aggregates: dict[str, Any], sliced: bool) -> None:
    """Windows by time of aggregations that commute and have a state of fixed size; the rows of others are sent."""
    query = Query(windows, aggregates, time="t")
    schema = pa.schema({"t": pa.int64(), "v": pa.float64()})
    packer = Packer(schema, (), "t", Clock("integer", "t"), labels(1), query)
    rows = pa.record_batch({"t": [1, 2, 3, 11], "v": [1.0, 2.0, 3.0, 4.0]})
    first, *_ = packer(iter([rows])).__next__().to_pylist()
    assert first["sliced"] == sliced
    table = from_binary(first["data"])
    assert table.num_rows == (3 if sliced else 4)  # [0, 2), [2, 4), [10, 12)
    if sliced:
        assert table["count"].to_pylist() == [1, 2, 1]


@pytest.mark.parametrize("held", [0, 1 << 20], ids=["state is read", "the worker still has it"])
@pytest.mark.parametrize("few", [0, 10**9], ids=["slices", "slices, then rows"])
def test_a_window_is_added(few: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with one more window at the end goes on from the state of the one without, which keeps its edges."""
    monkeypatch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(held))
    monkeypatch.setattr("muntin.spark.cutter._FEW", few)
    schema = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.float64()})
    words = {"aggregates": {"n": agg.count(), "m": agg.max("v")}, "key": ["k"], "watermark": 3}
    one = oracle.Query([window.sliding(10, every=5)], **words)
    two = oracle.Query([window.sliding(10, every=5), window.tumbling(4)], **words)
    batches = [[{"t": t, "k": "ab"[t % 2], "v": float(t % 7)} for t in range(low, low + 30)] for low in (0, 27, 55)]
    first = Machine(one, schema, sliced=True)
    expected = Expected(one)
    assert in_any_order(first.batch(batches[0])) == in_any_order(expected.batch(batches[0], None))
    machine = Machine(two, schema, sliced=True, store=first.store)
    machine.watermark = first.watermark
    for batch in [*batches[1:], []]:
        wanted = in_any_order(expected.batch(batch, machine.ticks()))
        answers = machine.batch(batch)
        assert in_any_order([each for each in answers if each.window_id == 0]) == wanted
    fourths = [each for each in answers if each.window_id == 1]
    all_rows = [row for batch in batches for row in batch]
    final = oracle.complete_answer(two.windows, two.aggregates, two.key, two.time, all_rows)
    assert fourths
    assert all(each in [replace(other, name=None) for other in final] for each in fourths)
