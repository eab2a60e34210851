"""Median and 0.9 quantile from sorted runs by slice, against a buffer of the rows: at least 10 times as fast.

100,000 rows per second of event time in pushes of 100,000, one slice per second. The buffer keeps the rows of the
longest window contiguously, and gets both quantiles of each window by one np.partition. Football-like values are 84,232
distinct ones, machine-like values 37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from charts import Chart
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for

from muntin import agg
from muntin.columns import Column
from muntin.streams.sorted_runs.runs import Runs
from muntin.types import INT64, Array

ROWS = 100_000
SECONDS = 70
VALUES = {"football-like": 84_232, "machine-like": 37}


def tumbling(second: int) -> list[int]:
    """Return the lengths of the windows that end with this second, of 20 windows of 1 to 20 seconds."""
    return [length for length in range(1, 21) if (second + 1) % length == 0]


def sliding(second: int) -> list[int]:
    """Return the length of the one window that ends with this second."""
    return [min(60, second + 1)]


def by_runs(pushes: list[Array], due: Callable[[int], list[int]], longest: int) -> Array:
    """Answer all windows from runs by slice."""
    runs = Runs({"median": agg.median("v"), "q": agg.quantile("v", 0.9)}, {"v": INT64})
    answers = []
    for second, push in enumerate(pushes):
        runs.add(np.full(len(push), second % longest), {"v": Column(push, None, INT64)})
        held = min(longest, second + 1)
        first = held - np.array(due(second))
        slots = np.arange(second + 1 - held, second + 1) % longest
        median, q = runs.answer(first, np.full(len(first), held), slots)
        answers += [median[0], q[0]]
        if held == longest:
            runs.free(slots[:1])
    return np.concatenate(answers)


def by_rows(pushes: list[Array], due: Callable[[int], list[int]], longest: int) -> Array:
    """Answer each window from its rows."""
    size = len(pushes[0])
    buffer = np.empty(2 * longest * size, np.int64)
    end = 0
    answers: list[float] = []
    for second, push in enumerate(pushes):
        if end == len(buffer):
            end = (longest - 1) * size
            buffer[:end] = buffer[-end:]
        buffer[end : end + size] = push
        end += size
        both = [of_rows(buffer[end - length * size : end]) for length in due(second)]
        answers += [median for median, _ in both] + [q for _, q in both]
    return np.array(answers)


def of_rows(rows: Array) -> tuple[float, float]:
    """Return the median and the 0.9 quantile of some rows."""
    middle, at = len(rows) // 2, 0.9 * (len(rows) - 1)
    low = int(at)
    high = min(low + 1, len(rows) - 1)
    parted = np.partition(rows, sorted({max(0, middle - 1), middle, low, high}))
    below, above = float(parted[low]), float(parted[high])
    odd = len(rows) % 2 == 1
    median = float(parted[middle]) if odd else (float(parted[middle - 1]) + float(parted[middle])) / 2
    return median, below + (above - below) * (at - low)


def run(quick: bool) -> Iterator[Figure]:
    """Yield one figure per kind of window and of values."""
    rng = np.random.default_rng(14)
    lines: dict[str, list[float | None]] = {}
    rows = rows_for(quick, ROWS)
    for kind, distinct in VALUES.items():
        pushes = [rng.integers(0, distinct, rows) for _ in range(SECONDS)]
        for windows, due, longest in (("20 tumbling", tumbling, 20), ("sliding 60 s every 1 s", sliding, 60)):
            entrants = [
                Entrant(OURS, lambda p=pushes, d=due, n=longest: by_runs(p, d, n), rows * SECONDS),
                Entrant("tuple buffer", lambda p=pushes, d=due, n=longest: by_rows(p, d, n), rows * SECONDS),
            ]
            what = f"median and 0.9 quantile, {windows}, {kind} ({distinct} distinct)"
            check_entrants(entrants, what)
            figure = against_fastest("holistic", what, entrants, target=10.0, rounds=rounds_for(quick, 5))
            for entrant, timing in figure.times.items():
                lines.setdefault(f"{entrant}, {windows}", []).append(1e9 / timing.median)
            last = distinct == min(VALUES.values()) and longest == 60
            yield replace(figure, chart=chart(lines)) if last else figure


def chart(lines: dict[str, list[float | None]]) -> Chart:
    """Return rows per second over the number of distinct values."""
    title = "Figure 14: median and 0.9 quantile"
    return Chart("figure_14_holistic", title, "distinct values", "rows a second", tuple(VALUES.values()), lines)
