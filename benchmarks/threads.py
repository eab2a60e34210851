"""Two threads over one, 1.7 times as fast at least where memory allows it.

`slide` over 50 M rows: a max reads and writes 24 bytes per row in about a nanosecond, the memory bandwidth of one core,
so two can gain at most 1.5. `Query.run` over 10 M rows in time order: with 1,000 keys, where each thread has its own
keys, and with one key, which is cut.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, is_processor_time, rounds_for, rows_for

import muntin
from muntin import Query, agg, window

ROWS = 50_000_000
RUN_ROWS = 10_000_000
KEYS = 1000
WIDTH = 1024
DAY = 86_400 * 10**6
TARGETS = {"max": 1.5, "std": 1.6}
WINDOWS = {
    "24 hours every 10 minutes": window.sliding("24 hours", every="10 minutes"),
    "trailing 1 hour": window.trailing("1 hour"),
}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: by the clock, since the CPU time of the calling thread excludes the others."""
    if is_processor_time():
        print("threads: not measured by processor time; run it on a machine with two free cores", file=sys.stderr)
        return
    yield from _slides(quick)
    yield from _runs(quick)


def _slides(quick: bool) -> Iterator[Figure]:
    rows = rows_for(quick, ROWS)
    values = np.random.default_rng(7).standard_normal(rows)
    for name, target in TARGETS.items():
        aggregation = getattr(agg, name)("v")
        entrants = [
            Entrant(
                f"{OURS}, threads={threads}",
                lambda a=aggregation, t=threads: muntin.slide(values, a, range=WIDTH, threads=t),
                rows,
            )
            for threads in (2, 1)
        ]
        what = f"{name}, range {WIDTH}, {rows / 1e6:g} M rows, threads=2 over threads=1"
        check_entrants(entrants, what)
        yield against_fastest("threads", what, entrants, target=target, rounds=rounds_for(quick))


def _runs(quick: bool) -> Iterator[Figure]:
    rows = rows_for(quick, RUN_ROWS)
    random = np.random.default_rng(8)
    table = pa.table(
        {
            "ts": pa.array(np.sort(random.integers(0, 7 * DAY, rows))).cast(pa.timestamp("us")),
            "plug": pa.array([f"plug {i}" for i in range(KEYS)]).take(pa.array(random.integers(0, KEYS, rows))),
            "watts": random.standard_normal(rows),
        }
    )
    aggregates = {"peak": agg.max("watts"), "usual": agg.mean("watts")}
    for keys, key in ((f"{KEYS:,} keys", ("plug",)), ("one key", ())):
        for words, each in WINDOWS.items():
            query = Query(each, aggregates, key=key)
            entrants = [
                Entrant(f"{OURS}, threads={threads}", lambda q=query, t=threads: q.run(table, threads=t), rows)
                for threads in (2, 1)
            ]
            two, one = (entrant.run() for entrant in entrants)
            if not two.drop(["usual"]).equals(one.drop(["usual"])):
                raise SystemExit(f"{words}, {keys}: two threads have another answer than one")
            what = f"run, {words}, {keys}, {rows / 1e6:g} M rows, threads=2 over threads=1"
            yield against_fastest("threads", what, entrants, target=1.7, rounds=rounds_for(quick))
