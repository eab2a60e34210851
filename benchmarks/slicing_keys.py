"""Many keys in one stream: a sum over "60 seconds" every "1 second" of 100,000 keys, at most 60 ns a row and an answer.

Pushes of 100,000 rows, one second of event time each, keys unordered. Each push ends one window of every key: as many
rows go out as come in, each the sum of up to 60 slices. A stream is timed once its windows are full: until then it
allocates memory, which this machine's host may have to find first. The same rows go, in turns, through a stream that
merges all slices of each window, and through one of 10 keys. Parts of a push are timed separately.

With many keys slices lie by time (`streams/slices/panes.py`). Of some 60 ns a row 18 number its key, 13 fold it into a
pane, 16 answer a window (4 fold the newest pane, 4 combine both folds, 5 flip the stacks once a minute), and 7 build
the table. Bare loops that only touch the same memory, in no cache at first, take 6 ns for a slot of the key table, 6.5
for a state of the pane and 3.5 for the window.

By key, a row and its answer took 220 to 260 ns and touched eleven cache lines that were in no cache: a slot of the key
table; the edges of the newest slice, in two arrays, and its state; the edges of the oldest and the newest one again,
for the window, and of the oldest once more, to evict it; two folds, the newest state again, and one that is flipped.
That was not for want of huge pages: NumPy asks for them from 4 MB on, and gets them. A loop over a line of each key, in
key order, takes 4.5 ns per line with them, and 5.2 without.

Rejected: looking up keys of one word in blocks, first all slots, then all numbers, as for keys of bytes: no faster in a
stream, and a quarter slower where the table is in the cache. Prefetching the states of rows in a pane: no difference,
for 100,000 keys or a million.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sensor
from charts import Chart
from harness import OURS, Figure, Timing, now
from sensor import RATE

from muntin import window
from muntin.keys.table import KeyTable
from muntin.streams.slices.pane_set import PaneSet
from muntin.tables.answers import AnswerTables

KEYS = (10, 1_000, 100_000)
FILLED = 130
"""Seconds until all windows are full, and the blocks of all keys long enough."""
PARTS = {
    "numbering keys": (KeyTable, "numbers"),
    "rows into slices": (PaneSet, "take"),
    "windows and their answers": (PaneSet, "find"),
    "letting go": (PaneSet, "purge"),
    "Arrow tables": (AnswerTables, "table"),
}


class Flow:
    """A stream with full windows, and its next pushes."""

    def __init__(self, keys: int, seconds: int, **forced: Any) -> None:
        self.seconds, self.answers = seconds, 0
        self._chance, self._keys, self._second = np.random.default_rng(5), keys, 0
        self.stream = sensor.query([window.sliding("60 seconds", every="1 second")], key="k").stream(**forced)
        for table in self._tables(FILLED):
            self.stream.push(table)

    def _tables(self, seconds: int) -> list[Any]:
        numbers = self._chance.integers(0, self._keys, seconds * RATE) * 7919 + 10**9
        times = sensor.times(seconds) + self._second * sensor.SECOND
        self._second += seconds
        return sensor.pushes(times, RATE, numbers)

    def nanoseconds(self) -> float:
        """Push the next seconds; return the time per row."""
        tables = self._tables(self.seconds)
        begun = now()
        self.answers = sum(self.stream.push(table).num_rows for table in tables)
        return (now() - begun) / (RATE * self.seconds)


def parts(flow: Flow) -> dict[str, float]:
    """Return the nanoseconds per row of each part of the work."""
    spent = dict.fromkeys(PARTS, 0)
    originals = {name: getattr(*place) for name, place in PARTS.items()}

    def timed(name: str) -> Any:
        def run(*arguments: Any) -> Any:
            begun = now()
            try:
                return originals[name](*arguments)
            finally:
                spent[name] += now() - begun

        return run

    try:
        for name, (owner, method) in PARTS.items():
            setattr(owner, method, timed(name))
        flow.nanoseconds()
    finally:
        for name, (owner, method) in PARTS.items():
            setattr(owner, method, originals[name])
    return {name: total / (flow.seconds * RATE) for name, total in spent.items()}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the time per row and answer, with those of a stream that merges all slices, and of few keys."""
    seconds, rounds = (3, 3) if quick else (10, 7)
    flows = {f"{keys:,} keys": Flow(keys, seconds) for keys in KEYS}
    flows["100,000 keys, all slices merged"] = Flow(KEYS[-1], seconds, merge="lazy")
    taken: dict[str, list[float]] = {name: [] for name in flows}
    for turn in range(rounds):
        for name in (*list(flows)[turn % len(flows) :], *list(flows)[: turn % len(flows)]):
            taken[name].append(flows[name].nanoseconds())
    times = {name: timing(each) for name, each in taken.items()}
    few, _, many, lazy = times.values()
    flow = flows[f"{KEYS[-1]:,} keys"]
    metrics, answers = flow.stream.metrics(), flow.answers / (RATE * seconds)
    lines = [
        f"{answers:.2f} windows came out for each row",
        f"{metrics['slices']:,} slices, {metrics['bytes']:,} bytes",
        "of a row's time: " + ", ".join(f"{name} {ns:.0f} ns" for name, ns in parts(flow).items()),
    ]
    lines += [f"{name}: {1e3 / each.median:.1f} M rows a second" for name, each in times.items()]
    chart = Chart(
        "slicing_keys",
        "Sliding 60 s every 1 s, by the number of keys",
        "keys",
        "rows a second",
        KEYS,
        {"slicing": [1e9 / each.median for each in (few, times[f"{KEYS[1]:,} keys"], many)]},
    )
    what = f"{KEYS[-1]:,} keys, sliding 60 s every 1 s"
    each = many.median / (1 + answers)
    ours = {OURS: many, **times}
    yield Figure(
        "slicing_keys", f"{what}, each row and answer", each, 60.0, False, " ns", ours, "\n  ".join(lines), chart
    )
    yield Figure(
        "slicing_keys", f"{what}, time a row over that of 10 keys", many.median / few.median, 3.0, False, "x", times
    )
    ratio = lazy.median / many.median
    yield Figure("slicing_keys", f"{what}, merging all slices over two stacks", ratio, 1.5, True, "x", times)


def timing(taken: list[float]) -> Timing:
    """Return the timing of some samples."""
    return Timing(sorted(taken)[len(taken) // 2], min(taken))
