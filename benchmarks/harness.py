"""Times competitors side by side: one process, one thread each, interleaved rounds, ratios rather than times.

A machine's speed drifts from second to second. So each round runs every competitor once (A B C, B C A, ...), the first
call of each (compilation, caches) is not counted, and medians over the rounds are compared. The best round is shown
beside it. Nothing asserts a time: a missed target is printed as missed.

The order rotates from round to round, and a slow entrant that is only shown runs apart, after the others: on a virtual
machine that returns freed memory to its host, whoever runs after seconds of idle memory pays up to 20 ns per row for
the pages of its output, whatever library it is.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from charts import Chart

RESULTS = Path(__file__).with_name("results.json")
"""The figures behind the tables, and what each experiment ran on."""
PACKAGES = ("numpy", "numba", "bottleneck", "polars", "pandas", "numbagg", "duckdb", "pyarrow", "pyspark")
OURS = "muntin"

# One thread for all libraries. They read it when first imported: after this module.
for _name in ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@dataclass(frozen=True)
class Entrant:
    """One competitor of a race: a name, a call without arguments, and its number of rows."""

    name: str
    run: Callable[[], Any]
    rows: int
    note: str = ""
    rival: bool = True
    """False for one that is shown, but not compared with the target."""
    apart: bool = False
    """True for a slow one, which would leave the others' memory idle between their turns."""


@dataclass(frozen=True)
class Timing:
    """The time of one entrant, in nanoseconds per row (for `cold_start`: nanoseconds)."""

    median: float
    best: float
    note: str = ""
    rival: bool = True


@dataclass(frozen=True)
class Figure:
    """One line of the results: a measured value, its target, and the times behind it."""

    experiment: str
    what: str
    value: float | None
    """None if there was nothing to compare with."""
    target: float
    at_least: bool
    unit: str
    times: Mapping[str, Timing]
    note: str = ""
    chart: Chart | None = None
    """The chart on the page of measurements."""
    by_processor: bool = False
    """Whether times are CPU time of one thread, because others used the machine."""

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached; None if there is no value."""
        if self.value is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """Return the value, the target and whether it was reached, in one line."""
        if self.value is None:
            return f"no rival (target {self._bound})"
        return f"{self.value:.2f}{self.unit} (target {self._bound}): {'reached' if self.reached else 'MISSED'}"

    @property
    def _bound(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.target:g}{self.unit}"


_clock = [time.perf_counter_ns]


def now() -> int:
    """Return nanoseconds; only differences count."""
    return _clock[0]()


def count_processor_time() -> None:
    """Measure the CPU time of this thread, for a machine that others use too."""
    _clock[0] = time.thread_time_ns


def is_processor_time() -> bool:
    """Return whether CPU time is measured."""
    return _clock[0] is time.thread_time_ns


def race(entrants: Sequence[Entrant], rounds: int) -> dict[str, Timing]:
    """Run every entrant once per round, after an uncounted round; those apart have two rounds of their own."""
    taken: dict[str, list[float]] = {each.name: [] for each in entrants}
    for group, times in (
        ([each for each in entrants if not each.apart], rounds),
        ([each for each in entrants if each.apart], 2),
    ):
        for each in group:
            each.run()
        gc.collect()
        for turn in range(times):
            first = turn % len(group) if group else 0
            for each in group[first:] + group[:first]:
                begun = now()
                result = each.run()
                taken[each.name].append((now() - begun) / each.rows)
                del result  # freed outside the timed part
    return {e.name: Timing(statistics.median(taken[e.name]), min(taken[e.name]), e.note, e.rival) for e in entrants}


def against_fastest(
    experiment: str, what: str, entrants: Sequence[Entrant], *, target: float, rounds: int, note: str = ""
) -> Figure:
    """Race, and compare the first entrant (ours) with the fastest of its rivals."""
    times = race(entrants, rounds)
    ours, *others = times.values()
    rivals = [timing.median for timing in others if timing.rival]
    value = min(rivals) / ours.median if rivals else None
    return Figure(experiment, what, value, target, True, "x", times, note)


def rounds_for(quick: bool, full: int = 7) -> int:
    """Return the number of rounds."""
    return 3 if quick else full


def rows_for(quick: bool, full: int) -> int:
    """Return the number of rows."""
    return full // 10 if quick else full


def check_equal(expected: Any, got: Any, what: str, *, skip: int = 0, rtol: float = 1e-6) -> None:
    """Reject two that disagree. `skip` rows at the start may differ: libraries treat short windows differently.

    The shorter of the two is compared with the start of the other.
    """
    rows = min(len(expected), len(got))
    left, right = (np.asarray(each, dtype=np.float64)[skip:rows] for each in (expected, got))
    finite = np.isfinite(left)
    if not np.array_equal(finite, np.isfinite(right)):
        raise SystemExit(f"{what}: not finite in the same rows")
    if not np.allclose(left[finite], right[finite], rtol=rtol, atol=rtol):
        worst = int(np.argmax(np.abs(np.where(finite, left - right, 0.0))))
        raise SystemExit(f"{what}: row {skip + worst} is {right[worst]!r} where {left[worst]!r} was expected")


def check_entrants(entrants: Sequence[Entrant], what: str, *, skip: int = 0, rtol: float = 1e-6) -> None:
    """Compare every entrant's result with the first one's."""
    first, *others = entrants
    expected = first.run()
    for each in others:
        check_equal(expected, each.run(), f"{what}: {each.name}", skip=skip, rtol=rtol)


# ---------------------------------------------------------------- showing


def show(figure: Figure, out: TextIO = sys.stdout) -> None:
    """Print one figure: the verdict, then each time with its ratio to the first."""
    print(f"{figure.experiment}: {figure.what}\n  {figure.verdict}", file=out)
    if figure.note:
        print(f"  {figure.note}", file=out)
    base = next(iter(figure.times.values())).median if figure.times else 1.0
    for name, timing in figure.times.items():
        remarks = ", ".join(filter(None, (timing.note, "" if timing.rival else "not counted as a rival")))
        line = f"    {name:<24} {duration(timing.median):>12}  best {duration(timing.best):>12}"
        print(f"{line}  {timing.median / base:6.2f} x  {remarks}".rstrip(), file=out)
    print(file=out, flush=True)


def show_summary(figures: Sequence[Figure], out: TextIO = sys.stdout) -> None:
    """Print one line per figure."""
    width = max((len(f"{f.experiment}: {f.what}") for f in figures), default=0)
    for figure in figures:
        print(f"{f'{figure.experiment}: {figure.what}':<{width}}  {figure.verdict}", file=out)


def duration(nanoseconds: float) -> str:
    """Return a time as readable text."""
    return f"{nanoseconds / 1e9:.3f} s" if nanoseconds >= 1e6 else f"{nanoseconds:.2f} ns"


def environment() -> dict[str, str]:
    """Return what the times depend on: processor, Python, the versions of the libraries."""
    installed = {each.name.lower() for each in importlib.metadata.distributions()}
    versions = {name: importlib.metadata.version(name) for name in PACKAGES if name in installed}
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **versions,
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown",
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def as_json(figures: Iterable[Figure]) -> dict[str, Any]:
    """Return the results as plain data."""
    return {
        "environment": environment(),
        "figures": [{**asdict(figure), "reached": figure.reached} for figure in figures],
    }


def remember(figures: Sequence[Figure], path: Path = RESULTS) -> None:
    """Replace earlier figures of the same experiments."""
    known = json.loads(path.read_text()) if path.exists() else {}
    for name in dict.fromkeys(figure.experiment for figure in figures):
        found = [
            {**asdict(figure), "by_processor": is_processor_time()} for figure in figures if figure.experiment == name
        ]
        known[name] = {"environment": environment(), "figures": found}
    path.write_text(json.dumps(known, indent=1) + "\n")


def remembered(experiments: Iterable[str], path: Path = RESULTS) -> tuple[list[Figure], dict[str, str]]:
    """Return the figures of all experiments, in this order, and their environment: versions are those of the last."""
    known = json.loads(path.read_text())
    chosen = [known[name] for name in experiments if name in known]
    figures = [_figure(each) for group in chosen for each in group["figures"]]
    days = sorted({group["environment"]["date"] for group in chosen})
    facts = {name: fact for group in chosen for name, fact in group["environment"].items()}
    return figures, {**facts, "date": days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"}


def _figure(saved: Mapping[str, Any]) -> Figure:
    chart = None if saved["chart"] is None else Chart(**saved["chart"])
    return Figure(**{**saved, "times": {name: Timing(**each) for name, each in saved["times"].items()}, "chart": chart})
