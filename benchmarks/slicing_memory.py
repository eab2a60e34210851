"""The bytes that a sum keeps for late rows, by strategy: 500 slices and 50,000 tuples, and more and fewer of each.

Tumbling windows with an allowed lateness of as many windows as slices, in order. The key table, whose size depends on
neither, is excluded. A slice's state is what the sum itself needs; the rest is its edges, the times of its first and
last row and their number, which revisions need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import rivals
import sensor
from charts import Chart
from harness import Figure
from sensor import SECOND

from muntin import window

SLICES, TUPLES = 500, 50_000
STRATEGIES = {"slicing": "slices", "buckets": "buckets", "aggregate tree": "tuple_tree"}
MANY_SLICES = (10, 50, 100, 500, 1000, 5000)
MANY_TUPLES = (500, 5_000, 50_000, 500_000)

rivals.register()


def held(strategy: str, slices: int, tuples: int, *, late: bool = True) -> tuple[Any, int]:
    """Return a stream that holds `slices` slices of `tuples` tuples, and its bytes; if not `late`, one that slides."""
    span = f"{slices} seconds"
    windows = [window.tumbling("1 second")] if late else [window.sliding(span, every="1 second")]
    stream = sensor.query(windows, **({"allowed_lateness": span} if late else {})).stream(strategy=strategy)
    # Twice as long as what is held, so that the rest has been evicted.
    ticks = np.arange(2 * tuples, dtype=np.int64) * (slices * SECOND) // tuples
    for table in sensor.pushes(ticks, max(1, tuples // 10)):
        stream.push(table)
    return stream, int(stream.metrics()["bytes"] or 0) - stream._state.resolved.keys.nbytes


def run(quick: bool) -> Iterator[Figure]:  # noqa: ARG001  # always quick
    """Yield the bytes per slice, and whether they depend on the tuples."""
    state = held("slices", 10, 100)[0]._state.resolved.strategies[0].sets[0].states.itemsize
    by_slices = {n: [held(s, m, TUPLES)[1] for m in MANY_SLICES] for n, s in STRATEGIES.items()}
    by_tuples = {n: [held(s, SLICES, m)[1] for m in MANY_TUPLES] for n, s in STRATEGIES.items()}
    at = MANY_SLICES.index(SLICES)
    lines = [f"{name:<16}{sizes[at]:>12,} bytes" for name, sizes in by_slices.items()]
    lines += [f"{name:<16}" + in_words(MANY_SLICES, sizes, "slices") for name, sizes in by_slices.items()]
    lines += [f"{name:<16}" + in_words(MANY_TUPLES, sizes, "tuples") for name, sizes in by_tuples.items()]
    sliding, without = held("slices", SLICES, TUPLES, late=False)
    kept = int(sliding.metrics()["slices"] or 0)
    lines.append(
        f"without lateness, sliding {SLICES} s every 1 s: {without / kept / state:.2f} times its state a slice"
    )
    title = "Figure 10{}: memory of a sum over time windows, by {}"
    first = Chart("figure_10a_memory", title.format("a", "slices"), "slices", "bytes", MANY_SLICES, by_slices)
    second = Chart("figure_10b_memory", title.format("b", "tuples"), "tuples", "bytes", MANY_TUPLES, by_tuples)
    what = f"bytes a slice over its state of {state}, {SLICES} slices and {TUPLES:,} tuples"
    ratio = by_slices["slicing"][at] / SLICES / state
    yield Figure("slicing_memory", what, ratio, 3.0, False, "x", {}, "\n  ".join(lines), first)
    growth = by_tuples["slicing"][-1] / by_tuples["slicing"][0]
    what = f"bytes of {SLICES} slices of {MANY_TUPLES[-1]:,} tuples over those of {MANY_TUPLES[0]:,}"
    yield Figure("slicing_memory", what, growth, 1.0, False, "x", {}, "", second)


def in_words(many: tuple[int, ...], sizes: list[int], what: str) -> str:
    """Return sizes in a line."""
    return f"{what} " + ", ".join(f"{count:,}: {size:,}" for count, size in zip(many, sizes, strict=True))
