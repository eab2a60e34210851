"""Bicycle trips of a city, a window of a day: Fiba with bulk evictions against Fiba with single ones.

Trips are reported when they begin. Some are a few seconds late, those of a disconnected station hours: rows come out of
order, mostly by a few, some by tens of thousands. Now and then the whole feed stops; when it resumes, the youngest rows
come first, and thousands leave the window at once. Without the real files (monthly CSV files of Citi Bike up to 2020,
in their own order; the folder in CITI_BIKE_DIR) the trips are drawn at random with these shapes. The sizes n of the
window, m of the evictions and the distances d are drawn first.
"""

from __future__ import annotations

import csv
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from harness import Entrant, Figure, race, rounds_for, rows_for
from numba import njit

from muntin import agg, aggregators

DAY = 86_400_000
"""Milliseconds, the unit of the times."""
TRIPS = 2_000_000


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figure."""
    folder = os.environ.get("CITI_BIKE_DIR")
    times, values = load(Path(folder)) if folder else generate(rows_for(quick, TRIPS))
    draw_histograms(times, sys.stderr)
    entrants = [
        Entrant(name, _runner(times, values, evict), len(times))
        for name, evict in (("bulk evictions", "evict_until"), ("single evictions", "pop"))
    ]
    answers = [entrant.run() for entrant in entrants]
    if answers[0] != answers[1]:
        raise SystemExit("citi_bike: the two ways to evict give different answers")
    timings = race(entrants, rounds_for(quick, 5))
    bulk, single = timings.values()
    what = f"{'real' if folder else 'generated'} trips, a day's window, {len(times)} rows, over single evictions"
    yield Figure("citi_bike", what, single.median / bulk.median, 1, True, "x", timings)


# ---------------------------------------------------------------- the trips


def generate(trips: int, seed: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Return the start times of trips, and their durations in seconds, in the order of reports."""
    chance = np.random.default_rng(seed)
    per_day = 55_000
    days = np.arange(trips // per_day + 2)
    busy = per_day * (0.75 + 0.5 * chance.random(len(days))) * np.where(days % 7 >= 5, 0.7, 1.0)
    day = np.repeat(days, busy.astype(np.int64))[:trips]
    rush = chance.choice(3, len(day), p=(0.3, 0.35, 0.35))
    hour = np.where(rush == 0, 24 * chance.random(len(day)), chance.normal(np.where(rush == 1, 8.5, 17.8), 1.6))
    began = (day * DAY + (hour % 24) / 24 * DAY).astype(np.int64)
    seconds = chance.lognormal(6.45, 0.65, len(day))
    late = np.where(chance.random(len(day)) < 0.2, chance.exponential(3000, len(day)), 0.0)
    cut_off = chance.choice(len(day), len(day) // 4000, replace=False)
    late[cut_off] = chance.uniform(2, 20, len(cut_off)) * 3_600_000
    reported = began + late.astype(np.int64)
    for stop in chance.choice(int(began.max()), 2 * len(days), replace=False):
        pause = int(chance.exponential(15 * 60_000))
        reported[(reported >= stop) & (reported < stop + pause)] = stop + pause
    order = np.lexsort((-began, reported))  # held-back trips arrive youngest first
    return _frozen(began[order]), _frozen(seconds[order])


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the files `*-citibike-tripdata.csv`, or the same in zip archives, of a folder."""
    began, seconds = [], []
    for file in _open_all(folder):
        for row in csv.DictReader(file):
            names = {name.lower().replace(" ", ""): name for name in row}
            began.append(row[names["starttime"]])
            seconds.append(float(row[names["tripduration"]]))
    if not began:
        raise SystemExit(f"citi_bike: {folder} has no *tripdata.csv or *tripdata.csv.zip")
    times = np.array(began, "M8[ms]").astype(np.int64)
    return _frozen(times - times.min()), _frozen(np.array(seconds))


def _open_all(folder: Path) -> Iterator[TextIO]:
    for path in sorted(folder.glob("*tripdata.csv")):
        with path.open(newline="") as file:
            yield file
    for path in sorted(folder.glob("*tripdata*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".csv") and not name.startswith("__"):
                    with archive.open(name) as raw:
                        yield TextIOWrapper(raw, newline="")


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


# ---------------------------------------------------------------- the run


def _runner(times: np.ndarray, values: np.ndarray, evict: str) -> Callable[[], float]:
    """Return a function that runs all trips through a window, with a query per row, and sums the answers."""
    loops: dict[str, Any] = {}

    def trips() -> float:
        window = aggregators.Fiba(agg.max("v"), dtype="f8", nullable=False)
        window._reserve(200_000, 100_000)
        if not loops:
            loops[evict] = _compile(window._module, evict)
        outputs = window._binding.outputs(1)
        return float(loops[evict](window._window, (values,), times, DAY, outputs))

    return trips


def _compile(module: Any, evict: str) -> Any:
    push, lift, emit, total = module.push, module.lift, module.emit, module.total
    evict_until, pop = module.evict_until, module.pop

    @njit(nogil=True)
    def in_bulk(window, columns, times, width, outputs):
        youngest = times[0]
        answers = 0.0
        for row in range(len(times)):
            youngest = max(youngest, times[row])
            if times[row] > youngest - width:
                push(window, times[row], lift(columns, times, row))
            evict_until(window, youngest - width)
            emit(outputs, 0, total(window))
            answers += outputs[0][0]
        return answers

    @njit(nogil=True)
    def singly(window, columns, times, width, outputs):
        youngest = times[0]
        answers = 0.0
        for row in range(len(times)):
            youngest = max(youngest, times[row])
            if times[row] > youngest - width:
                push(window, times[row], lift(columns, times, row))
            # The oldest time is the first of the left finger's leaf.
            while window.times[window.marks[1] * 8] <= youngest - width:
                pop(window)
            emit(outputs, 0, total(window))
            answers += outputs[0][0]
        return answers

    return in_bulk if evict == "evict_until" else singly


# ---------------------------------------------------------------- histograms


def shapes(times: np.ndarray, step: int = 1) -> dict[str, np.ndarray]:
    """Return the sizes of the window, of the evictions (those that evict something), and the distances."""
    window = aggregators.Fiba(agg.count(), nullable=False)
    sizes, evicted, distances = [], [], []
    youngest = int(times[0])
    for time in times[::step].tolist():
        youngest = max(youngest, time)
        if time > youngest - DAY:
            distances.append(len(window) - window.rank(time))
            window.insert(time)
        before = len(window)
        window.bulk_evict(youngest - DAY)
        sizes.append(len(window))
        if before > len(window):
            evicted.append(before - len(window))
    return {"n": np.array(sizes), "m": np.array(evicted), "d": np.array(distances)}


def draw_histograms(times: np.ndarray, out: TextIO) -> None:
    """Draw the histograms of sizes and distances, both axes logarithmic, for the first 300,000 rows."""
    titles = {"n": "rows in the window", "m": "rows of an eviction", "d": "distance of an insertion"}
    for name, values in shapes(times[:300_000]).items():
        print(f"\n{name}: {titles[name]}", file=out)
        powers = np.ceil(np.log2(np.maximum(values, 1))).astype(np.int64)
        for power, count in enumerate(np.bincount(powers)):
            if count:
                bar = "█" * max(1, round(4 * np.log10(count + 1)))
                print(f"  up to {2**power:>7,} {bar} {count:,}", file=out)
    print(file=out, flush=True)


if __name__ == "__main__":
    draw_histograms(generate(400_000)[0], sys.stdout)
