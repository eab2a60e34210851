"""The in-order aggregators over TwoStacks, row by row: Daba, FlatFit, SlickDeque, FlatFat."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from driven import bound, entrant, same_answers
from harness import Figure, race, rounds_for, rows_for

from muntin import agg, aggregators

ROWS = 1 << 22
SIZES = (1024, 1 << 20)
TARGETS = {"Daba": 3.0, "FlatFit": 5.0, "SlickDeque": 2.0}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    binding = bound(agg.max("v"))
    flat_fat = {}
    for length in SIZES:
        values = np.random.default_rng(1).random(max(length, rows_for(quick, ROWS)))
        names = ["TwoStacks", *TARGETS, "FlatFat"]
        entrants = [entrant(name, getattr(aggregators, name), binding, values, length) for name in names]
        same_answers(entrants)
        times = race(entrants, rounds_for(quick))
        base = times["TwoStacks"].median
        for name, target in TARGETS.items():
            what = f"{name} over TwoStacks, max, n = {length}"
            shown = {each: times[each] for each in ("TwoStacks", name)}
            yield Figure("structures", what, times[name].median / base, target, False, "x", shown)
        flat_fat[length] = times["FlatFat"].median
        what = f"FlatFat over TwoStacks, max, m = 1, n = {length}"
        shown = {each: times[each] for each in ("TwoStacks", "FlatFat")}
        yield Figure("structures", what, times["FlatFat"].median / base, 40.0, False, "x", shown)
    growth = flat_fat[SIZES[1]] / flat_fat[SIZES[0]]
    yield Figure("structures", "FlatFat, m = 1: n = 1,048,576 over n = 1024", growth, 2.0, False, "x", {})
    for length in SIZES:
        values = np.random.default_rng(2).random(max(length, rows_for(quick, ROWS)))
        entrants = [
            entrant(name, getattr(aggregators, name), binding, values, length, length // 4)
            for name in ("TwoStacks", "FlatFat")
        ]
        same_answers(entrants)
        times = race(entrants, rounds_for(quick))
        value = times["FlatFat"].median / times["TwoStacks"].median
        what = f"FlatFat over TwoStacks, max, m = n / 4, n = {length}"
        yield Figure("structures", what, value, 6.0, False, "x", times)
