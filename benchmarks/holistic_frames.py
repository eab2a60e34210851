"""What a push costs a stream of frames with a median or a distinct count: the rows read again, and DuckDB.

Arrow tables in and out, kernels warm. Without multisets that move, each push would aggregate all rows of its frames
again, as `run` does. DuckDB answers the new rows by SQL over the rows held, which
are in a table of its own. All give the same answers. Turns alternate: a push of each, then the next one. Times are of a
push divided by its rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, check_equal, now, rounds_for

from muntin import Query, agg, rows, window
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.kernels.tiers import waiting
from muntin.query.plan import Plan
from muntin.streams.plan import register
from muntin.streams.rows.rows import Rows

AGAIN = "rows read again"
SQL = {"median": "median(v)", "distinct": "count(DISTINCT v)"}
AGGREGATES = {"median": agg.median("v"), "distinct": agg.count_distinct("v"), "top": agg.top_k("v", 3)}
DISTINCT = 50_000
"""So many values are counted; medians are of random floats."""


class ReadAgain(Rows):
    """Rows in order whose holistic aggregates read all rows of their windows again."""

    def _bound(self, plan: Plan) -> tuple[list[Binding], dict[str, Aggregation], dict[str, Aggregation]]:
        bindings, apart, moving = super()._bound(plan)
        return bindings, {**apart, **moving}, {}


register("read_again", ReadAgain)


@dataclass(frozen=True)
class Job:
    """Pushes of `rows` rows to frames of the last `held` rows; `late` of 100 are late by up to 1,000 rows."""

    aggregate: str
    held: int
    rows: int = 1_000
    late: int = 0
    text: bool = False

    @property
    def query(self) -> Query:
        """The query."""
        frame = window.trailing(rows(self.held))
        late = 2_000 if self.late else 0
        return Query(frame, {"it": AGGREGATES[self.aggregate]}, time="t", allowed_lateness=late)

    def table(self, first: int, count: int) -> pa.Table:
        """Return rows from the first on, the same for all."""
        random = np.random.default_rng(first)
        times = np.arange(first, first + count)
        times -= np.where(random.integers(0, 100, count) < self.late, random.integers(0, 1_000, count), 0)
        values = random.random(count) if self.aggregate != "distinct" else random.integers(0, DISTINCT, count)
        return pa.table({"t": times, "v": pa.array(values).cast(pa.string()) if self.text else values})

    def history(self) -> list[pa.Table]:
        """Return the rows that are held at first."""
        return [self.table(first, min(10_000, self.held - first)) for first in range(0, self.held, 10_000)]


def by_stream(job: Job, strategy: str) -> Callable[[pa.Table], Any]:
    """Return the `push` of a stream that holds its rows."""
    stream = job.query.stream(strategy=strategy)
    with waiting():
        for table in job.history():
            stream.push(table)
    return stream.push


def by_duckdb(job: Job) -> Callable[[pa.Table], Any]:
    """Return what answers new rows by SQL over those held."""
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.register("held", pa.concat_tables(job.history()))
    database.execute("CREATE TABLE rows AS SELECT * FROM held")
    frame = f"ORDER BY t ROWS BETWEEN {job.held - 1} PRECEDING AND CURRENT ROW"

    def push(table: pa.Table) -> pa.Table:
        database.register("new", table)
        database.execute("INSERT INTO rows SELECT * FROM new")
        least = table["t"][0].as_py()
        database.execute(f"DELETE FROM rows WHERE t < {least - job.held}")
        answers = f"SELECT t, {SQL[job.aggregate]} OVER ({frame}) AS it FROM rows"
        return database.sql(f"SELECT it FROM ({answers}) WHERE t >= {least} ORDER BY t").to_arrow_table()

    return push


def numbers(answers: Any) -> Any:
    """Return answers as numbers in order; those of lists one by one."""
    flat = answers.combine_chunks().flatten() if pa.types.is_list(answers.type) else answers
    return np.sort(np.asarray(flat, np.float64))


def timed(job: Job, pushes: dict[str, Callable[[pa.Table], Any]], rounds: int) -> dict[str, Timing]:
    """Time each in turns; reject answers that differ."""
    taken: dict[str, list[float]] = {name: [] for name in pushes}
    for turn in range(rounds + 2):
        table = job.table(job.held + turn * job.rows, job.rows)
        answers: list[Any] = []
        for name, push in pushes.items():
            with waiting():
                begun = now()
                emitted = push(table)
                taken[name].append((now() - begun) / job.rows)
            answers.append(numbers(emitted["it"]))
        for other in answers[1:]:
            check_equal(answers[0], other, f"holistic frames: {job}")
    return {name: Timing(statistics.median(each[2:]), min(each[2:])) for name, each in taken.items()}


def figure(what: str, job: Job, rounds: int, target: float, *, sql: bool = False, again: bool = True) -> Figure:
    """Measure a job: nanoseconds a row."""
    pushes = {OURS: by_stream(job, "auto")}
    if again:
        pushes[AGAIN] = by_stream(job, "read_again")
    if sql:
        pushes["DuckDB"] = by_duckdb(job)
    times = timed(job, pushes, rounds)
    mine = times[OURS].median
    others = [f"{times[name].median / mine:.3g} times as long by {name}" for name in times if name != OURS]
    return Figure("holistic_frames", what, mine, target, False, " ns", times, "; ".join(others))


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rounds = rounds_for(quick, 15)
    for held in (1_000, 100_000):
        shown = f"{held:,} rows held, pushes of 1,000"
        yield figure(f"median, {shown}", Job("median", held), rounds, 600.0, sql=True)
        yield figure(f"count_distinct, {shown}", Job("distinct", held), rounds, 600.0, sql=True)
    held = 10_000 if quick else 100_000
    shown = f"{held:,} rows held, pushes of 1,000"
    yield figure(f"median, {shown}, 5 % late by up to 1,000", Job("median", held, late=5), rounds, 20_000.0)
    yield figure(f"count_distinct of texts, {shown}", Job("distinct", held, text=True), rounds, 2_000.0)
    yield figure(f"top_k, {shown}", Job("top", held), rounds, 100_000.0)
    if not quick:
        yield figure("median, 1,000,000 rows held", Job("median", 1_000_000), rounds, 1_200.0, again=False)
