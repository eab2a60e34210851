"""`Query.over` on Spark: the rows, or points, of `Query.over` over the same tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from spark.test_batch import frame_of, listed, partitions

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.spark.explained import physical_plan
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
BY_ROWS |= {"all": window.lifetime(), "before": window.lifetime(closed="left")}


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
        query.over(frame.selectExpr("*", "1 AS n"))
    with pytest.raises(ColumnTypeError, match="'card' holds double in the rows, and string in the points"):
        query.over(frame, at=frame.selectExpr("ts", "string(card) card"))


# ---------------------------------------------------------------- Spark's own operators

AT = "at.`ms`"
SHORT = {
    "trailing": window.trailing(rows(3)),
    "before its row": window.trailing(rows(4), closed="left"),
    "delayed": window.trailing(rows(2), delay=rows(3)),
    "leading": window.leading(rows(5)),
    "around": window.frame(rows(2), rows(3)),
    "several": {"one": window.trailing(rows(1)), "ten": window.trailing(rows(10)), "next": window.leading(rows(2))},
}
KNOWN = {
    "n": agg.count(),
    "held": agg.count("v"),
    "low": agg.min("v"),
    "high": agg.max("i", where="odd"),
    "total": agg.sum("i"),
    "most": agg.count(where="odd"),
    "mean": agg.mean("v", where="odd"),
}


def readings(seed: int, count: int = 500) -> pa.Table:
    """Rows of several keys, one of a single row, in no order: equal times, nulls, NaN, and times before 1970."""
    chance = np.random.default_rng(seed)
    times = chance.integers(0, 60, count) * 1_000_000 + chance.choice([1_700_000_000_000_000, -(10**9)], count)
    values = chance.choice([1.5, -2.0, 0.25, float("nan"), None], count, p=[0.3, 0.3, 0.2, 0.1, 0.1]).tolist()
    return pa.table(
        {
            "line": pa.array([None if k == 0 else int(k) for k in [9, *chance.integers(0, 3, count - 1)]], pa.int16()),
            "Region": pa.array(chance.choice(["north", "south", None], count).tolist(), pa.string()),
            "at.`ms`": pa.array(times, pa.timestamp("us", "UTC")),
            "v": pa.array(values, pa.float64()),
            "i": pa.array(chance.integers(-99, 99, count), pa.int32(), mask=chance.random(count) < 0.1),
            "odd": pa.array(chance.choice([True, False, None], count).tolist(), pa.bool_()),
            "region": pa.array([[i] for i in range(count)]),
        }
    )


@pytest.mark.parametrize("name", SHORT)
def test_native_equals_python(name: str, session: Any) -> None:
    table = readings(seed=len(name))
    query = Query(SHORT[name], KNOWN, key=["Region", "line"], time=AT)
    frame = frame_of(session, table)
    session.conf.set("spark.sql.caseSensitive", "true")  # two columns differ in case alone
    try:
        found, python = (query.over(frame, path=path) for path in ("native", "python"))
        truth = query.over(table)
        assert found.columns == truth.column_names
        assert found.schema.simpleString() == python.schema.simpleString()
        assert listed(found.toArrow()) == listed(python.toArrow()) == listed(truth)
    finally:
        session.conf.unset("spark.sql.caseSensitive")


@pytest.mark.connect
@pytest.mark.parametrize("kind", ["no zone", "date", "integer"])
def test_native_with_other_times(kind: str, session: Any) -> None:
    table = readings(seed=5).drop_columns(["region"]).rename_columns(["line", "region", "t", "v", "i", "odd"])
    micros = table["t"].cast(pa.int64())
    times = {"no zone": micros.cast(pa.timestamp("us")), "date": table["t"].cast(pa.date32()), "integer": micros}
    table = table.set_column(2, "t", times[kind])
    query = Query(window.trailing(rows(6)), KNOWN, key="region", time="t")
    frame = frame_of(session, table)
    if kind == "no zone":  # a DataFrame of Arrow has one
        frame = frame.selectExpr("line", "region", "cast(t as timestamp_ntz) t", "v", "i", "odd")
    assert "path native" in muntin.spark.explain(query, frame, over=True)
    assert listed(query.over(frame).toArrow()) == listed(query.over(table))


@pytest.mark.connect
def test_native_sorts_once_with_ties_by_arrival(session: Any) -> None:
    """Spark promises no order of equal times, although it often keeps one, so the answers do not show it."""
    frame = session.createDataFrame(readings(seed=1).drop_columns(["region"]))
    aggregates = {"n": agg.count("v"), "mean": agg.mean("v")}
    several = Query(
        {"last": window.trailing(rows(3)), "next": window.leading(rows(3))}, aggregates, key="line", time=AT
    )
    around = Query(window.frame(rows(2), rows(3)), aggregates, key="line", time=AT)
    for found, arrival in ((several.over(frame), "muntin_arrival#"), (around.spark(frame), "arrival#")):
        plan = physical_plan(found) or ""
        assert [plan.count(each) for each in ("Sort [", "Window [", "Exchange ", "Arrow")] == [1, 1, 1, 0]
        assert f"ASC NULLS FIRST, {arrival}" in plan


@pytest.mark.connect
def test_which_path_and_why(session: Any) -> None:
    frame = frame_of(session, readings(seed=1, count=9).drop_columns(["region"]))
    total = agg.sum("v")

    def said(windows: Any, aggregate: Any = total, key: Any = "line", **options: Any) -> str:
        query = Query(windows, {"n": aggregate}, key=key, time=AT)
        return muntin.spark.explain(query, frame, over=True, **options)

    assert "path native: a frame holds 16 rows or fewer" in said(window.trailing(rows(16)))
    assert "path native: all frames together hold 16" in said([window.trailing(rows(8)), window.leading(rows(8))])
    assert "look at each row of a frame" in said([window.trailing(rows(8)), window.leading(rows(9))])
    assert "path python: as was asked for" in said(window.trailing(rows(3)), path="python")
    assert "path native: as was asked for" in said(window.trailing(rows(300)), path="native")
    assert "or run in one task" in said(window.trailing(rows(3)), key=None)
    assert "because a frame counts rows" in said(window.trailing(rows(17)))
    assert "cut by time into pieces" in said(window.trailing("1 hour"))
    assert "is no frame by rows" in said(window.trailing("1 hour"))
    assert "agg.median('v'), and not one of" in said(window.trailing(rows(3)), agg.median("v"))
    assert "a key is a float" in said(window.trailing(rows(3)), agg.sum("i"), key="v")
    session.conf.set("spark.sql.window.segmentTree.enabled", "true")
    try:
        assert "path python" in said(window.trailing(rows(3)))
    finally:
        session.conf.unset("spark.sql.window.segmentTree.enabled")


def test_native_refusals(session: Any) -> None:
    table = readings(seed=1, count=9).drop_columns(["region"])
    frame = frame_of(session, table)
    query = Query(window.trailing(rows(3)), {"n": agg.count()}, key="line", time=AT)
    with pytest.raises(UnsupportedOperationError, match="window.trailing.* is no frame by rows"):
        Query(window.trailing("1 hour"), {"n": agg.count()}, time=AT).over(frame, path="native")
    with pytest.raises(UnsupportedOperationError, match="path is 'native', and Spark's own operators have no points"):
        query.over(frame, at=frame, path="native")
    with pytest.raises(InvalidArgumentError, match="pieces is 2, and Spark's own operators cut no keys"):
        over(query, frame, path="native", pieces=2)
    with pytest.raises(InvalidArgumentError, match="path is 'fast'; it is one of auto, python, native"):
        query.over(frame, path="fast")
    with pytest.raises(InvalidArgumentError, match="path is 'native', and is for DataFrames of Spark"):
        query.over(table, path="native")
    with pytest.raises(UnsupportedOperationError, match="is streaming"):
        muntin.spark.explain(query, session.readStream.format("rate").load(), over=True)
    nulls = pa.array([None, *table["at.`ms`"][1:].to_pylist()], table["at.`ms`"].type)
    with pytest.raises(Exception, match="the time column 'at.`ms`' is null in"):
        query.over(frame_of(session, table.set_column(2, "at.`ms`", nulls))).collect()
