"""Batch queries on Spark: the answer of `Query.run`, and of Spark's own windows where it has them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from queries import strategies
from queries.strategies import drawn
from queries.test_run import answers, as_table, asked, same

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.spark import survey

BEGIN = 1_700_000_000_000_000
COUNT = agg.count()


def partitions(frame: Any) -> int:
    """Return how many partitions have rows."""
    from pyspark.sql import functions as F

    return int(frame.select(F.spark_partition_id().alias("p")).distinct().count())


def frame_of(session: Any, table: pa.Table, partitions: int = 1) -> Any:
    """Return a table as a DataFrame whose partitions hold its rows in order."""
    frame = session.createDataFrame(table)
    return frame.coalesce(1) if partitions == 1 else frame.repartitionByRange(partitions, table.column_names[0])


def listed(table: pa.Table) -> list[str]:
    """Return the rows of an answer as text, in any order; floats are rounded: sums are added in another order.

    Zeros have no sign here: Spark's sum of -0.0 is 0.0.
    """
    return sorted(repr(_rounded(row)) for row in table.to_pylist())


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value


def calls(count: int, seed: int, keys: int = 5, apart: int = 250_000) -> pa.Table:
    """Return rows in no order, with nulls and equal times among them, and some before 1970."""
    chance = np.random.default_rng(seed)
    times = (np.arange(count) * apart + chance.integers(-3_000_000, 3_000_000, count)) // 100_000 * 100_000
    times += chance.choice([BEGIN, -86_400_000_000], count)
    region = [None if k == 0 else f"region {k}" for k in chance.integers(0, keys, count)]
    length = pa.array(chance.integers(-9, 9, count) / 4, mask=chance.random(count) < 0.1)  # sums of quarters are exact
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "region": pa.array(region, pa.string()),
            "line": pa.array(chance.integers(0, 2, count), pa.int32()),
            "len": length,
        }
    )


MANY = Query(
    [
        window.sliding("20 seconds", every="5 seconds"),
        window.session("4 seconds"),
        window.tumbling(rows(7)),
        window.trailing("3 seconds"),
        window.trailing(rows(4)),
        window.trailing("3 seconds", closed="left", delay="1 second"),
        window.leading("3 seconds"),
        window.frame(rows(2), rows(2)),
    ],
    {"n": agg.count(), "most": agg.max("len"), "mean": agg.mean("len"), "all": agg.collect("line")},
    key=["region", "line"],
    time="ts",
)


@pytest.mark.compiled
@pytest.mark.connect
def test_equals_run(session: Any) -> None:
    """Several windows, several keys with nulls among them; the columns and types are known without running."""
    table = calls(2000, seed=1)
    answer = MANY.spark(frame_of(session, table))
    truth = MANY.run(table)
    assert answer.columns == truth.column_names
    found = answer.toArrow()
    assert listed(found) == listed(truth)
    assert found.schema.field("window").type.names == truth.schema.field("window").type.names


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_one_long_key(pieces: int, session: Any) -> None:
    """Cut into pieces: the answer is that of one. Sessions are cut where no row comes for long."""
    chance = np.random.default_rng(pieces)
    times = np.cumsum(chance.choice([0, 100_000, 300_000, 5_000_000], 3000, p=[0.1, 0.5, 0.39, 0.01])) - 3_000_000
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "v": chance.integers(0, 100, 3000)})
    table = table.take(chance.permutation(3000))
    query = Query(
        [
            window.sliding("10 seconds", every="4 seconds"),
            window.session("3 seconds"),
            window.trailing("5 seconds"),
            window.trailing(rows(30)),
            window.trailing("5 seconds", closed="left", hop="2 seconds"),
            window.leading("5 seconds", delay="1 second"),
            window.frame("2 seconds", "2 seconds"),
            window.leading(rows(20), closed="right"),
            window.frame(rows(9), rows(9), closed="left"),
            window.sliding(rows(20), every=rows(7)),
            window.sliding(rows(10), every="2 seconds"),
            window.cumulative("20 seconds", every="5 seconds"),
        ],
        {"n": agg.count(), "high": agg.max("v"), "all": agg.collect("v")},
        partial=True,
    )
    answer = query.spark(frame_of(session, table), pieces=pieces)
    assert partitions(answer) == pieces
    assert listed(answer.toArrow()) == listed(query.run(table))


@pytest.mark.connect
def test_one_long_key_among_others(session: Any) -> None:
    """It is cut, they are not. Keys that are floats never are. Both zeros are one key."""
    chance = np.random.default_rng(5)
    table = pa.table(
        {
            "ts": pa.array(np.arange(2000) // 3 * 500_000, pa.timestamp("us", "UTC")),
            "k": pa.array(chance.choice([None, 2, 3], 2000, p=[0.8, 0.1, 0.1]).tolist(), pa.int64()),
            "zero": chance.choice([0.0, -0.0], 2000, p=[0.8, 0.2]),
            "v": chance.integers(0, 9, 2000),
        }
    )
    windows = [window.trailing("4 seconds"), window.trailing(rows(5))]
    for key, least in (("k", 4), ("zero", 1)):
        query = Query(windows, {"last": agg.last("v")}, key=key)
        answer = query.spark(frame_of(session, table), pieces=3)
        assert partitions(answer) >= least
        assert listed(answer.toArrow()) == listed(query.run(table))


@pytest.mark.parametrize("key", ["k", None])
def test_a_long_key_that_a_sample_shows(key: str | None, session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where windows by time may be cut anywhere, a look at some of the rows tells where."""
    for name, value in {"_SMALL": 0, "_FEW": 500, "_SAMPLE": 0.3}.items():
        monkeypatch.setattr(survey, name, value)
    chance = np.random.default_rng(6)
    table = pa.table({"ts": pa.array(np.sort(chance.integers(0, 10**9, 4000))), "k": np.minimum(np.arange(4000), 50)})
    query = Query([window.trailing(10**7), window.sliding(10**7, every=10**6)], {"n": agg.count()}, key=key)
    answer = query.spark(frame_of(session, table))
    assert partitions(answer) >= 4 + (key is not None)  # two pieces for each of two cores, and the other keys
    assert listed(answer.toArrow()) == listed(query.run(table))
    few = table.slice(0, 400)
    assert partitions(query.spark(frame_of(session, few))) < 4, "and no key that is short"


@pytest.mark.parametrize("seed", range(6))
def test_random_queries(seed: int, session: Any) -> None:
    """Small Arrow batches, few partitions or many, long keys cut where they can be."""
    chance = random.Random(seed)
    query, listed_rows = drawn(strategies.queries(), seed), []
    while len(listed_rows) < 12:
        listed_rows = drawn(strategies.tables(), chance.randrange(1 << 30))
    table = as_table(listed_rows, query)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        found = asked(query).spark(frame_of(session, table), pieces=chance.choice([1, 3])).toArrow()
    finally:
        session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    ours, truth = answers(found, query), answers(asked(query).run(table), query)
    assert same(ours, truth), f"{query}\nours  {sorted(map(repr, ours))}\ntruth {sorted(map(repr, truth))}"


# ---------------------------------------------------------------- Spark's own windows


def as_spark_sees(frame: Any) -> list[str]:
    return sorted(repr(row) for row in frame.toArrow().to_pylist())


@pytest.mark.parametrize("path", ["python", "native"])
def test_equals_sparks_own_windows(path: str, session: Any) -> None:
    """Nulls, equal times, dates before 1970, and a zone whose clocks were set back in between."""
    from pyspark.sql import functions as F

    chance = np.random.default_rng(7)
    autumn = 1_698_537_600_000_000  # the evening of 2023-10-28 in Berlin
    times = (chance.integers(0, 50, 900) * 900_000_000) + chance.choice([autumn, -7_200_000_000 * 7], 900)
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array(chance.choice(["a", "b", None], 900).tolist(), pa.string()),
            "v": pa.array(chance.choice([1.5, -2.0, float("nan"), None], 900).tolist(), pa.float64()),
            "i": pa.array(chance.integers(-9, 9, 900), pa.int32()),
        }
    )
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = frame_of(session, table)
        for ours, theirs in (
            (window.tumbling("90 minutes"), F.window("ts", "90 minutes")),
            (
                window.sliding("2 hours", every="45 minutes", offset="10 minutes"),
                F.window("ts", "2 hours", "45 minutes", "10 minutes"),
            ),
        ):
            aggregates = {"n": agg.count(), "low": agg.min("v"), "high": agg.max("v"), "total": agg.sum("i")}
            query = Query(ours, aggregates, key="k")
            found = query.spark(frame, path=path).select("k", "window", *aggregates)
            truth = frame.groupBy("k", theirs.alias("window")).agg(
                F.count("*").alias("n"), F.min("v").alias("low"), F.max("v").alias("high"), F.sum("i").alias("total")
            )
            assert as_spark_sees(found) == as_spark_sees(truth)
        if path == "python":
            query = Query(window.session("15 minutes"), {"n": agg.count(), "mean": agg.mean("i")}, key="k")
            found = query.spark(frame).select("k", "window", "n", "mean")
            grouped = frame.groupBy("k", F.session_window("ts", "15 minutes").alias("window"))
            truth = grouped.agg(F.count("*").alias("n"), F.avg("i").alias("mean"))
            assert as_spark_sees(found) == as_spark_sees(truth)
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


# ---------------------------------------------------------------- Spark's own operators


@pytest.mark.parametrize("kind", ["timestamp", "date", "integer"])
def test_native_equals_run(kind: str, session: Any) -> None:
    table = calls(800, seed=9)
    if kind == "date":
        table = table.set_column(0, "ts", table["ts"].cast(pa.date32()))
    elif kind == "integer":
        table = table.set_column(0, "ts", pa.array(table["ts"].cast(pa.int64()).to_numpy() // 1_000_000))
    one, three = {"timestamp": ("5 seconds", "15 seconds"), "date": ("1 day", "3 days"), "integer": (5, 15)}[kind]
    query = Query(
        [window.tumbling(one), window.sliding(three, every=one)],
        {"n": agg.count(), "held": agg.count("len"), "mean": agg.mean("len"), "most": agg.max("line")},
        key=["region", "line"],
    )
    frame = frame_of(session, table)
    found = query.spark(frame, path="native")
    assert found.schema.simpleString() == query.spark(frame, path="python").schema.simpleString()
    assert listed(found.toArrow()) == listed(query.run(table))


FRAMES = {
    "trailing": window.trailing(rows(3)),
    "before its row": window.trailing(rows(4), delay=rows(2)),
    "leading": window.leading(rows(5)),
    "around": window.frame(rows(2), rows(3)),
    "long": window.trailing(rows(300)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_native_frames_equal_run(name: str, session: Any) -> None:
    """Equal times, nulls, keys of one row, and frames without rows."""
    table = calls(400, seed=11)
    table = table.set_column(0, "ts", pc.floor_temporal(table["ts"], 1, "second"))
    query = Query(
        FRAMES[name],
        {"n": agg.count(), "held": agg.count("len"), "mean": agg.mean("len"), "most": agg.max("line")},
        key=["region", "line"],
    )
    frame = frame_of(session, table)
    found = query.spark(frame, path="native")
    assert found.schema.simpleString() == query.spark(frame, path="python").schema.simpleString()
    assert listed(found.toArrow()) == listed(query.run(table))
    assert ("path native" in muntin.spark.explain(query, frame)) == (name != "long")


@pytest.mark.connect
def test_native_windows_beside_frames(session: Any) -> None:
    table = calls(200, seed=12)
    windows = [window.tumbling("5 seconds"), window.leading(rows(2))]
    query = Query(windows, {"n": agg.count()}, key="region")
    found = query.spark(frame_of(session, table), path="native").toArrow()
    assert listed(found) == listed(query.run(table))


@pytest.mark.connect
def test_explain_says_which_path_and_why(session: Any) -> None:
    frame = frame_of(session, calls(10, seed=1))

    def said(definition: Any, aggregate: Any = COUNT, **options: Any) -> str:
        return muntin.spark.explain(Query(definition, {"n": aggregate}, key="region"), frame, **options)

    assert "path python: as was asked for" in said(window.tumbling("1 hour"), path="python")
    assert "path native: all windows are tumbling" in said(window.tumbling("1 hour"))
    assert "holds several slices" in said(window.sliding("1 hour", every="1 second"))
    assert "cut by time into pieces" in said(window.trailing("1 hour"))
    assert "path native: a frame holds 16 rows or fewer" in said(window.trailing(rows(3)))
    session.conf.set("spark.sql.window.segmentTree.enabled", "true")
    try:
        assert "path python" in said(window.trailing(rows(3)))
    finally:
        session.conf.unset("spark.sql.window.segmentTree.enabled")
    assert "by arrival" in said(window.trailing(rows(17)))
    assert "look at each row of a frame" in said(window.trailing(rows(17)))
    assert "agg.median('len'), and not one of" in said(window.tumbling("1 hour"), agg.median("len"))
    assert "window.punctuated('line') cannot be cut by time" in said(window.punctuated("line"))
    assert "window.delta('line', 5.0) needs all rows of a key at once" in said(window.delta("line", 5.0))


@pytest.mark.connect
def test_explain_says_what_would_be_faster_in_another_session(session: Any) -> None:
    """Where Python answers, and Spark adds up the bytes of its batches; the session is left as it is."""
    finite, streaming = frame_of(session, calls(10, seed=1)), session.readStream.format("rate").load()
    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    trailing = Query(window.trailing("1 hour"), {"n": agg.count()})
    tumbling = Query(window.tumbling("1 hour"), {"n": agg.count()})

    def is_advised(query: Query, frame: Any, **options: Any) -> bool:
        return f"{name}=2147483647 saves that" in muntin.spark.explain(query, frame, **options)

    before = session.conf.get(name, None)
    try:
        session.conf.unset(name)
        assert is_advised(trailing, finite)
        assert is_advised(trailing, finite, over=True)
        assert is_advised(tumbling, streaming)
        assert not is_advised(tumbling, finite), "Spark answers it alone"
        session.conf.set(name, "64m")
        assert is_advised(trailing, finite)
        trailing.spark(finite)
        assert session.conf.get(name) == "64m"
        session.conf.set(name, "2147483647")
        assert not is_advised(trailing, finite)
        assert not is_advised(tumbling, streaming)
    finally:
        session.conf.unset(name)
        if before is not None:
            session.conf.set(name, before)


@pytest.mark.connect
def test_one_s_own_aggregation(session: Any) -> None:
    @agg.define(state={"n": "i8", "total": "f8"})
    class middle:
        def lift(v):
            return (1, v)

        def combine(a, b):
            return (a.n + b.n, a.total + b.total)

        def lower(s):
            return s.total / s.n

    table = calls(300, seed=3)
    query = Query(window.sliding("9 seconds", every="3 seconds"), {"m": middle("len")}, key="region")
    assert listed(query.spark(frame_of(session, table)).toArrow()) == listed(query.run(table))


@pytest.mark.connect
def test_refusals(session: Any) -> None:
    frame = frame_of(session, calls(10, seed=1))
    query = Query(window.tumbling("1 hour"), {"n": agg.max("speed")})
    with pytest.raises(ColumnError, match="there is no column 'speed'"):
        query.spark(frame)
    query = Query(window.trailing("1 hour"), {"n": agg.max("len")})
    with pytest.raises(InvalidArgumentError, match="path is 'fast'; it is one of auto, python, native"):
        query.spark(frame, path="fast")
    with pytest.raises(UnsupportedOperationError, match="neither tumbling nor sliding by time, nor a frame by rows"):
        query.spark(frame, path="native")
    with pytest.raises(InvalidArgumentError, match="pieces is 2, and Spark's own operators cut no keys"):
        Query(window.tumbling("1 hour"), {"n": agg.max("len")}).spark(frame, path="native", pieces=2)
    with pytest.raises(InvalidArgumentError, match="pieces is 0"):
        query.spark(frame, pieces=0)
    with pytest.raises(UnsupportedOperationError, match="are for streaming DataFrames"):
        query.spark(frame, late=True)
    with pytest.raises(InvalidArgumentError, match="no time column"):
        Query(window.tumbling("1 hour"), {"n": agg.count()}, time=None).spark(frame)


@pytest.mark.parametrize("path", ["python", "native"])
def test_a_row_without_a_time_is_refused(path: str, session: Any) -> None:
    table = pa.table({"ts": pa.array([1, None, 3]), "v": [1, 2, 3]})
    query = Query(window.tumbling(10), {"n": agg.count()})
    with pytest.raises(Exception, match="the time column 'ts' is null in"):
        query.spark(frame_of(session, table), path=path).collect()


def test_a_long_key_without_a_time_is_refused(session: Any) -> None:
    table = pa.table({"ts": pa.array([None] * 9, pa.timestamp("us", "UTC")), "v": list(range(9))})
    query = Query(window.trailing("1 hour"), {"n": agg.count()})
    with pytest.raises(Exception, match="ts.*null"):
        query.spark(frame_of(session, table), pieces=3).toArrow()


@pytest.mark.connect
def test_sessions_with_gaps_are_those_of_spark(session: Any) -> None:
    """Also where windows only touch, and where a long gap reaches over others; Spark filters rows without a gap."""
    from pyspark.sql import functions as F

    table, chance = calls(600, 5), np.random.default_rng(6)
    seconds = chance.choice([0, 1, 1, 2, 3, 30], len(table))
    gaps = pa.array(seconds * 1_000_000, pa.duration("us"), mask=chance.random(len(table)) < 0.1)
    frame = frame_of(session, table.append_column("gap", gaps))
    query = Query(window.session(gap_column="gap"), {"n": COUNT, "total": agg.sum("len")}, key="region")
    ours = query.spark(frame).select("region", "window.start", "window.end", "n", "total")
    spans = F.session_window("ts", F.concat(F.expr("extract(SECOND FROM gap)").cast("string"), F.lit(" seconds")))
    native = frame.groupBy("region", spans.alias("w")).agg(F.count("*").alias("n"), F.sum("len").alias("total"))
    theirs = native.select("region", "w.start", "w.end", "n", "total")
    assert listed(ours.toArrow()) == listed(theirs.toArrow())
    whole = query.run(table.append_column("gap", gaps))
    assert ours.count() == whole.num_rows
