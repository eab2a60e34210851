"""What a result costs at the end of a window: slices merged lazily, by a tree, and by other aggregators.

A sum over "24 hours" every "1 minute", 1000 rows per minute: a window of 1440 slices ends every minute. Three things
are timed. The merging itself, eager and lazy: the kernel that answers a window, called ten thousand times from compiled
code, since a single call takes less than the overhead of Python; the eager one inserts the newest slice into its tree
each time. `SliceSet.answer` for a window of each of 250 keys, divided by their number: every merger, with memory beyond
the CPU caches. And the whole call of `Stream.advance` with one key: what a user waits for.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sensor
from charts import Chart
from harness import Figure, Timing, now
from numba import njit
from sensor import SECOND

from muntin import window
from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the functions of runtime
from muntin.kernels.compiler import import_file

KEYS, RATE, DAY = 250, 1000, 1440
MINUTE = 60 * SECOND
MERGERS = {"eager": "flat_fat", "lazy": "lazy", "two_stacks": "two_stacks", "boundary": "boundary", "fiba": "fiba"}
LENGTHS = (15, 60, 240, DAY)
"""The lengths of windows in minutes, which are their numbers of slices."""
TIMES = 10_000


def rows(begin: int, minutes: int, keys: int) -> Any:
    """Return the rows of some minutes as a table, cycling through the keys."""
    ticks = np.arange(begin * RATE, (begin + minutes) * RATE, dtype=np.int64)
    return sensor.pushes(ticks * MINUTE // RATE, len(ticks), ticks % keys)[0]


class Minutes:
    """A stream with a full window, pushed minute by minute."""

    def __init__(self, merge: str, length: int, keys: int) -> None:
        asked = sensor.query([window.sliding(f"{length} minutes", every="1 minute")], key="k")
        self.keys, self.minute = keys, length
        self.stream: Any = asked.stream(merge=merge)
        self.stream.push(rows(0, length, keys))
        self.slices = self.stream._state.resolved.strategies[0].sets[0]

    def due(self) -> Any:
        """Push one more minute; return the windows that end with it."""
        self.stream.push(rows(self.minute, 1, self.keys))
        self.minute += 1
        return self.slices.find(self.slices.held(), (self.end - 1, self.end - 1), self.end)

    @property
    def end(self) -> int:
        """The end of the last pushed minute."""
        return self.minute * MINUTE

    def advance(self) -> float:
        """Emit the windows that are due; return the nanoseconds of the call."""
        begun = now()
        self.stream.advance(self.end)
        return float(now() - begun)


def merging(merge: str, length: int, minutes: int) -> list[float]:
    """Return the nanoseconds of the kernel that answers a window of one key."""
    of = Minutes(merge, length, 1)
    loop = repeating(of.slices, tree=of.slices.has_tree)
    taken = []
    for _ in range(minutes + 1):
        found = of.due()
        outputs = of.slices.binding.outputs(1)
        windows = (found.keys, found.definitions, found.first, found.last)
        state = (of.slices.states, of.slices.slices.skip, of.slices.tree, of.slices.blocks, *windows, outputs)
        loop(*state, 1)
        begun = now()
        loop(*state, TIMES)
        taken.append((now() - begun) / TIMES)
        of.advance()
    return taken[1:]


def repeating(slices: Any, *, tree: bool) -> Any:
    """Compile a loop that answers the same windows repeatedly, as if their newest slice had just come."""
    module = import_file(Path(slices.folding._module.__file__))  # kernels loaded from disk cannot be called by others
    query, fold = module.query_windows, module.fold_windows

    @njit(nogil=True, error_model="numpy")
    def loop(
        states: Any,
        skip: Any,
        nodes: Any,
        blocks: Any,
        keys: Any,
        definitions: Any,
        firsts: Any,
        lasts: Any,
        outputs: Any,
        times: int,
    ) -> None:
        for _ in range(times):
            if tree:
                blocks.stale[0] = blocks.head[0] + blocks.size[0] - 1
                query(states, nodes, blocks, keys, firsts, lasts, outputs)
            else:
                fold(states, skip, definitions, firsts, lasts, 1, outputs)

    return loop


def answering(merge: str, minutes: int) -> list[float]:
    """Return the nanoseconds per window of answering many keys."""
    of = Minutes(merge, DAY, KEYS)
    taken = []
    for _ in range(minutes + 1):
        due = of.due()
        begun = now()
        of.slices.answer(due)
        taken.append((now() - begun) / KEYS)
        of.advance()
    return taken[1:]


def waiting(merge: str, minutes: int) -> list[float]:
    """Return the nanoseconds of whole calls of `advance`."""
    of = Minutes(merge, DAY, 1)
    taken = []
    for _ in range(minutes + 1):
        of.due()
        taken.append(of.advance())
    return taken[1:]


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figure, with the latency of windows of fewer slices as a chart."""
    minutes = 3 if quick else 15
    by_length = {name: [merging(MERGERS[name], n, minutes) for n in LENGTHS] for name in ("eager", "lazy")}
    times = {name: timing(taken[-1], "merging one window") for name, taken in by_length.items()}
    for name, merge in MERGERS.items():
        times[f"{name}, {KEYS} keys"] = timing(answering(merge, minutes), "SliceSet.answer, a window of each key")
    for name, merge in MERGERS.items():
        times[f"{name}, advance"] = timing(waiting(merge, 5 * minutes), "the whole call, one key")
    alone, cold, whole = (
        times[f"lazy{kind}"].median / times[f"eager{kind}"].median for kind in ("", f", {KEYS} keys", ", advance")
    )
    note = (
        f"{KEYS} keys, whose slices no cache holds: {cold:.1f} times; the whole call of advance: {whole:.2f} times, "
        "since what is not merging there is Python and Arrow"
    )
    lines = {name: [statistics.median(each) for each in taken] for name, taken in by_length.items()}
    title = "Figure 11a: latency of a sum at a window's end (merging alone)"
    chart = Chart("figure_11_latency", title, "slices in the window", "nanoseconds", LENGTHS, lines)
    what = "sliding 24 hours every 1 minute, merging at a window's end, lazy over eager"
    yield Figure("slicing_latency", what, alone, 20.0, True, "x", times, note, chart)


def timing(taken: list[float], note: str) -> Timing:
    """Return the timing of some samples."""
    return Timing(statistics.median(taken), min(taken), note)
