"""Exact medians, one thread, 2 M standard normal float64: against pandas, and against the fastest library.

Over 1024 rows at least 3 times as fast as pandas' rolling median; at every range at least as fast as the fastest of
bottleneck, polars and pandas, and over 1024 rows 1.5 times. From range 1024 to 1048576 the time per row grows no faster
than the logarithm of the range, which doubles.

What bounds the growth: each block is sorted once, by NumPy's argsort, and blocks of a million no longer fit a cache:
sorting them takes 3.4 times as long per row as blocks of 1,024 (88 ns and 26, measured together beside other load).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, race, rounds_for, rows_for
from libraries import Contest

import muntin
from muntin import agg

ROWS = 2_000_000
WIDTH, LONGEST = 1024, 1 << 20
TARGETS = {16: 1.0, WIDTH: 1.5, 32768: 1.0}
"""The target speed relative to the fastest library, by range."""


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rows = rows_for(quick, ROWS)
    values = np.random.default_rng(8).standard_normal(rows)
    contest = Contest(values)
    entrants = contest.entrants("median", WIDTH, duck=False)
    check_entrants(entrants, "median", skip=WIDTH)
    entrants = [replace(each, rival=each.name in (OURS, "pandas")) for each in entrants]
    what = f"median, range {WIDTH}, {rows / 1e6:g} M rows, against pandas"
    yield against_fastest("median", what, entrants, target=3.0, rounds=rounds_for(quick, 5))
    for width, target in TARGETS.items():
        entrants = contest.entrants("median", width, duck=False)
        what = f"exact median, range {width}, {rows / 1e6:g} M rows, against the fastest"
        yield against_fastest("median", what, entrants, target=target, rounds=rounds_for(quick, 5))
    yield _growth(values, min(LONGEST, rows // 2), rounds_for(quick, 3))


def _growth(values: np.ndarray, longest: int, rounds: int) -> Figure:
    entrants = [
        Entrant(f"{OURS}, range {width}", lambda w=width: muntin.slide(values, agg.median("v"), range=w), len(values))
        for width in (longest, WIDTH)
    ]
    times = race(entrants, rounds)
    longer, shorter = times.values()
    most = float(np.log2(longest) / np.log2(WIDTH))
    what = f"median, time a row at range {longest} over range {WIDTH}"
    return Figure("median", what, longer.median / shorter.median, most, False, "", times)
