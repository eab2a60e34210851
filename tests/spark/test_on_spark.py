"""Streaming queries on Spark itself: what only Spark can show."""

from __future__ import annotations

import datetime
import linecache
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from sampling import THOROUGH
from spark.feed import Feed

import muntin.spark
from muntin import ProcessingTime, Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.spark import needs
from muntin.spark.local_files import ANSWERS, CHUNKS
from muntin.watching.spark_health import SparkHealth

CALLS = pa.schema({"ts": pa.timestamp("us", "UTC"), "region": pa.string(), "line": pa.int32(), "len": pa.float64()})


def calls(count: int, seed: int, keys: int = 5) -> pa.Table:
    """Return rows in about the order of their times, with nulls and equal times among them."""
    chance = np.random.default_rng(seed)
    times = (np.arange(count) * 250_000 + chance.integers(-3_000_000, 3_000_000, count)) // 100_000 * 100_000
    region = [None if k == 0 else f"region {k}" for k in chance.integers(0, keys, count)]
    length = pa.array(chance.normal(size=count).round(2), mask=chance.random(count) < 0.1)
    columns = [pa.array(times + 1_700_000_000_000_000, pa.int64()), region, chance.integers(0, 2, count), length]
    return pa.table({field.name: pa.array(c).cast(field.type) for field, c in zip(CALLS, columns, strict=True)})


def parts(table: pa.Table, count: int) -> list[pa.Table]:
    size = -(-table.num_rows // count)
    return [table.slice(i * size, size) for i in range(count)]


def comparable(table: pa.Table, query: Query) -> list[str]:
    """Return the rows of an answer as text, in any order, floats rounded: sums are added in another order."""
    listed = table.select([*query.key, "window", "window_id", *query.aggregates]).to_pylist()
    return sorted(repr([round(v, 6) if isinstance(v, float) else v for v in row.values()]) for row in listed)


def final(batches: list[pa.Table], query: Query) -> pa.Table:
    """Return the last word on each window."""
    last: dict[Any, dict[str, Any]] = {}
    table = pa.concat_tables(batches)
    for row in table.to_pylist():
        last[repr([*(row[name] for name in query.key), row["window"], row["window_id"]])] = row
    return pa.Table.from_pylist([row for row in last.values() if not row["retracted"]], table.schema)


def closed(query: Query, table: pa.Table, watermark: int) -> pa.Table:
    """Return what `run` says of windows that end by the watermark."""
    answer = query.run(table)
    ends = answer["window"].combine_chunks().field("end").cast(pa.int64()).to_numpy()
    return answer.filter(pa.array(ends <= watermark))


QUERY = Query(
    [window.sliding("20 seconds", every="5 seconds"), window.session("4 seconds"), window.tumbling(rows(7))],
    {"n": agg.count(), "most": agg.max("len"), "mean": agg.mean("len"), "all": agg.collect("line")},
    key=["region", "line"],
    time="ts",
    watermark="10 seconds",
)


@(pytest.mark.compiled if THOROUGH > 1 else pytest.mark.slow)
def test_equals_run(session: Any, tmp_path: Path) -> None:
    """Several windows, several keys with nulls among them, rows out of order: what has closed is what `run` says."""
    table = calls(600, seed=3)
    feed = Feed(session, tmp_path, CALLS)
    for part in parts(table, 3):
        feed.add(part)
    answers = feed.run(QUERY)
    watermark = int(table["ts"].cast(pa.int64()).to_numpy().max()) // 1000 * 1000 - 10_000_000
    assert comparable(pa.concat_tables(answers), QUERY) == comparable(closed(QUERY, table, watermark), QUERY)
    names = ["region", "line", "window", "window_id", "n", "most", "mean", "all", "revision", "retracted"]
    assert answers[0].column_names == names
    assert sum(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in feed.query.recentProgress) == 0


@(pytest.mark.compiled if THOROUGH > 1 else pytest.mark.slow)
def test_goes_on_from_the_checkpoint(session: Any, tmp_path: Path) -> None:
    """Stopped and started between batches, the answers are those of one run; then the query may not change."""
    table = calls(400, seed=4)
    feed = Feed(session, tmp_path, CALLS)
    query = Query([window.tumbling("10 seconds")], {"n": agg.count()}, key="region", time="ts", watermark="5 seconds")
    answers = []
    for part in parts(table, 2):
        feed.add(part)
        answers += feed.run(query, buckets=4)
    watermark = int(table["ts"].cast(pa.int64()).to_numpy().max()) // 1000 * 1000 - 5_000_000
    assert comparable(pa.concat_tables(answers), query) == comparable(closed(query, table, watermark), query)

    feed.add(table.slice(390))
    with pytest.raises(Exception, match="its buckets is 4, this one's is 6; pass buckets=4"):
        feed.run(query, buckets=6)
    other = Query(
        [window.tumbling("10 seconds")], {"n": agg.max("len")}, key="region", time="ts", watermark="5 seconds"
    )
    with pytest.raises(Exception, match="its aggregate n is agg.count"):
        feed.run(other, buckets=4)

    # One more window at the end is no contradiction: it answers from what is held.
    more = replace(query, windows=[*query.windows, window.tumbling("30 seconds")])
    later = pa.table({"ts": [table["ts"][-1].as_py() + datetime.timedelta(hours=1)], "region": ["x"], "line": [0]})
    feed.add(later.append_column("len", pa.array([1.0])).cast(CALLS))
    added = pa.concat_tables(feed.run(more, buckets=4))
    assert set(added["window_id"].to_pylist()) == {0, 1}
    assert added.schema == answers[0].schema


def test_nothing_is_lost(session: Any, tmp_path: Path) -> None:
    """The rows that came are those in some window and the late ones, which are delivered, or only counted."""
    table = calls(600, seed=6)
    query = Query(window.tumbling("5 seconds"), {"n": agg.count()}, key="region", allowed_lateness="1 second")
    end = pa.table({"ts": [table["ts"][-1].as_py() + datetime.timedelta(hours=1)], "region": ["end"]})
    found = []
    for late in (True, False):
        feed = Feed(session, tmp_path / str(late), CALLS)
        for part in [*parts(table, 4), end.append_column("line", pa.array([0])).append_column("len", pa.array([0.0]))]:
            feed.add(part.cast(CALLS))
        answers = feed.run(query, late=late)
        counts = muntin.spark.progress(feed.query)
        _require_metrics(feed.query, counts)
        held = final([batch.filter(batch["n"].is_valid()) for batch in answers], query)
        found.append((counts.rows, sum(held["n"].to_pylist()), counts.dropped, counts.late))
        if late:
            lost = [row["late"] for batch in answers for row in batch.to_pylist() if row["late"] is not None]
            assert len(lost) == counts.dropped > 0
            assert {repr(row) for row in lost} <= {repr(row) for row in table.to_pylist()}
    assert found[0][:3] == found[1][:3]
    assert 0 < found[1][3] <= found[0][3]  # of slices those count that are behind the watermark as a whole
    rows_in, held_rows, dropped, behind = found[0]
    assert rows_in == 601
    assert held_rows + dropped == 600  # the last one's window is open
    assert behind >= dropped


def _require_metrics(running: Any, counts: muntin.spark.Progress) -> None:
    """Require that Prometheus and the live page are told what the progress reports say."""
    registry = CollectorRegistry()
    muntin.metrics.prometheus(running, registry=registry)
    names = {"rows": counts.rows, "dropped_rows": counts.dropped, "late_rows": counts.late, "windows": counts.windows}
    for name, count in names.items():
        assert registry.get_sample_value(f"muntin_{name}_total", {"query": ""}) == count
    health = SparkHealth(running).now()
    assert (health.rows, health.keys, health.dropped) == (counts.rows, counts.keys, counts.dropped)
    assert health.watermark == registry.get_sample_value("muntin_watermark_timestamp_seconds", {"query": ""})
    assert health.batch_seconds is not None


@pytest.mark.connect
def test_large_answers_and_large_state(session: Any, tmp_path: Path) -> None:
    """Both pass between workers as files, of which those of answers are gone when they have been read."""
    feed = Feed(session, tmp_path, CALLS)
    minutes = [
        pa.table(
            {
                "ts": [datetime.datetime(2024, 1, 1, 0, minute, tzinfo=datetime.UTC)] * 100,
                "region": [f"{minute} {i} ".ljust(20_000, "x") for i in range(100)],
                "line": range(100),
                "len": [1.0] * 100,
            }
        ).cast(CALLS)
        for minute in range(4)
    ]
    for each in minutes:
        feed.add(each)
    query = Query(window.tumbling("2 minutes"), {"last": agg.last("region")}, key="line", watermark="0 seconds")
    before = files_of_session(session, ANSWERS)
    answers = pa.concat_tables(feed.run(query, buckets=1))
    assert answers.nbytes > 1 << 20
    expected = query.run(pa.concat_tables(minutes[:2]))
    assert comparable(answers, query) == comparable(expected, query)
    if before is not None:
        assert files_of_session(session, ANSWERS) == before
        chunks = files_of_session(session, CHUNKS)
        assert chunks
        assert {each.stat().st_mode & 0o777 for each in chunks} == {0o600}
        assert {each.parent.stat().st_mode & 0o777 for each in chunks} == {0o700}


def files_of_session(session: Any, folder: str) -> set[Path] | None:
    """Return the files of workers among Spark's own blocks; None on Spark Connect, which does not tell where."""
    from pyspark.sql import is_remote

    if is_remote():
        return None
    return set(Path(session.sparkContext.getConf().get("spark.local.dir")).glob(f"blockmgr-*/{folder}/*"))


def test_early_by_the_clock(session: Any, tmp_path: Path) -> None:
    """Every batch with rows is one: buckets without rows are called too, and say what they have not said before."""
    feed = Feed(session, tmp_path, CALLS)
    begin = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
    for batch, regions in enumerate(["aab", "a", "a"]):
        ts = begin + datetime.timedelta(seconds=batch)
        feed.add([{"ts": ts, "region": region, "line": 0, "len": 1.0} for region in regions])
    early = ProcessingTime("1 millisecond")
    query = Query(window.tumbling("1 hour"), {"n": agg.count()}, key="region", time="ts", emit_early=early)
    answers = feed.collect(query.spark(feed.frame()), "update")
    said = [sorted((row["region"], row["n"], row["revision"]) for row in table.to_pylist()) for table in answers]
    assert said[:3] == [[], [("a", 3, 0), ("b", 1, 0)], [("a", 4, 1)]]
    assert not any(said[3:])


def test_like_sparks_own_streams(session: Any, tmp_path: Path) -> None:
    """The same windows in the same batches; nulls, equal times, a zone whose clocks are set back, rows out of order.

    Two differences: Spark takes a late row whose window is emitted by the batch that has the row, and drops all rows of
    windows that end before 1970.
    """
    from pyspark.sql import functions as F

    chance = np.random.default_rng(5)
    autumn = 1_698_537_600_000_000  # the evening of 2023-10-28 in Berlin
    minutes = np.arange(240) * 4 + chance.integers(-15, 15, 240)
    length = pa.array(chance.integers(-9, 9, 240) / 4, mask=chance.random(240) < 0.2)
    region = pa.array(chance.choice(["a", "b", None], 240).tolist(), pa.string())
    times = pa.array(autumn + minutes // 5 * 5 * 60_000_000, pa.timestamp("us", "UTC"))
    table = pa.table({"ts": times, "region": region, "line": pa.nulls(240, pa.int32()), "len": length})
    first = table.slice(0, 1).to_pylist()[0]
    old = [{**first, "ts": datetime.datetime(1960, 1, 1, minute=m, tzinfo=datetime.UTC)} for m in (1, 2, 40)]
    feed = Feed(session, tmp_path, CALLS)
    feed.add(pa.concat_tables([pa.Table.from_pylist(old, CALLS), table.slice(0, 80)]))
    feed.add(table.slice(80, 80))
    feed.add(table.slice(160))
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        ours = [
            window.tumbling("90 minutes"),
            window.sliding("2 hours", every="45 minutes", offset="10 minutes"),
            window.session("8 minutes"),
        ]
        theirs = [
            F.window("ts", "90 minutes"),
            F.window("ts", "2 hours", "45 minutes", "10 minutes"),
            F.session_window("ts", "8 minutes"),
        ]
        aggregates = {"n": agg.count(), "held": agg.count("len"), "total": agg.sum("len")}
        query = Query(ours, aggregates, key="region", watermark="40 minutes")
        answers = feed.run(query)
        counts = F.count("*").alias("n"), F.count("len").alias("held"), F.sum("len").alias("total")
        frame = feed.frame().withWatermark("ts", "40 minutes")
        before = 0
        for number, each in enumerate(theirs):
            grouped = frame.groupBy("region", each.alias("window")).agg(*counts)
            columns = ["region", "window", *aggregates]
            truth = feed.collect(grouped.select(*columns), checkpoint=f"theirs {number}")
            assert len(truth) == len(answers)
            for all_now, theirs_now in zip(answers, truth, strict=True):
                said = [row for row in all_now.to_pylist() if row["window_id"] == number]
                found = [{name: row[name] for name in columns} for row in said if row["window"]["end"].year > 1970]
                before += sum(row["n"] for row in said if row["window"]["end"].year < 1970)
                assert sorted(map(repr, found)) == sorted(map(repr, theirs_now.to_pylist()))
        assert before == 3 + 3 * 2 + 3
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")


DEFINITIONS = '''
import pathlib
import sys
import muntin
import pyarrow.parquet as pq
from muntin import Query, agg, window
from pyspark.sql import SparkSession

POWER = 2

def raised(v):
    return v ** POWER

@agg.define(state={"n": "i8", "total": "f8"}, commutative=True)
class mean_square:
    def lift(v):
        return (1, raised(v))
    def combine(a, b):
        return (a.n + b.n, a.total + b.total)
    def lower(s):
        return s.total / s.n

class Shifts(window.ContextFree):
    """Six seconds of every ten."""
    def next_edge(self, t):
        return min(e for e in (t // 10 * 10 + o for o in (6, 10, 16)) if e > t)
    def ended(self, previous, watermark):
        edge = self.next_edge(previous)
        while edge <= watermark:
            if edge % 10 == 6:
                yield edge - 6, edge
            edge = self.next_edge(edge)
'''
USE = """
where = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
query = Query([Shifts()], {"ms": mean_square("v")}, time="t")
rows = spark.readStream.schema("t long, v double").option("maxFilesPerTrigger", 1).parquet(where + "/in")

def note(batch, number):
    batch.persist()
    for name, part in zip(("answers", "late"), muntin.spark.split(batch)):
        pq.write_table(part.toArrow(), f"{where}/{name} {number}.parquet")
    batch.unpersist()

writer = query.spark(rows, late=True).writeStream.outputMode("update")
writer = writer.option("checkpointLocation", where + "/checkpoint")
running = writer.trigger(availableNow=True).foreachBatch(note).start()
running.awaitTermination()
found = [
    [row for path in sorted(pathlib.Path(where).glob(f"{name} *.parquet")) for row in pq.read_table(path).to_pylist()]
    for name in ("answers", "late")
]
progress = muntin.spark.progress(running)
finite = query.spark(spark.read.parquet(where + "/in")).toArrow().to_pylist()
"""


def run_script(where: Path) -> dict[str, Any]:
    script = where / "script.py"
    script.write_text(DEFINITIONS + USE)
    return runpy.run_path(str(script), run_name="__main__")


def run_notebook(where: Path) -> dict[str, Any]:
    """Run cells as notebooks do: in `__main__`, with their source in no file but in `linecache`."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate((DEFINITIONS, USE)):
        name = str(where / "ipykernel_1" / f"{number}.py")
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        exec(compile(cell, name, "exec"), space)
    return space


def run_module(where: Path) -> dict[str, Any]:
    """Run a script whose definitions are in a module beside it, which the workers do not have."""
    (where / "own_definitions.py").write_text(DEFINITIONS)
    (where / "script.py").write_text("import muntin, pathlib, sys\nfrom own_definitions import *\n" + USE)
    sys.path.insert(0, str(where))
    try:
        return runpy.run_path(str(where / "script.py"), run_name="__main__")
    finally:
        sys.path.remove(str(where))
        del sys.modules["own_definitions"]


@pytest.mark.connect
def test_ones_own_from_a_module(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_ones_own(run_module, session, tmp_path, monkeypatch)


@pytest.mark.parametrize("run", [run_script, run_notebook])
def test_ones_own(run: Any, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_ones_own(run, session, tmp_path, monkeypatch)


def check_ones_own(run: Any, session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregation and a window reach the workers wherever they are defined; late rows come out, and are counted."""
    feed = Feed(session, tmp_path, pa.schema({"t": pa.int64(), "v": pa.float64()}))
    feed.add([{"t": -3, "v": 7.0}, {"t": 1, "v": 1.0}, {"t": 5, "v": 3.0}, {"t": 13, "v": 2.0}])
    feed.add([{"t": 2, "v": 9.0}, {"t": 17, "v": 4.0}])
    monkeypatch.setattr("sys.argv", ["script.py", str(tmp_path)])
    made = run(tmp_path)
    answers, lost = made["found"]
    assert list(map(shift, answers)) == [(0, 6, 5.0), (10, 16, 4.0)]
    # -3 and 17 are in no shift at all, and 2 comes after its shift was answered.
    assert [row["t"] for row in lost] == [-3, 2, 17]
    progress = made["progress"]
    assert (progress.rows, progress.late, progress.dropped, progress.windows) == (6, 1, 3, 2)
    assert "6 rows" in str(progress)
    assert sorted(map(shift, made["finite"])) == [(0, 6, 91 / 3), (10, 16, 4.0)]


def shift(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["window"]["start"], row["window"]["end"], row["ms"]


@pytest.mark.connect
def test_what_cannot_be_is_refused(session: Any, tmp_path: Path) -> None:
    frame = Feed(session, tmp_path, CALLS).frame()
    with pytest.raises(ColumnError, match="no column 'v'; the columns are 'ts', 'region', 'line', 'len'"):
        Query(window.tumbling("1 minute"), {"m": agg.max("v")}).spark(frame)
    with pytest.raises(ColumnTypeError, match="time column 'len' holds double"):
        Query(window.tumbling("1 minute"), {"m": agg.count()}, time="len").spark(frame)
    counting = Query(window.tumbling("1 minute"), {"n": agg.count()})
    with pytest.raises(InvalidArgumentError, match="buckets is 0"):
        counting.spark(frame, buckets=0)
    idle = Query(window.tumbling("1 minute"), {"n": agg.count()}, idle_timeout="1 minute").spark(frame)
    with pytest.raises(UnsupportedOperationError, match="the trigger is availableNow, and the query has an idle_time"):
        idle.writeStream.trigger(availableNow=True)
    by_number = Query(window.tumbling(10), {"n": agg.count()}, time="line", idle_timeout=5)
    with pytest.raises(InvalidArgumentError, match="idle_timeout is 5, but the times in 'line' are integers"):
        by_number.spark(frame)
    with pytest.raises(
        UnsupportedOperationError, match="the trigger is realTime='5 minutes', and Spark's Real-Time Mode"
    ):
        counting.spark(frame).writeStream.trigger(realTime="5 minutes")
    answers, spark_own = counting.spark(frame), type(frame)
    assert isinstance(answers, spark_own)
    assert isinstance(answers.writeStream, type(frame.writeStream))
    assert (type(answers).__module__, type(answers).__name__) == ("muntin.spark.triggers", "StreamedAnswers")
    assert type(answers.where("n > 1")) is spark_own
    with pytest.raises(InvalidArgumentError, match="has a watermark already"):
        counting.spark(frame.withWatermark("ts", "1 minute").where("len > 0"))
    by_clock = Query(window.tumbling(10), {"n": agg.count()}, time="line", emit_early=ProcessingTime(5))
    with pytest.raises(InvalidArgumentError, match="times in 'line' are integers"):
        by_clock.spark(frame)
    with pytest.raises(ColumnError, match="late=True"):
        muntin.spark.split(session.range(1))


@pytest.mark.connect
def test_settings_are_applied_or_their_absence_is_explained(session: Any, tmp_path: Path) -> None:
    """A session that was told nothing is told; one that was told otherwise is refused, and left as it is."""
    frame = Feed(session, tmp_path, CALLS).frame()
    counting = Query(window.tumbling("1 minute"), {"n": agg.count()})
    before = {name: session.conf.get(name, None) for name in needs.SETTINGS}

    def told(**settings: str) -> dict[str, str | None]:
        for name in needs.SETTINGS:
            session.conf.unset(name)
        for name, value in settings.items():
            session.conf.set(name, value)
        return {name: session.conf.get(name, None) for name in needs.SETTINGS}

    try:
        told()
        counting.spark(frame)
        assert {name: session.conf.get(name) for name in needs.SETTINGS} == needs.SETTINGS
        for name, value in ((needs.PROVIDER, "org.example.Other"), (needs.CHANGELOG, "false")):
            as_told = told(**{name: value})
            with pytest.raises(UnsupportedOperationError, match=f"{name} = {value}, .* need {needs.SETTINGS[name]}"):
                counting.spark(frame)
            assert {each: session.conf.get(each, None) for each in needs.SETTINGS} == as_told
    finally:
        told(**{name: value for name, value in before.items() if value is not None})
