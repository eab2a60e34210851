"""A MonoidTree whose body is in a store: what it keeps in memory, what it survives, what it refuses."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redis_server import Server
from sampling import examples
from stores.clocks import PauseClock
from waiting import PATIENCE, until

from muntin import agg, aggregators, policies, stores
from muntin.aggregators.stored.courier import Courier
from muntin.aggregators.stored.manifest import _text
from muntin.errors import (
    ColumnTypeError,
    DamagedChunkError,
    InvalidArgumentError,
    LeaseError,
    StoreError,
    UnsupportedOperationError,
)
from muntin.testing.faults import Faulty

SUM = agg.sum("v")


def tree(store: stores.Store, aggregation: Any = SUM, **options: Any) -> Any:
    return aggregators.MonoidTree(aggregation, **{"store": store, "chunk_pairs": 4, "compiled": False, **options})


def tree_by_pauses(store: stores.Store, window_id: str = "w", *, patience: float, **options: Any) -> Any:
    """A tree whose patience ends by the pauses between attempts, not by the machine's clock."""
    courier = Courier(store, store.lease(window_id.encode()), patience, PauseClock())
    return tree(store, window_id=window_id, _courier=courier, **options)


def recovered(window: Any) -> None:
    """Wait until the background work of a window, whose store works again, has done what it could not."""
    until(lambda: window._courier._failure is None)


def reopened(store: stores.Store, name: str, aggregation: Any = SUM, **options: Any) -> Any:
    return aggregators.MonoidTree.open(store, name, aggregation, compiled=False, **options)


# ---------------------------------------------------------------- where things are


def test_memory_does_not_grow_with_the_window(tmp_path: Path) -> None:
    store = stores.Lmdb(tmp_path)
    with aggregators.MonoidTree(agg.max("v"), store=store, dtype="f8", nullable=False) as window:
        window.bulk_insert(range(1000), np.arange(1000.0))
        held = sum(array.nbytes for array in window._window)
        for begin in range(1000, 100_000, 10_000):
            window.bulk_insert(range(begin, begin + 10_000), np.arange(begin, begin + 10_000.0))
        assert sum(array.nbytes for array in window._window) == held
        assert len(window._exchange.traffic) < 100
        assert window.query() == begin + 9_999.0
        window.bulk_evict(50_000)
        assert (len(window), window.oldest) == (begin + 10_000 - 50_001, 50_001)
        assert window.range_query(60_000, 60_010) == 60_010.0
    store.close()


def test_evicted_chunks_are_deleted() -> None:
    store = stores.Memory()
    window = tree(store, policy=policies.at_most_rows(100))
    for begin in range(0, 8_000, 100):
        window.bulk_insert(range(begin, begin + 100), range(100))
    window.flush()
    window.close()
    assert len(store) < 120, "the chunks of 100 rows, and some that have just left; 1000 were written in level 0 alone"


def test_rows_that_never_leave_the_tail_are_not_written() -> None:
    store = stores.Memory()
    with tree(store) as window:
        for t in range(500):
            window.insert(t, t)
            if t > 5:
                window.evict()
        window._courier.finish()
        assert len(store) <= 8
        assert window.query() == sum(range(494, 500))


def test_a_tree_of_many_columns_and_times(store: stores.Store) -> None:
    name = f"many{time.monotonic_ns()}"
    start = np.datetime64("2024-01-01T00:00:00", "s")
    aggregation = {"n": agg.count(), "who": agg.arg_max("v", "who"), "run": agg.longest_increasing_run("v")}
    rows = {"v": [(i * 37) % 101 for i in range(700)], "who": [f"w{i}" for i in range(700)]}
    with tree(store, aggregation, window_id=name) as window:
        window.bulk_insert(start + np.arange(700), rows)
        window.bulk_evict(start + 99)
        before = window.query()
    again = reopened(store, name, aggregation)
    assert again.query() == before
    assert again.oldest == start + 100
    again.check()
    again.close()


# ---------------------------------------------------------------- policies


@pytest.mark.parametrize(
    "policy",
    [
        policies.at_most_rows(150),
        policies.at_most_duration(170),
        policies.sum_at_most("v", 1500),
        policies.since_maximum("v"),
        policies.since_longest_run("v"),
        policies.steady_mean("v", 0.1),
    ],
    ids=lambda policy: policy.name,
)
def test_policies_in_a_store_are_those_in_memory(policy: policies.Policy) -> None:
    chance = random.Random(policy.name)
    aggregation = {"all": agg.collect("v")}
    stored = tree(stores.Memory(), aggregation, policy=policy)
    memory = aggregators.MonoidTree(aggregation, policy=policy, compiled=False)
    now = 0
    for step in range(150):
        times, values = [], []
        for _ in range(chance.choice([1, 1, 2, 30])):
            now += chance.choice([1, 1, 1, 500]) if chance.random() < 0.02 else 1
            times.append(now)
            values.append(chance.randrange(20) + (30 if step > 90 else 0) if chance.random() > 0.01 else 1400)
        stored.bulk_insert(times, values)
        memory.bulk_insert(times, values)
        assert stored.query() == memory.query()
    stored.check()
    stored.close()


# ---------------------------------------------------------------- durability


def test_a_crash_loses_only_what_was_not_flushed() -> None:
    for seed in range(examples(40)):
        chance = random.Random(seed)
        store = Faulty(stores.Memory(), seed=seed)
        window = tree(store, window_id="w")
        values: list[int] = []
        begin = flushed = flushed_begin = 0
        for _ in range(chance.randrange(3, 25)):
            count = chance.randrange(1, 80)
            window.bulk_insert(range(len(values), len(values) + count), range(len(values), len(values) + count))
            values += range(len(values), len(values) + count)
            gone = chance.randrange(len(values) - begin)
            if gone:
                begin += gone
                window.bulk_evict(begin - 1)
            if chance.random() < 0.3:
                window.flush()
                flushed, flushed_begin = len(values), begin
        window._courier.close()  # the process dies: nothing more is written
        window._finalizer.detach()
        store.crash()
        again = reopened(store, "w")
        assert again.updates == flushed
        assert len(again) == flushed - flushed_begin
        assert (again.query() or 0) == sum(range(flushed_begin, flushed))
        again.check()
        again.bulk_insert(range(flushed, flushed + 100), range(flushed, flushed + 100))
        again.check()
        again.close()


@pytest.mark.parametrize("flushes", [0, 1, 2])
def test_a_crash_tears_the_number_of_the_last_manifest(flushes: int) -> None:
    store = Faulty(stores.Memory())
    window = tree(store, window_id="w")
    for flush in range(flushes):
        window.bulk_insert(range(100 * flush, 100 * (flush + 1)), range(100))
        window.flush()
    window._courier.close()
    window._finalizer.detach()
    key, value = store._log[-1]
    assert (key, value) == (window._manifests._confirmed_key, _text(flushes + 1)), "it is not durable yet"
    store._log = [(key, value[: len(value) // 2])]
    store.flush()
    for lease in store._leases:
        lease.release()
    again = reopened(store, "w")
    assert (again.updates, again.query() or 0) == (100 * flushes, 4950 * flushes)
    again.close()


def test_a_crash_after_flushes_that_failed() -> None:
    for seed in range(examples(40)):
        chance = random.Random(seed)
        store = Faulty(stores.Memory(), seed=seed)
        window = tree_by_pauses(store, patience=0.02)
        end = begin = 0
        states = {0: {0}}
        """For each number of updates that a flush may have written, where the window may have begun."""
        for _ in range(chance.randrange(5, 25)):
            count = chance.randrange(1, 80)
            window.bulk_insert(range(end, end + count), range(end, end + count))
            end += count
            gone = chance.randrange(end - begin)
            if gone:
                begin += gone
                window.bulk_evict(begin - 1)
            window._courier.finish()
            if chance.random() < 0.5:
                store.fail_next(chance.choice([0, 0, 1, 50]), after=chance.randrange(6))
                try:
                    window.flush()
                    states = {end: {begin}}
                except StoreError:
                    states.setdefault(end, set()).add(begin)
                store.fail_next(0)
                recovered(window)
        window._courier.close()  # the process dies: nothing more is written
        window._finalizer.detach()
        store.crash()
        again = reopened(store, "w")
        assert again.updates in states
        assert again.updates - len(again) in states[again.updates]
        assert (again.query() or 0) == sum(range(again.updates - len(again), again.updates))
        again.check()
        again.close()


def test_a_torn_manifest_gives_way_to_the_one_before() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w")
    window.bulk_insert(range(100), range(100))
    window.flush()
    window.bulk_insert(range(100, 200), range(100, 200))
    window.flush()
    window.close(flush=False)
    current = b"muntin:{w}:manifest%d" % (window._manifests.sequence % 2)
    store._values[current] = store._values[current][:-100]
    with pytest.raises(DamagedChunkError, match="the last manifest of the window is damaged"):
        reopened(store, "w")  # a flush that was completed is not forgotten
    store._values[b"muntin:{w}:confirmed"] = _text(window._manifests.sequence - 1)  # as if it was being written
    again = reopened(store, "w")
    assert again.updates == 100
    assert again.query() == sum(range(100))
    again.check()
    again.close()


def drain(store: stores.Store) -> None:
    window = reopened(store, "w")
    try:
        while len(window):
            window.evict()
    finally:
        window.close(flush=False)


def test_a_torn_chunk_is_detected() -> None:
    def damage(change: Any) -> None:
        store = stores.Memory()
        window = tree(store, window_id="w")
        window.bulk_insert(range(2000), range(2000))
        window.close()
        chunks = [key for key in store._values if b"manifest" not in key and b"owner" not in key]
        for key in chunks[3:]:
            store._values[key] = change(store._values[key])
        with pytest.raises(DamagedChunkError, match=r"chunk \d+ of level \d+"):
            drain(store)

    damage(lambda data: data[: len(data) // 2])
    damage(lambda data: data[:10])
    damage(lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:])
    damage(lambda data: data[:4] + b"\x09\x00" + data[6:])


def test_a_chunk_in_the_place_of_another_is_detected() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w")
    window.bulk_insert(range(2000), range(2000))
    window.close()
    chunks = sorted(key for key in store._values if b":00:" in key)
    store._values[chunks[50]], store._values[chunks[51]] = store._values[chunks[51]], store._values[chunks[50]]
    again = reopened(store, "w")
    with pytest.raises(DamagedChunkError, match="another chunk"):
        again.check()
    del store._values[chunks[60]]
    with pytest.raises(DamagedChunkError, match="not in the store"):
        again.range_query(60 * 8 + 1, 60 * 8 + 3)
    assert again.query() == sum(range(2000)), "the window is still usable"
    again.close(flush=False)


def test_two_holders_and_wrong_ones(store: stores.Store) -> None:
    name = f"holders{time.monotonic_ns()}"
    window = tree(store, window_id=name)
    with pytest.raises(LeaseError, match="is open already"):
        reopened(store, name)
    with pytest.raises(LeaseError, match="is open already"):
        tree(store, window_id=name)
    window.insert(1, 5)
    window.close()
    window.close()
    with pytest.raises(StoreError, match=r"MonoidTree\.open"):
        tree(store, window_id=name)
    with pytest.raises(StoreError, match="another aggregation"):
        reopened(store, name, agg.max("v"))
    with pytest.raises(StoreError, match="no window 'nowhere'"):
        reopened(store, "nowhere")
    again = reopened(store, name)
    assert again.query() == 5
    with pytest.raises(UnsupportedOperationError, match="flush"):
        again.snapshot()
    again.close()


def test_a_window_is_opened_as_it_was_made() -> None:
    store = stores.Memory()
    policy = policies.at_most_rows(50)
    with tree(store, window_id="w", policy=policy) as window:
        window.bulk_insert(range(200), range(200))
    refusals = [
        ("made with the policy at_most_rows; at_most_rows, as it is", {"policy": policies.at_most_rows(51)}),
        ("at_most_rows; none is given", {}),
        ("made with chunk_pairs=4, not 8", {"policy": policy, "chunk_pairs": 8}),
        ("made with nullable=True, not False", {"policy": policy, "nullable": False}),
        ("column 'v' of the window 'w' holds int64, not double", {"policy": policy, "dtype": "f8"}),
    ]
    kept = dict(store._values)
    for message, options in refusals:
        with pytest.raises(StoreError, match=message):
            reopened(store, "w", **options)
    with pytest.raises(StoreError, match=r"another aggregation.*than agg\.max\('v'\)$"):
        reopened(store, "w", agg.max("v"), policy=policy)
    assert store._values == kept
    same = {"policy": policies.at_most_rows(50), "chunk_pairs": 4, "nullable": True, "dtype": "i8"}
    with reopened(store, "w", **same) as again:
        assert again.query() == sum(range(150, 200))
    with tree(store, window_id="plain") as window:
        pass
    with pytest.raises(StoreError, match="made without a policy; at_most_rows"):
        reopened(store, "plain", policy=policy)
    with reopened(store, "plain", dtype="f8") as window:
        window.insert(1, 2)
        assert isinstance(window.query(), float), "no value had settled the type"


def test_a_manifest_that_does_not_know_its_policy_is_accepted() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w", policy=policies.at_most_rows(50))
    window.bulk_insert(range(200), range(200))
    manifest = window._manifest

    def without_policy() -> Any:
        made = manifest()
        made.header.pop("policy")
        return made

    window._manifest = without_policy
    window.close()
    with reopened(store, "w", policy=policies.at_most_rows(20)) as again:
        assert again.query() == sum(range(150, 200))
        again.insert(200, 200)
        assert again.query() == sum(range(181, 201))


def test_who_lost_the_lease_writes_no_manifest(redis: Server) -> None:
    name = f"lost{time.monotonic_ns()}"
    store = stores.Redis(redis.url, lease_seconds=PATIENCE)
    first = tree_by_pauses(store, name, patience=2.0)  # renews its lease when it begins, and not again
    first.bulk_insert(range(100), range(100))
    first.flush()
    store._client.delete(b"muntin:{" + name.encode() + b"}:lease")
    second = reopened(store, name)

    def go_on() -> None:
        first.bulk_insert(range(100, 200), range(100))  # refused if the loss has been noticed
        first.flush()

    with pytest.raises(LeaseError):
        go_on()
    assert second.updates == 100
    second.check()
    second.close()
    first.close(flush=False)
    store.close()


# ---------------------------------------------------------------- faults


def test_a_store_that_comes_back_is_waited_for() -> None:
    store = Faulty(stores.Memory())
    window = tree_by_pauses(store, patience=20.0)
    window.bulk_insert(range(500), range(500))
    store.fail_next(6)
    window.bulk_insert(range(500, 8000), range(500, 8000))
    window.bulk_evict(6000)
    assert window.query() == sum(range(6001, 8000))
    window.flush()
    assert store._failures == 0
    window.check()
    window.close()


def test_a_store_that_stays_away_is_an_error_and_nothing_is_lost() -> None:
    store = Faulty(stores.Memory())
    window = tree_by_pauses(store, patience=0.2)
    window.bulk_insert(range(5000), range(5000))
    window.flush()
    store.failing = True
    with pytest.raises(StoreError, match="has failed for 0.2 s"):
        window.range_query(2000, 2500)
    with pytest.raises(StoreError):
        window.flush()
    with pytest.raises(StoreError):
        window.bulk_evict(2500)
    with pytest.raises(StoreError, match="has not kept up") as caught:
        window.bulk_insert(range(5000, 20_000), range(5000, 20_000))
    inserted = window.updates
    assert f"the first {inserted - 5000} of these 15000 rows" in caught.value.__notes__[0]
    assert window.query() == sum(range(inserted)), "the window is still usable"
    store.failing = False
    recovered(window)
    window.bulk_insert(range(inserted, 20_000), range(inserted, 20_000))
    assert window.query() == sum(range(20_000))
    window.flush()
    window.check()
    window.bulk_evict(19_000)
    assert window.query() == sum(range(19_001, 20_000))
    window.close()


def test_slow_and_tearing_stores() -> None:
    store = Faulty(stores.Memory())
    store.delay = 0.001
    window = tree(store, policy=policies.at_most_rows(700), window_id="w")
    for begin in range(0, 6000, 500):
        store.tear_next()
        store.fail_next(2)
        window.bulk_insert(range(begin, begin + 500), range(begin, begin + 500))
        assert window.query() == sum(range(max(0, begin + 500 - 700), begin + 500))
    window.flush()
    window.check()
    window.close()
    again = reopened(store, "w", policy=policies.at_most_rows(700))
    again.check()
    assert again.query() == sum(range(5300, 6000))
    again.close()


@pytest.mark.slow
def test_redis_restarted_in_the_middle(tmp_path: Path) -> None:
    server = Server(tmp_path)
    store = stores.Redis(server.url, timeout=1.0)
    window = tree(store, policy=policies.at_most_rows(3000), window_id="w", patience=PATIENCE)

    def restart() -> None:
        server.stop()
        time.sleep(0.3)
        server.start()

    window.bulk_insert(range(5000), range(5000))
    window.flush()
    restarting = threading.Thread(target=restart)
    restarting.start()
    for begin in range(5000, 40_000, 500):
        window.bulk_insert(range(begin, begin + 500), range(begin, begin + 500))
        assert window.query() == sum(range(begin + 500 - 3000, begin + 500))
    restarting.join()
    window.flush()
    window.check()
    window.close()
    store.close()
    server.stop()


def test_an_error_of_the_background_work_comes_out_at_flush_and_close() -> None:
    class Strange(stores.Memory):
        broken = False

        def put_many(self, items: Any) -> None:
            if self.broken:
                raise ZeroDivisionError("a store with a bug")
            super().put_many(items)

    store = Strange()
    window = tree(store, window_id="w")
    store.broken = True
    window.bulk_insert(range(100), range(100))
    for end in (window.flush, window.close):
        with pytest.raises(StoreError, match="a store with a bug") as caught:
            end()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert window.query() == sum(range(100)), "the window is still usable"
    store.broken = False
    recovered(window)
    window.close()
    with reopened(store, "w") as again:
        assert (again.updates, again.query()) == (100, sum(range(100)))


def test_a_closed_window_refuses_what_would_be_lost() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w")
    window.bulk_insert(range(500), range(500))
    window.close()
    window.close()
    kept = dict(store._values)
    refused = (
        lambda: window.insert(500, 1),
        lambda: window.bulk_insert([500], [1]),
        window.evict,
        lambda: window.bulk_evict(200),
        lambda: window.range_query(100, 300),
        window.flush,
    )
    for use in refused:
        with pytest.raises(StoreError, match="the window is closed"):
            use()
    assert (window.query(), len(window)) == (sum(range(500)), 500)
    assert store._values == kept


def test_a_read_that_failed_is_not_done_later_when_its_chunk_is_gone() -> None:
    class Selective(stores.Memory):
        failing = False

        def get_many(self, keys: Any) -> Any:
            if self.failing and not all(b":00:" in key for key in keys):
                raise StoreError("only level 0 can be read")
            return super().get_many(keys)

    store = Selective()
    window = tree_by_pauses(store, patience=0.2)
    window.bulk_insert(range(2000), range(2000))
    window.flush()
    store.failing = True
    with pytest.raises(StoreError):
        window.range_query(300, 333)
    store.failing = False
    while window.oldest < 500:  # no eviction goes beyond what inserts have read ahead
        window.bulk_insert([2000] * 40, [0] * 40)
        window._exchange.provide()
        window._courier.ahead(int).result()
        for _ in range(16):
            window.evict()
    window.flush()
    window._courier.finish()
    window.bulk_evict(1500)
    assert window.query() == sum(range(1501, 2000))
    window.close()


def test_chunks_of_a_manifest_that_was_written_but_not_confirmed_stay() -> None:
    class Unconfirmed(stores.Memory):
        flushes = 1 << 30

        def flush(self) -> None:
            self.flushes -= 1
            if self.flushes < 0:
                raise StoreError("no answer")

    store = Unconfirmed()
    window = tree_by_pauses(store, patience=0.05)
    window.bulk_insert(range(1000), range(1000))
    store.flushes = 1  # the manifest is put, and what comes after fails
    with pytest.raises(StoreError):
        window.flush()
    window.bulk_evict(900)
    window.bulk_insert(range(1000, 1200), range(1000, 1200))
    window._courier.finish()
    window.close(flush=False)
    store.flushes = 1 << 30
    with reopened(store, "w") as again:
        assert (again.updates, again.query()) == (1000, sum(range(1000)))
        again.check()


def test_damaged_manifests_are_no_empty_window() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w")
    window.bulk_insert(range(100), range(100))
    window.close()
    for n in (0, 1):
        store._values[b"muntin:{w}:manifest%d" % n] = store._values[b"muntin:{w}:manifest%d" % n][:-5]
    kept = dict(store._values)
    for make in (lambda: reopened(store, "w"), lambda: tree(store, window_id="w")):
        with pytest.raises(DamagedChunkError, match="both manifests"):
            make()
    assert store._values == kept


# ---------------------------------------------------------------- types and arguments


def test_types_are_settled_once_rows_are_in_the_store() -> None:
    window = tree(stores.Memory(), window_id="w")
    window.bulk_insert(range(3), [None, 1, 2])
    window.insert(3, 2.5)
    assert window.query() == 5.5, "all rows were still in memory"
    window.bulk_insert(range(4, 200), range(4, 200))
    with pytest.raises(ColumnTypeError, match="dtype="):
        window.insert(200, "word")
    window.check()
    window.close()
    window = tree(stores.Memory())
    window.bulk_insert(range(200), range(200))
    with pytest.raises(ColumnTypeError, match="has rows in the store"):
        window.insert(200, 0.5)
    window.bulk_evict(500)
    assert len(window) == 0
    window.insert(200, 0.5)
    assert window.query() == 0.5
    window.bulk_insert(range(201, 400), np.ones(199))
    window.check()
    window.close()


def test_arguments() -> None:
    with pytest.raises(InvalidArgumentError, match="a store is needed"):
        aggregators.MonoidTree(SUM, store="folder")
    with pytest.raises(InvalidArgumentError, match="power of two"):
        aggregators.MonoidTree(SUM, store=stores.Memory(), chunk_pairs=100)
    for name in ("", 5, "w" * 401):
        with pytest.raises(InvalidArgumentError, match="1 to 400 bytes"):
            tree(stores.Memory(), window_id=name)
        with pytest.raises(InvalidArgumentError, match="1 to 400 bytes"):
            reopened(stores.Memory(), name)
    with pytest.raises(InvalidArgumentError, match="a store is needed"):
        reopened("folder", "w")
    with tree(stores.Memory()) as empty, pytest.raises(IndexError):
        empty.evict()
    window = aggregators.MonoidTree(SUM, store=None)
    window.insert(1, 2)
    assert window.updates == 1


def test_a_failing_combine_changes_nothing() -> None:
    @agg.define(state="object", result="object")
    class picky:
        def lift(v):
            return v

        def combine(a, b):
            if b == 99:
                raise ValueError("no 99")
            return b

    window = tree(stores.Memory(), picky("v"))
    window.bulk_insert(range(200), [7] * 200)
    with pytest.raises(ValueError, match="no 99"):
        window.insert(200, 99)
    assert (len(window), window.query()) == (200, 7)
    window.insert(200, 8)
    assert window.query() == 8
    window.check()
    window.close()


def test_a_forgotten_window_gives_up_its_lease() -> None:
    store = stores.Memory()
    window = tree(store, window_id="w")
    window.insert(1, 1)
    window.flush()
    del window
    again = reopened(store, "w")
    assert again.query() == 1
    again.close()


class Entered(stores.Memory):
    """A store that says when a thread has begun to write."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        self.entered.set()
        super().put_many(items)


def test_a_window_may_be_collected_inside_its_store() -> None:
    """Where this thread holds the lock of the store, for which the window's own thread waits."""
    store = Entered()

    def collected() -> None:
        window = tree(store, window_id="w", chunk_pairs=4)
        with store._lock():
            window.bulk_insert(range(200), range(200))
            assert store.entered.wait(PATIENCE)
            del window

    collecting = threading.Thread(target=collected, daemon=True)
    collecting.start()
    collecting.join(60)
    assert not collecting.is_alive()
    until(lambda: not store._held)


@pytest.mark.parametrize(
    ("aggregation", "pairs"),
    [(agg.max("v"), 4096), (agg.hyperloglog("v"), 512), (agg.collect("v"), 512)],
)
def test_chunks_have_as_many_pairs_as_suit_their_states(aggregation: Any, pairs: int) -> None:
    store = stores.Memory()
    options = {"dtype": "f8", "nullable": False, "compiled": False}
    with aggregators.MonoidTree(aggregation, store=store, window_id="w", **options) as window:
        window.insert(1, 2.0)
        before = window.query()
    again = aggregators.MonoidTree.open(store, "w", aggregation, **{**options, "nullable": False})
    assert again._ends.size == 2 * pairs
    assert again.query() == before
    again.close()


# ---------------------------------------------------------------- LogMonoidTree


def test_a_log_tree_in_a_store_against_plain_rows(store: stores.Store) -> None:
    chance = random.Random(5)
    options: dict[str, Any] = {"chunk_pairs": 4, "compiled": False}
    window: Any = aggregators.LogMonoidTree(agg.concat("v"), store=store, window_id="w", **options)
    rows: list[tuple[int, str]] = []
    now = 0
    for step in range(150):
        move = chance.choice(["insert", "bulk", "bulk", "evict", "cut", "reopen"])
        now += 1
        if move == "insert":
            window.insert(now, "i")
            rows.append((now, "i"))
        elif move == "bulk":
            new = [(now + i // 3, chance.choice("abcdef")) for i in range(chance.randrange(1, 60))]
            window.bulk_insert([t for t, _ in new], [v for _, v in new])
            rows += new
            now = new[-1][0]
        elif move == "evict" and rows:
            window.evict()
            del rows[0]
        elif move == "cut" and rows:
            until = rows[chance.randrange(len(rows)) // 2][0]
            window.bulk_evict(until)
            rows = [row for row in rows if row[0] > until]
        elif move == "reopen" and step % 5 == 0:
            window.close()
            window = aggregators.LogMonoidTree.open(store, "w", agg.concat("v"), compiled=False)
        assert window.query() == ("".join(v for _, v in rows) or None)
        assert len(window) == len(rows)
        low, high = now - chance.randrange(40), now - chance.randrange(20)
        assert window.range_query(low, high) == ("".join(v for t, v in rows if low <= t <= high) or None)
        window.check()
    window.close()


def test_a_log_tree_in_a_store_takes_o_of_log_n_combines() -> None:
    chance = random.Random(6)
    for size in (100, 1000, 4000):
        window: Any = aggregators.LogMonoidTree(agg.count(), store=stores.Memory(), chunk_pairs=4, count_combines=True)
        assert isinstance(window, aggregators.LogMonoidTree)
        window.bulk_insert(range(size))
        for now in range(size, size + 100):
            share = chance.randrange(size)
            for call, *arguments in (
                ("insert", now),
                ("bulk_evict", now - size),
                ("range_query", share, now),
                ("query",),
            ):
                before = window.combines
                getattr(window, call)(*arguments)
                assert window.combines - before <= 3 * size.bit_length() + 3
        before = window.combines
        window.bulk_evict(now - size // 3)
        assert window.combines - before <= 3 * size.bit_length() + 3
        held = sum(array.nbytes for array in window._window)
        assert held == sum(array.nbytes for array in window._ends.allocate(window._binding))
        window.close()


def test_a_log_tree_is_opened_as_one() -> None:
    store = stores.Memory()
    with aggregators.LogMonoidTree(SUM, store=store, window_id="w", compiled=False) as window:
        window.insert(1, 2)
        assert repr(window).startswith("<LogMonoidTree")
    with pytest.raises(StoreError, match="the window 'w' is a LogMonoidTree, not a MonoidTree"):
        aggregators.MonoidTree.open(store, "w", SUM, compiled=False)
    with pytest.raises(StoreError, match=r"LogMonoidTree\(store=..., window_id=...\) makes one"):
        aggregators.LogMonoidTree.open(store, "other", SUM, compiled=False)
    with pytest.raises(StoreError, match="open it with LogMonoidTree.open"):
        aggregators.LogMonoidTree(SUM, store=store, window_id="w", compiled=False)
