"""What a changelog costs beside as many rows that only come: processor time of a stream's pushes.

A sum and a count over "1 hour" every "1 minute", 1,000 keys, kernels warm. A part of the changelog are updates, two
rows each: what was, and what is. The rival is the same stream without `changes`, given the same number of rows, of the
same times and keys, all of which come. Both are pushed in turns.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import Query, agg, window

KEYS, PUSH, PUSHES, MINUTE = 1_000, 50_000, 30, 60_000
WANTED = 1.5
"""The greatest ratio that was wanted."""


def changelog(rows: int, updates: float, seed: int, whole: bool) -> pa.Table:
    """Return rows of an hour, of which a share are updates of rows that came up to a thousand rows before."""
    chance = np.random.default_rng(seed)
    times = np.sort(chance.integers(0, 60 * MINUTE, rows)) + seed * 60 * MINUTE
    keys, values = chance.integers(0, KEYS, rows), chance.integers(1, 1000, rows)
    values = values if whole else values / 7
    op = np.full(rows, "insert", object)
    gone = np.zeros(rows, np.bool_)
    for row in np.flatnonzero(chance.random(rows - 1_002) < updates / 2) + 1_000:
        old = row - int(chance.integers(2, 1_000))
        if op[old] != "insert" or gone[old] or op[row] != "insert":
            continue
        gone[old] = True
        op[row], op[row + 1] = "update_preimage", "update_postimage"
        times[row : row + 2], keys[row : row + 2], values[row] = times[old], keys[old], values[old]
    return pa.table({"t": times, "k": keys, "v": values, "op": pa.array(op, pa.string())})


def spent(query: Query, tables: list[pa.Table]) -> float:
    """Return the processor time of all pushes, without the first few."""
    stream, total = query.stream(), 0.0
    for number, table in enumerate(tables):
        begun = time.process_time()
        stream.push(table)
        total += (time.process_time() - begun) * (number >= 3)
    return total


def ratio(aggregates: dict[str, Any], updates: float, whole: bool, rounds: int = 5) -> float:
    """Return how many times the processor time of appends a changelog takes: the median of some rounds."""
    words = {"key": "k", "time": "t", "watermark": MINUTE, "allowed_lateness": 10 * MINUTE}
    tables = [changelog(PUSH, updates, seed, whole) for seed in range(PUSHES)]
    windows = window.sliding(60 * MINUTE, every=MINUTE)
    with_changes, without = Query(windows, aggregates, changes="op", **words), Query(windows, aggregates, **words)
    found = []
    for _ in range(rounds):
        both = spent(with_changes, tables), spent(without, [table.drop_columns("op") for table in tables])
        found.append(both[0] / both[1])
    return statistics.median(found)


def main() -> None:
    """Print the ratio for sums of integers and of floats, with a tenth and a fifth of updates."""
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    for whole in (True, False):
        for updates in (0.1, 0.2):
            found = ratio(aggregates, updates, whole)
            kind = "integers" if whole else "floats"
            print(f"{updates:.0%} updates, sums of {kind}: {found:.2f} times appends (wanted: {WANTED})")


if __name__ == "__main__":
    main()
