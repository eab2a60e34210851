"""Whatever part of its writes a crash leaves, a window opens as some flush left it: each prefix of a log of writes.

What a store was asked for is recorded while a window is filled, flushed, closed and opened again. Then the log is cut
off after each of its writes and put into an empty store, and the window is opened there.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis_server import Server

from muntin import agg, aggregators, policies, stores
from muntin.errors import StoreError
from muntin.stores.base import Lease, Store, numbered

PAIRS = 4


class State(NamedTuple):
    """What was in a window: how many rows came, and how many of them had left."""

    end: int
    begin: int


class Write(NamedTuple):
    """Values set, None for those deleted; all at once."""

    values: dict[bytes, bytes | None]


BARRIER = "flush"
"""What was written before is durable, whatever comes later."""
Entry = Write | State | str


class Recorded(Store):
    """A store that records what it was asked for. The window's own thread is slow, so that nothing outruns a wait."""

    def __init__(self) -> None:
        self.inner = stores.Memory()
        self.log: list[Entry] = []

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.inner.get_many(keys)

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.005)
        self.log.append(Write(dict(items)))
        self.inner.put_many(items)

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        if not self.inner.put_if(key, expected, items):
            return False
        self.log.append(Write(dict(items)))
        return True

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        self.log.append(Write({numbered(prefix, n): None for n in range(start, stop)}))
        return self.inner.delete_range(prefix, start, stop)

    def flush(self) -> None:
        self.log.append(BARRIER)

    def lease(self, name: bytes) -> Lease:
        return self.inner.lease(name)


def recorded(seed: int, policy: policies.Policy | None) -> list[Entry]:
    """Return the log of a window in whose life everything happens; a state stands where its flush has returned."""
    chance = random.Random(seed)
    store = Recorded()
    options: dict[str, Any] = {"store": store, "window_id": "w", "chunk_pairs": PAIRS, "policy": policy}
    window = aggregators.MonoidTree(agg.sum("v"), compiled=False, **options)
    end = 0
    for step in range(8):
        count = chance.randrange(20, 60)
        window.bulk_insert(range(end, end + count), range(end, end + count))
        end += count
        if policy is None and chance.random() < 0.7:
            window.bulk_evict(chance.randrange(window.oldest, end - 1))
        if step == 5:
            window.close()
        else:
            window.flush()
        store.log.append(State(end, end - len(window)))
        if step == 5:
            window = aggregators.MonoidTree.open(store, "w", agg.sum("v"), compiled=False, policy=policy)
    window.close(flush=False)
    return store.log


def survivors(log: Sequence[Entry]) -> dict[str, list[Write]]:
    """Return what a crash may leave of a log: all of it, all that is durable, or of the rest only what came last."""
    last = max((at for at, entry in enumerate(log) if entry == BARRIER), default=0)
    durable = [entry for entry in log[:last] if isinstance(entry, Write)]
    rest = [entry for entry in log[last:] if isinstance(entry, Write)]
    return {"all": durable + rest, "durable": durable, "last": durable + rest[-1:]}


def put_into(store: Store, writes: Sequence[Write]) -> None:
    values: dict[bytes, bytes | None] = {}
    for write in writes:
        values.update(write.values)
    store.put_many({key: value for key, value in values.items() if value is not None})


def opened(store: Store, policy: policies.Policy | None) -> State:
    """Return what is in the window of a store, all of which must be as it was."""
    window = aggregators.MonoidTree.open(store, "w", agg.sum("v"), compiled=False, policy=policy)
    window.check()
    state = State(window.updates, window.updates - len(window))
    assert (window.query() or 0) == sum(range(state.begin, state.end))
    for _ in range(3 if len(window) > 3 else 0):
        window.evict()  # reads what was not in memory
    window.insert(state.end, state.end)
    window.close()
    return state


def compare_all(log: list[Entry], policy: policies.Policy | None, fresh: Callable[[], Store], step: int) -> int:
    """Open the window from every `step`-th prefix, and each of what may be left of it; return how many were opened."""
    states = [entry for entry in log if isinstance(entry, State)]
    opened_ones = 0
    for stop in range(1, len(log) + 1, step):
        done = sum(isinstance(entry, State) for entry in log[:stop])
        allowed = {states[done - 1] if done else State(0, 0), *states[done : done + 1]}
        for what, writes in survivors(log[:stop]).items():
            store = fresh()
            put_into(store, writes)
            try:
                found = opened(store, policy)
            except StoreError as error:
                if done or "no window" not in str(error):  # there is none before the first manifest is durable
                    raise AssertionError(f"{what} of the first {stop} of {len(log)} entries") from error
            else:
                assert found in allowed, f"{what} of the first {stop} of {len(log)} entries"
                opened_ones += 1
            store.close()
    return opened_ones


@pytest.mark.parametrize("policy", [None, policies.at_most_rows(70)], ids=["evictions", "policy"])
def test_every_prefix_opens(policy: policies.Policy | None) -> None:
    log = recorded(0, policy)
    assert compare_all(log, policy, stores.Memory, 1) > len(log)


def test_prefixes_in_lmdb(tmp_path: Path) -> None:
    log = recorded(7, None)
    names = (tmp_path / str(n) for n in range(3 * len(log)))
    assert compare_all(log, None, lambda: stores.Lmdb(next(names)), 5)


@pytest.mark.slow
def test_prefixes_in_redis(redis: Server) -> None:
    log = recorded(8, None)

    def fresh() -> Store:
        store = stores.Redis(redis.url.removesuffix("/0") + "/1")  # a database that no other test uses
        store._client.flushdb()
        return store

    assert compare_all(log, None, fresh, 5)
