"""`slide` max and min by rows, slide 1, one thread, against the fastest of bottleneck, polars, pandas and numbagg.

10 M standard normal float64; ranges 16, 1024, 32768 and 1048576; at least 5 times as fast at every range. numbagg has
no moving max or min. DuckDB is shown on 2 M rows (slow, and never the fastest). Also: the time per row at range 1048576
is at most 1.5 times that at range 16.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, race, rounds_for, rows_for
from libraries import Contest

import muntin
from muntin import agg

RANGES = (16, 1024, 32768, 1048576)
ROWS = 10_000_000


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    values = np.random.default_rng(1).standard_normal(rows_for(quick, ROWS))
    contest = Contest(values)
    ranges = [width for width in RANGES if width < len(values)]
    for name in ("max", "min"):
        for width in ranges:
            what = f"{name}, range {width}, {len(values) / 1e6:g} M rows"
            entrants = contest.entrants(name, width)
            check_entrants(entrants, what)
            yield against_fastest("slide_extremes", what, entrants, target=5.0, rounds=rounds_for(quick, 5))
    yield _flatness(values, ranges[-1], rounds_for(quick, 11))


def _flatness(values: np.ndarray, longest: int, rounds: int) -> Figure:
    entrants = [
        Entrant(
            f"{OURS}, range {width}", lambda width=width: muntin.slide(values, agg.max("v"), range=width), len(values)
        )
        for width in (longest, RANGES[0])
    ]
    times = race(entrants, rounds)
    longer, shorter = times.values()
    what = f"max, time a row at range {longest} over range {RANGES[0]}"
    return Figure("slide_extremes", what, longer.median / shorter.median, 1.5, False, "", times)
