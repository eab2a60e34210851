"""Tables that are awkward: names, types and arguments that Spark has its own mind about. Finite and streaming."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark.feed import Feed

from muntin import Query, agg, rows, window
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError

TICK = 1_000_000


def answered(query: Query, session: Any, where: Path, table: pa.Table) -> list[pa.Table]:
    """Return the answers of both engines of Spark; the stream's last window is closed by a row far away."""
    finite = session.createDataFrame(table)
    end = {name: table[name][0] for name in table.column_names}
    far = pa.scalar(10**12 if pa.types.is_int64(table.schema.field(query.time).type) else 10**15)
    end[query.time] = far.cast(table.schema.field(query.time).type)
    feed = Feed(session, where, table.schema)
    feed.add(table)
    feed.add(pa.table({name: pa.array([value.as_py()], table.schema.field(name).type) for name, value in end.items()}))
    stream = pa.concat_tables(feed.run(query, buckets=2))
    return [query.spark(finite, path="python").toArrow(), stream.filter(pa.array(_before(stream, far.as_py())))]


def _before(table: pa.Table, far: int) -> list[bool]:
    ends = table["window"].combine_chunks().field("end").cast(pa.int64()).to_pylist()
    return [end < far for end in ends]


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


TABLE = pa.table(
    {
        "a.b": pa.array(["x", "y", "x"]),
        "t `1`": pa.array([0, TICK, 2 * TICK], pa.timestamp("us", "UTC")),
        "v": [1, 2, 3],
        "W W": [10.0, 20.0, 30.0],
    }
)


@pytest.mark.connect
def test_names(session: Any, tmp_path: Path) -> None:
    """A dot, a backtick and a space: in keys, times, columns and aggregates."""
    query = Query(
        [window.sliding("4 seconds", every="2 seconds"), window.trailing(rows(2))],
        {"s v": agg.sum("v"), "W W": agg.sum("W W"), "x.y": agg.arg_max("v", "W W")},
        key="a.b",
        time="t `1`",
    )
    truth = query.run(TABLE)
    for found in answered(query, session, tmp_path, TABLE):
        assert found.column_names == truth.column_names
        assert listed(found) == listed(truth)


@pytest.mark.parametrize("path", ["python", "native"])
def test_names_that_differ_in_case(path: str, session: Any) -> None:
    """Columns as well as aggregates; Spark itself takes each name for the other."""
    table = TABLE.append_column("V", pa.array([7.0, 8.0, 9.0]))
    aggregates = {"V": agg.sum("W W"), "v": agg.sum("V"), "n": agg.max("v")}
    query = Query([window.tumbling(f"{n} seconds") for n in (2, 3)], aggregates, key="a.b", time="t `1`")
    found = query.spark(session.createDataFrame(table), path=path).toArrow()
    assert found.column_names == query.run(table).column_names
    assert listed(found) == listed(query.run(table))


def test_aggregates_that_differ_in_case_on_a_stream(spark: Any, tmp_path: Path) -> None:
    query = Query(window.tumbling("2 seconds"), {"V": agg.sum("v"), "v": agg.max("v")}, key="a.b", time="t `1`")
    _, found = answered(query, spark, tmp_path, TABLE)
    assert listed(found) == listed(query.run(TABLE))


def test_times_without_a_zone_are_the_default(session: Any, tmp_path: Path) -> None:
    """With such a setting the times of all else are as before, and times without a zone stay so."""
    query = Query(window.sliding("4 seconds", every="2 seconds"), {"n": agg.count()}, time="ts")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        for zone in (None, "UTC"):
            table = pa.table({"ts": pa.array([0, TICK, 5 * TICK], pa.timestamp("us", zone))})
            for found in answered(query, session, tmp_path / str(zone), table):
                assert found.schema.field("window").type.field("start").type == pa.timestamp("us", zone)
                assert listed(found) == listed(query.run(table))
    finally:
        session.conf.unset("spark.sql.timestampType")


DECIMALS = {"v": pa.decimal128(10, 2), "wide": pa.decimal128(36, 20)}


def test_decimals_are_sparks(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    numbers = [decimal.Decimal(text) for text in ("0.01", "0.02", "-7.15", "99999999.99", "0.05", "0.05", "0.01")]
    columns = {name: pa.array(numbers, kind) for name, kind in DECIMALS.items()}
    table = pa.table({"t": [0, 1, 2, 10, 20, 21, 22], **columns})
    how = {f"{name} {each}": (name, each) for each in DECIMALS for name in ("sum", "mean")}
    query = Query(window.tumbling(10), {out: getattr(agg, name)(each) for out, (name, each) in how.items()}, time="t")
    grouped = session.createDataFrame(table).groupBy(F.expr("t div 10").alias("w"))
    truth = (
        grouped.agg(*(getattr(F, name)(each).alias(out) for out, (name, each) in how.items())).orderBy("w").toArrow()
    )
    assert truth.schema.field("sum v").type == pa.decimal128(20, 2)
    assert truth.schema.field("mean v").type == pa.decimal128(14, 6)
    assert truth.schema.field("sum wide").type == pa.decimal128(38, 20)
    for found in (query.run(table), *answered(query, session, tmp_path, table)):
        in_order = found.take(pc.sort_indices(pc.struct_field(found["window"].combine_chunks(), "start")))
        assert in_order.select(list(how)).cast(truth.select(list(how)).schema).equals(truth.select(list(how)))
        assert [found.schema.field(out).type for out in how] == [truth.schema.field(out).type for out in how]


def test_a_decimal_that_does_not_fit_is_named_by_spark_too(session: Any) -> None:
    full = decimal.Decimal("9" * 36 + ".99")
    table = pa.table({"t": [0, 1], "v": pa.array([full, full], pa.decimal128(38, 2))})
    query = Query(window.tumbling(10), {"s": agg.sum("v")}, time="t")
    with pytest.raises(Exception, match=r"agg.sum\('v'\): the answer 19{36}\.98 .* does not fit decimal128\(38, 2\)"):
        query.spark(session.createDataFrame(table)).toArrow()


NESTED = {
    "struct": pa.array([{"a": 1}, {"a": 1}, {"a": 2}]),
    "array": pa.array([[1], [1], [2]]),
    "map": pa.array([[("a", 1)], [("a", 1)], []], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_keys(kind: str, session: Any) -> None:
    table = pa.table({"t": [0, 1, 2], "k": NESTED[kind]})
    query = Query(window.trailing(rows(2)), {"n": agg.count()}, key="k", time="t")
    assert sorted(query.run(table)["n"].to_pylist()) == [1, 1, 2]
    with pytest.raises(ColumnTypeError, match="the key column 'k' holds .* make its parts columns of their own"):
        query.spark(session.createDataFrame(table))


def test_the_greatest_struct(session: Any, tmp_path: Path) -> None:
    """It is refused before any row is read, everywhere; what needs no order is not."""
    table = pa.table({"t": [0, 1, 2], "v": NESTED["struct"]})
    query = Query(window.tumbling(10), {"most": agg.max("v")}, time="t")
    match = r"most is agg.max\('v'\), and the column 'v' holds struct<a: int64>.*take a field"
    with pytest.raises(ColumnTypeError, match=match):
        query.run(table)
    with pytest.raises(ColumnTypeError, match=match):
        query.spark(session.createDataFrame(table))
    with pytest.raises(ColumnTypeError, match=match):
        query.spark(Feed(session, tmp_path, table.schema).frame())
    last = Query(window.tumbling(10), {"last": agg.last("v"), "n": agg.count_distinct("v")}, time="t")
    for found in answered(last, session, tmp_path / "last", table):
        assert [(row["last"], row["n"]) for row in found.to_pylist()] == [({"a": 2}, 2)]


def test_a_variant_stays_one(session: Any) -> None:
    from pyspark.sql import functions as F

    frame = session.createDataFrame([(0, '{"a": 1}'), (1, '{"a": [2, 3]}')], "t long, text string")
    frame = frame.select("t", F.parse_json("text").alias("v"))
    answers = Query(window.tumbling(10), {"last": agg.last("v")}, time="t").spark(frame)
    assert answers.schema["last"].dataType.simpleString() == "variant"
    assert [row[0] for row in answers.select(F.to_json("last")).collect()] == ['{"a":[2,3]}']


def test_arguments(session: Any, tmp_path: Path) -> None:
    import pandas as pd
    from pyspark.sql import functions as F

    table = pa.table({"t": [0, 1, 2], "k": ["x", "y", "x"]})
    stream = Feed(session, tmp_path, table.schema).frame()
    query = Query(window.tumbling(10), {"n": agg.count()}, key=None, time="t")
    assert query == Query(window.tumbling(10), {"n": agg.count()}, time="t")
    with pytest.raises(UnsupportedOperationError, match="path is 'python': path and pieces are for finite"):
        query.spark(stream, path="python")
    with pytest.raises(UnsupportedOperationError, match="pieces is 3: path and pieces are for finite"):
        query.spark(stream, pieces=3)
    for frame in (pd.DataFrame({"t": [1]}), table, None):
        with pytest.raises(InvalidArgumentError, match="not a DataFrame of Spark: Query.run answers it"):
            query.spark(frame)
    for key in (F.col("k"), [F.col("k")], ["k", 1], 3):
        with pytest.raises(InvalidArgumentError, match="give the name of a column, or several"):
            Query(window.tumbling(10), {"n": agg.count()}, key=key, time="t")


@pytest.mark.connect
def test_collations(session: Any, tmp_path: Path) -> None:
    """Spark takes such texts for equal; what would compare them is refused by name, the rest is answered."""
    from pyspark.sql import functions as F

    table = pa.table({"t": [0, 1, 2], "k": ["a", "A", "b"]})
    keyed = Query(window.trailing(rows(2)), {"n": agg.count()}, key="k", time="t")
    most = Query(window.tumbling(10), {"most": agg.max("k")}, time="t")
    last = Query(window.tumbling(10), {"last": agg.last("k"), "n": agg.count("k")}, time="t")
    finite = session.createDataFrame(table)
    stream = Feed(session, tmp_path, table.schema).frame()
    for frame in (finite, stream):
        collated = frame.withColumn("k", F.collate("k", "UTF8_LCASE"))
        with pytest.raises(ColumnTypeError, match="key column 'k' has the collation UTF8_LCASE.*lower"):
            keyed.spark(collated)
        nested = collated.withColumn("k", F.array(F.struct("k")))
        if nested.isStreaming:
            with pytest.raises(ColumnTypeError, match="key column 'k' has the collation UTF8_LCASE"):
                keyed.spark(nested)
        with pytest.raises(ColumnTypeError, match="most is agg.max.*'k' has the collation UTF8_LCASE"):
            most.spark(collated)
        last.spark(collated)
    collated = finite.withColumn("k", F.collate("k", "UTF8_LCASE"))
    (row,) = last.spark(collated).toArrow().to_pylist()
    assert (row["last"], row["n"]) == ("b", 3)
    # The way that the error names.
    lowered = collated.withColumn("k", F.collate(F.lower("k"), "UTF8_BINARY"))
    assert keyed.spark(lowered).toArrow().sort_by("k")["n"].to_pylist() == [1, 2, 1]
