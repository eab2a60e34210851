"""The data and the query of the demo: the power of 84 plugs in a house."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin import aggregations as agg
from muntin import windows as window
from muntin.cli.load_factor import load_factor
from muntin.query import Query
from muntin.types import Array
from muntin.windows import rows

PLUGS = 84
BEGIN = np.datetime64("2024-03-01", "us")
HOUR = 3_600_000_000
EVERY = 10_000_000
"""Microseconds from one reading of a plug to the next."""
SEED = 84


def query() -> Query:
    """Return the query: three windows, five aggregates, one set of slices."""
    return Query(
        windows=[
            window.sliding("24 hours", every="1 minute"),
            window.session("20 minutes"),
            window.sliding(rows(100), every=rows(10)),
        ],
        aggregates={
            "readings": agg.count(),
            "mean": agg.mean("watts"),
            "peak": agg.max("watts"),
            "peak_at": agg.arg_max("watts", "ts"),
            "load_factor": load_factor("watts"),  # type: ignore[dict-item,call-arg]  # `define` makes a factory of the class
        },
        key="plug",
        time="ts",
        watermark="2 minutes",
        allowed_lateness="10 minutes",
    )


def write(folder: Path, days: int, *, files: int) -> int:
    """Write readings in order of arrival, as Parquet files; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for number, table in enumerate(_hours(days, files)):
        pq.write_table(table, folder / f"{number:04}.parquet")
        count += table.num_rows
    return count


def _hours(days: int, files: int) -> Iterator[pa.Table]:
    """Yield what arrives in each of `files` equal spans of time, sorted by arrival: times are out of order."""
    random = np.random.default_rng(SEED)
    table = pa.concat_tables([_plug(number, days, random) for number in range(PLUGS)])
    table = table.sort_by("arrival")
    cuts = np.linspace(0, table.num_rows, files + 1).astype(int)
    for begin, end in pairwise(cuts):
        yield table.slice(begin, end - begin).drop_columns("arrival")


def _plug(number: int, days: int, random: np.random.Generator) -> pa.Table:
    """Return the readings of one plug: it idles, works, is unplugged for hours, and its line is cut now and then."""
    count = days * 24 * HOUR // EVERY
    times = np.arange(count) * EVERY + random.integers(0, EVERY, count)
    hour = times / HOUR % 24
    base = float(random.uniform(1, 20))
    most = float(random.choice([60.0, 150.0, 900.0, 2000.0]))
    busy = random.random(count) < 0.002 + 0.03 * np.exp(-(((hour - random.uniform(7, 21)) / 2.5) ** 2))
    working = np.convolve(busy, np.ones(30), "same") > 0
    watts = base + working * most * random.uniform(0.6, 1.0, count) + random.normal(0, 0.4, count)
    there = _present(times, days, random)
    arrival = times + random.exponential(1_500_000, count).astype(np.int64)
    arrival = _held_back(arrival, times, days, random)
    return pa.table(
        {
            "plug": pa.array(np.full(int(there.sum()), number, np.int32)),
            "ts": pa.array((BEGIN + times[there].astype("m8[us]")), pa.timestamp("us", "UTC")),
            "watts": np.round(np.maximum(watts[there], 0.0), 2),
            "arrival": arrival[there],
        }
    )


def _present(times: Array, days: int, random: np.random.Generator) -> Array:
    """Return which readings exist: a plug is unplugged for some hours of a day."""
    there = random.random(len(times)) < 0.98
    for begin in random.uniform(0, days * 24, 2 * days) * HOUR:
        there &= (times < begin) | (times > begin + random.uniform(0.5, 4) * HOUR)
    return there


def _held_back(arrival: Array, times: Array, days: int, random: np.random.Generator) -> Array:
    """Delay readings of some minutes into a burst; a few are too late for any window."""
    for begin in random.uniform(0, days * 24, 3 * days) * HOUR:
        waits = random.choice([5.0, 20.0, 90.0], p=[0.6, 0.35, 0.05]) * HOUR / 60
        held = (times >= begin) & (times < begin + waits)
        arrival[held] = np.maximum(arrival[held], int(begin + waits))
    return arrival
