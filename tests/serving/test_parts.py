"""What the tasks of a Spark query publish, played without Spark: batches that die halfway and run again."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faulty_features import Faulty
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_ask import FRAMES
from sampling import examples
from spark.model import Machine
from spark.test_random import KEYS, SCHEMA
from streams.test_tiles import queries as tiled_queries

import muntin
from muntin import Query, agg, window
from muntin.errors import InvalidArgumentError, StoreError, UnsupportedOperationError
from muntin.serving import parts
from muntin.serving.base import HEAD, SupersededError
from muntin.serving.records import Head
from muntin.serving.urls import store_of
from muntin.spark import memory
from muntin.spark.processor import Processor
from muntin.streams.rows import tiles

QUERY = Query(
    {"ten": window.trailing(10), "tiled": window.trailing(20, hop=5)},
    {"n": agg.count(), "total": agg.sum("v")},
    key="k",
    time="t",
    watermark=2,
)


class Serving(Machine):
    """The pipeline without Spark, which publishes."""

    def __init__(self, query: Any, url: str, buckets: int = 3, writer: str = "a query") -> None:
        super().__init__(query, SCHEMA, buckets)
        self.job = replace(self.job, serve=url)
        self.packer = replace(self.packer, wakes=self.job.wakes)
        self.number, self.writer = 0, writer
        self.rows: list[dict[str, Any]] = []

    @property
    def processor(self) -> Processor:
        made = super().processor
        made.query, made.batch = self.writer, self.number
        return made

    def batch(self, rows: list[dict[str, Any]]) -> list[oracle.Result]:
        """Run a batch to its commit."""
        found = super().batch(rows)
        self.number += 1
        self.rows += rows
        return found

    def die_in(self, rows: list[dict[str, Any]], chance: random.Random, done: int | None = None) -> None:
        """Run some buckets of a batch, in any order, of which Spark commits nothing."""
        before = copy.deepcopy((self.store, self.seen))
        packed = list(self.pack(rows).items())
        chance.shuffle(packed)
        self.store.timers = {}
        done = chance.randrange(len(packed) + 1) if done is None else done
        for _ in self.answers(self.processor, dict(packed[:done])):
            pass
        self.store, self.seen = before

    def expected(self, points: pa.Table, more: list[dict[str, Any]] = []) -> pa.Table:  # noqa: B006
        return self.job.query.over(self.table([*self.rows, *more]), at=points)


@pytest.fixture(autouse=True)
def _own_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened = parts.Stores()
    monkeypatch.setattr(parts, "STORES", opened)
    yield
    for each in opened._opened().values():
        each.close()


def points_of(times: list[int], keys: str = "abcd") -> pa.Table:
    pairs = [(t, k, mark) for t in times for k in keys for mark in (True, False)]
    t, k, mark = zip(*pairs, strict=True)
    return pa.table({"t": pa.array(t, pa.int64()), "k": pa.array(k, pa.string()), "mark": pa.array(mark, pa.bool_())})


@given(data=st.data())
@settings(max_examples=examples(25))
def test_batches_that_die_and_run_again(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Asked after each attempt, of keys that came and others, from the watermark on."""
    slack, chance = data.draw(st.sampled_from([0, 2, 7])), random.Random(data.draw(st.integers(0, 99)))
    query = data.draw(strategies.queries(st.sampled_from(FRAMES)) | tiled_queries())
    query = replace(query, key=data.draw(st.sampled_from(KEYS)), watermark=slack + 1, emit_early=None)
    rows = data.draw(strategies.disordered(data.draw(strategies.tables(40)), slack))
    assume(rows)
    url = f"sqlite:///{tmp_path_factory.mktemp('parts') / 'features.db'}"
    machine = Serving(query, url, data.draw(st.integers(1, 3)))
    asked = machine.job.query
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(data.draw(st.sampled_from([0, 1 << 20]))))
        patch.setattr(tiles, "_FEW", data.draw(st.sampled_from([1, 16])))
        served = None
        for push in data.draw(strategies.cuts(rows)):
            if not push.rows:
                continue
            if data.draw(st.booleans()):
                machine.die_in(push.rows, chance)
                if served is not None and served.watermark is not None:
                    points = points_of([served.watermark, served.watermark + 3])
                    found = served.ask(points).to_pylist()
                    committed, all_of_it = machine.expected(points), machine.expected(points, push.rows)
                    for row in zip(found, committed.to_pylist(), all_of_it.to_pylist(), strict=True):
                        assert row[0] in row[1:]
            machine.batch(push.rows)
            served = served or muntin.serving.open(url, asked)
            since = served.watermark
            if since is not None:
                points = points_of([since, since + 1, since + data.draw(st.integers(2, 30))])
                assert served.ask(points) == machine.expected(points)
        if served is not None:
            served.close()


def some_rows(times: list[int], keys: str) -> list[dict[str, Any]]:
    return [{"t": t, "k": k, "v": t % 7, "km": 0, "mark": True} for t in times for k in keys]


def test_an_earlier_batch_is_refused(sqlite: str) -> None:
    machine = Serving(QUERY, sqlite)
    for t in (0, 5, 10):
        machine.batch(some_rows([t], "abc"))
    stalled = copy.deepcopy(machine.store)
    machine.batch(some_rows([15], "abc"))
    machine.batch(some_rows([20], "abc"))
    with muntin.serving.open(sqlite, QUERY) as served:
        points = points_of([served.watermark])
        before = served.ask(points)
        machine.store, machine.number = stalled, 3
        with pytest.raises(SupersededError, match="a later batch"):
            machine.batch(some_rows([16], "abc"))
        assert served.ask(points) == before


def test_a_query_that_begins_to_publish_amid_its_life(sqlite: str) -> None:
    """Readers are refused until all buckets have published all of their keys, whichever batch these came with."""
    machine = Serving(QUERY, sqlite)
    job, machine.job = machine.job, replace(machine.job, serve=None)
    machine.batch(some_rows([1, 2, 3], "abcdefgh"))
    machine.job = job
    machine.die_in(some_rows([4], "a"), random.Random(1), done=2)
    with muntin.serving.open(sqlite, QUERY) as served:
        with pytest.raises(UnsupportedOperationError, match="has published nothing yet"):
            served.ask(points_of([4]))
        machine.batch(some_rows([4], "a"))
        points = points_of([4], "abcdefgh")
        assert served.ask(points) == machine.expected(points)


@pytest.mark.parametrize("lost", ["all", "a part"])
def test_a_store_that_lost_its_data_is_filled_again(lost: str, sqlite: str) -> None:
    machine = Serving(QUERY, sqlite)
    machine.batch(some_rows([1, 2, 3], "abcdefgh"))
    store = store_of(sqlite)
    if lost == "all":
        store.clear(None)
    else:
        head = Head.decode(store.read([HEAD])[0] or b"")
        store._connection().execute("DELETE FROM features WHERE name = ?", (head.part_name(1),))
    machine.batch(some_rows([4], "a"))
    with muntin.serving.open(sqlite, QUERY) as served:
        points = points_of([4], "abcdefgh")
        assert served.ask(points) == machine.expected(points)
    store.close()


def test_another_checkpoint_takes_the_place_of_the_first(sqlite: str) -> None:
    first, second = Serving(QUERY, sqlite), Serving(QUERY, sqlite, writer="another query")
    first.batch(some_rows([1], "abc"))
    with muntin.serving.open(sqlite, QUERY) as served:
        second.batch(some_rows([2], "bcd"))
        points = points_of([5])
        assert served.ask(points) == second.expected(points)
        with pytest.raises(SupersededError, match="another stream publishes"):
            first.batch(some_rows([3], "abc"))
        second.batch(some_rows([3], "a"))
        assert served.ask(points) == second.expected(points)


def test_a_query_with_one_more_window_publishes_anew(sqlite: str) -> None:
    machine = Serving(QUERY, sqlite)
    machine.batch(some_rows([1, 2], "abc"))
    more = replace(QUERY, windows={**QUERY.windows.by_name, "five": window.trailing(5)})
    reader = muntin.serving.open(sqlite, QUERY)
    after = Serving(more, sqlite)
    after.store, after.seen, after.watermark, after.number = machine.store, machine.seen, machine.watermark, 1
    after.batch(some_rows([11], "a"))
    with muntin.serving.open(sqlite, more) as served:
        points = points_of([18])
        after.rows = [*machine.rows, *after.rows]
        assert served.ask(points) == after.expected(points)
    with pytest.raises(muntin.errors.SnapshotError, match="window 2"):
        reader.ask(points)
    reader.close()


def test_more_buckets_than_before(sqlite: str) -> None:
    """A checkpoint that was divided anew goes on in its run: keys have moved to other parts."""
    machine = Serving(QUERY, sqlite, 2)
    machine.batch(some_rows([1, 2], "abcdefgh"))
    other = Serving(QUERY, sqlite, 5)
    other.number = 1
    other.rows = list(machine.rows)
    other.batch(some_rows([1, 2, 3], "abcdefgh"))
    other.rows = other.rows[len(machine.rows) :]  # its state began empty here
    with muntin.serving.open(sqlite, QUERY) as served:
        points = points_of([5], "abcdefgh")
        assert served.ask(points) == other.expected(points)
        store = store_of(sqlite)
        assert Head.decode(store.read([HEAD])[0] or b"").parts == 5
        store.close()


@pytest.mark.parametrize("always", [[], [""]])
def test_keys_that_expire_are_removed(always: list[str], sqlite: str) -> None:
    """With the last key of a bucket, or beside one that stays."""
    machine = Serving(QUERY, sqlite, 1)
    for t in range(0, 2000, 10):
        machine.batch([{"t": t, "k": k, "v": 1, "km": 0, "mark": True} for k in (f"key {t}", *always)])
    store = store_of(sqlite)
    held = store._connection().execute("SELECT count(*) FROM features WHERE instr(name, ':key:')").fetchone()[0]
    assert held < 150
    store.close()


def test_a_store_that_is_away_fails_the_batch(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Serving(QUERY, sqlite)
    machine.batch(some_rows([1], "abc"))
    store = Faulty(parts.STORES.get(sqlite))
    parts.STORES._opened()[sqlite] = store
    monkeypatch.setattr(parts, "PATIENCE", 0.0)
    before = copy.deepcopy(machine.store)
    for call in ("read", "publish"):
        store.failing = {call}
        with pytest.raises(StoreError, match="on demand"):
            machine.batch(some_rows([2], "abc"))
        machine.store = copy.deepcopy(before)
    store.failing = set()
    store.calls.clear()
    machine.batch(some_rows([2], "abc"))
    assert store.calls == ["read", "publish"] * 3  # of each bucket
    with muntin.serving.open(sqlite, QUERY) as served:
        assert served.ask(points_of([2])) == machine.expected(points_of([2]))


def test_a_first_batch_that_dies_between_chunks_publishes_all_again(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt has other rows of the bucket's state before it: what an earlier batch brought is among them."""
    machine = Serving(QUERY, sqlite, 1)
    job, machine.job = machine.job, replace(machine.job, serve=None)
    machine.batch(some_rows([1], "abcdefgh"))
    machine.job = job
    store = Faulty(parts.STORES.get(sqlite))
    parts.STORES._opened()[sqlite] = store
    monkeypatch.setattr(parts, "PATIENCE", 0.0)
    monkeypatch.setattr(parts, "CHUNK", 3)
    before = copy.deepcopy(machine.store)
    store.failing_after = 2
    with pytest.raises(StoreError, match="on demand"):
        machine.batch(some_rows([2], "a"))
    machine.store = before
    with muntin.serving.open(sqlite, QUERY) as served:
        with pytest.raises(UnsupportedOperationError, match="has published nothing yet"):
            served.ask(points_of([4]))
        machine.batch(some_rows([2], "a"))
        points = points_of([4], "abcdefgh")
        assert served.ask(points) == machine.expected(points)


def test_points_before_the_watermark_are_refused(sqlite: str) -> None:
    """A bucket that was empty in between does not know what it let go."""
    machine = Serving(QUERY, sqlite, 1)
    machine.batch(some_rows([1], "a"))
    machine.tell(5000)
    machine.batch([])
    assert not machine.held
    machine.batch(some_rows([5001], "b"))
    with muntin.serving.open(sqlite, QUERY) as served:
        for key in "abx":
            with pytest.raises(InvalidArgumentError, match="answered from 5000 on"):
                served.ask({"k": [key], "t": [5]})
        assert served.ask({"k": ["a", "x", "b"], "t": [5000, 5000, 5001]})["n_ten"].to_pylist() == [0, 0, 1]


def test_what_was_published_is_counted(sqlite: str) -> None:
    machine = Serving(QUERY, sqlite)
    machine.batch(some_rows([1], "abc"))
    assert machine.counts["published"] == 3
    machine.batch(some_rows([2], "a"))
    assert machine.counts["published"] == 4
    assert machine.counts["published_bytes"] > 100
    assert Path(sqlite.removeprefix("sqlite:///")).exists()
