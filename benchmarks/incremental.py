"""What a push costs a stream of frames, by how many rows are held: beside `run` over the rows held, and DuckDB.

Sum and maximum of a float column, Arrow tables in and out, kernels warm. `run` answers all rows held again at each
push. DuckDB answers the new rows by SQL over the rows held, which are in a table of its own. Neither gets late rows.
All give the same answers. Other windows that depend on rows are pushed beside `run` over the same rows, once. Turns
alternate: a push of each, then the next one. Times are of a push divided by its rows, so for pushes of one row they are
of the push.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import OURS, Figure, Timing, check_equal, now, rounds_for, rows_for

from muntin import Query, agg, policies, rows, window
from muntin.kernels.tiers import waiting

AGAIN = "run again"
AGGREGATES = {"sum": agg.sum("v"), "high": agg.max("v")}
LATE = 1_000
"""By how much a late row may be late; times are one apart."""


@dataclass(frozen=True)
class Job:
    """Pushes of `rows` rows to frames over `held` rows of `keys` keys, a `share` of them late."""

    windows: Any
    held: int
    rows: int
    keys: int = 1
    share: float = 0.0

    def query(self) -> Query:
        """Return the query."""
        key = "k" if self.keys > 1 else None
        return Query(self.windows, AGGREGATES, key=key, time="t", allowed_lateness=2 * LATE if self.share else 0)

    def table(self, first: int, count: int) -> pa.Table:
        """Return rows from the first on, the same for all."""
        random = np.random.default_rng(first)
        times = np.arange(first, first + count)
        if self.share:
            times -= np.where(random.random(count) < self.share, random.integers(0, LATE, count), 0)
        columns = {"t": times, "v": random.random(count)}
        return pa.table(columns if self.keys == 1 else columns | {"k": random.integers(0, self.keys, count)})


def stream(job: Job) -> Callable[[pa.Table], Any]:
    """Return the `push` of a stream that holds its rows."""
    ours = job.query().stream(most_late=10)
    with waiting():
        for first in range(0, job.held, 100_000):
            ours.push(job.table(first, min(100_000, job.held - first)))
    return ours.push


def by_run(job: Job) -> Callable[[pa.Table], Any]:
    """Return what answers new rows by `run` over those held."""
    query, held = job.query(), job.table(0, job.held)

    def push(table: pa.Table) -> pa.Table:
        nonlocal held
        held = pa.concat_tables([held.slice(max(0, len(held) - job.held)), table]).combine_chunks()
        answers = query.run(held)
        return answers.filter(pc.greater_equal(pc.struct_field(answers["window"], "end"), table["t"][0]))

    return push


def by_duckdb(job: Job) -> Callable[[pa.Table], Any]:
    """Return what answers new rows by SQL over those held."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    held = job.table(0, job.held)
    database.register("held", held)
    database.execute("CREATE TABLE rows AS SELECT * FROM held")
    frame = f"RANGE BETWEEN {job.windows.range - 1} PRECEDING AND CURRENT ROW"

    def push(table: pa.Table) -> pa.Table:
        database.register("new", table)
        database.execute("INSERT INTO rows SELECT * FROM new")
        least = table["t"][0].as_py()
        database.execute(f"DELETE FROM rows WHERE t <= {least - job.windows.range}")
        answers = f"SELECT t, sum(v) OVER w AS sum, max(v) OVER w AS high FROM rows WINDOW w AS (ORDER BY t {frame})"
        return database.sql(f"SELECT * FROM ({answers}) WHERE t >= {least}").to_arrow_table()

    return push


def timed(job: Job, pushes: dict[str, Callable[[pa.Table], Any]], rounds: int) -> dict[str, Timing]:
    """Time each in turns; reject answers that differ."""
    taken: dict[str, list[float]] = {name: [] for name in pushes}
    for turn in range(rounds + 3):
        table = job.table(job.held + turn * job.rows, job.rows)
        sums: list[Any] = []
        for name, push in pushes.items():
            with waiting():
                begun = now()
                answers = push(table)
                taken[name].append((now() - begun) / job.rows)
            sums.append(np.sort(np.asarray(answers["sum"])))
        for other in sums[1:]:
            if len(other) != len(sums[0]):
                raise SystemExit(f"incremental: {job}: {len(other)} answers where there are {len(sums[0])}")
            check_equal(sums[0], other, f"incremental: {job}", rtol=1e-7)
    return {name: Timing(statistics.median(each[3:]), min(each[3:])) for name, each in taken.items()}


def figure(what: str, job: Job, rounds: int, target: float, *, sql: bool = False, again: bool = True) -> Figure:
    """Measure a job: nanoseconds a row, microseconds for pushes of one row."""
    pushes = {OURS: stream(job)}
    if again and not job.share:
        pushes[AGAIN] = by_run(job)
    if sql:
        pushes["DuckDB"] = by_duckdb(job)
    times = timed(job, pushes, rounds)
    mine = times[OURS].median
    others = [f"{times[name].median / mine:.3g} times as long by {name}" for name in times if name != OURS]
    scale, unit = (1e3, " us") if job.rows == 1 else (1.0, " ns")
    return Figure("incremental", what, mine / scale, target, False, unit, times, "; ".join(others))


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rounds = rounds_for(quick, 15)
    for held in (1_000, 100_000 if quick else 1_000_000):
        few = 3 * rounds
        shown = f"{held:,} rows held"
        kinds = {"trailing": window.trailing(held), "trailing rows": window.trailing(rows(held))}
        for kind, made in kinds.items():
            yield figure(f"{kind}, {shown}, pushes of one row", Job(made, held, 1), few, 100.0)
            yield figure(f"{kind}, {shown}, pushes of 1,000", Job(made, held, 1_000), rounds, 160.0)
            yield figure(f"{kind}, {shown}, pushes of 10,000", Job(made, held, 10_000), rounds, 60.0)
    sql = Job(window.trailing(100_000), 100_000, 1_000)
    yield figure("trailing, 100,000 rows held, pushes of 1,000, by SQL too", sql, rounds, 160.0, sql=True)
    many = 100_000 if quick else 1_000_000
    for count, target in ((1_000, 380.0), (10_000, 130.0)):
        job = Job(window.trailing(many), many, count, keys=1_000)
        yield figure(f"trailing, {many:,} rows of 1,000 keys held, pushes of {count:,}", job, rounds, target)
    job = Job(window.trailing(many), many, 1, keys=1_000)
    yield figure(f"trailing, {many:,} rows of 1,000 keys held, pushes of one row", job, rounds, 100.0)
    lengths = [window.trailing(n) for n in (1_000, 5_000, 20_000, 100_000)]
    yield figure("four lengths at once, 100,000 rows held", Job(lengths, 100_000, 10_000), rounds, 110.0)
    for count, target in ((1_000, 220.0), (10_000, 110.0)):
        job = Job(window.trailing(100_000), 100_000, count, share=0.2)
        yield figure(f"20 % late by up to 1,000, 100,000 rows held, pushes of {count:,}", job, rounds, target)
    yield from of_policies(rounds)
    yield from beside_run(quick, rounds)


def at_most(count: int) -> policies.Policy:
    """Return a policy of two conditions, each of which evicts rows now and then: values are 0.5 on average."""
    return policies.any_of(policies.at_most_rows(count), policies.sum_at_most("v", count / 2))


def of_policies(rounds: int) -> Iterator[Figure]:
    """Compare windows of a policy, which `run` asks about all rows held at each push: seconds, if these are many."""
    for held in (1_000, 50_000):
        for count, target in ((1_000, 160.0), (10_000, 80.0)):
            job = Job(window.policy(at_most(held)), 2 * held, count)
            few = 3 if held == 1_000 else rounds
            yield figure(f"policy, {held:,} rows, pushes of {count:,}", job, few, target, again=held == 1_000)
    one = Job(window.policy(at_most(50_000)), 100_000, 1)
    yield figure("policy, 50,000 rows, pushes of one row", one, 40, 100.0, again=False)
    job = Job(window.policy(at_most(1_000)), 100_000, 10_000, share=0.2)
    yield figure("policy, 1,000 rows, 20 % late by up to 1,000", job, rounds, 110.0)


class Trips(window.ContextAware):
    """A trip begins with each row that says so."""

    columns = ("mark",)

    def on_tuple(self, t: int, values: Any, edges: Any) -> None:
        """Begin a trip."""
        if values["mark"]:
            edges.add(t)


KINDS = {
    "trailing": window.trailing(100_000),
    "sliding rows": window.sliding(rows(100_000), every=rows(100)),
    "delta": window.delta("way", 10_000.0, every=100.0),
    "punctuated": window.punctuated("mark"),
    "own ContextAware": Trips(),
}


def beside_run(quick: bool, rounds: int) -> Iterator[Figure]:
    """Compare pushes of 10,000 rows with `Query.run` over the same rows."""
    for kind, made in KINDS.items():
        job = Job(made, 300_000, 10_000)
        table = job.table(0, rows_for(quick, job.held))
        marks, way = np.arange(len(table)) % 100 == 0, np.cumsum(table["v"].to_numpy())
        yield at_once(kind, job, table.append_column("mark", [marks]).append_column("way", [way]), rounds)


def at_once(kind: str, job: Job, table: pa.Table, rounds: int) -> Figure:
    """Push a table in parts, and run it."""
    query = job.query()

    def pushed() -> pa.Table:
        ours = query.stream()
        parts = [ours.push(table.slice(first, job.rows)) for first in range(0, len(table), job.rows)]
        return pa.concat_tables([*parts, ours.close()])

    taken: dict[str, list[float]] = {OURS: [], "run": []}
    answers: dict[str, Any] = {}
    with waiting():
        for _ in range(max(3, rounds // 3) + 1):
            for name, call in ((OURS, pushed), ("run", lambda: query.run(table))):
                begun = now()
                answers[name] = call()
                taken[name].append((now() - begun) / len(table))
    mine, other = (np.sort(np.asarray(each["sum"])) for each in answers.values())
    if len(mine) != len(other):
        raise SystemExit(f"incremental: {kind}: {len(mine)} answers where run has {len(other)}")
    check_equal(mine, other, f"incremental: {kind}", rtol=1e-7)
    times = {name: Timing(statistics.median(each[1:]), min(each[1:])) for name, each in taken.items()}
    ratio = times[OURS].median / times["run"].median
    what = f"{kind}, pushes of 10,000 rows, beside run on the same rows"
    return Figure("incremental", what, ratio, 2.0, False, "x", times)
