"""Many keys in one stream: a sum over "60 seconds" every "1 second" of 100,000 keys, at least 5 M rows a second.

5 M rows in pushes of 100,000, one second of event time each, keys in no order. Each push ends one window of every key:
as many rows go out as come in, and each of them is the sum of up to 50 slices. 10 keys are the measure: at most 3 times
the time a row. Parts of a push are timed apart, to see what it is spent on.
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
from muntin.streams.slices.slice_set import SliceSet
from muntin.tables.answers import AnswerTables

KEYS = (10, 1_000, 100_000)
SECONDS = 50
PARTS = {
    "numbering keys": (KeyTable, "numbers"),
    "order by key": (SliceSet, "order_by_key"),
    "rows into slices": (SliceSet, "take"),
    "which windows": (SliceSet, "find"),
    "merging": (SliceSet, "answer"),
    "letting go": (SliceSet, "purge"),
    "Arrow tables": (AnswerTables, "table"),
}


def pushed(keys: int, seconds: int, **forced: Any) -> tuple[float, int, dict[str, Any]]:
    """Return the nanoseconds a row of all pushes after the first, how many windows came out, and the metrics."""
    chance = np.random.default_rng(5)
    numbers = chance.integers(0, keys, seconds * RATE) * 7919 + 10**9
    tables = sensor.pushes(sensor.times(seconds), RATE, numbers)
    stream = sensor.query([window.sliding("60 seconds", every="1 second")], key="k").stream(**forced)
    stream.push(tables[0])
    begun = now()
    windows = sum(stream.push(table).num_rows for table in tables[1:])
    return (now() - begun) / (RATE * (seconds - 1)), windows, stream.metrics()


def parts(keys: int, seconds: int) -> dict[str, float]:
    """Return the nanoseconds a row of each part of the work."""
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
        pushed(keys, seconds)
    finally:
        for name, (owner, method) in PARTS.items():
            setattr(owner, method, originals[name])
    return {name: total / (seconds * RATE) for name, total in spent.items()}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the rows a second of many keys, and their time over that of few."""
    seconds, rounds = (10, 1) if quick else (SECONDS, 3)
    for keys in KEYS:
        pushed(keys, 2)
    taken = {keys: [pushed(keys, seconds) for _ in range(rounds)] for keys in KEYS}
    times = {f"{keys:,} keys": timing([each[0] for each in runs]) for keys, runs in taken.items()}
    few, _, many = times.values()
    _, windows, metrics = taken[KEYS[-1]][0]
    spent = parts(KEYS[-1], seconds)
    eager = pushed(KEYS[-1], seconds, merge="flat_fat")[0]
    lines = [
        f"{windows:,} windows of {metrics['rows']:,} rows came out",
        f"{metrics['slices']:,} slices, {metrics['bytes']:,} bytes",
        "of a row's time: " + ", ".join(f"{name} {ns:.0f} ns" for name, ns in spent.items()),
        f"with merge='flat_fat': {eager:.0f} ns a row",
    ]
    lines += [f"{name}: {1e3 / each.median:.1f} M rows a second" for name, each in times.items()]
    ours = {OURS: many, **times}
    chart = Chart(
        "slicing_keys",
        "Sliding 60 s every 1 s, by the number of keys",
        "keys",
        "rows a second",
        KEYS,
        {"slicing": [1e9 / each.median for each in times.values()]},
    )
    what = f"{KEYS[-1]:,} keys, sliding 60 s every 1 s, {seconds * RATE:,} rows"
    note = "\n  ".join(lines)
    yield Figure("slicing_keys", what, 1e3 / many.median, 5.0, True, " M rows a second", ours, note, chart)
    yield Figure(
        "slicing_keys", f"{what}, time a row over that of 10 keys", many.median / few.median, 3.0, False, "x", times
    )


def timing(taken: list[float]) -> Timing:
    """Return times as they are shown."""
    return Timing(sorted(taken)[len(taken) // 2], min(taken))
