"""The latency of single slides, as in the tables 2 and 3 of the boundary aggregator's paper.

Each slide, an eviction, an insert and a query, is timed separately, by the CPU's cycle counter. The greatest number of
combines of a slide on the calling thread is also counted: that does not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from driven import bound, linkable
from harness import Figure, rows_for
from llvmlite import ir
from numba import njit, types
from numba.core.extending import intrinsic

from muntin import agg, aggregators
from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the functions of runtime
from muntin.kernels.runtime import publish, published

WINDOWS = 1_000_000
KINDS = {
    "TwoStacks": (aggregators.TwoStacks, 1),
    "SlickDeque": (aggregators.SlickDeque, 1),
    "Boundary, 1 thread": (aggregators.Boundary, 1),
    "Boundary, 2 threads": (aggregators.Boundary, 2),
    "Daba": (aggregators.Daba, 1),
}
CLOSED, TURNED, STOPPED = 0, 8, 16
ASIDE, CURRENT, OLDEST, CHUNKS = 7, 2, 4, 5  # marks of a Boundary


@intrinsic
def cycles(_typing: Any) -> Any:
    """Read the processor's cycle counter."""

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return types.int64(), generate


def timed_loop(module: Any, aside: bool) -> Any:
    """Compile a loop that times every slide; with a second thread it waits for chunks as `Boundary` does."""
    linkable(module)
    lift, push, pop, total, emit = module.lift, module.push, module.pop, module.total, module.emit

    @njit(nogil=True, error_model="numpy", _nrt=False)
    def loop(window: Any, columns: Any, times: Any, start: int, ticks: Any, outputs: Any, counters: Any) -> None:
        marks = window.marks
        for i in range(len(ticks)):
            begun = cycles()
            pop(window)
            if aside and marks[OLDEST] < marks[CHUNKS] and marks[0] > window.begins[marks[OLDEST] & 127]:
                while published(counters, TURNED) <= marks[OLDEST]:
                    pass
            push(window, times[start + i], lift(columns, times, start + i))
            if aside and marks[CHUNKS] > published(counters, CLOSED):
                publish(counters, CLOSED, marks[CHUNKS])
            emit(outputs, i, total(window))
            ticks[i] = cycles() - begun
        publish(counters, STOPPED, 1)

    return loop


def turning_loop(module: Any) -> Any:
    """Compile the second thread, which flips every closed chunk."""
    turn = getattr(module.turn, "_compiled", module.turn)  # as kernels call it, not as Python does

    @njit(nogil=True, error_model="numpy", _nrt=False)
    def loop(window: Any, chunk: int, counters: Any) -> None:
        begins = window.begins
        while published(counters, STOPPED) == 0:
            if published(counters, CLOSED) > chunk:
                turn(window, begins[chunk & 127], begins[(chunk + 1) & 127])
                chunk += 1
                publish(counters, TURNED, chunk)

    return loop


def latencies(name: str, length: int, windows: int) -> Any:
    """Return the nanoseconds of every slide."""
    kind, threads = KINDS[name]
    binding = bound(agg.max("v"))
    values = np.random.default_rng(6).random(length + windows)
    times = np.zeros(len(values), np.int64)
    module, window = kind.over(binding, length)
    if kind is aggregators.Boundary:
        window.marks[[3, 6]] = (length + 2) // 2  # the chunk length of the paper's Theorem 1
    module.insert_rows(window, (values,), times, 0, length)
    ticks, outputs = np.zeros(windows, np.int64), binding.outputs(windows)
    counters = np.zeros(24, np.int64)
    loop = timed_loop(module, threads == 2)
    nobody = np.full(24, 1 << 60, np.int64)  # all chunks count as flipped, so that nobody waits
    loop(window._make(array.copy() for array in window), (values,), times, length, ticks[:1], outputs, nobody)
    turning = turning_loop(module) if threads == 2 else None
    if turning is not None:
        turning(window, 0, nobody)  # compile, and stop at once
    begun, begun_ticks = time.perf_counter_ns(), _now()
    if turning is not None:
        window.marks[ASIDE] = 1
        counters[[CLOSED, TURNED]] = window.marks[CHUNKS]
        with ThreadPoolExecutor(1) as pool:
            pool.submit(turning, window, int(window.marks[CHUNKS]), counters)
            loop(window, (values,), times, length, ticks, outputs, counters)
    else:
        loop(window, (values,), times, length, ticks, outputs, counters)
    rate = (time.perf_counter_ns() - begun) / max(_now() - begun_ticks, 1)
    return ticks * rate


@njit
def _now() -> int:
    return cycles()


def most_combines(name: str, length: int) -> int:
    """Return the most combines of a slide on the calling thread."""
    kind, threads = KINDS[name]
    options: dict[str, Any] = {"threads": threads, "range": length} if kind is aggregators.Boundary else {}
    window = kind(agg.max("v"), count_combines=True, **options)
    chance = np.random.default_rng(7)
    window.bulk_insert(range(length), chance.random(length))
    worst = 0
    for i, value in enumerate(chance.random(4 * length)):
        before = window.combines
        window.evict()
        window.insert(length + i, value)
        window.query()
        worst = max(worst, window.combines - before)
    return worst


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    windows = rows_for(quick, WINDOWS)
    lines = [f"{'':<20}{'range':>7}{'min':>8}{'max':>11}{'avg':>9}{'std':>10}{'LQ':>8}{'med':>8}{'HQ':>8}  ns a slide"]
    for length in (1 << 13, 1 << 14):
        for name in KINDS:
            taken = latencies(name, length, windows)
            lq, median, hq = np.percentile(taken, (25, 50, 75))
            numbers = f"{taken.min():>8.0f}{taken.max():>11.0f}{taken.mean():>9.1f}{taken.std():>10.1f}"
            lines.append(f"{name:<20}{length:>7}{numbers}{lq:>8.0f}{median:>8.0f}{hq:>8.0f}")
    sizes = (64, 256, 1024)
    lines.append(f"{'most combines of a slide, by range':<36}" + "".join(f"{size:>7}" for size in sizes))
    most = {name: [most_combines(name, size) for size in sizes] for name in KINDS}
    lines += [f"  {name:<34}" + "".join(f"{count:>7}" for count in counts) for name, counts in most.items()]
    constant = max(most["Daba"] + most["Boundary, 2 threads"])
    what = "most combines of a slide of Daba and Boundary on 2 threads, at every range (TwoStacks' grow with it)"
    yield Figure("latency", what, float(constant), 6.0, False, "", {}, "\n  ".join(lines))
