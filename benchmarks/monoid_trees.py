"""Monoid trees: slides in memory and in stores, bulk evictions, memory, many dimensions, and six real windows.

`python benchmarks/run.py monoid_trees`, or `python benchmarks/monoid_trees.py PART ...` for some of its parts:
slides, bulk, stores, memory, dimensions, table. A Redis server is started for the part `stores`, if there is one.
"""

from __future__ import annotations

import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Entrant, Figure, Timing, race, rounds_for, show

from muntin import agg, aggregators, policies, stores
from muntin.aggregators.levels import LevelAggregator, spots
from muntin.columns import read_only

NAME = "monoid_trees"


def ratio(what: str, entrants: list[Entrant], target: float, rounds: int, note: str = "") -> Figure:
    """Race, and return the time of the first relative to the second."""
    times = race(entrants, rounds)
    ours, base = (times[each.name].median for each in entrants[:2])
    return Figure(NAME, what, ours / base, target, False, "x", times, note)


# ---------------------------------------------------------------- slides


def slides(quick: bool) -> Iterator[Figure]:
    """An insert, an eviction and a query per row, in one loop."""
    rows = (2 if quick else 4) * (1 << 20)
    kinds = (aggregators.MonoidTree, aggregators.TwoStacks, aggregators.Daba, aggregators.LogMonoidTree)
    for size, target in ((1024, 10.0), (1 << 20, 15.0)):
        entrants = [Entrant(kind.__name__, _loop(kind, size, rows), rows) for kind in kinds]
        yield ratio(f"max, count window of {size}, over TwoStacks", entrants, target, rounds_for(quick, 5))


def _loop(kind: Any, size: int, rows: int) -> Callable[[], Any]:
    times = read_only(np.arange(rows))
    values = read_only(np.random.default_rng(1).standard_normal(rows))
    first, last = read_only(np.maximum(times + 1 - size, 0)), read_only(times + 1)
    binding = kind(agg.max("v"), dtype="f8", nullable=False)._binding

    def run() -> None:
        module, window = kind.over(binding, size + 1)
        module.slide_rows(window, (values,), times, first, last, 0, rows, binding.outputs(rows))

    return run


# ---------------------------------------------------------------- bulk evictions


def bulk(quick: bool) -> Iterator[Figure]:
    """Evict 2^10 to 2^22 rows at once and query, from a window of 2^23."""
    rows = 1 << (20 if quick else 23)
    sizes = [1 << power for power in range(10, rows.bit_length() - 1, 3)]
    values = np.random.default_rng(1).standard_normal(rows)
    kinds = (
        aggregators.MonoidTree,
        aggregators.LogMonoidTree,
        aggregators.TwoStacks,
        aggregators.Daba,
        aggregators.Recalculate,
    )
    single, tables = 0.0, {}
    for kind in kinds:
        window = kind(agg.max("v"), dtype="f8", nullable=False)
        window.bulk_insert(range(rows), values)
        taken = {size: _bulk_times(window, size, 30 if issubclass(kind, LevelAggregator) else 3) for size in sizes}
        if kind is aggregators.MonoidTree:
            single = _bulk_times(window, 1, 300)
        tables[kind.__name__] = taken
        del window
    for size in sizes:
        times = {name: Timing(taken[size] * 1e9, taken[size] * 1e9) for name, taken in tables.items()}
        times["MonoidTree, one row"] = Timing(single * 1e9, single * 1e9)
        what = f"bulk eviction of {size} from {rows} and a query, over one eviction and a query"
        yield Figure(NAME, what, tables["MonoidTree"][size] / single, 30.0, False, "x", times)


def _bulk_times(window: Any, size: int, rounds: int) -> float:
    """Return the median time of an eviction and a query; the window is restored after each."""
    cells = window._window.slots
    if isinstance(window, LevelAggregator):  # only nodes above the new front can have changed
        changed = [spots(len(cells), level, size >> level) for level, _, _ in window._node_ranges()]
    else:
        changed = slice(None)
    kept, saved = cells[changed].copy(), [array.copy() for array in window._window[2:]]
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        if size == 1:
            window.evict()
        else:
            window.bulk_evict(size - 1)
        window.query()
        taken.append(time.perf_counter() - begun)
        cells[changed] = kept
        for array, before in zip(window._window[2:], saved, strict=True):
            array[:] = before
    return statistics.median(taken)


# ---------------------------------------------------------------- stores


def in_stores(quick: bool) -> Iterator[Figure]:
    """Slides in batches, with a constant window; the body in memory, in LMDB, in Redis.

    What bounds them: a row writes 40 bytes and reads them again, where a slide in memory takes 12 ns. The same values
    written, read and deleted in a loop that does nothing else take 19 ns a row in LMDB and 70 to 95 in Redis, 32 of
    them in this process. Around the store, a slide takes 54 ns of processor time: 16 in the kernel, the rest for
    checksums and copies, two each, of memory that is not in the caches.
    """
    size, batch = 1 << (17 if quick else 20), 1 << 16
    policy = policies.at_most_rows(size)
    values = np.random.default_rng(1).standard_normal(size)
    with tempfile.TemporaryDirectory() as folder:
        made: dict[str, stores.Store | None] = {"Lmdb": stores.Lmdb(folder)}
        server = _redis(folder)
        if server is not None:
            made["Redis"] = stores.Redis(f"redis://127.0.0.1:{server[1]}/0")
        made["memory"] = None
        windows = {
            name: aggregators.MonoidTree(agg.max("v"), dtype="f8", nullable=False, policy=policy, store=store)
            for name, store in made.items()
        }

        def slide(name: str) -> None:
            window = windows[name]
            begin = window.updates
            for at in range(0, size, batch):
                window.bulk_insert(np.arange(begin + at, begin + at + batch), values[at : at + batch])

        entrants = {name: Entrant(name, lambda name=name: slide(name), size) for name in made}
        for entrant in entrants.values():
            entrant.run()
        times = race(list(entrants.values()), rounds_for(quick, 5))
        base = times["memory"].median
        for name, target in (("Lmdb", 3.0), ("Redis", 5.0)):
            if name in times:
                what = f"max, constant window of {size}, batched slides, {name} over memory"
                yield Figure(NAME, what, times[name].median / base, target, False, "x", times)
        for name, store in made.items():
            if store is not None:
                windows[name].close(flush=False)
                store.close()
        if server is not None:
            server[0].terminate()
            server[0].wait()


def _redis(folder: str) -> tuple[Any, int] | None:
    program = shutil.which("redis-server")
    if program is None:
        print("redis-server is not installed: no figures for Redis", file=sys.stderr)
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", folder]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.05)
    return process, port


# ---------------------------------------------------------------- memory

FILL = """
import sys, numpy as np
from muntin import agg, aggregators, stores
rows, folder = int(sys.argv[1]), sys.argv[2]
def resident():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) * 1024
def window(store):
    return aggregators.MonoidTree(agg.max("v"), dtype="f8", nullable=False, store=store)
store = stores.Lmdb(folder) if folder else None
first = window(store)
first.bulk_insert(range(5000), np.zeros(5000)); first.query(); first.bulk_evict(10)
if store: first.close()
del first
before = resident()
filled = window(store)
most = 0
for begin in range(0, rows, 1 << 16):
    filled.bulk_insert(np.arange(begin, begin + (1 << 16)), np.ones(1 << 16))
    most = max(most, resident())
print(max(most, resident()) - before)
if store: filled.close(flush=False)
"""


def memory(quick: bool) -> Iterator[Figure]:
    """Resident memory of a window, its body in LMDB or not, above a process that has compiled everything."""
    rows = 1 << (21 if quick else 25)
    with tempfile.TemporaryDirectory() as folder:
        held = {name: _resident(rows, where) for name, where in (("Lmdb", folder), ("memory", ""))}
    note = f"in memory {held['memory']:.0f} MB"
    yield Figure(NAME, f"resident memory of {rows} updates in Lmdb", held["Lmdb"], 64.0, False, " MB", {}, note)


def _resident(rows: int, folder: str) -> float:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", FILL, str(rows), folder]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout) / 2**20


# ---------------------------------------------------------------- many dimensions


def dimensions(quick: bool) -> Iterator[Figure]:
    """k sums of k columns in one window against k windows."""
    size, rows = 1 << 15, 1 << (17 if quick else 19)
    policy = policies.at_most_rows(size)
    column = np.random.default_rng(1).standard_normal(rows)
    taken = {}
    for k in (1, 50) if quick else (1, 2, 5, 10, 20, 50):
        columns = {f"c{i}": column for i in range(k)}
        shared = {f"s{i}": agg.max(f"c{i}") for i in range(k)}

        def run(columns: Any = columns, shared: Any = shared) -> None:
            window = aggregators.MonoidTree(shared, dtype="f8", nullable=False, policy=policy)
            window.bulk_insert(np.arange(rows), columns)
            window.query()

        taken[k] = race([Entrant(f"k = {k}", run, rows)], 3)[f"k = {k}"]
    one = taken[1].median
    for k, timing in taken.items():
        print(
            f"    k = {k:2} {'#' * round(timing.median / one * 4):<60} {timing.median:8.1f} ns a slide", file=sys.stderr
        )
    times = {f"k = {k}": timing for k, timing in taken.items()}
    what = f"50 maxima in one window of {size} over 50 windows"
    yield Figure(NAME, what, taken[50].median / (50 * one), 1 / 3, False, "x", times)


# ---------------------------------------------------------------- six windows


def table(quick: bool) -> Iterator[Figure]:
    """The mean latency of a slide in nanoseconds, for six windows over readings of memory in use, one per second."""
    rows, most = (10**6 if quick else 10**7), 1 << (16 if quick else 20)
    seconds = np.arange(rows)
    noise = np.random.default_rng(1).standard_normal(rows)
    readings = 8e9 + 2e9 * np.sin(2 * math.pi * seconds / 86_400) + 1e9 * np.sin(2 * math.pi * seconds / 604_800)
    readings = np.maximum(readings + 2e8 * noise, 1.0)
    newest, highest = policies.newest_time(), policies.time_of_max("v")

    @policies.define(n=agg.count(), highest=highest, newest=newest)
    def since_maximum(whole, old):
        return whole.n - old.n >= most or old.newest < whole.highest

    @policies.define(n=agg.count(), run=agg.longest_increasing_run("v"), newest=newest)
    def since_run(whole, old):
        return whole.n - old.n >= most or old.newest < whole.run.start

    plain = policies.at_most_rows(most)
    windows = {
        "sum": (agg.sum("v"), plain),
        "mean": (agg.mean("v"), plain),
        "g. mean": (agg.geometric_mean("v"), plain),
        "std. dev.": (agg.std("v"), plain),
        "max": (agg.max("v"), since_maximum),
        "LIS": (agg.longest_increasing_run("v"), since_run),
    }
    kinds = ("naive", "Lmdb AMTA", "local LMTA", "Daba", "TwoStacks", "local AMTA")
    print(f"{'':<10}" + "".join(f"{kind:>12}" for kind in kinds), file=sys.stderr)
    for name, (aggregation, policy) in windows.items():
        with tempfile.TemporaryDirectory() as folder:
            store = stores.Lmdb(folder)
            options: dict[str, Any] = {"dtype": "f8", "nullable": False}
            made: dict[str, Any] = {
                "Lmdb AMTA": aggregators.MonoidTree(aggregation, policy=policy, store=store, **options),
                "local LMTA": aggregators.LogMonoidTree(aggregation, policy=policy, **options),
                "Daba": aggregators.Enforced(aggregators.Daba(aggregation, **options), policy),
                "TwoStacks": aggregators.Enforced(aggregators.TwoStacks(aggregation, **options), policy),
                "local AMTA": aggregators.MonoidTree(aggregation, policy=policy, **options),
            }
            taken = {kind: _latency(window, seconds, readings) for kind, window in made.items()}
            rest = len(made["local AMTA"])
            taken["naive"] = _naive(aggregators.Recalculate(aggregation, **options), seconds[-rest:], readings[-rest:])
            made["Lmdb AMTA"].close(flush=False)
            store.close()
        print(f"{name:<10}" + "".join(f"{taken[kind]:12.0f}" for kind in kinds), file=sys.stderr)
        times = {kind: Timing(taken[kind], taken[kind]) for kind in kinds}
        what = f"{name} of {rows / 1e6:g} M readings, at most {most} rows: Lmdb over local"
        yield Figure(NAME, what, taken["Lmdb AMTA"] / taken["local AMTA"], 3.0, False, "x", times)


def _latency(window: Any, times: Any, values: Any) -> float:
    batch = 1 << 14
    window.bulk_insert(times[:batch], values[:batch])
    window.query()  # both compile
    begun = time.perf_counter()
    for at in range(batch, len(times), batch):
        window.bulk_insert(times[at : at + batch], values[at : at + batch])
        window.query()
    return (time.perf_counter() - begun) / (len(times) - batch) * 1e9


def _naive(window: Any, times: Any, values: Any) -> float:
    """Return the mean of a few slides of the policy's final window, folded completely each time."""
    window.bulk_insert(times, values)
    taken = []
    for i in range(4):
        begun = time.perf_counter()
        window.insert(int(times[-1]) + i, float(values[i % len(values)]))
        window.evict()
        window.query()
        taken.append(time.perf_counter() - begun)
    return statistics.mean(taken[1:]) * 1e9  # the first compiles


PARTS = {
    "slides": slides,
    "bulk": bulk,
    "stores": in_stores,
    "memory": memory,
    "dimensions": dimensions,
    "table": table,
}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    for part in PARTS.values():
        yield from part(quick)


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for figure in PARTS[part]("--quick" in sys.argv):
            show(figure)
