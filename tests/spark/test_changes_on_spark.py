"""Tables that change, on Spark: finite DataFrames answer as `run` and `over` do, streaming ones as streams."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from queries.changelogs import OP, changelogs
from queries.strategies import drawn
from spark.feed import Feed
from spark.test_batch import listed

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError

KINDS = pa.schema(
    {"ts": pa.timestamp("us", "UTC"), "card": pa.string(), "v": pa.int32(), "note": pa.int64(), OP: pa.string()}
)
PLAIN = {"n": agg.count(), "spent": agg.sum("v"), "high": agg.max("v")}


def changed(seed: int) -> pa.Table:
    """Return rows that change, some of equal time, with a number for each as it came."""
    some = st.fixed_dictionaries(
        {"t": st.integers(0, 9), "card": st.sampled_from("abc"), "v": st.sampled_from([None, 1, 2])}
    )
    found = drawn(st.lists(some, min_size=30, max_size=30).flatmap(changelogs), seed)
    lines = [{**row, "ts": row["t"] * 1_000_000, "note": i} for i, row in enumerate(found)]
    return pa.Table.from_pylist([{name: row[name] for name in KINDS.names} for row in lines], KINDS)


@pytest.mark.connect
@pytest.mark.parametrize("path", ["python", "native"])
def test_a_batch_answers_as_run(session: Any, path: str) -> None:
    table = changed(1)
    query = Query(window.tumbling("3 seconds"), PLAIN, key="card", changes=OP)
    answers = query.spark(session.createDataFrame(table), path=path)
    names = ["card", "window_id", "n", "spent", "high", "revision"]
    assert listed(answers.toArrow().select(names)) == listed(query.run(table).select(names))
    assert f"path {path}" in str(muntin.spark.explain(query, session.createDataFrame(table), path=path))


def test_rows_of_equal_time_stay_in_the_order_in_which_they_came(session: Any) -> None:
    table = changed(2)
    frame = session.createDataFrame(table).repartitionByRange(3, "note").sortWithinPartitions("note")
    query = Query(
        [window.trailing(rows(3)), window.session("1 second")], {"all": agg.collect("v")}, key="card", changes=OP
    )
    found = query.spark(frame).toArrow().select(["card", "window_id", "all"])
    assert listed(found) == listed(query.run(table).select(["card", "window_id", "all"]))


def test_over_answers_beside_the_rows_that_stay(session: Any) -> None:
    table = changed(3)
    query = Query(window.trailing("3 seconds"), PLAIN, key="card", changes=OP)
    frame, points = session.createDataFrame(table), table.select(["card", "ts"]).slice(0, 5)
    names = ["card", "note", "n", "spent", "high"]
    assert listed(query.over(frame).toArrow().select(names)) == listed(query.over(table).select(names))
    found = query.over(frame, at=session.createDataFrame(points)).toArrow().select(["card", "n", "high"])
    assert listed(found) == listed(query.over(table, at=points).select(["card", "n", "high"]))


def test_bad_input_is_refused(session: Any) -> None:
    table = changed(4).slice(0, 3)
    query = Query(window.tumbling("3 seconds"), PLAIN, key="card", changes=OP)
    with pytest.raises(ColumnError, match="no column 'op'"):
        query.spark(session.createDataFrame(table.drop_columns(OP)))
    with pytest.raises(ColumnTypeError, match="'op' holds int64"):
        query.spark(session.createDataFrame(table.set_column(4, OP, pa.array([1, 1, 0]))))
    wrong = table.set_column(4, OP, pa.array(["insert", "upsert", "insert"]))
    with pytest.raises(Exception, match="the column 'op' holds 'upsert'"):
        query.spark(session.createDataFrame(wrong)).collect()


def pushes_of(table: pa.Table, sizes: list[int]) -> list[pa.Table]:
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    return [table.slice(a, b - a) for a, b in pairwise([*ends, table.num_rows])]


@pytest.mark.parametrize(
    ("windows", "aggregates"),
    [
        (window.sliding("6 seconds", every="3 seconds"), PLAIN),
        ([window.trailing("3 seconds"), window.session("1 second"), window.trailing(rows(2))], {"n": agg.count()}),
    ],
    ids=["slices", "rows"],
)
@pytest.mark.parametrize("inverted", [False, True])
def test_a_streaming_query_takes_rows_back(
    windows: Any, aggregates: Any, inverted: bool, session: Any, tmp_path: Path
) -> None:
    """Every micro-batch emits what the stream of one process emits, across a restart from the checkpoint."""
    aggregates = {name: each for name, each in aggregates.items() if each.invertible} if inverted else aggregates
    query = Query(windows, aggregates, key="card", changes=OP, watermark="1 second", allowed_lateness="1 hour")
    pushes = pushes_of(changed(5), [12, 9])
    feed, stream = Feed(session, tmp_path, KINDS), query.stream()
    ours, theirs = [], []
    for push in pushes:
        feed.add(push)
        ours += feed.run(query, buckets=2)  # each run starts from the checkpoint
        theirs.append(stream.push(push))
    names = ["card", "window_id", *aggregates]
    found, expected = (muntin.latest(pa.concat_tables(each)).select(names) for each in (ours, theirs))
    assert listed(found) == listed(expected)


def test_the_latest_answers_of_frames_that_look_alike(session: Any) -> None:
    """On Spark rows have no order: the greatest revision has all windows of equal bounds that are left."""
    query = Query(window.trailing("2 seconds"), {"n": agg.count()}, key="card", changes=OP, allowed_lateness="1 hour")
    stream = query.stream()
    table = changed(6)
    answers = pa.concat_tables([stream.push(table.slice(i, 1)) for i in range(table.num_rows)] + [stream.close()])
    assert answers["retracted"].to_pylist().count(True) > 3
    found = muntin.latest(session.createDataFrame(answers.combine_chunks()).repartition(3)).toArrow()
    assert listed(found.select(["card", "n"])) == listed(muntin.latest(answers).select(["card", "n"]))


def test_late_deletions_are_beside_the_answers(session: Any, tmp_path: Path) -> None:
    query = Query(window.tumbling("3 seconds"), PLAIN, key="card", changes=OP)
    row = {"ts": 1_000_000, "card": "a", "v": 1, "note": 0, OP: "insert"}
    feed = Feed(session, tmp_path, KINDS)
    feed.add(pa.Table.from_pylist([row, {**row, "ts": 9_000_000}], KINDS))
    feed.add(pa.Table.from_pylist([{**row, OP: "delete"}, {**row, "ts": 9_000_000, OP: "delete"}], KINDS))
    found = pa.concat_tables(feed.run(query, late=True))
    late = [each for each in found["late"].to_pylist() if each is not None]
    assert [(each["note"], each[OP]) for each in late] == [(0, "delete")]
