"""Experiments of the papers that no other benchmark has: batches of changes, slides, disorder, and aggregations.

Each is compared with its own first case, to show how the time grows: the papers' machines differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import fiba
import numpy as np
import sensor
from driven import bound, entrant, same_answers
from flat_fat import least_windows
from harness import Entrant, Figure, Timing, check_entrants, race, rounds_for, rows_for
from sensor import RATE, SECOND

import muntin
from muntin import Query, agg, aggregators, rows, window

WINDOWS = 20
SHARES = (0.0, 0.2, 0.6, 1.0)
DELAYS = (0.5, 2.0, 8.0)
SLIDES = (1, 2, 5, 10)
ROWS = (64, 1024, 4096)
BULKS = (256, 4096, 65536)
KEPT = (5_000, 50_000, 500_000)
TEN_TIMES = {
    "sum": ("5200", "i4", agg.sum("v")),
    "sum, double": ("5200", "f8", agg.sum("v")),
    "max": ("5200", "i4", agg.max("v")),
    "max, double": ("3600", "f8", agg.max("v")),
    "mean": ("900", "i4", agg.mean("v")),
    "min_count": ("4480", "i4", agg.min_count("v")),
    "std": ("700", "i4", agg.std("v")),
    "std_pop": ("700", "i4", agg.std_pop("v")),
    "arg_max": ("2770", "i4", agg.arg_max("v", "v")),
    "arg_max, double": ("5810", "f8", agg.arg_max("v", "v")),
}
"""For each aggregation of Table 3 the least window at which the paper's tree is ten times as fast."""
AGGREGATIONS = {
    "sum": agg.sum("v"),
    "max": agg.max("v"),
    "mean": agg.mean("v"),
    "std": agg.std("v"),
    "min_count": agg.min_count("v"),
    "arg_max": agg.arg_max("v", "v"),
    "first": agg.first("v"),
    "median": agg.median("v"),
}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    yield _batches(quick)
    yield _slides_of_rows(quick)
    yield _slides_of_time(quick)
    yield _growth("share", {f"{share:.0%} out of order": _late(share, 2.0) for share in SHARES}, quick)
    yield _growth("delay", {f"up to {delay:g} s late": _late(0.2, delay) for delay in DELAYS}, quick)
    yield _aggregations(quick)
    yield _ten_times(quick)
    yield _bulks(quick)
    yield _bytes_of_the_tree()
    yield _bytes_of_windows_by_rows()


def _figure(what: str, value: float, target: float, times: Mapping[str, Timing]) -> Figure:
    return Figure("of_papers", what, value, target, False, "x", times)


def _batches(quick: bool) -> Figure:
    """Figure 10 of the reactive aggregator: m changes between two firings, StdDev."""
    length = 1 << 16
    values = np.random.default_rng(5).random(max(length, rows_for(quick, 1 << 20)))
    binding = bound(agg.std("v"))
    steps = {
        "m = 1": 1,
        "m = 4": 4,
        "m = 64": 64,
        "m = n / 16": length // 16,
        "m = n / 4": length // 4,
        "m = n": length,
    }
    entrants = []
    for name, step in steps.items():
        ours = entrant(name, aggregators.FlatFat, binding, values, length, step)
        same_answers([ours, entrant("Daba", aggregators.Daba, binding, values, length, step)])
        entrants.append(ours)
    times = race(entrants, rounds_for(quick))
    value = times["m = n / 4"].median / times["m = 1"].median
    return _figure(f"FlatFat, std, n = {length}, a row of m = n / 4 over one of m = 1", value, 1.0, times)


def _slides_of_rows(quick: bool) -> Figure:
    """Figure 5 of the boundary aggregator: max by rows, a range of 2^17, slides of 1 to 10 rows."""
    values = np.random.default_rng(6).random(rows_for(quick, 4_000_000))
    return _against_two_stacks("rows, range 131072", values, {str(each): each for each in SLIDES}, quick, range=1 << 17)


def _slides_of_time(quick: bool) -> Figure:
    """Figure 6 of the boundary aggregator: max by time, 100 rows per second, 36 minutes, slides of 10 to 100 ms."""
    values = np.random.default_rng(7).random(rows_for(quick, 4_000_000))
    times = np.arange(len(values)) * 10  # milliseconds
    slides = {f"{each} ms": each for each in (10, 20, 50, 100)}
    return _against_two_stacks("time, range 36 minutes", values, slides, quick, range=36 * 60_000, times=times)


def _against_two_stacks(what: str, values: Any, slides: Mapping[str, int], quick: bool, **options: Any) -> Figure:
    entrants = []
    for name, slide in slides.items():
        pair = [_slide_by(each, name, values, slide, options) for each in ("boundary", "two_stacks")]
        check_entrants(pair, what)
        entrants += pair
    times = race(entrants, rounds_for(quick, 5))
    last = _ends(slides)[1]
    value = times[f"boundary, slide {last}"].median / times[f"two_stacks, slide {last}"].median
    return _figure(f"max by {what}, boundary over two_stacks at the longest slide", value, 1.0, times)


def _slide_by(aggregator: str, name: str, values: Any, slide: int, options: Mapping[str, Any]) -> Entrant:
    def run() -> Any:
        return muntin.slide(values, agg.max("v"), slide=slide, aggregator=aggregator, **options)

    return Entrant(f"{aggregator}, slide {name}", run, len(values))


def _ends(named: Mapping[str, Any]) -> tuple[str, str]:
    names = list(named)
    return names[0], names[-1]


def _late(share: float, delay: float) -> Any:
    """Return a generator of times in order of arrival, a `share` of them late by up to `delay` seconds."""

    def times(seconds: int) -> Any:
        ticks = np.arange(seconds * RATE, dtype=np.int64) * SECOND // RATE
        chance = np.random.default_rng(9)
        late = np.where(chance.random(len(ticks)) < share, chance.integers(0, int(delay * SECOND), len(ticks)), 0)
        return ticks[np.argsort(ticks + late, kind="stable")]

    return times


def _growth(what: str, cases: Mapping[str, Any], quick: bool) -> Figure:
    """Figure 12 of general stream slicing: 20 windows and sessions, by the share of late rows and by their delay."""
    rounds = rounds_for(quick)
    seconds = rounds + 12
    asked = sensor.query(sensor.tumbling(WINDOWS), disorder=True, watermark="8 seconds")
    entrants = [
        Entrant(name, sensor.flow(asked, sensor.pushes(times(seconds)), 1, first=10), RATE)
        for name, times in cases.items()
    ]
    times = race(entrants, rounds)
    first, last = (times[name].median for name in _ends(cases))
    return _figure(
        f"by {what} of late rows, 20 tumbling and sessions, the last case over the first", last / first, 2.0, times
    )


def _aggregations(quick: bool) -> Figure:
    """Figure 13 of general stream slicing: 20 windows by time, 20 % out of order, by aggregation."""
    rounds = rounds_for(quick)
    tables = sensor.pushes(_late(0.2, 2.0)(rounds + 6))
    entrants = []
    for name, aggregation in AGGREGATIONS.items():
        asked = Query(sensor.tumbling(WINDOWS), {"x": aggregation}, time="t", watermark="2 seconds")
        entrants.append(Entrant(name, sensor.flow(asked, tables, 1, first=4), RATE))
    times = race(entrants, rounds)
    fixed = [timing.median for name, timing in times.items() if name != "median"]
    return _figure(
        "by aggregation, 20 tumbling, 20 % late, the slowest of fixed size over sum", max(fixed) / fixed[0], 3.0, times
    )


def _ten_times(quick: bool) -> Figure:
    """Find the least window at which FlatFat is ten times as fast as folding it: the last column of Table 3."""
    lengths = (64, 256, 1024) if quick else (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
    lines, pays = [f"{'':<16} {'paper, RA':>10} {'FlatFat':>10}"], 0
    times: dict[str, Timing] = {}
    values = np.random.default_rng(4).integers(0, 1 << 20, 8 * lengths[-1])
    for name, (paper, dtype, aggregation) in TEN_TIMES.items():
        least, times = least_windows(aggregation, dtype, values, lengths, ("FlatFat",), factor=10.0)
        found = str(least.get("FlatFat", "never"))
        pays += found != "never" and (paper == "never" or int(found) <= int(paper))
        lines.append(f"{name:<16} {paper:>10} {found:>10}")
    what = "aggregations for which FlatFat is ten times as fast as Recalculate at the paper's window"
    return Figure("of_papers", what, float(pays), len(TEN_TIMES), True, "", times, "\n  ".join(lines))


def _bulks(quick: bool) -> Figure:
    """Figure 12 of bulk FiBA: bulks enter and leave in order, by size."""
    size, taken = rows_for(quick, 1 << 22), rows_for(quick, 1 << 20)
    streams = {bulk: fiba.Stream(size, bulk, 0) for bulk in BULKS}
    entrants = [Entrant(f"m = {bulk}", each.repeat(each.in_bulk, taken), taken) for bulk, each in streams.items()]
    times = race(entrants, rounds_for(quick, 5))
    first, last = (times[f"m = {bulk}"].median for bulk in (BULKS[0], BULKS[-1]))
    what = f"Fiba, bulks in order, n = {size}, a row of m = {BULKS[-1]} over one of m = {BULKS[0]}"
    return _figure(what, last / first, 1.0, times)


def _bytes_of_the_tree() -> Figure:
    """Figure 12 of the reactive aggregator, for the arrays of a window alone."""
    sizes = {n: sum(array.nbytes for array in aggregators.FlatFat.over(bound(agg.max("v"), "i4"), n)[1]) for n in ROWS}
    note = ", ".join(f"{n:,} rows: {size:,} bytes" for n, size in sizes.items())
    what = f"FlatFat, max of int32, bytes a row of a window of {ROWS[-1]:,} rows"
    return Figure("of_papers", what, sizes[ROWS[-1]] / ROWS[-1], 64.0, False, " bytes a row", {}, note)


def _bytes_of_windows_by_rows() -> Figure:
    """Figure 10d of general stream slicing: what a stream keeps of late windows by rows, by the number of rows."""
    sizes = {}
    for count in KEPT:
        asked = Query(window.tumbling(rows(count // 500)), {"sum": agg.sum("v")}, time="t", allowed_lateness=10**9)
        stream = asked.stream()
        stream.push({"t": np.arange(count), "v": np.ones(count)})
        sizes[count] = stream.metrics()["bytes"] or 0
    note = ", ".join(f"{count:,} rows: {size:,} bytes" for count, size in sizes.items())
    what = f"500 windows by rows that may change, sum, bytes a row of {KEPT[-1]:,} rows"
    return Figure("of_papers", what, sizes[KEPT[-1]] / KEPT[-1], 64.0, False, " bytes a row", {}, note)
