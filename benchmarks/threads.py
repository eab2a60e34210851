"""`slide` with threads=2 over threads=1, 50 M rows: at least 1.6 times as fast."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for

import muntin
from muntin import agg

ROWS = 50_000_000
WIDTH = 1024


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rows = rows_for(quick, ROWS)
    values = np.random.default_rng(7).standard_normal(rows)
    for name in ("max", "std"):
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
        yield against_fastest("threads", what, entrants, target=1.6, rounds=rounds_for(quick))
