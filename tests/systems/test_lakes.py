"""`muntin.spark.upsert` into tables of Delta and Iceberg, by one MERGE a batch: the last word on each window."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin
import muntin.spark
from muntin import Query, agg, policies, rows, window
from muntin.errors import ColumnError, InvalidArgumentError
from muntin.kernels.cache import uncompiled

pytestmark = pytest.mark.filterwarnings("ignore")  # pyspark's own
upserting: Any = importlib.import_module("muntin.spark.upsert")
SLIDING = Query(
    [window.session(3), window.tumbling(rows(2))],
    {"n": agg.count(), "total": agg.sum("v")},
    key="k",
    time="t",
    allowed_lateness=90,
)
TUMBLING = Query(window.tumbling(10), {"n": agg.sum("v")}, key="k", time="t", allowed_lateness=90)
FILLING = Query(
    window.tumbling(rows(3)), {"n": agg.count()}, key="k", time="t", partial=True, emit_early=1, allowed_lateness=9
)
POLICY = Query(window.policy(policies.at_most_rows(2)), {"n": agg.count()}, key="k", time="t", allowed_lateness=99)
_numbers = count()


@pytest.fixture(params=["delta", "iceberg", "delta folder"])
def target(request: pytest.FixtureRequest, lake: Any, tmp_path: Path) -> Iterator[str]:
    """A table that is not there yet; one of Delta in the catalog is made by the test's user, empty."""
    number = next(_numbers)
    if request.param == "delta folder":
        yield f"delta.`{tmp_path}/answers`"
        return
    if request.param == "iceberg":
        yield f"ice.db.answers_{number}"
        return
    lake.conf.set("spark.sql.sources.default", "delta")
    yield f"default.answers_{number}"
    lake.conf.unset("spark.sql.sources.default")
    lake.sql(f"DROP TABLE IF EXISTS default.answers_{number}")


def emitted(query: Query, *times: list[int], key: Any = "a") -> list[pa.Table]:
    with uncompiled():
        stream = query.stream()
        keys = [pa.array([key] * len(each), pa.string()) for each in times]
        return [stream.push({"t": t, "k": k, "v": t}) for t, k in zip(times, keys, strict=True)]


def listed(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def held(lake: Any, target: str) -> pa.Table:
    if target.startswith("ice."):
        lake.catalog.refreshTable(target)  # a session caches tables of Iceberg, and each batch of a stream has its own
    return lake.sql(f"SELECT * FROM {target}").toArrow()


def files(target: str) -> str:
    return target.removeprefix("delta.`").removesuffix("`")


@pytest.mark.parametrize("key", ["a", None])
def test_each_state_is_that_of_latest(lake: Any, target: str, key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upserting, "_run", lambda _: "a")
    batches = emitted(SLIDING, [1, 2, 10, 11, 20], [6, 21, 40], [4, 8, 45], key=key)
    for number, batch in enumerate(batches):
        for _ in range(2):
            muntin.spark.upsert(lake.createDataFrame(batch), target, SLIDING)
            assert listed(held(lake, target)) == listed(muntin.latest(pa.concat_tables(batches[: number + 1])))
    assert True in batches[-1]["retracted"].to_pylist()


@pytest.mark.parametrize(("query", "times"), [(FILLING, [[1], [2], [3, 5]]), (POLICY, [[1, 20], [3, 18], [2, 40]])])
def test_windows_whose_bounds_move(lake: Any, target: str, query: Query, times: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(upserting, "_run", lambda _: "a")
    batches = [each for each in emitted(query, *times) if each.num_rows]
    for batch in batches:
        muntin.spark.upsert(lake.createDataFrame(batch), target, query)
    assert listed(held(lake, target)) == listed(muntin.latest(pa.concat_tables(batches)))


def test_another_run_is_later(lake: Any, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, revised = emitted(TUMBLING, [1, 2, 30], [3, 31])
    for run, batch, wanted in (
        ("a", first, 3),
        ("a", revised, 6),
        ("a", first, 6),
        ("b", first, 3),
        (None, revised, 6),
    ):
        monkeypatch.setattr(upserting, "_run", lambda _, run=run: run)
        muntin.spark.upsert(lake.createDataFrame(batch), target)
        assert held(lake, target)["n"].to_pylist() == [wanted]


def test_several_at_once(lake: Any, target: str) -> None:
    """None of their windows is lost; who is not on this machine gets the format's own error."""
    frames = [lake.createDataFrame(emitted(TUMBLING, [10 * i, 10 * i + 60])[0]) for i in range(4)]
    muntin.spark.upsert(frames[0].limit(0), target)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda frame: muntin.spark.upsert(frame, target), frames))
    assert sorted(row["window"]["start"] for row in held(lake, target).to_pylist()) == [0, 10, 20, 30]


def test_an_empty_batch_and_other_columns(lake: Any, target: str) -> None:
    (batch,) = emitted(TUMBLING, [1, 2, 30])
    frame = lake.createDataFrame(batch)
    muntin.spark.upsert(frame.limit(0), target)
    assert (held(lake, target).num_rows, held(lake, target).column_names) == (0, batch.column_names)
    muntin.spark.upsert(frame, target)
    with pytest.raises(ColumnError, match="is of another query: its column 'n' is bigint, that of the answers not th"):
        muntin.spark.upsert(frame.drop("n"), target)
    assert held(lake, target).num_rows == 1


def test_a_folder_of_delta_is_no_folder_of_files(lake: Any, tmp_path: Path) -> None:
    frame = lake.createDataFrame(emitted(TUMBLING, [1, 2, 30])[0])
    muntin.spark.upsert(frame, f"delta.`{tmp_path}/answers`")
    with pytest.raises(InvalidArgumentError, match="is a table of Delta: write delta.`"):
        muntin.spark.upsert(frame, tmp_path / "answers")


def test_a_stream_that_fails_after_its_merge(lake: Any, target: str, tmp_path: Path) -> None:
    """Spark runs the batch again, and nothing changes; what was emitted wrong is never there."""
    query = Query(window.tumbling("10 s"), {"n": agg.sum("v")}, key="k", watermark="5 s", allowed_lateness="1 hour")
    source, failing = tmp_path / "rows", [False]
    source.mkdir()

    def feed(number: int, *seconds: int) -> None:
        lines = [{"ts": f"2024-05-01T09:{t // 60:02}:{t % 60:02}", "k": "a", "v": t} for t in seconds]
        (source / f".{number}").write_text("".join(json.dumps(each) + "\n" for each in lines))
        (source / f".{number}").rename(source / f"{number}.json")

    def write(batch: Any, _: int) -> None:
        muntin.spark.upsert(batch, target, query)
        if failing[0]:
            raise ZeroDivisionError

    def run() -> list[int]:
        frame = lake.readStream.schema("ts TIMESTAMP, k STRING, v BIGINT").json(str(source))
        writer = query.spark(frame).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        return [row["n"] for row in sorted(held(lake, target).to_pylist(), key=lambda row: row["window"]["start"])]

    feed(0, 1, 2, 31)
    assert run() == [3]
    feed(1, 3, 12, 61)
    failing[0] = True
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run()
    failing[0] = False
    assert run() == [6, 12, 31]
    assert run() == [6, 12, 31]
