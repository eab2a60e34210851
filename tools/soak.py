"""Run simulated pipelines for some minutes, or so many: `make soak MINUTES=10`, `make soak RUNS=10000`.

A failure names the one that shows it again.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]
sys.path.append(str(ROOT / "benchmarks"))
_REPORT = 10.0
"""Seconds between two lines of progress."""


def main() -> int:
    """Return 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, help="10, unless --runs says how many")
    parser.add_argument("--runs", type=int, help="how many pipelines, however long they take")
    parser.add_argument(
        "--seed", type=int, default=time.time_ns() % 10**9, help="the first pipeline; the next is one more"
    )
    words = parser.parse_args()
    minutes = words.minutes or (10.0 if words.runs is None else math.inf)
    most = math.inf if words.runs is None else words.runs
    print(f"pipelines from {words.seed} on, at most {most}, for {minutes:g} minutes", flush=True)
    return _soak(words.seed, most, time.monotonic() + 60 * minutes)


def _soak(seed: int, most: float, end: float) -> int:
    import rivals
    from simulation.pipeline import Pipeline

    from muntin.kernels.cache import uncompiled

    rivals.register()
    first, faults, reported = seed, Counter[str](), time.monotonic()
    while seed - first < most and time.monotonic() < end:
        pipeline = Pipeline(seed)
        try:
            with uncompiled():
                pipeline.run()
        except Exception:  # whatever it is, it is shown
            traceback.print_exc()
            print(f"pipeline {seed} failed; again: make soak SEED={seed}", file=sys.stderr)
            return 1
        seed, faults = seed + 1, faults + pipeline.faults
        if time.monotonic() - reported > _REPORT:
            reported = time.monotonic()
            print(f"{seed - first:,} pipelines, {faults.total() - faults['none']:,} faults", flush=True)
    print(f"{seed - first:,} pipelines, {faults.total() - faults['none']:,} faults, every answer right: {dict(faults)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
