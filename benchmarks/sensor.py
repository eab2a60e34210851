"""Rows like those of a sensor on a football field, and the windows of a dashboard that shows them.

One value at a fixed rate; with disorder, one row in five comes up to two seconds late, and five times a minute nothing
comes for a second and a half, which ends a session.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import Query, agg, window
from muntin.types import Array

SECOND = 1_000_000
"""Times are in microseconds."""
RATE = 100_000
"""Rows per second of event time, and per push."""
DELAY = 2 * SECOND
PLAY, PAUSE = 10_500_000, 1_500_000


def times(seconds: int, rate: int = RATE, *, disorder: bool = False) -> Array:
    """Return the times of rows, in order of arrival."""
    ticks = np.arange(seconds * rate, dtype=np.int64) * SECOND // rate
    if not disorder:
        return ticks
    chance = np.random.default_rng(9)
    ticks += ticks // PLAY * PAUSE
    late = np.where(chance.random(len(ticks)) < 0.2, chance.integers(0, DELAY, len(ticks)), 0)
    return ticks[np.argsort(ticks + late, kind="stable")]


def values(rows: int) -> Array:
    """Return the values of rows."""
    return np.random.default_rng(8).random(rows)


def pushes(ticks: Array, size: int = RATE, keys: Array | None = None) -> list[pa.Table]:
    """Return rows of these times as tables of `size` rows. Their values repeat, so that they take little memory."""
    repeated = pa.array(values(size))
    arrival = pa.array(ticks).view(pa.timestamp("us"))
    columns = {"t": arrival} if keys is None else {"t": arrival, "k": pa.array(keys)}
    table = pa.table(columns)
    parts = [table.slice(begin, size) for begin in range(0, len(ticks), size)]
    return [part.append_column("v", repeated[: len(part)]) for part in parts]


def tumbling(count: int) -> list[Any]:
    """Return `count` definitions of tumbling windows, evenly spread from 1 to 20 seconds; a single one has 1 second."""
    return [window.tumbling(f"{round(length)} milliseconds") for length in np.linspace(1_000, 20_000, count)]


def query(windows: list[Any], *, disorder: bool = False, **options: Any) -> Query:
    """Return the sum of the values over windows; with disorder, over sessions too."""
    if disorder:
        windows, options = [*windows, window.session("1 second")], {"watermark": "2 seconds", **options}
    return Query(windows, {"sum": agg.sum("v")}, time="t", **options)


def flow(asked: Query, tables: list[pa.Table], a_run: int, *, first: int = 1, **forced: Any) -> Callable[[], int]:
    """Return a function that pushes the next few tables into one stream, and returns the number of windows.

    The stream has already had the first ones, so neither its creation nor its filling is timed.
    """
    stream = asked.stream(**forced)
    coming = iter(tables)
    for table in islice(coming, first):
        stream.push(table)

    def run() -> int:
        now = list(islice(coming, a_run))
        if len(now) < a_run:
            raise SystemExit("too few rows were made for all rounds")
        return sum(stream.push(table).num_rows for table in now)

    return run
