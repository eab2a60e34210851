"""columns= and where= on Spark: the answers of `run`, and of Spark's own SQL without ANSI mode."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from computing.random_expressions import expression, table
from computing.test_functions import CASES, ROWS
from computing.test_queries import EXPRESSED, WINDOWED, plain, rows
from spark.feed import Feed
from spark.test_batch import frame_of, listed

import muntin.spark
from muntin import Query, agg, window
from muntin.errors import ColumnError, MuntinError, SnapshotError
from muntin.expressions.rows import RowExpressions
from muntin.expressions.typed import Typed
from muntin.spark.schemas import spark_schema

COUNT = int(os.environ.get("MUNTIN_EXPRESSIONS", "120"))
"""How many random expressions are compared; 2,000 take some minutes."""
AT_ONCE = 60


@contextmanager
def settings(session: Any, **given: str) -> Iterator[None]:
    names = {name: f"spark.sql.{name.replace('_', '.')}" for name in given}
    before = {name: session.conf.get(names[name]) for name in given}
    try:
        for name, value in given.items():
            session.conf.set(names[name], value)
        yield
    finally:
        for name, value in before.items():
            session.conf.set(names[name], value)


def selected(session: Any, data: pa.Table, texts: list[str]) -> pa.Table:
    from pyspark.sql import functions as F

    frame = session.createDataFrame(data, schema=spark_schema(data.schema))
    return frame.select(*(F.expr(text).alias(f"e{i}") for i, text in enumerate(texts))).toArrow()


def plain_cells(column: pa.ChunkedArray) -> list[Any]:
    """Return values in which NaN equals itself, -0.0 is none of 0.0, and times are integers."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return [(str(cell), math.copysign(1, cell)) if isinstance(cell, float) else cell for cell in column.to_pylist()]


def require_same(data: pa.Table, texts: list[str], found: pa.Table, what: str) -> None:
    for i, text in enumerate(texts):
        ours = RowExpressions.of({"out": text}, None, data.schema).over(data)["out"]
        assert ours.type == found[f"e{i}"].type, (what, text)
        assert plain_cells(ours) == plain_cells(found[f"e{i}"]), (what, text)


def for_spark(data: pa.Table, text: str) -> str:
    names = {name: f"`{name}`" for name in data.column_names}
    return RowExpressions.of({"out": text}, None, data.schema).texts(names)["out"]


def loses_digits(part: Typed) -> bool:
    """Return whether a decimal of more than 34 digits is negated: Spark's own minus, and ABS, lose the last ones."""
    wide = pa.types.is_decimal(part.type) and part.type.precision > 34
    return (wide and part.name in ("NEGATE", "ABS")) or any(map(loses_digits, part.arguments))


def known(draw: random.Random, schema: pa.Schema, count: int) -> list[str]:
    """Return random expressions that are not refused."""
    texts: list[str] = []
    while len(texts) < count:
        text = expression(draw)
        try:
            typed = RowExpressions.of({"out": text}, None, schema).columns["out"]
        except MuntinError:
            continue
        if not loses_digits(typed):
            texts.append(text)
    return texts


@pytest.mark.parametrize("part", range(max(1, COUNT // AT_ONCE)))
def test_random_expressions_are_those_of_spark(session: Any, part: int) -> None:
    """Spark's own SQL gives our values in our types; and so, in ANSI mode, does the text that it is given."""
    seed = int(os.environ.get("MUNTIN_SEED", random.randrange(2**32))) + part
    draw = random.Random(seed)
    data = table(draw)
    texts = known(draw, data.schema, AT_ONCE)
    with settings(session, ansi_enabled="false", session_timeZone="UTC"):
        require_same(data, texts, selected(session, data, texts), f"seed {seed}, as it is written")
    with settings(session, ansi_enabled="true", session_timeZone="America/New_York"):
        written = [for_spark(data, text) for text in texts]
        require_same(data, texts, selected(session, data, written), f"seed {seed}, as it is sent")


@pytest.mark.connect
def test_every_function_is_that_of_spark(session: Any) -> None:
    texts = [text for text, kind, _ in CASES if not pa.types.is_null(kind)]
    with settings(session, ansi_enabled="false"):
        require_same(ROWS, texts, selected(session, ROWS, texts), "as it is written")
    with settings(session, ansi_enabled="true"):
        require_same(ROWS, texts, selected(session, ROWS, [for_spark(ROWS, text) for text in texts]), "as it is sent")


def test_a_long_sum_stays_short_for_spark(session: Any) -> None:
    """Sums of BIGINT hold their operands twice in ANSI mode, for when they wrap; nested, that must not grow."""
    data = pa.table({"v": pa.array([2**63 - 1, -5, None], pa.int64())})
    text = " + ".join(["v"] * 20)  # of 60 Spark's parser may find no end
    with settings(session, ansi_enabled="true"):
        assert len(for_spark(data, text)) < 20_000
        require_same(data, [text], selected(session, data, [for_spark(data, text)]), "as it is sent")


# ---------------------------------------------------------------- queries


@pytest.mark.connect
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_batches_answer_as_run(session: Any, ansi: str) -> None:
    data = rows(random.Random(1)).sort_by("t")
    with settings(session, ansi_enabled=ansi):
        answers = WINDOWED.spark(frame_of(session, data)).toArrow()
    assert listed(answers) == listed(WINDOWED.run(data))


@pytest.mark.parametrize("path", ["native", "python"])
def test_both_paths_compute(session: Any, path: str) -> None:
    query = Query(
        window.tumbling(10), {"most": agg.max("revenue"), "n": agg.count()}, key="zone", time="t",
        columns={"revenue": "CAST(price * 4 AS BIGINT) * pieces", "zone": "UPPER(country)"}, where="price > 0",
    )  # fmt: skip
    data = rows(random.Random(2))
    assert listed(query.spark(frame_of(session, data), path=path).toArrow()) == listed(query.run(data))
    assert f"path {path}" in str(muntin.spark.explain(query, frame_of(session, data), path=path))


@pytest.mark.connect
def test_over_returns_the_rows_that_the_condition_holds_for(session: Any) -> None:
    data = rows(random.Random(3)).rename_columns(["t", "price", "pieces", "country", "odd.`name`"])
    answers = EXPRESSED.over(frame_of(session, data))
    truth = EXPRESSED.over(data)
    assert answers.columns == truth.column_names
    assert listed(answers.toArrow()) == listed(truth)
    points = pa.table({"zone": ["D", "F", "X", "E"], "t": [50, 120, 10, 299]})
    there = EXPRESSED.over(frame_of(session, data), at=frame_of(session, points))
    assert listed(there.toArrow()) == listed(EXPRESSED.over(data, at=points))


def test_over_where_an_aggregate_is_called_as_its_column(session: Any) -> None:
    query = Query(window.trailing(10), {"v2": agg.sum("v2")}, key="k", time="t", columns={"v2": "v * 2", "k": "k % 2"})
    data = pa.table({"t": [1, 2, 3], "k": [1, 3, 2], "v": [1, 2, 3]})
    found = query.over(frame_of(session, data))
    assert found.columns == ["t", "k", "v", "v2"]
    assert listed(found.toArrow()) == listed(query.over(data))
    with_schema = query.over(frame_of(session, data), schema=data.schema)
    assert listed(with_schema.toArrow()) == listed(query.over(data))


def test_given_schemas_are_enough(session: Any) -> None:
    data = rows(random.Random(4)).sort_by("t")
    answers = WINDOWED.spark(frame_of(session, data), schema=data.schema)
    assert listed(answers.toArrow()) == listed(WINDOWED.run(data))


def test_missing_columns_are_told_at_their_place(session: Any) -> None:
    frame = frame_of(session, pa.table({"t": [1], "price": [1.0], "pieces": [2]}))
    with pytest.raises(ColumnError, match=r"line 1, column 15: where|line 1, column 17: columns|no column 'country'"):
        WINDOWED.spark(frame)


@pytest.mark.parametrize("history", [False, True], ids=["alone", "after a history"])
def test_streams_answer_as_over_computed_rows(session: Any, tmp_path: Path, history: bool) -> None:
    """Rows that are left out move no watermark; late ones are delivered with the computed columns."""
    query = Query(
        [window.tumbling("20 seconds"), window.session("4 seconds")],
        {"total": agg.sum("revenue"), "n": agg.count()}, key="zone", watermark="5 seconds",
        columns={"revenue": "price * pieces", "zone": "UPPER(country)"}, where="price > 0",
    )  # fmt: skip
    data = rows(random.Random(5), 120)
    times = pa.array([t * 1_000_000 for t in data["t"].to_pylist()], pa.timestamp("us", "UTC"))
    data = data.drop_columns(["t", "note"]).add_column(0, "ts", times)
    far = data.slice(0, 1).set_column(0, "ts", pa.array([10**13], pa.timestamp("us", "UTC")))
    far = far.set_column(1, "price", pa.array([-1.0]))
    parts = [pa.concat_tables([data.slice(0, 40), far]), data.slice(40, 40), data.slice(80)]

    def hand(part: pa.Table) -> pa.Table:
        import pyarrow.compute as pc

        kept = part.filter(pc.greater(part["price"], 0.0))
        made = kept.append_column("revenue", pc.multiply(kept["price"], kept["pieces"].cast(pa.float64())))
        return made.append_column("zone", pc.ascii_upper(made["country"]))

    found: list[list[dict[str, Any]]] = []
    for name, asked, computed in (("ours", query, lambda part: part), ("by hand", plain(query), hand)):
        feed = Feed(session, tmp_path / name, computed(parts[0]).schema)
        for part in parts[1:] if history else parts:
            feed.add(computed(part))
        past = frame_of(session, computed(parts[0])) if history else None
        out = feed.run(asked, late=True, buckets=2, history=past)
        answers = pa.concat_tables(out)
        found.append(listed(answers.drop_columns(["late"])))
        if name == "ours":
            feed.add(parts[0])
            with pytest.raises(Exception, match=r"its where is price > 0, this one's is price > 1"):
                feed.run(replace(query, where="price > 1"), late=True, buckets=2)
            other = replace(query, columns={**query.expressions, "revenue": "price"})
            with pytest.raises(SnapshotError, match="its column revenue is price"):
                other.spark(feed.frame(), late=True, checkpoint=str(tmp_path / name / "checkpoint"))
    assert found[0] == found[1]
