"""Slicing against buckets and an aggregate tree on tuples: at least 100 times each at 1000 windows.

A sum over 1 to 1000 tumbling windows of 1 to 20 seconds: 100,000 rows per second of event time, one second per push.
All are timed after 20 untimed seconds, except buckets, which would take many minutes for those: they are timed in
seconds three and four, in which windows of up to four seconds end, and which are easier for them than later ones.
Rivals are timed for two pushes, 200,000 rows. The tree on tuples is updated once per push, with one combine per row,
the paper's with each row. Pairs and Cutty are slicing too, for rows in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import rivals
import sensor
from charts import Chart
from harness import OURS, Entrant, Figure, Timing, check_equal, race, rounds_for
from sensor import RATE

COUNTS = (1, 20, 100, 1000)
FILL = 20
RIVALS = {"buckets": "buckets", "aggregate tree": "tuple_tree"}
SLOW = ("buckets",)
SLICING = {"pairs": "pairs", "cutty": "cutty"}

rivals.register()


def run(quick: bool) -> Iterator[Figure]:
    """Yield one figure per order of rows."""
    rounds, a_run = rounds_for(quick, 5), 2 if quick else 5
    for disorder in (False, True):
        check(disorder)
        tables = sensor.pushes(sensor.times(FILL + a_run * (rounds + 1), disorder=disorder))
        taken = [race(entrants(count, tables, a_run, disorder), rounds) for count in COUNTS]
        times = taken[-1]
        by_rival = {name: times[name].median / times[OURS].median for name in RIVALS}
        lines = [f"{name} {ratio:.0f} times slower at {COUNTS[-1]} windows" for name, ratio in by_rival.items()]
        lines += [f"{count} windows: {in_words(each)}" for count, each in zip(COUNTS[:-1], taken[:-1], strict=True)]
        what = f"{COUNTS[-1]} tumbling, {'20 % out of order and sessions' if disorder else 'in order'}, fastest rival"
        note, value = "\n  ".join(lines), min(by_rival.values())
        yield Figure("slicing_rivals", what, value, 100.0, True, "x", times, note, chart(disorder, taken))


def entrants(count: int, tables: Sequence[Any], a_run: int, disorder: bool) -> list[Entrant]:
    """Return slices as planned, lazy and eager, and their rivals, each with its own stream."""
    windows = sensor.tumbling(count)
    asked = sensor.query(windows, disorder=disorder)

    def stream(name: str, **forced: Any) -> Entrant:
        ours = sensor.flow(asked, list(tables), a_run, first=FILL, **forced)
        return Entrant(name, ours, a_run * RATE, rival=name == OURS)

    def rival(name: str, strategy: str, *, ordered: bool) -> Entrant:
        query = sensor.query(windows, disorder=disorder, ordered=ordered)
        first = 1 if strategy in SLOW else FILL
        theirs = sensor.flow(query, list(tables), 1, first=first, strategy=strategy)
        return Entrant(name, theirs, RATE, f"after {first + 1} s", rival=not ordered, apart=True)

    slicing = [] if disorder else [rival(name, strategy, ordered=True) for name, strategy in SLICING.items()]
    others = [rival(name, strategy, ordered=False) for name, strategy in RIVALS.items()]
    return [stream(OURS), stream("lazy", merge="lazy"), stream("eager", merge="flat_fat"), *slicing, *others]


def check(disorder: bool) -> None:
    """Reject strategies that disagree."""
    tables = sensor.pushes(sensor.times(30, 100, disorder=disorder), 500)
    names = [*RIVALS.values(), *([] if disorder else SLICING.values())]
    expected = answers("slices", tables, disorder)
    for name in names:
        check_equal(expected, answers(name, tables, disorder), f"sums by {name}", rtol=1e-9)


def answers(strategy: str, tables: Sequence[Any], disorder: bool) -> Any:
    """Return all sums of 20 windows, by window."""
    asked = sensor.query(sensor.tumbling(20), disorder=disorder, ordered=strategy in SLICING.values())
    stream = asked.stream(strategy=strategy)
    parts = [*(stream.push(table) for table in tables), stream.close()]
    ids, starts, sums = [], [], []
    for part in parts:
        flat = part.flatten()
        ids.append(flat["window_id"].to_numpy())
        starts.append(flat["window.start"].to_numpy().astype(np.int64))
        sums.append(flat["sum"].to_numpy())
    order = np.lexsort((np.concatenate(starts), np.concatenate(ids)))
    return np.concatenate(sums)[order]


def in_words(times: dict[str, Timing]) -> str:
    """Return the times of one number of windows in a line."""
    return ", ".join(f"{name} {timing.median:.1f} ns" for name, timing in times.items())


def chart(disorder: bool, taken: list[dict[str, Timing]]) -> Chart:
    """Return rows per second over the number of windows."""
    number, kind = (9, "20 % out of order, sessions") if disorder else (8, "in order")
    lines = {name: [1e9 / times[name].median for times in taken] for name in taken[0] if name != OURS}
    title = f"Figure {number}: throughput, sum, {kind}"
    return Chart(f"figure_{number:02}_throughput", title, "concurrent windows", "rows a second", COUNTS, lines)
