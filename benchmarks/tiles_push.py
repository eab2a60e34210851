"""What a push costs a stream of frames with a hop, which keeps tiles: beside frames without one, and `Query.run`.

Sum and maximum of a float column, Arrow tables in and out, kernels warm; two rows have the same time. Frames without a
hop hold their rows: the rival that gives nearly the same answers. `run` answers the same rows at once, knowing all of
them. Turns alternate: a push of each, then the next one. Times are of a push divided by its rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, check_equal, now, rounds_for

from muntin import Query, agg, window
from muntin.kernels.tiers import waiting

WITHOUT = "without a hop"
AGGREGATES = {"sum": agg.sum("v"), "high": agg.max("v")}


@dataclass(frozen=True)
class Job:
    """Pushes of `rows` rows to frames of `length` that begin at multiples of `hop`; two rows have a time each."""

    length: int
    hop: int
    rows: int
    keys: int = 1
    lateness: int = 0

    def query(self) -> Query:
        """Return the query."""
        key = "k" if self.keys > 1 else None
        frame = window.trailing(self.length, hop=self.hop) if self.hop else window.trailing(self.length)
        return Query(frame, AGGREGATES, key=key, time="t", watermark=1, allowed_lateness=self.lateness)

    def table(self, first: int, count: int) -> pa.Table:
        """Return rows from the first on, the same for all."""
        random = np.random.default_rng(first)
        columns = {"t": np.arange(first, first + count) // 2, "v": random.random(count)}
        return pa.table(columns if self.keys == 1 else columns | {"k": random.integers(0, self.keys, count)})


def stream(job: Job, held: int) -> Callable[[pa.Table], Any]:
    """Return the `push` of a stream that has had some rows."""
    ours = job.query().stream()
    with waiting():
        for first in range(0, held, 100_000):
            ours.push(job.table(first, min(100_000, held - first)))
    return ours.push


def timed(job: Job, rounds: int) -> dict[str, Timing]:
    """Time pushes with a hop and without, in turns; reject answers of other rows."""
    held = 2 * job.length
    pushes = {OURS: stream(job, held), WITHOUT: stream(replace(job, hop=0), held)}
    taken: dict[str, list[float]] = {name: [] for name in pushes}
    for turn in range(rounds + 3):
        table = job.table(held + turn * job.rows, job.rows)
        counts = []
        for name, push in pushes.items():
            with waiting():
                begun = now()
                answers = push(table)
                taken[name].append((now() - begun) / job.rows)
            counts.append(answers.num_rows)
        if counts[0] != counts[1]:
            raise SystemExit(f"tiles_push: {job}: {counts[0]} answers where {counts[1]} were expected")
    return {name: Timing(statistics.median(each[3:]), min(each[3:])) for name, each in taken.items()}


def figure(what: str, job: Job, rounds: int) -> Figure:
    """Return how long a push takes beside one without a hop."""
    times = timed(job, rounds)
    ratio = times[OURS].median / times[WITHOUT].median
    return Figure("tiles_push", what, ratio, 1.2, False, "", times)


def beside_run(job: Job, rounds: int) -> Figure:
    """Compare pushes with `Query.run` over the same rows; reject answers that differ."""
    count = 4 * job.length
    query, table = job.query(), job.table(0, count)

    def pushed() -> pa.Table:
        ours = query.stream()
        tables = [ours.push(table.slice(first, job.rows)) for first in range(0, count, job.rows)]
        return pa.concat_tables([*tables, ours.close()])

    taken: dict[str, list[float]] = {OURS: [], "run": []}
    calls = {OURS: pushed, "run": lambda: query.run(table)}
    with waiting():
        check_equal(*(np.sort(np.asarray(call()["sum"])) for call in calls.values()), "tiles_push: run", rtol=1e-7)
        for _ in range(rounds):
            for name, call in calls.items():
                begun = now()
                call()
                taken[name].append((now() - begun) / count)
    times = {name: Timing(statistics.median(each), min(each)) for name, each in taken.items()}
    ratio = times[OURS].median / times["run"].median
    return Figure("tiles_push", f"pushes of {job.rows:,}, beside run on the same rows", ratio, 2.0, False, "", times)


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rounds = rounds_for(quick, 21)
    for length in (1_000, 100_000 if quick else 500_000):
        job = Job(length, length // 10, 1)
        for count in (1, 1_000, 10_000):
            what = f"10 hops, {2 * length:,} rows in a frame, pushes of {count:,}"
            yield figure(what, replace(job, rows=count), 3 * rounds if count == 1 else rounds)
    for hops in (1_000, 10_000):
        job = Job(100_000, 100_000 // hops, 1_000)
        yield figure(f"{hops:,} hops, 200,000 rows in a frame, pushes of 1,000", job, rounds)
    many = Job(100_000, 1_000, 10_000, keys=1_000)
    for count in (1, 1_000, 10_000):
        what = f"1,000 keys, 200,000 rows in their frames, pushes of {count:,}"
        yield figure(what, replace(many, rows=count), 3 * rounds if count == 1 else rounds)
    late = Job(100_000, 1_000, 1_000, lateness=20_000)
    yield figure("40,000 rows within the lateness, pushes of 1,000", late, rounds)
    yield beside_run(Job(100_000, 1_000, 10_000), max(3, rounds // 3))
