"""Boundary over arrays, on one thread and on two: over TwoStacks, and over itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from driven import bound, entrant
from harness import Entrant, Figure, check_equal, race, rounds_for, rows_for

import muntin
from muntin import agg, aggregators

ROWS, SKETCHES = 20_000_000, 1_000_000


@agg.define(state={"low": "f8", "high": "f8", "n": "f8", "powers": ("f8", 10), "logs": ("f8", 10)})
class merged_sketch:
    """What `moment_sketch` merges, and no quantile of it: solving for one takes a thousand times as long as merging."""

    def lift(v):  # type: ignore[no-untyped-def]  # definitions have no types
        powers, logs = np.zeros(10), np.zeros(10)
        power, log_power, log = 1.0, 1.0, math.log(v)
        for i in range(10):
            power *= v
            log_power *= log
            powers[i] = power
            logs[i] = log_power
        return (v, v, 1.0, powers, logs)

    def combine(a, b):  # type: ignore[no-untyped-def]  # definitions have no types
        return (min(a.low, b.low), max(a.high, b.high), a.n + b.n, a.powers + b.powers, a.logs + b.logs)

    def lower(s):  # type: ignore[no-untyped-def]  # definitions have no types
        return s.powers[0]


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    values = np.random.default_rng(5).random(rows_for(quick, ROWS)) + 0.5
    for length in (1 << 10, 1 << 15, 1 << 20):
        yield _over_two_stacks(values, length, quick)
    for length in (1 << 15, 1 << 18, 1 << 20):
        yield _two_threads("max", agg.max("v"), values, length, quick)
    for length in (1 << 15, 1 << 17):
        yield _two_threads("moment_sketch", merged_sketch("v"), values[:SKETCHES], length, quick)


def _slide(values: Any, aggregation: Any, length: int, threads: int) -> Any:
    return muntin.slide(values, aggregation, range=length, aggregator="boundary", threads=threads, partial=False)


def _over_two_stacks(values: Any, length: int, quick: bool) -> Figure:
    ours = Entrant("Boundary", lambda: _slide(values, agg.max("v"), length, 1), len(values))
    stacks = entrant("TwoStacks", aggregators.TwoStacks, bound(agg.max("v")), values, length)
    check_equal(stacks.run()[length - 1 :], ours.run(), f"range {length}")
    times = race([ours, stacks], rounds_for(quick))
    what = f"threads=1 over TwoStacks row by row, max, range {length}"
    value = times["Boundary"].median / times["TwoStacks"].median
    return Figure("boundary", what, value, 1.0, False, "x", times)


def _two_threads(name: str, aggregation: Any, values: Any, length: int, quick: bool) -> Figure:
    entrants = [
        Entrant(f"threads={threads}", lambda t=threads: _slide(values, aggregation, length, t), len(values))
        for threads in (2, 1)
    ]
    check_equal(entrants[1].run(), entrants[0].run(), f"{name}, range {length}")
    times = race(entrants, rounds_for(quick))
    what = f"threads=2 over threads=1, {name}, range {length}"
    return Figure("boundary", what, times["threads=1"].median / times["threads=2"].median, 1.4, True, "x", times)
