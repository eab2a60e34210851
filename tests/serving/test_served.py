"""Features online: what `serve=` publishes, asked through `muntin.serving.open`, against `ask` and `over(at=)`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from faulty_features import Faulty
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.strategies import Push
from queries.streams import Stream
from queries.test_ask import FRAMES, compare
from sampling import examples
from streams.test_tiles import queries as tiled_queries

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import (
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    SnapshotError,
    StoreError,
    UnsupportedOperationError,
)
from muntin.serving.base import HEAD, SupersededError
from muntin.serving.records import Head, key_names
from muntin.serving.urls import store_of
from muntin.serving.values import DamagedValueError
from muntin.streams.rows import tiles

QUERY = Query(
    {"ten": window.trailing(10), "tiled": window.trailing(20, hop=5), "three": window.trailing(rows(3))},
    {"n": agg.count(), "total": agg.sum("v"), "words": agg.collect("w")},
    key="k",
    time="t",
    watermark=2,
)
ONE = Query(window.trailing(10), {"n": agg.count(), "total": agg.sum("v")}, key="k", time="t")


def some_rows(chance: np.random.Generator, begin: int, count: int = 7) -> pa.Table:
    """Return rows of a few keys, one of them null, at the next five times."""
    keys = [None if i == 3 else f"k{i}" for i in chance.integers(0, 6, count)]
    values = [None if i == 8 else int(i) for i in chance.integers(0, 9, count)]
    columns = {"t": begin + chance.integers(0, 5, count), "k": pa.array(keys, pa.string()), "v": values}
    return pa.table({**columns, "w": [str(i) for i in values]})


# ------------------------------------------------------------ the same answers


def test_a_reader_answers_as_the_stream_and_as_over(url: str) -> None:
    chance, came = np.random.default_rng(1), []
    stream = QUERY.stream(serve=url)
    with muntin.serving.open(url, QUERY) as served:
        for i in range(20):
            came.append(some_rows(chance, 5 * i))
            stream.push(came[-1])
            times = [stream.watermark + ahead for ahead in (0, 3, 1, 2, 9, 100)]
            points = pa.table({"k": ["k0", "k1", None, "unknown", "k0", "k5"], "t": times})
            found = served.ask(points)
            assert found == QUERY.over(pa.concat_tables(came), at=points)
            assert found == stream.ask(points)
        assert served.watermark == stream.watermark
        stream.advance(500)
        assert served.watermark == 500
    stream.close()


@given(data=st.data())
@settings(max_examples=examples(30))
def test_random_streams_are_published_as_they_are(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows in any order, some refused, with watermarks between them and restarts; asked after each step."""
    query = data.draw(strategies.queries(st.sampled_from(FRAMES)) | tiled_queries())
    table = data.draw(strategies.tables())
    late = st.one_of(strategies.disordered(table, query.delay + query.lateness), st.permutations(table))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(data.draw(late)))))
    restarts = data.draw(st.sets(st.integers(0, len(steps)), max_size=2))
    truth, ours = oracle.Stream(query), Stream(query, table)
    asked = ours.stream.query
    url = f"sqlite:///{tmp_path_factory.mktemp('served') / 'features.db'}"
    ours.stream = asked.stream(serve=url)
    with pytest.MonkeyPatch.context() as patch, muntin.serving.open(url, asked) as served:
        patch.setattr(tiles, "_FEW", data.draw(st.sampled_from([1, 16])))
        reader = SimpleNamespace(
            stream=SimpleNamespace(ask=served.ask, snapshot=lambda: None, metrics=lambda: None), table=ours.table
        )
        for number, step in enumerate(steps):
            for stream in (truth, ours):
                stream.push(step.rows) if isinstance(step, Push) else stream.advance(step.watermark)
            if number in restarts:
                ours.stream = asked.stream(ours.stream.snapshot(), serve=url)
            if ours.stream.watermark is None or truth.seen == -oracle.NEVER:
                continue
            times = st.integers(int(truth.watermark) - 3, int(truth.horizon) + 12) | st.integers(-40, 60)
            points = data.draw(st.lists(st.tuples(times, st.sampled_from("abcd")), max_size=4))
            columns = [pa.array([t for t, _ in points], pa.int64()), pa.array([k for _, k in points], pa.string())]
            compare(query, truth, reader, pa.table(columns, ["t", "k"]))
            assert served.watermark == ours.stream.watermark
    ours.stream.close()


def test_from_the_watermark_on_all_is_answered_after_eviction(sqlite: str) -> None:
    """Keys that were published long ago, keys that expired, and keys that never came."""
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1, 2, 3], "k": ["a", "b", "c"], "v": [1, 2, 3]})
    for t in range(10, 2000, 10):
        stream.push({"t": [t], "k": [f"other {t}"], "v": [1]})
    with muntin.serving.open(sqlite, ONE) as served:
        now = stream.watermark
        assert served.ask({"k": ["a", "b", "nobody", f"other {now}"], "t": [now] * 4})["n"].to_pylist() == [0, 0, 0, 1]
        with pytest.raises(InvalidArgumentError, match=r"row 1 \(k 'nobody'\) .* it can be answered from"):
            served.ask({"k": ["a", "nobody"], "t": [now, 3]})
    stream.close()


@pytest.mark.parametrize("hop", [None, 5])
def test_lifetimes(hop: int | None, sqlite: str) -> None:
    chance, came = np.random.default_rng(8), []
    windows = {"ever": window.lifetime(), "before": window.lifetime(closed="left"), "ten": window.trailing(10, hop=hop)}
    query = replace(QUERY, windows=windows, aggregates={"n": agg.count(), "low": agg.min("v")})
    stream = query.stream(serve=sqlite)
    with muntin.serving.open(sqlite, query) as served:
        for i in range(40):
            came.append(some_rows(chance, 5 * i))
            stream.push(came[-1])
            points = {"k": ["k0", "k4", None, "unknown"], "t": [stream.watermark + i % 7] * 4}
            assert served.ask(points) == stream.ask(points) == query.over(pa.concat_tables(came), at=points)
    stream.close()


def test_windows_by_rows_know_how_many_are_gone(sqlite: str) -> None:
    query = replace(ONE, windows=window.trailing(rows(2)))
    stream = query.stream(serve=sqlite)
    for t in range(10):
        stream.push({"t": [t], "k": ["a"], "v": [t]})
    with muntin.serving.open(sqlite, query) as served:
        assert served.ask({"k": ["a"], "t": [9]}) == stream.ask({"k": ["a"], "t": [9]})
        for reader in (stream, served):
            with pytest.raises(InvalidArgumentError, match="answered from 8 on"):
                reader.ask({"k": ["a"], "t": [3]})
    stream.close()


def test_expired_keys_are_removed(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    for t in range(0, 20_000, 10):
        stream.push({"t": [t], "k": [f"key {t}"], "v": [1]})
    store = store_of(sqlite)
    held = store._connection().execute("SELECT count(*) FROM features WHERE instr(name, ':key:')").fetchone()[0]
    assert held < 200
    store.close()
    stream.close()


def test_points_of_any_kind_of_table(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1, 5, 9], "k": ["a", "b", "a"], "v": [3, 4, 5]})
    asked = {"t": [12, 9], "k": ["b", "a"]}
    with muntin.serving.open(sqlite, ONE) as served:
        frame = pandas.DataFrame(asked, index=[7, 3])
        assert served.ask(frame).equals(stream.ask(frame))
        assert list(served.ask(frame).index) == [7, 3]
        assert served.ask(polars.DataFrame(asked)).equals(stream.ask(polars.DataFrame(asked)))
        assert served.ask(pa.table(asked)) == stream.ask(asked)
        assert served.ask([{"t": 12, "k": "b"}, {"t": 9, "k": "a"}]) == stream.ask(asked)
        assert served.ask(polars.LazyFrame(asked)).equals(stream.ask(polars.DataFrame(asked)))
        assert served.ask(pa.table(asked).slice(0, 0)) == stream.ask(pa.table(asked).slice(0, 0))
        assert asyncio.run(served.ask_async(asked)) == stream.ask(asked)
    stream.close()


KEYS = [
    pa.array(["a", "", "a b", None, "ä\x00"]),
    pa.array([1, -1, 2**62, None, 0]),
    pa.array([0.0, float("nan"), -1.5, None, 1e300]),
    pa.array([True, False, None, None, True]),
    pa.array([b"\x00", b"", b"\xff", None, b"a:b"]),
    pa.array([1, 2, 3, None, 5], pa.timestamp("us", "UTC")),
    pa.array(["x", "y", None, "x", "z"]).dictionary_encode(),
    pa.array([[1], [], None, [1, 2], [3]]),
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: str(keys.type))
def test_keys_of_any_type(keys: pa.Array, sqlite: str) -> None:
    query = Query(window.trailing(100), {"n": agg.count()}, key=["k", "l"], time="t")
    table = pa.table({"t": range(5), "k": keys, "l": [1, 1, None, 1, 2]})
    stream = query.stream(serve=sqlite)
    stream.push(table)
    points = table.set_column(0, "t", pa.array([50] * 5))
    with muntin.serving.open(sqlite, query) as served:
        answers = served.ask(points)["n"].to_pylist()
        assert answers == stream.ask(points)["n"].to_pylist() == query.over(table, at=points)["n"].to_pylist()
        assert min(served.ask(points)["n"].to_pylist()) == 1
    stream.close()


@pytest.mark.parametrize("texts", [["a"], ["", None], ["ä\x00b" * 40, "a"]])
def test_few_keys_have_the_names_that_many_have(texts: list[str | None]) -> None:
    head, column = Head("0123456789abcdef", "someone"), pa.array(texts, pa.string())
    few, many = (key_names(head, [pa.chunked_array([column] * times)], times * len(texts)) for times in (1, 30))
    assert many == few * 30


def test_negative_zero_is_the_key_zero(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1], "k": [-0.0], "v": [1]})
    with muntin.serving.open(sqlite, ONE) as served:
        assert served.ask({"t": [1], "k": [0.0]})["n"].to_pylist() == [1]
    stream.close()


def test_a_query_without_key_or_time(sqlite: str) -> None:
    query, now = Query(window.trailing(10), {"n": agg.count()}, time=None), [100_000]  # in nanoseconds
    stream = query.stream(serve=sqlite, clock=lambda: now[0])
    served = muntin.serving.open(sqlite, query, clock=lambda: now[0])
    stream.push({"v": [1, 2]})
    now[0] = 105_000
    points = pa.table({"name": ["a"]})
    assert served.ask(points).to_pylist() == [{"name": "a", "n": 2}]
    now[0] = 115_000
    assert served.ask(points)["n"].to_pylist() == [0]
    served.close()
    stream.close()


def test_without_times_the_clock_counts(sqlite: str) -> None:
    query = replace(QUERY, windows=window.trailing("1 hour"), watermark="1 minute", aggregates={"n": agg.count()})
    stream = query.stream(serve=sqlite)
    begin = np.datetime64("2024-01-01T00:00:00", "us")
    stream.push({"t": [begin, begin + np.timedelta64(40, "m")], "k": ["a", "a"]})
    now = [int((begin + np.timedelta64(50, "m")).astype("M8[ns]").astype(np.int64))]
    with muntin.serving.open(sqlite, query, clock=lambda: now[0]) as served:
        assert served.ask({"k": ["a"]})["n"].to_pylist() == [2]
        now[0] += 20 * 60 * 10**9
        assert served.ask({"k": ["a"]})["n"].to_pylist() == [1]
        assert served.watermark_time == begin + np.timedelta64(39, "m")
    with muntin.serving.open(sqlite, query) as served:  # years later
        assert served.ask({"k": ["a"]})["n"].to_pylist() == [0]
    stream.push({"t": [begin + np.timedelta64(5, "h")], "k": ["a"]})
    served = muntin.serving.open(sqlite, query, clock=lambda: 10**18)  # years before
    with pytest.raises(InvalidArgumentError, match="can be answered from 2024-01-01"):
        served.ask({"k": ["a"]})
    served.close()
    stream.close()


def test_before_the_first_row_frames_hold_nothing(url: str) -> None:
    stream = ONE.stream(serve=url)
    with muntin.serving.open(url, ONE) as served:
        assert served.watermark is None
        assert served.ask({"k": ["a"], "t": [1]}) == stream.ask({"k": ["a"], "t": [1]})
        stream.push({"t": [5], "k": ["a"], "v": [2]})
        assert served.ask({"k": ["a", "b"], "t": [5, 6]})["total"].to_pylist() == [2, None]
        assert served.watermark == 5
    stream.close()


def test_a_history_is_published_at_once(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite, history={"t": [1, 2], "k": ["a", "b"], "v": [3, 4]})
    with muntin.serving.open(sqlite, ONE) as served:
        assert served.ask({"k": ["a", "b"], "t": [2, 2]})["total"].to_pylist() == [3, 4]
    stream.close()


def test_rows_one_by_one_and_the_clock_are_published(sqlite: str) -> None:
    query, now = replace(ONE, idle_timeout=10), [0]
    stream = query.stream(serve=sqlite, clock=lambda: now[0])
    stream.push_row("a", 5, 2)
    now[0] = 30
    stream.tick()
    with muntin.serving.open(sqlite, query) as served:
        assert served.ask({"k": ["a"], "t": [stream.watermark]}) == stream.ask({"k": ["a"], "t": [stream.watermark]})
        assert served.watermark == stream.watermark > 5
    stream.close()


def test_windows_that_come_and_go(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1, 2], "k": ["a", "b"], "v": [3, 4]})
    reader = muntin.serving.open(sqlite, ONE)
    stream.add(window.trailing(5))
    points = {"k": ["a", "b"], "t": [6, 7]}
    with muntin.serving.open(sqlite, stream.query) as served:
        assert served.ask(points) == stream.ask(points)
        stream.push({"t": [7], "k": ["a"], "v": [1]})
        assert served.ask(points) == stream.ask(points)
        stream.remove(0)
        assert served.ask(points) == stream.ask(points)
        stream.push({"t": [8], "k": ["b"], "v": [1]})
        later = {"k": ["a", "b"], "t": [9, 9]}
        assert served.ask(later) == stream.ask(later)
    with pytest.raises(SnapshotError, match="window 1"):
        reader.ask(points)
    reader.close()
    stream.close()


def test_a_query_that_adopts_the_state_of_another(sqlite: str) -> None:
    """An aggregate that came later is null in frames that had begun, and an old reader is refused."""
    old = replace(ONE, windows={"tiled": window.trailing(20, hop=5), "ten": window.trailing(10)})
    new = replace(
        old,
        aggregates={"high": agg.max("v"), **old.aggregates},
        windows={"five": window.trailing(5), **old.windows.by_name},
    )
    stream = old.stream(serve=sqlite)
    reader = muntin.serving.open(sqlite, old)
    stream.push({"t": [1, 5, 12], "k": ["a", "b", "a"], "v": [3, 4, 5]})
    after = new.stream(stream.snapshot(), adopt=True, serve=sqlite)
    with muntin.serving.open(sqlite, new) as served:
        for t in (13, 17, 24, 30, 41):
            after.push({"t": [t, t], "k": ["a", "c"], "v": [t, 1]})
            points = {"k": ["a", "b", "c", "d"], "t": [t, t + 1, t + 2, t]}
            assert served.ask(points) == after.ask(points)
        assert served.ask({"k": ["a"], "t": [41]})["high_five"].to_pylist() == [41]
    with pytest.raises(SnapshotError, match="another query"):
        reader.ask({"k": ["a"], "t": [50]})
    reader.close()
    stream.close()
    after.close()


def test_aggregates_in_another_order(sqlite: str) -> None:
    query = replace(
        QUERY, aggregates={"n": agg.count(), "low": agg.min("v"), "high": agg.max("v"), "mean": agg.mean("v")}
    )
    other = replace(query, aggregates={name: query.aggregates[name] for name in ("mean", "high", "n", "low")})
    stream = query.stream(serve=sqlite)
    stream.push(some_rows(np.random.default_rng(3), 0, 30))
    points = {"k": ["k1", "k2"], "t": [9, 9]}
    with muntin.serving.open(sqlite, other) as served:
        found, expected = served.ask(points), stream.ask(points)
        assert found.select(expected.column_names) == expected
        assert found.column_names[2:6] == ["mean_ten", "high_ten", "n_ten", "low_ten"]
    stream.close()


# ------------------------------------------------------------ one value a key, replaced whole, by one writer


def test_a_stream_goes_on_from_its_snapshot(url: str) -> None:
    """What was published after the snapshot is gone with the rows; the same rows again make it the same again."""
    chance = np.random.default_rng(2)
    first, second, third = (some_rows(chance, 5 * i) for i in range(3))
    stream = QUERY.stream(serve=url)
    stream.push(first)
    snapshot = stream.snapshot()
    stream.push(second)
    points = {"k": ["k0", "k1", "k2", None], "t": [9, 9, 9, 9]}
    with muntin.serving.open(url, QUERY) as served:
        before = served.ask(points)
        again = QUERY.stream(snapshot, serve=url)
        assert served.ask(points) == again.ask(points) == QUERY.over(first, at=points)
        again.push(second)
        assert served.ask(points) == before
        with pytest.raises(SupersededError, match="another stream publishes"):
            stream.push(third)
        assert served.ask(points) == before
    stream.close()
    again.close()


def test_a_stalled_batch_overwrites_nothing(url: str) -> None:
    store = store_of(url)
    head = Head("0123456789abcdef", "someone")
    assert store.swap(None, head.encode())
    assert not store.swap(None, head.encode())
    run, part, key = b"0123456789abcdef", head.part_names[0], head.name("key", b"a")
    store.publish(run, part, b"%016x" % 7, {key: b"seven"})
    store.publish(run, part, b"%016x" % 7, {key: b"again"})
    with pytest.raises(SupersededError, match="later batch"):
        store.publish(run, part, b"%016x" % 6, {key: b"six"})
    with pytest.raises(SupersededError, match="another stream"):
        store.publish(b"fedcba9876543210", part, b"%016x" % 8, {key: b"other"})
    assert store.read([key, b"none", part, HEAD]) == [b"again", None, b"%016x" % 7, head.encode()]
    store.publish(run, part, b"%016x" % 8, {key: None})
    assert store.read([key]) == [None]
    store.write({key: b"a", b"another run.....:key:": b"b"})
    store.clear(run)
    assert store.read([key, b"another run.....:key:", HEAD]) == [b"a", None, head.encode()]
    store.clear(None)
    assert store.read([key, HEAD, part]) == [None, None, None]
    store.close()


def test_a_fresh_stream_replaces_what_is_there(url: str) -> None:
    old = ONE.stream(serve=url)
    old.push({"t": [1], "k": ["a"], "v": [1]})
    new = ONE.stream(serve=url)
    with muntin.serving.open(url, ONE) as served:
        assert served.ask({"k": ["a"], "t": [1]})["n"].to_pylist() == [0]
        new.push({"t": [1], "k": ["b"], "v": [1]})
        assert served.ask({"k": ["a", "b"], "t": [1, 1]})["n"].to_pylist() == [0, 1]
    old.close()
    new.close()


@pytest.mark.parametrize("query", [QUERY, replace(ONE, aggregates={"n": agg.count()})], ids=["may fail", "never fails"])
@pytest.mark.parametrize("halfway", [False, True])
def test_a_push_that_cannot_publish_changes_nothing(
    halfway: bool, query: Query, sqlite: str, faulty: list[Faulty]
) -> None:
    """Not even keys that have no rows in the next push, and keys that were new."""
    stream = query.stream(serve=sqlite)
    chance, points = np.random.default_rng(4), {"k": ["k0", "k1", "k2", "k4", None, "k5"], "t": [14] * 6}
    first, lost, third = some_rows(chance, 0, 3), some_rows(chance, 5, 30), some_rows(chance, 10, 1)
    stream.push(first)
    before = stream.snapshot()
    faulty[0].failing, faulty[0].halfway = {"publish"}, halfway
    with pytest.raises(StoreError, match="on demand"):
        stream.push(lost)
    assert stream.snapshot() == before
    faulty[0].failing = set()
    with muntin.serving.open(sqlite, query) as served:
        stream.push(third)
        assert served.ask(points) == stream.ask(points) == query.over(pa.concat_tables([first, third]), at=points)
    stream.check()
    stream.close()


@pytest.mark.parametrize("call", ["read", "write", "swap"])
def test_a_first_push_that_cannot_publish_changes_nothing(call: str, sqlite: str, faulty: list[Faulty]) -> None:
    """It begins a run, with the types of the columns; whether that is current then, is not known for sure."""
    stream = ONE.stream(serve=sqlite)
    faulty[0].failing = {call}
    for _ in range(2):
        with pytest.raises(StoreError, match="on demand"):
            stream.push({"t": [1], "k": ["a"], "v": [1]})
        assert stream.metrics()["rows"] == 0
    faulty[0].failing = set()
    stream.push({"t": [2], "k": ["b"], "v": [2]})
    with muntin.serving.open(sqlite, ONE) as served:
        assert served.ask({"k": ["a", "b"], "t": [3, 3]})["total"].to_pylist() == [None, 2]
        other = ONE.stream(serve=sqlite)
        faulty[0].failing = {call}
        with pytest.raises((StoreError, SupersededError)):
            stream.add(window.trailing(5))
        faulty[0].failing = set()
        with pytest.raises(SupersededError):
            stream.push({"t": [2], "k": ["b"], "v": [2]})
        assert served.ask({"k": ["b"], "t": [3]})["total"].to_pylist() == [None]
        other.close()
    stream.close()


def test_what_is_left_of_earlier_runs_is_read_by_nobody(sqlite: str, faulty: list[Faulty]) -> None:
    first = ONE.stream(serve=sqlite)
    first.push({"t": [1], "k": ["a"], "v": [1]})
    second = ONE.stream(serve=sqlite)
    faulty[1].failing = {"clear"}
    second.push({"t": [1], "k": ["b"], "v": [1]})
    with muntin.serving.open(sqlite, ONE) as served:
        assert served.ask({"k": ["a", "b"], "t": [1, 1]})["n"].to_pylist() == [0, 1]
    first.close()
    second.close()


def test_a_store_that_comes_back_is_waited_for(
    sqlite: str, faulty: list[Faulty], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [0], "k": ["a"], "v": [1]})
    store, waits = faulty[0], []

    def back_again(seconds: float) -> None:
        waits.append(seconds)
        store.failing = set() if len(waits) > 3 else store.failing

    monkeypatch.setattr("muntin.serving.base.time.sleep", back_again)
    monkeypatch.setattr(stream._publisher, "patience", 30.0)
    store.failing = {"publish"}
    stream.push({"t": [1], "k": ["a"], "v": [1]})
    assert waits == [0.05, 0.1, 0.2, 0.4]
    store.failing, waits[:] = {"publish"}, [-10] * -1000
    monkeypatch.setattr("muntin.serving.base.time.sleep", waits.append)
    with pytest.raises(StoreError, match="tried for 30 s"):
        stream.push({"t": [2], "k": ["a"], "v": [1]})
    assert sum(waits) == pytest.approx(30.0)
    stream.close()


def test_calls_take_one_round_trip(sqlite: str, faulty: list[Faulty]) -> None:
    stream = QUERY.stream(serve=sqlite)
    stream.push(some_rows(np.random.default_rng(5), 0, 50))
    writer, served = faulty[0], muntin.serving.open(sqlite, QUERY)
    reader = faulty[1]
    served.ask({"k": ["k0"], "t": [5]})  # the layout is read once
    for asked in (["k0"], ["k0", "k1", None, "unknown"], [f"k{i}" for i in range(300)]):
        reader.calls.clear()
        served.ask({"k": asked, "t": [5] * len(asked)})
        assert reader.calls == ["read"]
    writer.calls.clear()
    stream.push(some_rows(np.random.default_rng(6), 3, 50))
    assert writer.calls == ["publish"]
    served.close()
    stream.close()


def test_threads_ask_at_once_while_rows_come(url: str) -> None:
    stream = ONE.stream(serve=url)
    stream.push({"t": [0], "k": ["a"], "v": [0]})
    failures: list[BaseException] = []
    done = threading.Event()
    with muntin.serving.open(url, ONE) as served:

        def ask() -> None:
            last = 0
            try:
                while not done.is_set():
                    (n,) = served.ask({"k": ["a"], "t": [5]})["n"].to_pylist()
                    assert n >= last  # never half of a batch, of three rows each
                    assert n % 3 == 1
                    last = n
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for each in threads:
            each.start()
        for _ in range(20):
            stream.push({"t": [1, 1, 1], "k": ["a"] * 3, "v": [1] * 3})
        done.set()
        for each in threads:
            each.join()
    assert not failures
    stream.close()


OTHER = """
import json, sys, muntin
from muntin import Query, agg, window
query = Query(window.trailing(10), {"n": agg.count(), "total": agg.sum("v")}, key="k", time="t")
with muntin.serving.open(sys.argv[1], query) as served:
    print(json.dumps(served.ask({"k": ["a", "b"], "t": [9, 9]}).to_pydict()))
assert "pyspark" not in sys.modules
"""


@pytest.mark.slow
def test_another_process_asks(url: str) -> None:
    stream = ONE.stream(serve=url)
    stream.push({"t": [1, 5], "k": ["a", "a"], "v": [3, 4]})
    asked = subprocess.run([sys.executable, "-c", OTHER, url], capture_output=True, text=True, check=True).stdout
    assert json.loads(asked) == stream.ask({"k": ["a", "b"], "t": [9, 9]}).to_pydict()
    stream.close()


@pytest.mark.compiled
def test_compiled_kernels_answer_alike(sqlite: str) -> None:
    stream = QUERY.stream(serve=sqlite)
    stream.push(some_rows(np.random.default_rng(7), 0, 500))
    points = {"k": [f"k{i}" for i in range(7)], "t": [9] * 7}
    with muntin.serving.open(sqlite, QUERY) as served:
        assert served.ask(points) == stream.ask(points)
    stream.close()


# ------------------------------------------------------------ what is refused


def test_windows_that_cannot_be_asked(sqlite: str) -> None:
    query = Query({"ok": window.trailing(10), "no": window.tumbling(10)}, {"n": agg.count()}, key="k", time="t")
    with pytest.raises(UnsupportedOperationError, match=r"the window 'no' is window.tumbling\(10\)"):
        query.stream(serve=sqlite)
    with pytest.raises(UnsupportedOperationError, match="the window 'no'"):
        muntin.serving.open(sqlite, query)
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1], "k": ["a"], "v": [1]})
    before = stream.snapshot()
    with pytest.raises(UnsupportedOperationError, match="serve= is for frames"):
        stream.add(window.tumbling(10))
    assert stream.snapshot() == before
    stream.close()


def test_another_query_is_refused_by_what_differs(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    other = replace(ONE, aggregates={"n": agg.count(), "total": agg.max("v")})
    for _ in range(2):  # before the first row, and after
        with pytest.raises(SnapshotError, match=r"another query: its aggregate total is agg.sum\('v'\)"):
            muntin.serving.open(sqlite, other)
        with pytest.raises(SnapshotError, match="another query"):
            muntin.serving.delete(sqlite, other)
        stream.push({"t": [1], "k": ["a"], "v": [1]})
    stream.close()


def test_what_is_not_there(sqlite: str) -> None:
    with pytest.raises(InvalidArgumentError, match="holds no features"):
        muntin.serving.open(sqlite, ONE)
    muntin.serving.delete(sqlite, ONE)
    stream = ONE.stream(serve=sqlite)
    with muntin.serving.open(sqlite, ONE) as served:
        muntin.serving.delete(sqlite, ONE)
        with pytest.raises(InvalidArgumentError, match="holds no features"):
            served.ask({"k": ["a"], "t": [1]})
        with pytest.raises(SupersededError, match="was deleted"):
            stream.push({"t": [1], "k": ["a"], "v": [1]})
    stream.close()


@pytest.mark.parametrize(
    ("points", "error", "match"),
    [
        ({"t": [1]}, ColumnError, "k"),
        ({"k": ["a"], "t": ["soon"]}, (ColumnTypeError, InvalidArgumentError), "t"),
        ({"k": [1], "t": [1]}, ColumnTypeError, "column 'k' holds string in the rows, and int64 in the points"),
        ({"k": ["a"], "t": [1], "n": [1]}, InvalidArgumentError, "'n' is there already"),
        ({"k": ["a"], "t": [None]}, InvalidArgumentError, "null"),
    ],
)
def test_points_that_do_not_fit(points: Any, error: Any, match: str, sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1], "k": ["a"], "v": [1]})
    with muntin.serving.open(sqlite, ONE) as served:
        with pytest.raises(error, match=match):
            served.ask(points)
        assert served.ask({"k": ["a"], "t": [1]})["n"].to_pylist() == [1]
    stream.close()


def test_a_damaged_value_is_refused_by_its_key(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1, 2], "k": ["a", "b"], "v": [1, 2]})
    store = store_of(sqlite)
    (name, value) = (
        store._connection()
        .execute("SELECT name, value FROM features WHERE instr(name, ':key:') AND substr(name, -1) = CAST('a' AS BLOB)")
        .fetchone()
    )
    with muntin.serving.open(sqlite, ONE) as served:
        for i in range(len(value)):
            store.write({name: value[:i] + bytes([value[i] ^ 1]) + value[i + 1 :]})
            with pytest.raises(DamagedValueError, match="a damaged value of k 'a'"):
                served.ask({"k": ["b", "a"], "t": [2, 2]})
        store.write({name: value[:-3]})
        with pytest.raises(DamagedValueError, match="a damaged value of k 'a'"):
            served.ask({"k": ["a"], "t": [2]})
        assert served.ask({"k": ["b"], "t": [2]})["n"].to_pylist() == [1]
        stream.push({"t": [2], "k": ["a"], "v": [1]})
        assert served.ask({"k": ["a"], "t": [2]})["n"].to_pylist() == [2]
    store.close()
    stream.close()


OBJECTS = [
    pa.array([Decimal("1.50"), None, Decimal(-2)]),
    pa.array(["a", "", None]),
    pa.array([b"a", b"\x00", None]),
    pa.array([[1, None], [], None]),
    pa.array([{"a": 1, "b": [True]}, {"a": None, "b": []}, None]),
    pa.array([1, 2, None], pa.date32()),
    pa.array([1, 2, None], pa.timestamp("us", "Europe/Berlin")),
    pa.array([1, 2, None], pa.time64("us")),
]


@pytest.mark.parametrize("cells", OBJECTS, ids=lambda cells: str(cells.type))
def test_values_of_any_type(cells: pa.Array, sqlite: str) -> None:
    """Those that are Python objects in the state, too, are written without pickle."""
    query = Query(window.trailing(10), {"all": agg.collect("v"), "last": agg.last("v")}, key="k", time="t")
    table = pa.table({"t": [1, 2, 3], "k": ["a", "a", "b"], "v": cells})
    stream = query.stream(serve=sqlite)
    stream.push(table)
    with muntin.serving.open(sqlite, query) as served:
        points = {"k": ["a", "b", "c"], "t": [5, 5, 5]}
        assert served.ask(points) == query.over(table, at=points)
    stream.close()


@pytest.mark.parametrize(
    ("url", "match"),
    [
        ("features.db", "no store of features is called"),
        ("mysql://host/db", "mysql"),
        ("sqlite://", "names no file"),
        ("sqlite:///a.db?tables=x", "the option 'tables'"),
        ("sqlite:///a.db?table=x;y", "table is 'x;y'"),
        ("postgresql://host/db?table=a b", "table is 'a b'"),
        ("redis://host:port/0", "no URL of a Redis server"),
        ("redis://host/0?prefix=", "given without a value"),
        (7, "named by a URL"),
    ],
)
def test_urls_that_name_no_store(url: Any, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        store_of(url)


def test_passwords_are_not_shown() -> None:
    for url in ("redis://:secret@host/0", "postgresql://user:secret@host/db"):
        store = store_of(url)
        assert "secret" not in store.url
        store.close()


@pytest.mark.slow
def test_a_server_that_is_away(redis: Any, postgres: Any) -> None:
    for server in (redis, postgres):
        stream = ONE.stream(serve=server.url)
        stream._publisher.patience = 0.2
        stream.push({"t": [1], "k": ["a"], "v": [1]})
        served = muntin.serving.open(server.url, ONE)
        server.stop()
        before = stream.snapshot()
        with pytest.raises(StoreError, match="tried for 0.2 s"):
            stream.push({"t": [2], "k": ["a"], "v": [1]})
        with pytest.raises(StoreError, match="cannot read"):
            served.ask({"k": ["a"], "t": [2]})
        assert stream.snapshot() == before
        server.start()
        stream._publisher.patience = 30.0
        stream.push({"t": [2], "k": ["a"], "v": [1]})
        assert served.ask({"k": ["a"], "t": [2]})["n"].to_pylist() == [2]
        served.close()
        stream.close()


def test_metrics_count_what_was_published(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    stream.push({"t": [1, 2], "k": ["a", "b"], "v": [1, 2]})
    stream.push({"t": [2], "k": ["a"], "v": [1]})
    found = stream.metrics()
    assert found["published"] == 3
    assert found["published_bytes"] > 100
    assert found["publishing_ms"] >= 0
    assert "published" not in ONE.stream().metrics()
    stream.close()


def test_the_reader_shows_itself(sqlite: str) -> None:
    stream = ONE.stream(serve=sqlite)
    with muntin.serving.open(sqlite, ONE) as served:
        assert repr(served) == f"<Served features of {ONE!r} in {sqlite}>"
        assert served.query is ONE
        assert served.published_at is not None
        assert served.published_at.tzinfo is not None
    stream.close()
    assert Path(sqlite.removeprefix("sqlite:///")).exists()
