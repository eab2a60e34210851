"""Frames of raw rows at every zoom: M4 by an aggregator over slices, beside the same of all rows by NumPy.

python benchmarks/watch.py [--rows 100000000] [--width 1600]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from muntin.kernels.tiers import waiting
from muntin.watching.m4 import pixel_edges
from muntin.watching.runs import SLICE
from muntin.watching.series import Series

BATCH = 1 << 22
ZOOMS = (1.0, 0.3, 0.03, 0.003, 1e-4, 1e-6)
FRAMES = 9


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=100_000_000)
    options.add_argument("--width", type=int, default=1600)
    asked = options.parse_args()
    with waiting():
        load(SLICE * 100)[0].frame(0, 1 << 40, asked.width)  # compile before anything is measured
        series, times, values, seconds = load(asked.rows)
        print(f"{asked.rows:,} rows taken in {seconds:.1f} s, {asked.rows / seconds / 1e6:.1f} M rows a second")
        print(f"{'zoom':>9} {'rows in view':>14} {'a frame':>10} {'worst':>10} {'all rows':>11} {'ratio':>8}")
        for zoom in ZOOMS:
            measure(series, times, values, zoom, asked.width)


def load(rows: int) -> tuple[Series, np.ndarray, np.ndarray, float]:
    """Load rows in batches, one in a thousand late; also return them sorted."""
    random = np.random.default_rng(1)
    times = np.cumsum(random.integers(1, 2_000, rows, np.int64))
    values = random.normal(size=rows).cumsum()
    series, seconds = Series(), 0.0
    for begin in range(0, rows, BATCH):
        part = slice(begin, begin + BATCH)
        late = random.random(len(times[part])) < 0.001
        begun = time.perf_counter()
        series.add(times[part][~late], values[part][~late])
        series.add(times[part][late], values[part][late])
        series.rows(0, 0)  # sorts the new rows
        seconds += time.perf_counter() - begun
    return series, times, values, seconds


def measure(series: Series, times: np.ndarray, values: np.ndarray, zoom: float, width: int) -> None:
    """Pan through one zoom level in both ways, alternating at the same places; reject two that disagree."""
    begin, end = int(times[0]), int(times[-1])
    length = max(width, int((end - begin) * zoom))
    ours, plain = [], []
    for i in range(FRAMES):
        lo = begin + (end - begin - length) * i // FRAMES
        frame = series.frame(lo, lo + length, width)
        shown = (frame.columns, frame.first_time, frame.first, frame.last_time, frame.last, frame.low, frame.high)
        for mine, theirs in zip(shown, all_rows(times, values, lo, lo + length, width), strict=True):
            if not np.array_equal(mine, theirs):
                raise SystemExit(f"watch: two frames from {lo} on differ at zoom {zoom}")
        both = [
            (ours, lambda lo=lo: series.frame(lo, lo + length, width)),
            (plain, lambda lo=lo: all_rows(times, values, lo, lo + length, width)),
        ]
        for taken, call in both if i % 2 else reversed(both):
            taken.append(timed(call))
    view = int(np.diff(np.searchsorted(times, [begin, begin + length]))[0])
    mine, theirs = statistics.median(ours), statistics.median(plain)
    line = f"{zoom:>9.0e} {view:>14,} {mine * 1e3:>7.2f} ms {max(ours) * 1e3:>7.2f} ms {theirs * 1e3:>8.2f} ms"
    print(f"{line} {theirs / mine:>7.1f}x")


def all_rows(times: np.ndarray, values: np.ndarray, lo: int, hi: int, width: int) -> tuple[np.ndarray, ...]:
    """Return the same as a frame, for each pixel column with rows, from all rows of the range."""
    places = np.searchsorted(times, pixel_edges(lo, hi, width))
    columns = np.flatnonzero(places[:-1] < places[1:])
    begins, lasts = places[columns], places[columns + 1] - 1
    if not len(columns):
        return columns, times[:0], values[:0], times[:0], values[:0], values[:0], values[:0]
    part = values[: places[-1]]
    low, high = np.minimum.reduceat(part, begins), np.maximum.reduceat(part, begins)
    return columns, times[begins], values[begins], times[lasts], values[lasts], low, high


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
