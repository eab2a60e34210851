"""Fiba: in order against TwoStacks, in bulk against its own single operations, and flat in m, d and n.

All loops over single operations run inside a compiled kernel, and bulks are passed as the arrays that kernels take, so
that structures are compared, not calls from Python and the reading of columns. A bulk insertion at distance d puts m
consecutive times before the d youngest, evicts the m oldest and queries. A bulk eviction is the public call, of which
Python takes a microsecond. min_arity is 4, the default, except for memory.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Entrant, Figure, Timing, race, rounds_for, rows_for

from muntin import agg, aggregators

ROWS = 4_000_000
WINDOW = 1 << 22
GAP = 1 << 32
"""The gap between two initial times: room for all insertions between them."""


@agg.define(state="f8")
class plain_sum:
    """The sum of float64 in eight bytes, as the paper has it; agg.sum is compensated, and has 24."""

    def lift(v):
        return v

    def combine(a, b):
        return a + b


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    yield from _in_order(quick)
    yield from _late(quick)
    yield from _bulk_insert(quick)
    yield from _bulk_evict(quick)
    yield _flat_in_size(quick)
    yield from _memory()
    if not quick:
        yield _hundred_million()


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _window(kind: Any = aggregators.Fiba, **options: Any) -> Any:
    return kind(plain_sum("v"), dtype="f8", nullable=False, **options)


# ---------------------------------------------------------------- in order


def _in_order(quick: bool) -> Iterator[Figure]:
    rows = rows_for(quick, ROWS)
    values = _frozen(np.random.default_rng(4).standard_normal(rows))
    for width, target in ((1024, 20), (1 << 20, 25)):
        entrants = [
            Entrant(kind.__name__, _slider(kind, values, min(width, rows // 2)), rows)
            for kind in (aggregators.Fiba, aggregators.TwoStacks)
        ]
        answers = [entrant.run() for entrant in entrants]
        if not np.allclose(answers[0], answers[1]):
            raise SystemExit("fiba: Fiba and TwoStacks disagree")
        times = race(entrants, rounds_for(quick, 5))
        ours, theirs = times.values()
        what = f"insert, evict and query in order, n = {width}, over TwoStacks"
        yield Figure("fiba", what, ours.median / theirs.median, target, False, "", times)


def _slider(kind: Any, values: np.ndarray, width: int) -> Callable[[], np.ndarray]:
    rows = len(values)
    times, last = _frozen(np.arange(rows)), _frozen(np.arange(1, rows + 1))
    first = _frozen(np.maximum(np.arange(rows) - width + 1, 0))

    def slide() -> np.ndarray:
        window = _window(kind)
        if kind is aggregators.Fiba:
            window._reserve(width // 2, width // 4)
        else:
            window._reserve(width + 1)
        outputs = window._binding.outputs(rows)
        window._module.slide_rows(window._window, (values,), times, first, last, 0, rows, outputs)
        return outputs[0]

    return slide


# ---------------------------------------------------------------- bulks


class Stream:
    """A full window, and bulks inserted at a distance from its young end while as many rows leave at the old end."""

    def __init__(self, size: int, bulk: int, distance: int, arity: int = 4) -> None:
        self.window = _window(min_arity=arity)
        self.window.bulk_insert(np.arange(size) * GAP, np.ones(size))
        self.bulk = bulk
        self.next = (size - 1 - distance) * GAP + 1
        self.values = _frozen(np.ones(bulk))
        self.order = np.random.default_rng(5).permutation(bulk)

    def times(self) -> np.ndarray:
        self.next += self.bulk
        return _frozen(np.arange(self.next - self.bulk, self.next))

    def in_bulk(self) -> None:
        """Insert a bulk, evict a bulk, query."""
        self.window._insert((self.values,), self.times(), self.bulk)
        self.window.bulk_evict(self.window.nth(self.bulk - 1))
        self.window.query()

    def singly(self) -> None:
        """Insert the rows one by one, in a compiled loop; evict a bulk, query."""
        self._insert_singly(self.times())

    def shuffled(self) -> None:
        """Do the same with the rows shuffled, so that consecutive ones do not share a leaf."""
        self._insert_singly(_frozen(self.times()[self.order]))

    def _insert_singly(self, times: np.ndarray) -> None:
        self.window._reserve(2 * self.bulk, 2 * self.bulk)
        self.window._module.append_rows(self.window._window, (self.values,), times, 0, self.bulk)
        self.window.bulk_evict(self.window.nth(self.bulk - 1))
        self.window.query()

    def repeat(self, step: Callable[[], None], rows: int) -> Callable[[], None]:
        """Return a call that takes `rows` rows in steps of a bulk."""

        def steps() -> None:
            for _ in range(rows // self.bulk):
                step()

        return steps


def _late(quick: bool) -> Iterator[Figure]:
    """One row at a time: those of a delayed source, in order, against punctual ones."""
    size, rows = rows_for(quick, WINDOW), rows_for(quick, 1 << 18)
    for arity in (4, 8):
        for distance, target in ((1024, 3), (65536, 4.5), (1 << 20, 7)):
            if distance >= size // 2:
                continue
            late, near = Stream(size, 1024, distance, arity), Stream(size, 1024, 0, arity)
            entrants = [
                Entrant("late", late.repeat(late.singly, rows), rows),
                Entrant("late, in any order", late.repeat(late.shuffled, rows), rows),
                Entrant("in order", near.repeat(near.singly, rows), rows),
            ]
            times = race(entrants, rounds_for(quick, 5))
            what = f"single inserts, min_arity={arity}, n = {size}, d = {distance}, late over in order"
            ratio = times["late"].median / times["in order"].median
            yield Figure("fiba", what, ratio, target, False, "", times)


def _bulk_insert(quick: bool) -> Iterator[Figure]:
    size, rows = rows_for(quick, WINDOW), rows_for(quick, 1 << 18)
    for distance in (1024, 65536, 1 << 20):
        if distance >= size // 2:
            continue
        bulks, singles = Stream(size, 1024, distance), Stream(size, 1024, distance)
        entrants = [
            Entrant("bulk_insert", bulks.repeat(bulks.in_bulk, rows), rows),
            Entrant("single inserts", singles.repeat(singles.shuffled, rows), rows),
        ]
        times = race(entrants, rounds_for(quick, 5))
        ours, theirs = times.values()
        what = f"bulk_insert, n = {size}, m = 1024, d = {distance}, over single inserts"
        yield Figure("fiba", what, theirs.median / ours.median, 4, True, "x", times)


def _bulk_evict(quick: bool) -> Iterator[Figure]:
    size = rows_for(quick, WINDOW)
    taken = {bulk: _evictions(size, bulk, 40 if quick else 200) for bulk in (64, 1024, min(65536, size // 4))}
    for bulk, target in ((1024, 15), (min(65536, size // 4), 500)):
        ours, loop = taken[bulk]["bulk_evict"], taken[bulk]["single evictions"]
        what = f"bulk_evict, n = {size}, m = {bulk}, over single evictions"
        note = "times are those of one bulk"
        yield Figure("fiba", what, loop.median / ours.median, target, True, "x", taken[bulk], note)
    small, large = (taken[bulk]["bulk_evict"] for bulk in (64, min(65536, size // 4)))
    what = f"time of a bulk_evict, n = {size}, m = {min(65536, size // 4)} over m = 64"
    times = {"the larger": large, "the smaller": small}
    yield Figure("fiba", what, large.median / small.median, 3, False, "", times, "times are those of one bulk")


def _evictions(size: int, bulk: int, turns: int) -> dict[str, Timing]:
    """Time the evictions alone, alternating between two windows that are refilled in between."""
    windows = [Stream(size, bulk, 0) for _ in range(2)]
    taken: list[list[int]] = [[], []]
    for turn in range(turns if bulk < 10_000 else turns // 4):
        for which in (turn % 2, 1 - turn % 2):
            window = windows[which].window
            until = window.nth(bulk - 1)
            module, arena = window._module, window._window
            begun = time.perf_counter_ns()
            if which == 0:
                window.bulk_evict(until)
            else:
                module.evict_rows(arena, bulk)
            taken[which].append(time.perf_counter_ns() - begun)
            window.bulk_insert(windows[which].times(), windows[which].values)
    return {
        name: Timing(statistics.median(each[2:]), min(each))
        for name, each in zip(("bulk_evict", "single evictions"), taken, strict=True)
    }


def _flat_in_size(quick: bool) -> Figure:
    rows = rows_for(quick, 1 << 18)
    sizes = (rows_for(quick, 1 << 24), 4096)
    streams = [Stream(size, 1024, 1024) for size in sizes]
    entrants = [
        Entrant(f"n = {size}", stream.repeat(stream.in_bulk, rows), rows)
        for size, stream in zip(sizes, streams, strict=True)
    ]
    times = race(entrants, rounds_for(quick, 5))
    large, small = times.values()
    what = f"bulk_insert and bulk_evict, m = 1024, d = 1024, time a row at n = {sizes[0]} over n = 4096"
    return Figure("fiba", what, large.median / small.median, 2, False, "", times)


# ---------------------------------------------------------------- memory


def _memory() -> Iterator[Figure]:
    size = 1_000_000
    orders = {"": (np.arange(size), 28), " in random order": (np.random.default_rng(6).permutation(size), 36)}
    for order, (times, target) in orders.items():
        window = _window(min_arity=8)
        for at in range(0, size, 1000):
            window.bulk_insert(times[at : at + 1000], np.ones(1000))
        held = sum(array.nbytes for array in window._window) / size
        what = f"memory{order}, int64 times and float64 sums, min_arity=8"
        yield Figure("fiba", what, held, target, False, " bytes a row", {})


def _hundred_million() -> Figure:
    """Run in a separate process, whose peak is that of the window."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True)
    peak, taken = map(float, done.stdout.split())
    times = {"filled in bulks": Timing(taken, taken)}
    return Figure("fiba", "peak memory of a process with a window of 100 M rows", peak, 3.5, False, " GB", times)


def _fill_hundred_million() -> None:
    rows, bulk = 100_000_000, 1_000_000
    window = _window(min_arity=8)
    begun = time.perf_counter_ns()
    for start in range(0, rows, bulk):
        window.bulk_insert(np.arange(start, start + bulk), np.ones(bulk))
    window.bulk_evict(bulk - 1)
    if window.query() != rows - bulk or len(window) != rows - bulk:
        raise SystemExit("fiba: a window of 100 M rows answers wrongly")
    taken = (time.perf_counter_ns() - begun) / rows
    # Not getrusage, which starts with the size of the parent process.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) * 1024 / 1e9, taken)


if __name__ == "__main__":
    _fill_hundred_million()
