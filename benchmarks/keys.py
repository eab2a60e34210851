"""Numbers for the keys of a stream: at most 15 ns a row for int64, 40 ns for strings of ten characters.

100,000 keys are known, and pushes of 100,000 random rows look them up. The rivals do less: Arrow's `dictionary_encode`
numbers a push by itself, without a memory of those before; a Python dict remembers, but takes one value at a time. Two
columns and a million keys are shown too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import OURS, Entrant, Figure, check_equal, race, rounds_for

from muntin.slicing.keys import KeyTable

KEYS = 100_000
ROWS = 100_000


def integers(count: int) -> pa.Array:
    """Return keys that are far apart, in no order."""
    return pa.array(np.random.default_rng(1).permutation(count) * 7919 + 10**9)


def names(count: int) -> pa.Array:
    """Return keys of ten characters."""
    return pa.array([f"k{number:09}" for number in np.random.default_rng(2).choice(10**9, count, replace=False)])


def entrants(keys: list[pa.Array]) -> list[Entrant]:
    """Return the table and its rivals, all of which know the keys already."""
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
        Entrant("dict", by_dict, ROWS, "with to_pylist"),
    ]


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    contests = [
        ("int64", [integers(KEYS)], 15.0),
        ("strings of 10", [names(KEYS)], 40.0),
        ("int64 and strings of 10", [integers(KEYS), names(KEYS)], 150.0),
        ("int64, a million of them", [integers(10 * KEYS)], 60.0),
    ]
    for what, keys, target in contests:
        times = race(entrants(keys), rounds_for(quick, 41))
        ours = times[OURS].median
        ratios = ", ".join(f"{t.median / ours:.1f} x {name}" for name, t in times.items() if name != OURS)
        named = f"{what}, {len(keys[0]):,} known keys, pushes of {ROWS:,} rows"
        yield Figure("keys", named, ours, target, False, " ns a row", times, f"as fast as {ratios}")
