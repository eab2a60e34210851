"""Sliding windows over an array: ten days of a sensor, ten million readings at irregular times.

    python examples/arrays.py [ROWS]

Each line of the table is one call of `muntin.slide`. It runs on a part of the rows first, so that its kernel is
compiled (or read from the cache on disk), and then three times on all of them; the table shows the fastest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import muntin
from muntin import agg

ROWS = 10_000_000
DAYS = 10
WARM = 250_000
"""More rows than the longest window of the examples, so that a first run reaches every kernel."""


# An aggregation of our own: how far the sensor has travelled, up and down, within the window. Neighbouring windows
# join by the step between the last reading of one and the first of the next.
@agg.define(state={"first": "f8", "last": "f8", "path": "f8"})
class travel:
    """The sum of the absolute steps from each reading to the next."""

    def lift(v):
        return (v, v, 0.0)

    def combine(a, b):
        return (a.first, b.last, a.path + abs(b.first - a.last) + b.path)

    def lower(s):
        return s.path


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    title: str
    answer: str
    prepared: float
    seconds: float
    rows: int

    def __str__(self) -> str:
        """Show the line."""
        rate = self.rows / self.seconds / 1e6
        return f"{self.title:<44} {self.answer:<46} {self.prepared:>7.2f} s {self.seconds:>7.3f} s {rate:>9.1f} M"


def sensor(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times (irregular, sorted) and temperatures: a daily wave, slow drift, noise, and rare spikes."""
    random = np.random.default_rng(7)
    span = DAYS * 86_400_000_000
    gaps = random.exponential(1.0, rows)
    offsets = (np.cumsum(gaps) * (span / gaps.sum())).astype(np.int64)
    times = np.datetime64("2024-03-01", "us") + offsets.astype("m8[us]")
    day = offsets / 86_400_000_000
    celsius = 18.0 + 6.0 * np.sin(2 * np.pi * day) + 0.2 * day + random.normal(0.0, 0.4, rows)
    celsius[random.integers(0, rows, rows // 100_000 + 1)] += 25.0
    return times, celsius


def fastest(call: Callable[[], Any], runs: int = 3) -> tuple[Any, float]:
    """Return the result of a call, and the time of the fastest of some runs.

    Each result is dropped before the next run, as a loop over batches would: its memory is then used again.
    """
    best, result = float("inf"), None
    for _ in range(runs):
        del result
        begun = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - begun)
    return result, best


def measure(title: str, rows: int, call: Callable[[slice], Any], show: Callable[[Any], str]) -> Measured:
    """Run a call on a part of the rows, then on all, and print its line."""
    begun = time.perf_counter()
    call(slice(0, min(rows, WARM)))
    prepared = time.perf_counter() - begun
    result, seconds = fastest(lambda: call(slice(0, rows)))
    line = Measured(title, show(result), prepared, seconds, rows)
    print(line, flush=True)
    return line


def compare_with_pandas(times: np.ndarray, celsius: np.ndarray, ours: np.ndarray, seconds: float) -> None:
    """Run the first line with pandas too, where it is installed, and compare answers and times."""
    try:
        import pandas
    except ImportError:
        print("pandas is not installed; no comparison")
        return
    print("pandas: the same maximum over an hour ...", flush=True)
    series = pandas.Series(celsius, index=times)
    theirs, took = fastest(lambda: series.rolling("1h").max().to_numpy())
    same = "equal in every row" if np.array_equal(ours, theirs) else "DIFFERENT"
    print(f"pandas: {took:.2f} s, muntin {seconds:.2f} s: ratio {took / seconds:.1f}, results {same}")


def main(rows: int = ROWS) -> None:
    """Make the data, run the calls, print the table."""
    print(f"muntin {muntin.__version__}, array engine")
    print(f"Making {rows:,} readings over {DAYS} days at irregular times ...", flush=True)
    times, celsius = sensor(rows)
    hour = agg.max("celsius")
    spread = {
        "mean": agg.mean("celsius"),
        "std": agg.std("celsius"),
        "low": agg.min("celsius"),
        "high": agg.max("celsius"),
    }
    print("Compiled kernels are kept in", muntin.cache_info().folder)
    print(f"\nfirst: compiling or loading, on {WARM:,} rows. then: all rows, the fastest of three runs.\n")
    head = f"{'what':<44} {'the last window':<46} {'first':>9} {'then':>9} {'rows a second':>13}"
    print(head + "\n" + "-" * len(head))

    kept: dict[str, np.ndarray] = {}

    def keep_max(s: slice) -> np.ndarray:
        kept["max"] = muntin.slide(celsius[s], hour, range="1 hour", times=times[s])
        return kept["max"]

    def number(result: np.ndarray) -> str:
        return f"{result[-1]:.3f}"

    def fused(result: dict[str, np.ndarray]) -> str:
        return "  ".join(f"{name} {values[-1]:.2f}" for name, values in result.items())

    lines = [
        measure("max, the last hour, for each row", rows, keep_max, number),
        measure(
            "max, the last hour, two threads",
            rows,
            lambda s: muntin.slide(celsius[s], hour, range="1 hour", times=times[s], threads=2),
            number,
        ),
        measure(
            "max, 24 hours every 10 minutes",
            rows,
            lambda s: muntin.slide(celsius[s], hour, range="24 hours", slide="10 minutes", times=times[s]),
            lambda result: f"{len(result):,} windows, greatest {result.max():.3f}",
        ),
        measure(
            "mean, std, min, max fused, 1,024 rows",
            rows,
            lambda s: muntin.slide(celsius[s], spread, range=1024),
            fused,
        ),
        measure(
            "exact median, 1,024 rows",
            rows,
            lambda s: muntin.slide(celsius[s], agg.median("v"), range=1024),
            number,
        ),
        measure(
            "our own `travel`, 100,000 rows",
            rows,
            lambda s: muntin.slide(celsius[s], travel("v"), range=100_000),
            number,
        ),
        measure(
            "our own `travel`, 100,000 rows, two threads",
            rows,
            lambda s: muntin.slide(celsius[s], travel("v"), range=100_000, threads=2),
            number,
        ),
    ]
    print()
    compare_with_pandas(times, celsius, kept["max"], lines[0].seconds)
    print(
        f"\n{len(lines)} calls over {rows:,} rows each: {sum(line.seconds for line in lines):.2f} s, "
        f"after {sum(line.prepared for line in lines):.2f} s of compiling or loading kernels."
    )


if __name__ == "__main__":
    main(int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else ROWS)
