"""FlatFat against BaseIntervals (the paper's Table 4), and from which window on it beats recalculation (Table 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from driven import bound, entrant, same_answers
from harness import Figure, Timing, race, rounds_for, rows_for

from muntin import agg, aggregators
from muntin.aggregations.aggregation import Aggregation

ROWS = 2_000_000
TABLE_3 = {
    "count": ("never", "i4", agg.count()),
    "sum": ("370", "i4", agg.sum("v")),
    "sum, double": ("290", "f8", agg.sum("v")),
    "max": ("260", "i4", agg.max("v")),
    "max, double": ("130", "f8", agg.max("v")),
    "mean": ("10", "i4", agg.mean("v")),
    "min_count": ("200", "i4", agg.min_count("v")),
    "std": ("10", "i4", agg.std("v")),
    "std_pop": ("10", "i4", agg.std_pop("v")),
    "arg_max": ("130", "i4", agg.arg_max("v", "v")),
    "arg_max, double": ("250", "f8", agg.arg_max("v", "v")),
}
"""For each aggregation of the paper's Table 3 the least window at which the paper's tree pays off, and ours."""


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    yield _against_base_intervals(quick)
    yield _break_even(quick)


def _against_base_intervals(quick: bool) -> Figure:
    binding = bound(agg.max("v"))
    lines, worst = [], float("inf")
    for exponent in range(3, 24, 4 if quick else 2):
        length = 1 << exponent
        values = np.random.default_rng(3).random(max(length, rows_for(quick, ROWS)))
        kinds = {"FlatFat": aggregators.FlatFat, "BaseIntervals": aggregators.BaseIntervals}
        entrants = [entrant(name, kind, binding, values, length) for name, kind in kinds.items()]
        same_answers(entrants)
        times = race(entrants, rounds_for(quick, 5))
        ours, theirs = (times[name].median for name in kinds)
        worst = min(worst, theirs / ours)
        lines.append(f"n = {length:>9}: FlatFat {ours:6.1f} ns, BaseIntervals {theirs:6.1f} ns, {theirs / ours:5.2f} x")
    what = "FlatFat over BaseIntervals, max, m = 1, the least of all n from 8 to 8 M"
    return Figure("flat_fat", what, worst, 1.0, True, "x", times, "\n  ".join(lines))


def _break_even(quick: bool) -> Figure:
    """Find the least window of each aggregation at which a structure is faster than folding the window."""
    rows = ROWS // (20 if quick else 8)
    values = np.random.default_rng(4).integers(0, 1 << 20, rows)
    kinds = ("FlatFat", "TwoStacks", "Daba")
    lines = [f"{'':<16} {'paper, RA':>10}" + "".join(f"{kind:>11}" for kind in kinds)]
    pays = 0
    for name, (paper, dtype, aggregation) in TABLE_3.items():
        lengths = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
        found, times = least_windows(aggregation, dtype, values, lengths, kinds)
        pays += found.get("FlatFat", 513) <= 370
        lines.append(f"{name:<16} {paper:>10}" + "".join(f"{found.get(kind, 'never')!s:>11}" for kind in kinds))
    what = "aggregations for which FlatFat beats Recalculate at a window of 370 rows or fewer"
    return Figure("flat_fat", what, float(pays), 11.0, True, "", times, "\n  ".join(lines))


def least_windows(
    aggregation: Aggregation, dtype: str, values: Any, lengths: Sequence[int], kinds: Sequence[str], factor: float = 1.0
) -> tuple[dict[str, int], dict[str, Timing]]:
    """Return the least window at which each structure is `factor` times as fast as folding, and the last times."""
    binding, found = bound(aggregation, dtype), {}
    times: dict[str, Timing] = {}
    for length in lengths:
        names = [kind for kind in kinds if kind not in found]
        if not names:
            break
        column = values.astype(dtype)
        entrants = [
            entrant(kind, getattr(aggregators, kind), binding, column, length) for kind in ("Recalculate", *names)
        ]
        same_answers(entrants)
        times = race(entrants, 3)
        base = times["Recalculate"].median
        found |= {kind: length for kind in names if factor * times[kind].median < base}
    return found, times
