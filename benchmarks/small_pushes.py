"""What a push of one row costs: processor time a call, where nothing is due and where windows come out.

Maximum and mean over "10 seconds" every "1 second", 10 keys, kernels warm. The rival is the least that Python can do
for this one query: panes in dicts, no late rows, no snapshots, no types, answers as tuples. It gives the same answers.
Calls are timed in alternating turns of 100; `push` takes prepared tables of one row, `push_row` the values themselves.
Last comes a stream of frames that holds many rows, against a polars frame to which each row is appended and which is
then filtered; polars has threads, so the time of all threads counts there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, rounds_for, rows_for

from muntin import Query, agg, window

SECOND, LENGTH, KEYS = 1_000, 10_000, 10
"""Times are in milliseconds."""
CALLS = 100
Row: TypeAlias = tuple[str, int, float]
Call: TypeAlias = Callable[[Row], Any]


def row(number: int, step: int) -> Row:
    """Return a row; keys take turns."""
    return f"key {number % KEYS}", number * step, float(number % 17)


def stream() -> Any:
    """Return a new stream."""
    aggregates = {"high": agg.max("v"), "mean": agg.mean("v")}
    return Query(window.sliding(LENGTH, every=SECOND), aggregates, key="k", time="t").stream()


def as_table(each: Row) -> pa.Table:
    """Return a row as a table."""
    key, at, value = each
    return pa.table({"k": [key], "t": [at], "v": [value]})


class Panes:
    """The same query by hand: a dict of panes per key, each with its maximum, sum and count."""

    def __init__(self) -> None:
        self.panes: dict[str, dict[int, tuple[float, float, int]]] = {}
        self.edge = SECOND

    def push(self, each: Row) -> list[Any]:
        """Take a row in order; return the windows that have ended."""
        key, at, value = each
        of_key = self.panes.setdefault(key, {})
        pane = at - at % SECOND
        high, total, count = of_key.get(pane, (value, 0.0, 0))
        of_key[pane] = (max(high, value), total + value, count + 1)
        answers = []
        while self.edge <= at:
            answers += self.emit()
            self.edge += SECOND
        return answers

    def emit(self) -> list[Any]:
        """Return the windows that end at the edge, and evict what no later one needs."""
        begin, answers = self.edge - LENGTH, []
        for key, of_key in self.panes.items():
            held = [state for pane, state in of_key.items() if begin <= pane < self.edge]
            if held:
                highs, totals, counts = zip(*held, strict=True)
                answers.append((key, begin, self.edge, max(highs), sum(totals) / sum(counts)))
            of_key.pop(begin, None)
        return answers


def check() -> None:
    """Reject two that disagree."""
    ours, by_row, others = stream(), stream(), Panes()
    for number in range(200):
        each = row(number, 300)
        answers = ours.push(as_table(each)).to_pylist()
        if by_row.push_row(*each).to_pylist() != answers:
            raise SystemExit(f"small_pushes: push_row and push disagree in row {number}")
        shown = [(a["k"], a["window"]["start"], a["window"]["end"], a["high"], a["mean"]) for a in answers]
        expected = others.push(each)
        if sorted(shown) != sorted(expected):
            raise SystemExit(f"small_pushes: {shown} where {expected} was expected")


def timed(
    calls: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]],
    rounds: int,
    clock: Callable[[], int] = time.thread_time_ns,
) -> dict[str, Timing]:
    """Return the CPU time per call of each kind; arguments are created outside the timed part."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 5):
        for name, (make, call) in calls.items():
            inputs = [make(turn * CALLS + i) for i in range(CALLS)]
            begun = clock()
            for each in inputs:
                call(each)
            taken[name].append((clock() - begun) / CALLS)
    return {name: Timing(statistics.median(each[5:]), min(each[5:])) for name, each in taken.items()}


def pushes(step: int, rounds: int) -> dict[str, Timing]:
    """Time rows that are `step` milliseconds apart."""
    by_row = stream()
    calls: dict[str, Any] = {
        OURS: (lambda number: as_table(row(number, step)), stream().push),
        f"{OURS}, push_row": (lambda number: row(number, step), lambda each: by_row.push_row(*each)),
        "dicts of panes": (lambda number: row(number, step), Panes().push),
    }
    return timed(calls, rounds)


def advances(rounds: int) -> dict[str, Timing]:
    """Time calls of `advance` that end no window."""
    ours = stream()
    for number in range(KEYS):
        ours.push(as_table(row(number, 1)))
    return timed({OURS: (lambda _: SECOND - 1, ours.advance)}, rounds)


HOUR, MONTH = 3_600_000, 30 * 24 * 3_600_000
CARDS = 1_000


class Appended:
    """Count and sum of the last hour and month of a card, by a polars frame with all rows."""

    def __init__(self, held: pa.Table) -> None:
        import polars

        self.polars, self.rows = polars, polars.from_arrow(held)

    def push(self, table: pa.Table) -> list[Any]:
        """Take a row; return the answers of its frames, the longer one last."""
        self.rows = self.polars.concat([self.rows, self.polars.from_arrow(table)])
        card, at = table["k"][0].as_py(), table["t"][0].as_py()
        mine = self.rows.filter((self.polars.col("k") == card) & (self.polars.col("t") > at - MONTH))
        recent = mine.filter(self.polars.col("t") > at - HOUR)
        return [(len(each), each["v"].sum()) for each in (recent, mine)]


def frames(held: int, rounds: int) -> dict[str, Timing]:
    """Time one row pushed to frames over many held rows; reject two that disagree."""
    random = np.random.default_rng(1)
    times = np.sort(random.integers(0, MONTH // 2, held))
    rows = pa.table({"k": random.integers(0, CARDS, held), "t": times, "v": random.integers(0, 9, held).astype(float)})
    aggregates = {"n": agg.count(), "sum": agg.sum("v")}
    query = Query([window.trailing(HOUR), window.trailing(MONTH)], aggregates, key="k", time="t")
    ours, theirs = query.stream(history=rows), Appended(rows)

    def table(number: int) -> pa.Table:
        return pa.table({"k": [number % CARDS], "t": [MONTH // 2 + number], "v": [1.0]})

    for number in range(20):
        answers = sorted((a["window_id"], a["n"], a["sum"]) for a in ours.push(table(number)).to_pylist())
        if [each[1:] for each in answers] != theirs.push(table(number)):
            raise SystemExit(f"small_pushes: frames disagree in row {number}")
    calls: dict[str, Any] = {OURS: ours.push, "polars": theirs.push}
    entrants = {name: (lambda i: table(20 + i), call) for name, call in calls.items()}
    return timed(entrants, rounds, time.process_time_ns)


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    check()
    rounds = rounds_for(quick, 40)
    yield figure("push of one row, nothing is due", pushes(0, rounds), 60.0)
    yield figure("push of one row, a window of each key comes out", pushes(SECOND, rounds), 120.0)
    yield figure("advance, nothing is due", advances(rounds), 60.0)
    times = frames(rows_for(quick, 1_000_000), rounds_for(quick, 5))
    ratio = times["polars"].median / times[OURS].median
    yield Figure("small_pushes", "push of one row to frames that hold a million", ratio, 1.0, True, "", times)


def figure(what: str, times: dict[str, Timing], target: float) -> Figure:
    """Return a figure: microseconds of the first entrant."""
    mine, *others = times.values()
    note = f"{mine.median / others[-1].median:.0f} times the least that Python can do" if others else ""
    return Figure("small_pushes", what, mine.median / 1e3, target, False, " us", times, note)
