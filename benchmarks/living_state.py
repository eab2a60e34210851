"""What it takes to go on with a state: a query that has changed beside the same one, over many keys.

A snapshot of many keys is restored by its own query, and adopted by one with one aggregate more and another lateness.
Both take the same bytes; turns alternate.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, now, rounds_for, rows_for

from muntin import Query, agg, window
from muntin.kernels.tiers import waiting

RESTART = "a plain restart"
WINDOWS = {
    "slices": [window.sliding("1 hour", every="10 minutes"), window.session("5 minutes")],
    "rows": [window.trailing("1 hour")],
    "tiles": [window.trailing("1 day", hop="1 hour")],
}


def snapshot(query: Query, keys: int) -> bytes:
    """Return the state of a query after three rows of each key."""
    random = np.random.default_rng(7)
    stream = query.stream(most_late=0)
    for minute in (0, 10, 20):
        times = minute * 60_000_000 + random.integers(0, 60_000_000, keys)
        stream.push(
            pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": np.arange(keys), "v": random.random(keys)})
        )
    return stream.snapshot()


def figure(kind: str, keys: int, rounds: int) -> Figure:
    """Measure one store of states."""
    old = Query(WINDOWS[kind], {"n": agg.count(), "total": agg.sum("v")}, key="k")
    more = {"n": agg.count(), "high": agg.max("v"), "total": agg.sum("v")}
    new = replace(old, aggregates=more, allowed_lateness="1 minute")
    saved = snapshot(old, keys)
    calls: dict[str, Callable[[], Any]] = {
        OURS: lambda: new.stream(saved, adopt=True),
        RESTART: lambda: old.stream(saved),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    with waiting():
        for _ in range(rounds + 1):
            for name, call in calls.items():
                begun = now()
                stream = call()
                taken[name].append((now() - begun) / keys)
                del stream
    times = {name: Timing(statistics.median(each[1:]), min(each[1:])) for name, each in taken.items()}
    ratio = times[OURS].median / times[RESTART].median
    what = f"adoption of {keys:,} keys in {kind}, beside a plain restart"
    return Figure("living_state", what, ratio, 2.0, False, "x", times)


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    for kind in WINDOWS:
        yield figure(kind, rows_for(quick, 1_000_000), rounds_for(quick, 5))
