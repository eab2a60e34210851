"""What a worker process keeps between micro-batches, without Spark: streams of buckets that wander among workers."""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from queries import oracle
from spark.model import Chunks, Machine, Store, Value

from muntin import Query, agg, rows, window
from muntin.errors import SnapshotError
from muntin.kernels.cache import uncompiled
from muntin.spark import bucket
from muntin.spark.bucket_state import BucketState
from muntin.spark.local_chunks import LocalChunks
from muntin.spark.memory import Memory, Place, held_bytes
from muntin.spark.shipped import FOR_STREAMS, Stateful, _loaded
from muntin.streams.driven import DrivenStream

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.float64()})


class Wandering:
    """The caches of two workers: each call of a bucket happens to be in one of them."""

    def __init__(self, seed: int) -> None:
        self.workers, self.chance = [Memory(), Memory()], random.Random(seed)
        self.here = self.workers[0]

    def take(self, *asked: Any) -> Any:
        self.here = self.chance.choice(self.workers)
        return self.here.take(*asked)

    def keep(self, *given: Any) -> None:
        self.here.keep(*given)


def living() -> int:
    """Return the number of streams in this process."""
    gc.collect()
    # Not by isinstance, which asks proxies of objects that are gone.
    return sum(issubclass(type(each), DrivenStream) for each in gc.get_objects())


@pytest.mark.slow
def test_memory_is_flat_while_buckets_wander(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 500 micro-batches; some buckets are empty at times, and begin again."""
    query = oracle.Query([window.sliding(4, every=2)], {"n": agg.count(), "m": agg.max("v")}, ["k"])
    wandering = Wandering(seed=5)
    monkeypatch.setattr(bucket, "MEMORY", wandering)
    chance = random.Random(7)
    blocks, streams = [], []
    others = living()  # of other tests in this process
    with uncompiled():
        machine = Machine(query, SCHEMA, buckets=4)
        for batch in range(500):
            keys = chance.sample("abcdefgh", 2)
            machine.batch([{"t": batch, "k": key, "v": float(batch)} for key in keys])
            if batch in (100, 300, 499):
                gc.collect()
                blocks.append(sys.getallocatedblocks())
                streams.append(living() - others)
    assert max(streams) <= 8, "at most every bucket in both workers"
    assert max(blocks) - blocks[0] < 10_000, blocks  # a stream has some 1,500
    for worker in wandering.workers:
        assert 0 < len(worker._streams) <= 4
        assert worker._used == sum(kept.size for kept in worker._streams.values())


TABLE = pa.table(
    {"t": np.arange(600) // 12, "k": [f"k{i % 50}" for i in range(600)], "v": np.arange(600) * 1.0}, SCHEMA
)
HELD = {
    "slices": Query(window.sliding(10, every=5), {"n": agg.count(), "m": agg.max("v")}, key="k", time="t"),
    "objects": Query(
        [window.sliding(10, every=5), window.session(3)],
        {"n": agg.collect("v"), "text": agg.concat("k")},
        key="k",
        time="t",
        allowed_lateness=20,
    ),
    "rows": Query([window.tumbling(rows(3)), window.trailing(10)], {"n": agg.sum("v")}, key="k", time="t"),
    "tiles": Query(window.trailing(100, hop=10), {"n": agg.sum("v")}, key="k", time="t", allowed_lateness=9),
    "few": Query(window.tumbling(10**6), {"n": agg.sum("v")}, time="t"),
}


@pytest.mark.parametrize("name", HELD)
def test_what_a_stream_holds_is_counted(name: str) -> None:
    """As Python's own allocator counts it. The metrics of a stream count slices and keys, a small part of it."""

    def made() -> DrivenStream:
        stream = DrivenStream(HELD[name], SCHEMA)
        stream.take(TABLE)
        stream.set_watermark(40)
        stream.emit()
        stream.save()
        return stream

    found = []
    with uncompiled():
        made()  # fills what all streams share
        for _ in range(3):  # other threads of the process may allocate too
            gc.collect()
            tracemalloc.start()
            streams = [made() for _ in range(4)]
            gc.collect()
            found.append(tracemalloc.get_traced_memory()[0] / len(streams))
            tracemalloc.stop()
    shared = held_bytes(HELD[name])  # by all streams of a query, and counted for each
    assert 0.65 * min(found) < held_bytes(streams[0]) < 1.1 * min(found) + shared


@agg.define(state="object", result="object", commutative=True)
class thrown:
    """The values in order, as objects of a class that only pickle knows."""

    def lift(v):
        return [Fraction(v)]

    def combine(a, b):
        return a + b

    def lower(s):
        return float(sum(s))


STRUCTS = pa.table({"t": [1, 2], "v": [{"a": 1, "b": ["x", None]}, None]})


def test_pickle_is_in_a_state_only_when_allowed() -> None:
    """A state says so when it is written, and nobody unpickles what somebody else has put there."""

    def state(allow_pickle: bool) -> BucketState:
        value, kept = Value(store, "muntin_header"), Chunks(store, "muntin_chunks")
        return BucketState(value, kept, LocalChunks(None), allow_pickle=allow_pickle)

    store = Store()
    with uncompiled():
        asked = Query(window.tumbling(1000), {"sum": thrown("v")}, time="t")
        stream = DrivenStream(asked, SCHEMA)
        stream.take(TABLE)
        with pytest.raises(
            SnapshotError, match="holds a value of fractions.Fraction, which only pickle can write: keep"
        ):
            state(allow_pickle=False).write(stream.save(), 5, None)
        assert store.values == {}
        header, _ = state(allow_pickle=True).write(stream.save(), 5, None)
        with pytest.raises(SnapshotError, match="objects that only pickle can read; pass allow_pickle=True if you tr"):
            state(allow_pickle=False).read(header)
        again = DrivenStream.load(asked, SCHEMA, state(allow_pickle=True).read(header)[0])
        again.set_watermark(1000)
        assert again.emit()["sum"].to_pylist() == [sum(TABLE["v"].to_pylist())]
        asked = Query(window.tumbling(10), {"all": agg.collect("v"), "first": agg.first("v")}, time="t")
        stream = DrivenStream(asked, STRUCTS.schema)
        stream.take(STRUCTS)
        header, _ = state(allow_pickle=False).write(stream.save(), 5, None)
        again = DrivenStream.load(asked, STRUCTS.schema, state(allow_pickle=False).read(header)[0])
        again.set_watermark(10)
        (row,) = again.emit().to_pylist()
    assert (row["all"], row["first"]) == ([STRUCTS["v"][0].as_py()], STRUCTS["v"][0].as_py())


def test_tasks_share_what_they_are_sent() -> None:
    """Else each stream that is kept holds the definitions of its query once more."""
    shipped = Stateful(HELD["few"])
    first, second = (_loaded(bytes(bytearray(shipped.data)), FOR_STREAMS) for _ in range(2))
    assert first is second
    assert repr(first) == repr(HELD["few"])


def test_memory_is_bounded() -> None:
    """Of two streams where one has room, the older one goes; a stream that was overtaken goes whoever asks."""
    with uncompiled():
        old, new = (DrivenStream(HELD["few"], SCHEMA) for _ in range(2))
    a, b = Place("query", 1), Place("query", 2)
    memory = Memory(limit=held_bytes(old) * 3 // 2)
    memory.keep(a, "1", old)
    memory.keep(b, "2", new)
    assert memory.take(a, "1") is None
    assert memory.take(b, "2") is new
    assert memory.take(b, "2") is None
    memory.keep(a, "3", old)
    assert memory.take(a, "4") is None, "the bucket was elsewhere since"
    assert memory.take(a, "3") is None, "and what it was then is gone"
    memory.keep(a, "5", old)
    memory.keep(a, "6", new)
    assert memory.take(Place("another query", 1), "6") is None
    assert memory.take(a, "6") is new
    assert memory._used == 0
