"""Five aggregations fused, over the sum of the five alone: at most 0.6 of the time. Two sets, cheap and with std."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from harness import OURS, Entrant, Figure, check_equal, race, rounds_for, rows_for

import muntin
from muntin import agg

ROWS = 10_000_000
FUSED = f"{OURS}, fused"


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rows = rows_for(quick, ROWS)
    values = np.random.default_rng(6).standard_normal(rows)
    four = {"count": agg.count(), "mean": agg.mean("v"), "min": agg.min("v"), "max": agg.max("v")}
    for five, width in product(({**four, "sum": agg.sum("v")}, {**four, "std": agg.std("v")}), (16, 1024)):
        together = muntin.slide({"v": values}, five, range=width)
        for name, each in five.items():
            check_equal(muntin.slide(values, each, range=width), together[name], f"fused: {name}")
        del together
        entrants = [Entrant(FUSED, lambda a=five, w=width: muntin.slide({"v": values}, a, range=w), rows)] + [
            Entrant(f"{name} alone", lambda a=each, w=width: muntin.slide(values, a, range=w), rows)
            for name, each in five.items()
        ]
        times = race(entrants, rounds_for(quick, 5))
        alone = sum(timing.median for name, timing in times.items() if name != FUSED)
        what = f"{', '.join(five)}, range {width}, over the five alone ({alone:.1f} ns)"
        yield Figure("fused", what, times[FUSED].median / alone, 0.6, False, "", times)
