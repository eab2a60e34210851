"""Exact median over 1024 rows against pandas' rolling median: at least 3 times as fast.

2 M standard normal float64, one thread. bottleneck and polars are shown too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from harness import OURS, Figure, against_fastest, check_entrants, rounds_for, rows_for
from libraries import Contest

ROWS = 2_000_000
WIDTH = 1024


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figure."""
    rows = rows_for(quick, ROWS)
    contest = Contest(np.random.default_rng(8).standard_normal(rows))
    entrants = contest.entrants("median", WIDTH, duck=False)
    check_entrants(entrants, "median", skip=WIDTH)
    entrants = [replace(each, rival=each.name in (OURS, "pandas")) for each in entrants]
    what = f"median, range {WIDTH}, {rows / 1e6:g} M rows, against pandas"
    yield against_fastest("median", what, entrants, target=3.0, rounds=rounds_for(quick, 5))
