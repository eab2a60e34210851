"""Frames of raw rows at every zoom: M4 by an aggregator over slices, beside all rows of the range through NumPy.

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
        load(SLICE * 100)[0].frame(0, 1 << 40, asked.width)  # compiled before anything is measured
        series, times, values, seconds = load(asked.rows)
        print(f"{asked.rows:,} rows taken in {seconds:.1f} s, {asked.rows / seconds / 1e6:.1f} M rows a second")
        print(f"{'zoom':>9} {'rows in view':>14} {'a frame':>10} {'worst':>10} {'all rows':>11} {'ratio':>8}")
        for zoom in ZOOMS:
            measure(series, times, values, zoom, asked.width)


def load(rows: int) -> tuple[Series, np.ndarray, np.ndarray, float]:
    """Take rows in batches, one in a thousand late; return them sorted, too."""
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
        _ = series.span
        seconds += time.perf_counter() - begun
    return series, times, values, seconds


def measure(series: Series, times: np.ndarray, values: np.ndarray, zoom: float, width: int) -> None:
    """Pan through one zoom level, by both ways."""
    begin, end = int(times[0]), int(times[-1])
    length = max(width, int((end - begin) * zoom))
    places = [begin + (end - begin - length) * i // FRAMES for i in range(FRAMES)]
    ours = [timed(lambda lo=lo: series.frame(lo, lo + length, width)) for lo in places]
    plain = [timed(lambda lo=lo: all_rows(times, values, lo, lo + length, width)) for lo in places[:3]]
    view = int(np.diff(np.searchsorted(times, [places[0], places[0] + length]))[0])
    mine, theirs = statistics.median(ours), statistics.median(plain)
    line = f"{zoom:>9.0e} {view:>14,} {mine * 1e3:>7.2f} ms {max(ours) * 1e3:>7.2f} ms {theirs * 1e3:>8.2f} ms"
    print(f"{line} {theirs / mine:>7.1f}x")


def all_rows(times: np.ndarray, values: np.ndarray, lo: int, hi: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest of each column of pixels, from all rows of the range."""
    places = np.searchsorted(times, pixel_edges(lo, hi, width))
    begins = places[:-1][places[:-1] < places[1:]]
    part = values[: places[-1]]
    return np.minimum.reduceat(part, begins), np.maximum.reduceat(part, begins)


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
