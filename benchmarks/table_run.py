"""`Query.run` over a table: its time over that of its kernels, which is what reading, sorting and answering add.

Sliding windows of an hour and sessions over calls of four regions, a small version of the documentation's query.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, now, rounds_for, rows_for

from muntin import Query, agg, window
from muntin.kernels.tiers import Entry

DAY = 86_400 * 1_000_000


def calls(rows: int) -> pa.Table:
    """Return calls of one day, in time order."""
    chance = np.random.default_rng(0)
    return pa.table(
        {
            "ts": pa.array(np.sort(chance.integers(0, DAY, rows))).cast(pa.timestamp("us")),
            "region": pa.array(chance.choice(["north", "south", "east", "west"], rows)),
            "caller": pa.array(chance.integers(0, 1000, rows)),
            "len": chance.random(rows),
        }
    )


def timed(query: Query, table: pa.Table) -> tuple[float, float]:
    """Return the nanoseconds per row of a run, and of the kernels it called."""
    spent, original = [0], Entry.__call__

    def call(entry: Entry, *arguments: Any) -> Any:
        begun = now()
        try:
            return original(entry, *arguments)
        finally:
            spent[0] += now() - begun

    Entry.__call__ = call  # type: ignore[method-assign]  # for as long as this runs
    try:
        begun = now()
        query.run(table)
        return (now() - begun) / len(table), spent[0] / len(table)
    finally:
        Entry.__call__ = original  # type: ignore[method-assign]  # as it was


def run(quick: bool) -> Iterator[Figure]:
    """Yield the time of a run relative to that of its kernels."""
    table = calls(rows_for(quick, 10_000_000))
    windows = [window.sliding("1 hour", every="1 minute"), window.session("5 minutes")]
    aggregates = {"longest": agg.max("len"), "who": agg.arg_max("len", "caller")}
    query = Query(windows, aggregates, key="region", time="ts")
    query.run(table)
    taken = [timed(query, table) for _ in range(rounds_for(quick))]
    times = {
        name: Timing(statistics.median(each), min(each))
        for name, each in zip((OURS, "its kernels"), zip(*taken, strict=True), strict=True)
    }
    ratio = statistics.median(whole / kernels for whole, kernels in taken)
    what = f"run of a sliding window and sessions, {len(table):,} rows, over its kernels"
    yield Figure("table_run", what, ratio, 1.5, False, "x", times)
