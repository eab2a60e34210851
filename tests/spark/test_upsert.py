"""`muntin.spark.upsert`: the last word on each window, batch after batch, also of one that runs again."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
import muntin.spark
from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.spark.folders import Folder

upserting: Any = importlib.import_module("muntin.spark.upsert")

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


BATCHES = emitted(SLIDING, [1, 2, 10, 11, 20], [6, 21, 40], [4, 8, 45])


def test_a_folder(session: Any, tmp_path: Path) -> None:
    """Each state is that of `latest`; a batch that runs again, or was interrupted, changes nothing."""
    place = tmp_path / "answers"
    for number, batch in enumerate(BATCHES):
        frame = session.createDataFrame(batch)
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


def rows_of(place: Path) -> list[dict[str, Any]]:
    """Return what a reader of Parquet finds."""
    return pa.Table.from_batches(pq.ParquetDataset(place).read().to_batches()).to_pylist()


SOME, OTHER = (emitted(Query(window.tumbling(10), {"n": agg.sum("v")}, time="t"), [at, 40])[0] for at in (5, 15))
"""The same number of windows from another query, and none that both have."""


def numbers(place: Path) -> list[int]:
    return sorted(row["window"]["start"] for row in rows_of(place))


def test_what_is_beside_a_folder_stays(session: Any, tmp_path: Path) -> None:
    """Also below a link to it, and after an interrupted call."""
    for name in ("answers.old", "answers.next", ".answers", "answers_next"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").write_text(name)
    (tmp_path / "there").mkdir()
    (tmp_path / "answers").symlink_to("there")
    work = tmp_path / ".muntin-upsert-there"
    work.mkdir()
    (work / "mine").write_text("a user's")
    before = {each: each.read_text() for each in tmp_path.rglob("mine")}
    for batch in (SOME, OTHER):
        (work / ("next-" + "0" * 32)).mkdir()
        muntin.spark.upsert(session.createDataFrame(batch), tmp_path / "answers")
    assert {each: each.read_text() for each in tmp_path.rglob("mine")} == before
    assert [each.name for each in work.iterdir()] == ["mine"]
    assert (tmp_path / "answers").is_symlink()
    assert numbers(tmp_path / "answers") == [0, 10]


def test_what_is_no_target(session: Any, tmp_path: Path) -> None:
    """Each is named, and unchanged; an empty folder is as good as none."""
    frame = session.createDataFrame(SOME)
    (tmp_path / "file").write_text("a user's")
    with pytest.raises(InvalidArgumentError, match="/file' is a file: give a folder of a disk or of HDFS"):
        muntin.spark.upsert(frame, tmp_path / "file")
    for name in ("notes.txt", "k=a", ".git"):
        place = tmp_path / f"of {name}"
        muntin.spark.upsert(frame, place)
        (place / name).mkdir()
        with pytest.raises(InvalidArgumentError, match=f"holds '{name}', which upsert has not written, and would del"):
            muntin.spark.upsert(frame, place)
        assert (place / name).exists()
        assert numbers(place) == [0]
    (tmp_path / "empty").mkdir()
    muntin.spark.upsert(frame, f"{tmp_path}/empty/")
    muntin.spark.upsert(frame, f"{tmp_path}/new/and/deeper")
    assert numbers(tmp_path / "empty") == numbers(tmp_path / "new" / "and" / "deeper") == [0]
    session.sql("CREATE OR REPLACE TEMP VIEW muntin_temporary AS SELECT 1 AS a")
    session.sql("CREATE OR REPLACE VIEW muntin_viewed AS SELECT 1 AS a")
    try:
        for name in ("muntin_temporary", "muntin_viewed", "default.muntin_viewed"):
            with pytest.raises(InvalidArgumentError, match=f"'{name}' is a view: give a folder"):
                muntin.spark.upsert(frame, name)
    finally:
        session.sql("DROP VIEW muntin_viewed")
        session.catalog.dropTempView("muntin_temporary")


def test_several_at_once(session: Any, tmp_path: Path) -> None:
    """None of their windows is lost, whether the folder is there or not."""
    place, count = tmp_path / "answers", 3
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    frames = [session.createDataFrame(emitted(query, [10 * i, 100])[0]) for i in range(2 * count)]
    with ThreadPoolExecutor(count) as threads:
        for some in (frames[:count], frames[count:]):
            list(threads.map(lambda frame: muntin.spark.upsert(frame, place), some))
    assert numbers(place) == [10 * i for i in range(2 * count)]
    assert [each.name for each in tmp_path.iterdir()] == ["answers"]


def test_one_lock_among_processes(tmp_path: Path) -> None:
    """Who finds it deleted by the one before makes it anew, and again only one has it."""
    path = tmp_path / "folder" / "lock"
    (tmp_path / "count").write_text("0")
    counting = Path(__file__).with_name("counting.py")
    processes = [subprocess.Popen([sys.executable, counting, path, tmp_path / "count", "200"]) for _ in range(3)]
    assert [each.wait() for each in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "600"
    assert not path.parent.exists()


def test_an_interrupted_call_is_completed(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever operation on files is the last one, a reader of the next state finds all of it."""

    class Killed(BaseException):
        pass

    left = 0

    def struck(name: str) -> Any:
        usual = getattr(Folder, name)

        def operation(self: Folder, *given: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return usual(self, *given)

        return operation

    first, second = session.createDataFrame(SOME), session.createDataFrame(OTHER)
    with monkeypatch.context() as patch:
        for name in ("move", "delete", "write", "sync"):
            patch.setattr(Folder, name, struck(name))
        for k in range(20):
            place = tmp_path / f"{k}" / "answers"
            left = 99
            muntin.spark.upsert(first, place)
            left = k
            try:
                muntin.spark.upsert(second, place)
            except Killed:
                left = 99
                muntin.spark.upsert(second, place)
                assert numbers(place) == [0, 10], k
                assert [each.name for each in place.parent.iterdir()] == ["answers"]
            else:
                break
    assert k == 6


def test_a_state_is_on_the_disk_before_it_is_in_place(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, move = os.fsync, Folder.move

    def synced(handle: int) -> None:
        fsync(handle)
        done.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    def moved(self: Folder, to: Folder) -> None:
        if to.name == "answers":
            files = [str(each) for each in Path(self.place).rglob("*")]
            assert {*files, self.place} <= set(done)
            assert len(files) >= 3
        move(self, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Folder, "move", moved)
    muntin.spark.upsert(session.createDataFrame(SOME), tmp_path / "answers")
    assert str(tmp_path) in done[-2:]


TUMBLING = Query(window.tumbling(10), {"n": agg.sum("v")}, key="k", time="t", allowed_lateness=50)


def test_another_run_is_later(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its revisions begin at 0 again. In the same run the greatest revision stays, whatever comes after it."""
    old = pa.concat_tables(emitted(TUMBLING, [1, 2, 30], [3, 31], [12, 32]))
    new = pa.concat_tables(emitted(TUMBLING, [7, 30], [13, 31]))
    assert max(old["revision"].to_pylist()) > max(new["revision"].to_pylist())
    for number, (runs, wanted) in enumerate(
        [(("a", "b"), [7, 13]), ((None, None), [7, 13]), (("a", None), [7, 13]), (("a", "a"), [6, 13])]
    ):
        for again in (False, True):
            place = tmp_path / f"{number} {again}"
            for run, table in zip(runs, (old, new), strict=True):
                monkeypatch.setattr(upserting, "_run", lambda _, run=run: run)
                for _ in range(1 + again):
                    muntin.spark.upsert(session.createDataFrame(table), place)
            assert [row["n"] for row in sorted(rows_of(place), key=lambda row: row["window"]["start"])] == wanted


def test_a_table_by_partitions(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retracted window goes from a partition that has no other; another run is known by the table."""
    from pyspark.sql import functions as F

    name = "default.muntin_partitioned"
    one = session.createDataFrame(SOME)
    two = one.unionByName(one.withColumn("window_id", F.lit(1).cast("bigint")))
    session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        two.limit(0).write.partitionBy("window_id").saveAsTable(name)
        monkeypatch.setattr(upserting, "_run", lambda _: "a")
        muntin.spark.upsert(two.withColumn("revision", F.lit(5).cast("bigint")), name)
        late = two.withColumn("revision", F.lit(6).cast("bigint")).withColumn("retracted", F.lit(True))
        muntin.spark.upsert(late.where("window_id = 1"), name)
        muntin.spark.upsert(one, name)
        assert [(row["window_id"], row["revision"]) for row in session.table(name).collect()] == [(0, 5)]
        monkeypatch.setattr(upserting, "_run", lambda _: "b")
        muntin.spark.upsert(one, name)
        assert [(row["window_id"], row["revision"]) for row in session.table(name).collect()] == [(0, 0)]
    finally:
        session.conf.unset("spark.sql.sources.partitionOverwriteMode")
        session.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table(session: Any) -> None:
    """Windows that fill up keep their place, where the query is given; an interrupted batch is completed."""
    batches = emitted(FILLING, [1], [2], [3, 5], [9])[1:]
    whole = pa.concat_tables(batches)
    name, mine = "default.muntin_upserted", ["muntin_upserted_muntin_next_2024", "muntin_upserted_muntin_next_mine"]
    try:
        muntin.spark.upsert(session.createDataFrame(batches[0]), name, FILLING)
        muntin.spark.upsert(session.createDataFrame(whole), name, FILLING)
        found = session.table(name)
        assert listed(found.toArrow().cast(whole.schema)) == listed(muntin.latest(whole))
        assert found.count() == 2
        session.createDataFrame(batches[0]).write.saveAsTable(f"{name}_muntin_next_{'0' * 32}")
        for each in mine:
            session.range(1).write.saveAsTable(f"default.{each}")
        muntin.spark.upsert(session.createDataFrame(batches[0]).limit(0), name, FILLING)
        assert session.table(name).toArrow()["n"].to_pylist() == batches[0]["n"].to_pylist()
        assert [each.name for each in session.catalog.listTables("default", "muntin_ups*")] == [
            "muntin_upserted",
            *mine,
        ]
    finally:
        for each in mine:
            session.sql(f"DROP TABLE IF EXISTS {each}")
        session.sql(f"DROP TABLE IF EXISTS {name}")
