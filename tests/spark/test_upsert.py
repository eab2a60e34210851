"""`muntin.spark.upsert`: the last word on each window, batch after batch, also of one that runs again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin
import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled

SLIDING = Query(
    [window.session(3), window.tumbling(rows(2))],
    {"n": agg.count(), "total": agg.sum("v")},
    key="k",
    time="t",
    allowed_lateness=90,
)
"""Sessions that late rows merge and retract, and windows by rows whose times late rows change."""
FILLING = Query(
    window.tumbling(rows(3)), {"n": agg.count()}, key="k", time="t", partial=True, emit_early=1, allowed_lateness=9
)


def emitted(query: Query, *times: list[int]) -> list[pa.Table]:
    with uncompiled():
        stream = query.stream()
        pushes = [{"t": each, "k": ["a"] * len(each), "v": each} for each in times]
        return [stream.push(push) for push in pushes]


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


KINDS = pa.schema({"ts": pa.timestamp("us", "UTC"), "len": pa.float64(), "region": pa.string(), "caller": pa.string()})
BATCHES = emitted(SLIDING, [1, 2, 10, 11, 20], [6, 21, 40], [4, 8, 45])


def test_a_folder(session: Any, tmp_path: Path) -> None:
    """Each state is that of `latest`; a batch that runs again, or was interrupted, changes nothing."""
    place = tmp_path / "answers"
    for number, batch in enumerate(BATCHES):
        frame = session.createDataFrame(batch)
        if number == 1:
            place.rename(tmp_path / "answers.old")  # as if the one before had been interrupted
        muntin.spark.upsert(frame, place)
        truth = muntin.latest(pa.concat_tables(BATCHES[: number + 1]))
        assert listed(session.read.parquet(str(place)).toArrow()) == listed(truth)
    assert True in BATCHES[-1]["retracted"].to_pylist()
    muntin.spark.upsert(frame, place)
    assert listed(session.read.parquet(str(place)).toArrow()) == listed(truth)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["answers"]
    with pytest.raises(ColumnError, match="is of another query: its column 'n' is bigint, that of the answers not the"):
        muntin.spark.upsert(frame.drop("n"), place)
    with pytest.raises(
        InvalidArgumentError,
        match="'nowhere://x' is no folder that can be reached from here: give a folder of a disk or of HDFS",
    ):
        muntin.spark.upsert(frame, "nowhere://x")
    with pytest.raises(InvalidArgumentError, match="there is no column 'window'"):
        muntin.spark.upsert(session.range(1), place)
    with pytest.raises(ColumnError, match="take them out with muntin.spark.split"):
        muntin.spark.upsert(frame.withColumn("late", frame["k"]), place)
    with pytest.raises(UnsupportedOperationError, match="this DataFrame is streaming: call it by foreachBatch"):
        muntin.spark.upsert(session.readStream.format("rate").load(), place)


def test_a_table(session: Any) -> None:
    """Windows that fill up keep their place, where the query is given; an interrupted batch is completed."""
    batches = emitted(FILLING, [1], [2], [3, 5], [9])[1:]
    whole = pa.concat_tables(batches)
    name = "default.muntin_upserted"
    try:
        muntin.spark.upsert(session.createDataFrame(batches[0]), name, FILLING)
        muntin.spark.upsert(session.createDataFrame(whole), name, FILLING)
        found = session.table(name)
        assert listed(found.toArrow().cast(whole.schema)) == listed(muntin.latest(whole))
        assert found.count() == 2
        session.createDataFrame(batches[0]).write.saveAsTable(f"{name}_muntin_next_1")
        muntin.spark.upsert(session.createDataFrame(batches[0]).limit(0), name, FILLING)
        assert session.table(name).toArrow()["n"].to_pylist() == batches[0]["n"].to_pylist()
        assert [each.name for each in session.catalog.listTables("default", "muntin_ups*")] == ["muntin_upserted"]
    finally:
        session.sql(f"DROP TABLE IF EXISTS {name}")


def test_the_recipe_for_sqlite(session: Any, tmp_path: Path) -> None:
    """The very code of the documentation, with the query that it begins with."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    space: dict[str, Any] = {"DATABASE": str(tmp_path / "answers.db"), "Query": Query, "agg": agg, "window": window}
    exec("query = Query(" + page.partition("query = Query(")[2].partition("\n)\n")[0] + ")", space)
    exec("import sqlite3\n" + page.partition("import sqlite3\n")[2].partition("```")[0], space)
    with uncompiled():
        stream = space["query"].stream()
        seconds = [[0, 60, 385], [330], [1500]]  # the second one extends a session that was emitted
        pushes = [{"ts": [1_000_000 * at for at in each], "len": [float(at) for at in each]} for each in seconds]
        batches = [
            stream.push(
                pa.table({**push, "region": ["a"] * len(push["ts"]), "caller": ["x"] * len(push["ts"])}).cast(KINDS)
            )
            for push in pushes
        ]
    for number, batch in enumerate([*batches, batches[-1]]):
        space["write"](session.createDataFrame(batch), number)
    with closing(sqlite3.connect(space["DATABASE"])) as database:
        found = database.execute("SELECT window_id, began, ended, longest, who, revision FROM answers").fetchall()
    whole = pa.concat_tables(batches)
    assert True in whole["retracted"].to_pylist()
    wanted = [
        (
            row["window_id"],
            *(str(row["window"][name])[:19] for name in ("start", "end")),
            row["longest"],
            "x",
            row["revision"],
        )
        for row in muntin.latest(whole).to_pylist()
    ]
    assert sorted(found) == sorted(wanted)
