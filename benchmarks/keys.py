"""Numbers for the keys of a stream: at most 15 ns a row for int64, 35 ns for strings of ten characters.

100,000 keys are known, and pushes of 100,000 random rows look them up. The rivals do less: Arrow's `dictionary_encode`
numbers each push separately, without memory; a Python dict remembers, but takes one value at a time. Two columns and a
million keys are shown too.

What bounds strings: a lookup reads three lines one after the other, a slot of the table (4 MB), the place of the key
(1.6 MB) and its bytes (1 MB). On a quiet machine it takes 20 ns per row if it runs alone, so that they stay in the
cache, and 36 after other work; beside Arrow, which empties the caches between its turns, 35 to 64. Rejected:
prefetching the bytes of all keys of a block, 5 to 10 % less, within the noise of six pairs of runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import OURS, Entrant, Figure, Timing, check_equal, race, rounds_for

from muntin.keys.table import KeyTable

KEYS = 100_000
ROWS = 100_000


def integers(count: int) -> pa.Array:
    """Return keys that are far apart, unordered."""
    return pa.array(np.random.default_rng(1).permutation(count) * 7919 + 10**9)


def names(count: int) -> pa.Array:
    """Return keys of ten characters."""
    return pa.array([f"k{number:09}" for number in np.random.default_rng(2).choice(10**9, count, replace=False)])


def entrants(keys: list[pa.Array]) -> list[Entrant]:
    """Return the table and its rivals, all of which already know the keys."""
    chosen = pa.array(np.random.default_rng(3).integers(0, len(keys[0]), ROWS))
    push = [column.take(chosen) for column in keys]
    table = KeyTable([column.type for column in keys])
    table.numbers(keys, len(keys[0]))
    known: dict[Any, int] = {key: i for i, key in enumerate(zip(*(column.to_pylist() for column in keys), strict=True))}

    def by_dict() -> list[int]:
        return [known[key] for key in zip(*(column.to_pylist() for column in push), strict=True)]

    check_equal(np.array(by_dict()), table.numbers(push, ROWS), "the numbers of keys")
    return [
        Entrant(OURS, lambda: table.numbers(push, ROWS), ROWS),
        Entrant(
            "dictionary_encode", lambda: [pc.dictionary_encode(column) for column in push], ROWS, "of the push alone"
        ),
        Entrant("dict", by_dict, ROWS, "with to_pylist", apart=True),
    ]


def after_other_work(entrant: Entrant, rounds: int) -> float:
    """Return the median nanoseconds per row with cold CPU caches."""
    other, taken = np.ones(8_000_000), []
    for _ in range(rounds):
        other.sum()
        begun = time.perf_counter_ns()
        entrant.run()
        taken.append((time.perf_counter_ns() - begun) / entrant.rows)
    return statistics.median(taken)


def timed(what: str, keys: list[pa.Array], rounds: int) -> tuple[str, dict[str, Timing], str]:
    """Return the name, the times, and their comparison."""
    field = entrants(keys)
    times = race(field, rounds)
    ours = times[OURS].median
    ratios = ", ".join(f"{t.median / ours:.1f} times as fast as {name}" for name, t in times.items() if name != OURS)
    cold = after_other_work(field[0], rounds)
    named = f"{what}, {len(keys[0]):,} known keys, pushes of {ROWS:,} rows"
    return named, times, f"{ratios}; {cold:.1f} ns a row after other work has emptied the caches"


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rounds = rounds_for(quick, 41)
    shown = {
        "int64": ("int64 and strings of 10", [integers(KEYS), names(KEYS)]),
        "strings of 10": ("int64", [integers(10 * KEYS)]),
    }
    for what, keys, target in (("int64", [integers(KEYS)], 15.0), ("strings of 10", [names(KEYS)], 35.0)):
        named, times, note = timed(what, keys, rounds)
        also, others, compared = timed(*shown[what], rounds)
        note += f"\n  shown: {also}: {others[OURS].median:.1f} ns a row, {compared}"
        yield Figure("keys", named, times[OURS].median, target, False, " ns a row", times, note)
