"""`muntin.spark.upsert` into PostgreSQL and SQLite: the last word on each window, one transaction a batch."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres_server import Postgres as Server
from spark.test_upsert import BATCHES, FILLING, SLIDING, emitted

import muntin
import muntin.spark
from muntin import Query, agg, policies, window
from muntin.errors import ColumnError, InvalidArgumentError, MuntinError, UnsupportedOperationError
from muntin.spark import databases
from muntin.spark.databases import Database, Writer, database_of

TUMBLING = Query(window.tumbling(10), {"n": agg.sum("v")}, key="k", time="t", allowed_lateness=50)
FIRST, REVISED = (emitted(TUMBLING, [1, 2, 30], [3, 31])[i] for i in (0, 1))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a table that is not there yet, in a database without others."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'answers.db'}?table=answers"
        return
    server = request.getfixturevalue("server")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield f"{server.url}?table=answers"


def selected(url: str, statement: str = "SELECT * FROM answers") -> list[dict[str, Any]]:
    """Return rows as another client finds them."""
    place = database_of(url)
    with place.transaction() as cursor:
        cursor.execute(statement)
        names = [each[0] for each in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def flat(answers: pa.Table) -> list[dict[str, Any]]:
    """Return answers as the rows of a table, without identities."""
    rows = []
    for row in answers.to_pylist():
        bounds = row.pop("window")
        del row["retracted"]
        rows.append(row | {f"window_{name}": value for name, value in bounds.items()})
    return rows


def alike(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    """Say whether rows are equal, in whatever order, and their identities are different."""
    assert len({row["muntin_id"] for row in found}) == len(found)
    bare = [{name: value for name, value in row.items() if name != "muntin_id"} for row in found]
    return sorted(repr(sorted(row.items())) for row in bare) == sorted(repr(sorted(row.items())) for row in wanted)


# ---------------------------------------------------------------- the last word on each window


def test_each_state_is_that_of_latest(url: str) -> None:
    for number, batch in enumerate(BATCHES):
        for _ in range(2):
            database_of(url).write(batch, SLIDING, Writer("a", number))
            assert alike(selected(url), flat(muntin.latest(pa.concat_tables(BATCHES[: number + 1]))))
    assert True in BATCHES[-1]["retracted"].to_pylist()
    assert [(row["query"], row["batch"]) for row in selected(url, "SELECT * FROM answers_upserts")] == [("a", 2)]


def test_several_revisions_in_one_batch(url: str) -> None:
    """The last one stays, also where the window was there before, or the last is a retraction."""
    whole = pa.concat_tables(BATCHES)
    database_of(url).write(whole, SLIDING, Writer("a", 0))
    database_of(url).write(whole, SLIDING, Writer("a", 1))
    assert max(whole["revision"].to_pylist()) > 0
    assert alike(selected(url), flat(muntin.latest(whole)))


@pytest.mark.parametrize("seed", range(4))
def test_random_batches_that_fail_and_run_again(url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever statement a batch fails in, nothing of it is there, and it may run again, and again."""
    chance = random.Random(seed)
    times = [[max(0, 4 * i + chance.randrange(-12, 12)) for _ in range(4)] for i in range(12)]
    batches = emitted(SLIDING, *times)
    usual = Database._execute_all

    def failing(self: Database, cursor: Any, statement: str, rows: Any) -> None:
        def some() -> Iterator[Any]:
            for each in rows:
                if chance.random() < 0.2:
                    raise ZeroDivisionError
                yield each

        usual(self, cursor, statement, some())

    seen, before = [], []
    for number, batch in enumerate(batches):
        seen.append(batch)
        with monkeypatch.context() as patch:
            patch.setattr(Database, "_execute_all", failing)
            for _ in range(3):
                try:
                    database_of(url).write(batch, SLIDING, Writer("a", number))
                except ZeroDivisionError:
                    assert number == 0 or selected(url) == before
                else:
                    break
        database_of(url).write(batch, SLIDING, Writer("a", number))
        before = selected(url)
        assert alike(before, flat(muntin.latest(pa.concat_tables(seen))))


def test_a_process_that_is_killed_in_the_middle(url: str) -> None:
    """Its batch is not there, not even a part; the next process writes it."""
    database_of(url).write(FIRST, TUMBLING, Writer("a", 0))
    before = selected(url)
    code = f"""
import os, signal
from muntin.spark.databases import Database, Writer, database_of
from spark.test_databases import REVISED, TUMBLING

def some(rows):
    for each in rows:
        yield each
        os.kill(os.getpid(), signal.SIGKILL)

usual = Database._execute_all
Database._execute_all = lambda self, cursor, statement, rows: usual(self, cursor, statement, some(rows))
database_of({url!r}).write(REVISED, TUMBLING, Writer("a", 1))
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, env=_environment())
    assert done.returncode == -signal.SIGKILL
    assert selected(url) == before
    database_of(url).write(REVISED, TUMBLING, Writer("a", 1))
    assert alike(selected(url), flat(muntin.latest(pa.concat_tables([FIRST, REVISED]))))


def _environment() -> dict[str, str]:
    tests = Path(__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])}


def test_windows_whose_bounds_move(url: str) -> None:
    """They keep their row, if the query is given: those that fill up, and those of a policy."""
    batches = emitted(FILLING, [1], [2], [3, 5], [9])[1:]
    for number, batch in enumerate(batches):
        database_of(url).write(batch, FILLING, Writer("a", number))
    assert alike(selected(url), flat(muntin.latest(pa.concat_tables(batches))))


def test_windows_of_a_policy(url: str) -> None:
    query = Query(window.policy(policies.at_most_rows(2)), {"n": agg.count()}, key="k", time="t", allowed_lateness=99)
    batches = emitted(query, [1, 20], [3, 18, 21], [2, 40])
    for number, batch in enumerate(batches):
        database_of(url).write(batch, query, Writer("a", number))
    whole = pa.concat_tables(batches)
    assert max(whole["revision"].to_pylist()) > 0
    assert alike(selected(url), flat(muntin.latest(whole)))


def test_a_batch_without_answers(url: str) -> None:
    """The first one makes an empty table, with the columns of the answers."""
    database_of(url).write(FIRST.slice(0, 0), TUMBLING, Writer("a", 0))
    assert selected(url) == []
    database_of(url).write(FIRST, TUMBLING, Writer("a", 1))
    before = selected(url)
    database_of(url).write(FIRST.slice(0, 0), TUMBLING, Writer("a", 2))
    assert selected(url) == before
    assert len(before) == FIRST.num_rows > 0
    assert list(before[0]) == ["muntin_id", "k", "window_id", "window_start", "window_end", "n", "revision"] or list(
        before[0]
    ) == ["muntin_id", "k", "window_start", "window_end", "window_id", "n", "revision"]


# ---------------------------------------------------------------- who writes


def test_another_query_takes_over(url: str) -> None:
    """Its revisions begin at 0 again, and the one before is refused from then on."""
    place = database_of(url)
    place.write(FIRST, TUMBLING, Writer("a", 0))
    place.write(REVISED, TUMBLING, Writer("a", 1))
    assert [row["n"] for row in selected(url)] == [6]
    place.write(FIRST, TUMBLING, Writer("a", 2))  # of the same query: the greatest revision stays
    assert [row["n"] for row in selected(url)] == [6]
    place.write(FIRST, TUMBLING, Writer("b", 0))
    assert [(row["n"], row["revision"]) for row in selected(url)] == [(3, 0)]
    with pytest.raises(
        UnsupportedOperationError, match="by the streaming query b, which took over from a: two queries"
    ):
        place.write(REVISED, TUMBLING, Writer("a", 3))
    assert [(row["n"], row["revision"]) for row in selected(url)] == [(3, 0)]
    place.write(REVISED, TUMBLING, Writer("b", 1))
    assert [(row["n"], row["revision"]) for row in selected(url)] == [(6, 1)]


def test_an_older_batch_is_refused(url: str) -> None:
    """Of a driver that was thought dead, or of an older checkpoint."""
    place = database_of(url)
    place.write(FIRST, TUMBLING, Writer("a", 4))
    place.write(REVISED, TUMBLING, Writer("a", 5))
    before = selected(url)
    with pytest.raises(UnsupportedOperationError, match="holds batch 5 of the streaming query a, and this is batch 4"):
        place.write(FIRST, TUMBLING, Writer("a", 4))
    assert selected(url) == before


def test_a_retraction_of_an_earlier_revision_deletes_nothing(url: str) -> None:
    place = database_of(url)
    place.write(FIRST, TUMBLING, Writer("a", 0))
    place.write(REVISED, TUMBLING, Writer("a", 1))
    gone = FIRST.set_column(FIRST.column_names.index("retracted"), "retracted", pa.array([True] * len(FIRST)))
    place.write(gone, TUMBLING, Writer("a", 2))
    assert len(selected(url)) == 1
    place.write(gone, TUMBLING)  # of nobody knows which query: later than all
    assert selected(url) == []


def test_writers_wait_for_each_other(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And give up after a while, with an error that says so, and nothing changed."""
    place = database_of(url)
    place.write(FIRST, TUMBLING)
    monkeypatch.setattr(databases, "WAIT", 0.2)
    with (
        place.transaction(),
        pytest.raises(UnsupportedOperationError, match=r"another writer has held .* 0\.2 seconds"),
    ):
        database_of(url).write(REVISED, TUMBLING)
    monkeypatch.setattr(databases, "WAIT", 30.0)
    release, done = threading.Event(), threading.Event()

    def hold() -> None:
        with database_of(url).transaction():
            done.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert done.wait(10)
    threading.Timer(0.3, release.set).start()
    database_of(url).write(REVISED, TUMBLING)
    thread.join()
    assert [row["n"] for row in selected(url)] == [6]


def test_two_that_make_the_table_at_once(url: str) -> None:
    batches = [emitted(TUMBLING, [10 * i, 10 * i + 60])[0] for i in range(6)]
    failed: list[BaseException] = []

    def write(batch: pa.Table) -> None:
        try:
            database_of(url).write(batch, TUMBLING)
        except (MuntinError, sqlite3.Error, psycopg.Error) as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(batch,)) for batch in batches]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert sorted(row["window_start"] for row in selected(url)) == [0, 10, 20, 30, 40, 50]


# ---------------------------------------------------------------- values


UTC = dt.UTC
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 127]),
    "whole": (pa.int64(), [-(2**63), 2**63 - 1]),
    "single": (pa.float32(), [0.5, math.inf]),
    "double": (pa.float64(), [-0.25, 1e300]),
    "text": (pa.string(), ['it\'s "quoted" %s ?', "ü"]),
    "bytes": (pa.binary(), [b"\x00\xff", b""]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "instant": (
        pa.timestamp("us", "Europe/Berlin"),
        [dt.datetime(2024, 5, 1, 9, 0, 0, 1, UTC), dt.datetime(1969, 12, 31, 23, tzinfo=UTC)],
    ),
    "wall": (pa.timestamp("us"), [dt.datetime(2024, 5, 1, 9), dt.datetime(1970, 1, 1, 0, 0, 0, 5)]),
    "money": (pa.decimal128(20, 2), [Decimal("12345678901234567.89"), Decimal("-0.01")]),
    "lasted": (pa.duration("us"), [dt.timedelta(seconds=1), dt.timedelta(days=-1)]),
    "list": (pa.list_(pa.float64()), [[1.5, None, math.nan], []]),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.string()}), [{"a": 1, "b": "x"}, {"a": None, "b": None}]),
}


def of_values(name: str, kind: pa.DataType, values: list[Any], starts: list[int]) -> pa.Table:
    """Return answers with values as an aggregate."""
    count = len(values)
    return pa.table(
        {
            "k": ["a"] * count,
            "window": [{"start": each, "end": each + 10} for each in starts],
            "window_id": [0] * count,
            name: pa.array(values, kind),
            "revision": [0] * count,
            "retracted": [False] * count,
        }
    )


@pytest.mark.parametrize("name", VALUES)
def test_values_of_each_type(url: str, name: str) -> None:
    kind, values = VALUES[name]
    batch = of_values(name, kind, [*values, None], [0, 10, 20])
    for _ in range(2):
        database_of(url).write(batch)
    found = [row[name] for row in sorted(selected(url), key=lambda row: row["window_start"])]
    assert found[2] is None
    wanted = {
        "lasted": [1_000_000, -86_400_000_000],
        "list": [[1.5, None, "NaN"], []],
        "struct": [{"a": 1, "b": "x"}, {"a": None, "b": None}],
    }.get(name, values)
    if url.startswith("sqlite"):
        found = [json.loads(each) for each in found[:2]] if name in ("list", "struct") else found[:2]
        wanted = {
            "day": ["0001-01-01", "2024-02-29"],
            "instant": ["2024-05-01 09:00:00.000001", "1969-12-31 23:00:00.000000"],
            "wall": ["2024-05-01 09:00:00.000000", "1970-01-01 00:00:00.000005"],
            "money": ["12345678901234567.89", "-0.01"],
        }.get(name, wanted)
    assert found[:2] == wanted


def test_nan_is_not_null(url: str) -> None:
    database_of(url).write(of_values("x", pa.float64(), [math.nan, None], [0, 10]))
    found = [row["x"] for row in sorted(selected(url), key=lambda row: row["window_start"])]
    assert found[1] is None
    assert found[0] == "NaN" if url.startswith("sqlite") else math.isnan(found[0])


@pytest.mark.parametrize(
    ("kind", "keys", "count"),
    [
        (pa.string(), [None, "None", None], 2),
        (pa.float64(), [0.0, -0.0, math.nan, math.nan, None], 3),
        (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=UTC), None], 2),
        (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": None}, None, {"a": 1}], 3),
        (pa.int64(), [1, 2, 1], 2),
    ],
)
def test_keys_are_equal_as_spark_groups_them(url: str, kind: pa.DataType, keys: list[Any], count: int) -> None:
    """Nulls are one key, and so are NaNs, and 0.0 and -0.0; also where they are read in another time zone."""
    batch = of_values("x", pa.int64(), list(range(len(keys))), [0] * len(keys))
    batch = batch.set_column(0, "k", pa.array(keys, kind))
    for each in range(batch.num_rows):
        database_of(url).write(batch.slice(each, 1))
    if pa.types.is_timestamp(kind):
        database_of(url).write(batch.set_column(0, "k", batch["k"].cast(pa.timestamp("us", "Asia/Tokyo"))))
    assert len(selected(url)) == count
    database_of(url).write(batch)
    assert len(selected(url)) == count


def test_names_of_all_sorts(url: str) -> None:
    strange = url.replace("table=answers", "table=of+all+%22sorts%22+%25s")
    batch = of_values('a "b" %s ?', pa.int64(), [1, 2], [0, 10])
    for _ in range(2):
        database_of(strange).write(batch)
    place = database_of(strange)
    with place.transaction() as cursor:
        assert 'a "b" %s ?' in place.columns_of(cursor)


# ---------------------------------------------------------------- what is refused


def test_a_table_of_something_else(url: str) -> None:
    database_of(url).write(FIRST, TUMBLING)
    before = selected(url)
    other = Query(window.tumbling(10), {"m": agg.sum("v")}, key="k", time="t")
    with pytest.raises(ColumnError, match="is of another query: its column 'n' is .*, that of the answers not there"):
        database_of(url).write(emitted(other, [1, 30])[0], other)
    floats = FIRST.set_column(3, "n", FIRST["n"].cast(pa.float64()))
    with pytest.raises(ColumnError, match="its column 'n' is (bigint|INTEGER), that of the answers (double|REAL)"):
        database_of(url).write(floats, TUMBLING)
    assert selected(url) == before
    with database_of(url).transaction() as cursor:
        cursor.execute("CREATE TABLE mine (a TEXT)")
    with pytest.raises(ColumnError, match="its column 'a' is (?i:text), that of the answers not there"):
        database_of(url.replace("=answers", "=mine")).write(FIRST, TUMBLING)


@pytest.mark.parametrize("name", ["window_start", "muntin_id"])
def test_names_that_are_taken(url: str, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"would have two columns '{name}'"):
        database_of(url).write(of_values(name, pa.int64(), [1], [0]))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("sqlite:///answers.db", "'sqlite:///answers.db' names no table: write postgresql://USER@HOST"),
        ("sqlite:///?table=t", "names no file: write sqlite:///answers.db, or four slashes"),
        ("sqlite://host/a.db?table=t", "names no file"),
        ("sqlite:///a.db?table=t&mode=ro", "has the option 'mode', which SQLite has not"),
        ("sqlite:///a.db?table=s.t", "which has no schemas"),
        ("sqlite:///a.db?table=", "names no table"),
        ("postgresql://me:secret@h/d", r"'postgresql://me@h/d' names no table"),
        (f"postgresql://h/d?table={'x' * 51}", "is no name of a table: give one of up to 50 letters"),
        ("postgresql://h/d?table=a..b", "'a..b' is no name of a table"),
    ],
)
def test_urls_that_name_no_table(bad: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        database_of(bad)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough to be looked at" * 10)
    for name, message in (
        ("no/such/folder.db", "cannot be opened"),
        ("text.db", "cannot be written: file is not a data"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            database_of(f"sqlite:///{tmp_path / name}?table=t").write(FIRST)
    with pytest.raises(
        UnsupportedOperationError, match="'postgresql://me@127.0.0.1:1/d.table=t' cannot be reached"
    ) as at:
        database_of("postgresql://me:secret@127.0.0.1:1/d?table=t").write(FIRST)
    assert "secret" not in str(at.value)


# ---------------------------------------------------------------- from Spark


def test_from_spark(session: Any, url: str) -> None:
    """The answers as Spark has them, and all that is refused of a folder."""
    for batch in BATCHES:
        muntin.spark.upsert(session.createDataFrame(batch), url, SLIDING)
    assert alike(selected(url), flat(muntin.latest(pa.concat_tables(BATCHES))))
    with pytest.raises(InvalidArgumentError, match="there is no column 'window'"):
        muntin.spark.upsert(session.range(1), url)


def test_a_stream_that_fails_after_its_transaction(session: Any, url: str, tmp_path: Path) -> None:
    """Spark runs the batch again: it is known by its number. A new checkpoint begins anew."""
    query = Query(window.tumbling("10 s"), {"n": agg.sum("v")}, key="k", watermark="5 s", allowed_lateness="1 hour")
    rows, failing = tmp_path / "rows", [False]
    rows.mkdir()
    given: list[dict[str, Any]] = []

    def feed(number: int, *times: int) -> None:
        lines = [{"ts": f"2024-05-01T09:{t // 60:02}:{t % 60:02}", "k": "a", "v": t} for t in times]
        given.extend(lines)
        (rows / f".{number}").write_text("".join(json.dumps(each) + "\n" for each in lines))
        (rows / f".{number}").rename(rows / f"{number}.json")

    def write(batch: Any, _: int) -> None:
        muntin.spark.upsert(batch, url, query)
        if failing[0]:
            raise ZeroDivisionError

    def run(checkpoint: str) -> None:
        frame = session.readStream.schema("ts TIMESTAMP, k STRING, v BIGINT").json(str(rows))
        writer = query.spark(frame).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    def sums() -> list[int]:
        return [row["n"] for row in sorted(selected(url), key=lambda row: row["window_start"])]

    feed(0, 1, 2, 31)
    run("first")
    assert sums() == [3]
    feed(1, 3, 12, 61)
    failing[0] = True
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run("first")
    between = sums()
    failing[0] = False
    run("first")
    assert sums() == [6, 12, 31]
    assert between in ([6, 12], [6, 12, 31], [3])
    turns = selected(url, "SELECT query, batch FROM answers_upserts ORDER BY turn")
    assert len(turns) == 1
    assert turns[0]["batch"] >= 1
    run("second")
    assert sums() == [6, 12, 31]
    assert len(selected(url, "SELECT * FROM answers_upserts")) == 2
    feed(2, 4, 90)
    with pytest.raises(Exception, match="two queries must not upsert into one table"):
        run("first")


def test_a_first_batch_without_answers_makes_an_empty_target(session: Any, tmp_path: Path, url: str) -> None:
    """Of whatever kind: readers find the columns before the first window is due."""
    empty = session.createDataFrame(FIRST).limit(0)
    muntin.spark.upsert(empty, tmp_path / "answers")
    found = session.read.parquet(str(tmp_path / "answers"))
    assert (found.count(), found.columns) == (0, FIRST.column_names)
    muntin.spark.upsert(empty, url)
    assert selected(url) == []
    try:
        muntin.spark.upsert(empty, "default.muntin_of_nothing")
        assert session.table("default.muntin_of_nothing").count() == 0
    finally:
        session.sql("DROP TABLE IF EXISTS default.muntin_of_nothing")
    for target in (tmp_path / "answers", url):
        muntin.spark.upsert(session.createDataFrame(FIRST), target)
        muntin.spark.upsert(empty, target)
    assert session.read.parquet(str(tmp_path / "answers")).count() == len(selected(url)) == 1
