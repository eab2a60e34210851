"""`Query.over` on Spark: the rows, or points, of `Query.over` over the same tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.test_batch import frame_of, listed, partitions

from muntin import Query, agg, rows, window
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.spark.names import inner_schema
from muntin.spark.over import OverTask, over

AGGREGATES = {"n": agg.count(), "total": agg.sum("v"), "newest": agg.last("v")}
FRAMES = {
    "left": window.trailing("20 seconds", closed="left"),
    "late": window.trailing("10 seconds", delay="5 seconds"),
    "next": window.leading("7 seconds"),
    "around": window.frame("3 seconds", "3 seconds"),
}
BY_ROWS = {"five": window.trailing(rows(5), closed="left"), "three": window.leading(rows(3)), **FRAMES}


def events(count: int = 900, seed: int = 1, keys: int = 4) -> pa.Table:
    """Rows of a few keys, one of them null, and points among and around them, some at the very time of a row."""
    chance = np.random.default_rng(seed)
    times = chance.integers(0, 300, count) * 1_000_000 + 1_700_000_000_000_000
    card = [None if k == 0 else float(k - 2) for k in chance.integers(0, keys, count)]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "card": pa.array([-0.0 if each == 0 and i % 2 else each for i, each in enumerate(card)], pa.float64()),
            "v": pa.array(chance.integers(0, 100, count), pa.int64(), mask=chance.random(count) < 0.1),
            "odd.`name`": pa.array([f"row {i}" for i in range(count)]),
        }
    )


def points(count: int = 60) -> pa.Table:
    drawn = events(count, seed=9, keys=6)
    return pa.table({"label": range(count), "card": drawn["card"].cast(pa.float32()), "ts": drawn["ts"]})


@pytest.mark.parametrize("windows", [FRAMES, BY_ROWS], ids=["by time", "by rows"])
def test_rows(windows: Any, session: Any) -> None:
    table, query = events(), Query(windows, AGGREGATES, key="card")
    answer = query.over(frame_of(session, table))
    truth = query.over(table)
    assert answer.columns == truth.column_names
    assert listed(answer.toArrow()) == listed(truth)


@pytest.mark.connect
@pytest.mark.parametrize("windows", [FRAMES, BY_ROWS], ids=["by time", "by rows"])
def test_points(windows: Any, session: Any) -> None:
    table, asked, query = events(), points(), Query(windows, AGGREGATES, key="card")
    answer = query.over(frame_of(session, table), at=frame_of(session, asked))
    truth = query.over(table, at=asked)
    assert answer.columns == truth.column_names
    assert listed(answer.toArrow()) == listed(truth)


@pytest.mark.connect
def test_long_keys_are_cut(session: Any) -> None:
    """One key has most rows; its pieces have what their frames reach into the pieces before and after."""
    table = events(1500, seed=3)
    long = np.where(np.arange(1500) % 10 > 0, "long", [f"k{i % 7}" for i in range(1500)])
    table = table.set_column(1, "card", pa.array(long))
    query = Query(FRAMES, AGGREGATES, key="card")
    asked = pa.table({"ts": table["ts"][:200], "card": table["card"][:200]})
    for at in (None, asked):
        answer = over(query, frame_of(session, table), None if at is None else frame_of(session, at), pieces=3)
        assert partitions(answer) >= 3
        assert listed(answer.toArrow()) == listed(query.over(table, at))


@pytest.mark.connect
def test_without_a_key(session: Any) -> None:
    table, query = events(200).drop_columns(["card"]), Query(window.trailing("5 seconds"), AGGREGATES)
    assert listed(over(query, frame_of(session, table), pieces=4).toArrow()) == listed(query.over(table))


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_task_answers_whole_keys_in_chunks(chunk: int) -> None:
    table = events(120).sort_by([("card", "ascending"), ("ts", "ascending")]).drop_columns(["odd.`name`"])
    query = Query({"left": window.trailing("20 seconds", closed="left")}, {"n": agg.count()}, key="card")
    truth = query.over(table)
    task = OverTask(query, table.schema, None, truth.schema, is_cut=True, chunk=chunk)
    given = table.append_column("muntin_own", pa.array([i % 3 > 0 for i in range(120)]))
    found = pa.Table.from_batches(task(iter(given.to_batches(max_chunksize=5))), inner_schema(truth.schema))
    found = found.rename_columns(truth.column_names)
    assert listed(found) == listed(truth.filter(pa.array([i % 3 > 0 for i in range(120)])))


def test_refusals(session: Any) -> None:
    frame = frame_of(session, events(10))
    query = Query(window.trailing("5 seconds"), AGGREGATES, key="card")
    with pytest.raises(UnsupportedOperationError, match="over is for frames"):
        Query(window.tumbling("5 seconds"), AGGREGATES).over(frame)
    with pytest.raises(UnsupportedOperationError, match="is streaming"):
        query.over(session.readStream.format("rate").load())
    with pytest.raises(InvalidArgumentError, match="the points a Table"):
        query.over(frame, at=events(3))
    with pytest.raises(InvalidArgumentError, match="'n' is there already"):
        query.over(frame.withColumnRenamed("v", "w").withColumnRenamed("odd.`name`", "n"))
    with pytest.raises(ColumnTypeError, match="'card' holds double in the rows, and string in the points"):
        query.over(frame, at=frame.selectExpr("ts", "string(card) card"))
