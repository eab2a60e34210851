"""The longest calls of windows that grow: `python benchmarks/growth.py [CHECKOUT]`.

Each window grows to 1.25 million rows in calls of 1,024 rows, and past 2^20 rows in calls of one row. The
longest call is shown beside the median one: a window that copies what it holds when it is full shows it there. With the
path of another checkout the same runs there, and the ratios of the longest calls are printed.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("MUNTIN_COMPILE", "wait")  # read when muntin is imported: measure machine code

import numpy as np

from muntin import agg, aggregators

ROWS, BULK, ROUNDS = 1_280_000, 1024, 2
SINGLY = 3 << 18, (1 << 20) + 4000
"""The rows after which single ones are inserted: a ring of 2^20 rows is replaced by a larger one in these calls."""
KINDS: dict[str, Callable[[], Any]] = {
    "Fiba": lambda: aggregators.Fiba(agg.sum("v"), dtype="f8"),
    "Daba": lambda: aggregators.Daba(agg.sum("v"), dtype="f8"),
    "Boundary, 2 threads": lambda: aggregators.Boundary(agg.sum("v"), dtype="f8", threads=2),
    "MonoidTree": lambda: aggregators.MonoidTree(agg.sum("v"), dtype="f8"),
}


def calls(build: Callable[[], Any], singly: bool) -> np.ndarray[Any, Any]:
    """Return the seconds of processor time of each call, in bulks or singly towards the end."""
    window = build()
    values = np.arange(BULK, dtype="f8")
    seconds = []
    now, clock = 0, time.thread_time  # without the time of other processes
    while now < ROWS:
        near = SINGLY[0] <= now < SINGLY[1]
        if singly and near:
            begun = clock()
            window.insert(now, 1.0)
            seconds.append(clock() - begun)
            now += 1
        else:
            times = np.arange(now, now + BULK)
            begun = clock()
            window.bulk_insert(times, values)
            if not singly:
                seconds.append(clock() - begun)
            now += BULK
    return np.array(seconds)


def measure() -> dict[str, tuple[float, float, float]]:
    """Return the median, the longest but one in a thousand, and the longest call, in ms: the least of some rounds."""
    found = {}
    for name, build in KINDS.items():
        calls(build, False)  # compile
        for singly in (False, True):
            rounds = []
            for _ in range(ROUNDS):
                gc.collect()
                gc.disable()
                seconds = calls(build, singly) * 1000
                gc.enable()
                rounds.append((np.median(seconds), np.quantile(seconds, 0.999), seconds.max()))
            what = "1 row" if singly else f"{BULK:,} rows"
            found[f"{name}, calls of {what}"] = tuple(float(x) for x in np.min(rounds, axis=0))
    return found


def measured_there(checkout: Path) -> dict[str, tuple[float, float, float]]:
    """Return what this file measures with the package of another checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run([sys.executable, __file__, "--json"], env=environment, capture_output=True, check=True)
    return {name: tuple(figures) for name, figures in json.loads(done.stdout).items()}


def main() -> None:
    """Print a line for each window."""
    here = measure()
    if "--json" in sys.argv:
        print(json.dumps(here))
        return
    there = measured_there(Path(sys.argv[1])) if len(sys.argv) > 1 else {}
    for name, (median, late, longest) in here.items():
        line = f"{name:40} median {median * 1000:8.1f} us, p99.9 {late:7.3f} ms, longest {longest:7.3f} ms"
        line += f", {longest / median:7.1f} medians"
        if name in there:
            line += f"; longest there {there[name][2]:7.3f} ms, {there[name][2] / longest:5.1f} times as long"
        print(line)


if __name__ == "__main__":
    main()
