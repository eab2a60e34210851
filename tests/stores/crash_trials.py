"""Kills a process that writes to a store, again and again, and says what each time was left: run by test_kill.py.

    python crash_trials.py KIND WHERE TRIALS SEED

The process that is killed is a fork of this one, which itself never opens the store: it has no threads and no files of
it. Writes a line for each trial: how many updates the window held, and of how many its last flush had told.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from waiting import PATIENCE

from muntin import agg, aggregators, policies, stores
from muntin.errors import LeaseError, StoreError

MOST = 12_000
MOST_LINES = 16
"""Fewer lines than this a writer has written when it is killed: two for each flush."""
LONGER = 0.005
"""It is killed up to this many seconds later: anywhere in a flush, or between two."""
AGGREGATION = {"total": agg.sum("v"), "oldest": agg.first("v"), "newest": agg.last("v"), "rows": agg.count()}


def value(i: int) -> int:
    """The value of update i, any time."""
    return (i * 7919) % 101


def expected(updates: int) -> list[int]:
    """The values that the policy keeps of the first so many updates."""
    kept, total = updates, 0
    while kept and total + value(kept - 1) <= MOST:
        kept -= 1
        total += value(kept)
    return [value(i) for i in range(kept, updates)]


def open_store(kind: str, where: str) -> stores.Store:
    return stores.Lmdb(where) if kind == "lmdb" else stores.Redis(where, lease_seconds=0.1)


def open_window(store: stores.Store) -> Any:
    policy = policies.sum_at_most("v", MOST)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(LeaseError):  # that of the dead one ends soon
            try:
                return aggregators.MonoidTree.open(store, "w", AGGREGATION, policy=policy, compiled=False)
            except StoreError as error:
                if "no window" not in str(error):
                    raise
                return aggregators.MonoidTree(
                    AGGREGATION, store=store, window_id="w", policy=policy, compiled=False, chunk_pairs=4
                )
        time.sleep(0.02)
    raise AssertionError("the lease of a dead process has not ended")


def write(kind: str, where: str, seed: int, pipe: int) -> None:
    """Insert and flush until killed; tell of each flush before and after."""
    chance = random.Random(seed)
    window = open_window(open_store(kind, where))
    os.write(pipe, b"open %d\n" % window.updates)
    while True:
        begin = window.updates
        count = chance.randrange(1, 60)
        window.bulk_insert(range(begin, begin + count), [value(i) for i in range(begin, begin + count)])
        if chance.random() < 0.4:
            os.write(pipe, b"begin %d\n" % window.updates)
            window.flush()
            os.write(pipe, b"end %d\n" % window.updates)


def verify(kind: str, where: str, allowed: set[int], told: int) -> None:
    """Open what was left, and compare it with a recomputation."""
    store = open_store(kind, where)
    window = open_window(store)
    updates = window.updates
    assert updates in allowed, f"{updates} updates, and flushes were at {sorted(allowed)}"
    values = expected(updates)
    begin = updates - len(values)
    answer = window.query()
    assert len(window) == len(values) == answer["rows"]
    if values:
        assert answer == {"total": sum(values), "oldest": values[0], "newest": values[-1], "rows": len(values)}
        for i in range(0, len(values), 37):
            part = window.range_query(begin + i, begin + i + 50)
            assert part["total"] == sum(values[i : i + 51])
    window.check()
    sys.stdout.write(f"{updates} {told}\n")
    sys.stdout.flush()
    window.close()
    store.close()


def forked(work: Any) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001  # said, and passed on as the exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def trial(kind: str, where: str, chance: random.Random) -> None:
    read, written = os.pipe()
    seed = chance.randrange(1 << 30)
    child = forked(lambda: write(kind, where, seed, written))
    os.close(written)
    with os.fdopen(read, "rb") as lines:
        first = lines.readline().split()
        assert first[:1] == [b"open"], "the writer has not come up"
        seen = [lines.readline() for _ in range(chance.randrange(MOST_LINES))]
        time.sleep(chance.uniform(0.0, LONGER))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told, begun = int(first[1]), int(first[1])
        for line in [*seen, *lines.read().splitlines()]:
            what, count = line.split()
            told, begun = (int(count), int(count)) if what == b"end" else (told, int(count))
    _, status = os.waitpid(forked(lambda: verify(kind, where, {told, begun}, told)), 0)
    if status:
        sys.exit(1)


if __name__ == "__main__":
    with open_window(stores.Memory()) as warm:  # the forks find the kernels made, and no thread left
        warm.insert(0, 1)
        warm.range_query(0, 0)
        warm.check()
    chance = random.Random(int(sys.argv[4]))
    for _ in range(int(sys.argv[3])):
        trial(sys.argv[1], sys.argv[2], chance)
