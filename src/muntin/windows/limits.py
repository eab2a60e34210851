"""The limit of windows per call, so that no row and no gap between rows can demand more than memory holds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from muntin.errors import InvalidArgumentError, TooManyWindowsError
from muntin.types import Array

_VARIABLE = "MUNTIN_MOST_WINDOWS"
_USUAL = 100_000_000


def _from_environment() -> int:
    given = os.environ.get(_VARIABLE, "")
    if given and not (given.isdecimal() and int(given)):
        raise InvalidArgumentError(f"{_VARIABLE} is {given!r}; give a positive integer")
    return int(given or _USUAL)


MOST_WINDOWS = _from_environment()
"""The most windows of a definition that a call may find, besides one per row: MUNTIN_MOST_WINDOWS, or 100 million."""


def may_be_many(windows: float) -> bool:
    """Return whether a number of windows, overestimated for speed, may exceed the limit. O(1)."""
    return windows > MOST_WINDOWS


def require_few(definition: Any, counts: Array, times: Array, numbers: Any) -> None:
    """Reject a definition with more windows than allowed. `counts` are those that begin with each row. O(rows)."""
    total = float(counts.sum(dtype=np.float64))
    if total > MOST_WINDOWS + len(counts):
        row = int(np.argmax(counts))
        raise too_many(
            definition,
            total,
            f"{int(counts[row]):,} of them hold row {int(np.asarray(numbers)[row])}, at {int(times[row])}",
        )


def too_many(definition: Any, windows: float, where: str) -> TooManyWindowsError:
    """Return the error for a definition with this many windows in one call."""
    return TooManyWindowsError(
        f"{definition!r} would have {int(windows):,} windows in one call, and at most {MOST_WINDOWS:,} are allowed; "
        f"{where}. Leave out rows that are far off, advance a stream in smaller steps, give a longer every, or allow "
        f"more with the environment variable {_VARIABLE}"
    )


def spanned(times: Array, begins: Array, ends: Array, length: Any, every: Any) -> float:
    """Return an upper bound of the windows that hold rows: those from the first row of each key to its last. O(keys).

    The rows of a key are [begin, end), in time order; there may be none.

    >>> spanned(np.array([3, 4, 30, 7]), np.array([0, 3, 4]), np.array([3, 4, 4]), 10, 5)
    11.4
    """
    held = begins < ends
    lengths = times[ends[held] - 1].astype(np.float64) - times[begins[held]]
    return float(((lengths + length) / every + 1).sum())


def opened(times: Array, is_first: Array, length: Any, every: Any, offset: Any) -> Array:
    """Return for each sorted row the number of windows [k * every, k * every + length) that hold no row before. O(n).

    `is_first` marks the first row of each key. Counts in floats, so that nothing overflows.

    >>> opened(np.array([3, 4, 30]), np.array([True, False, False]), 10, 5, 0).tolist()
    [2.0, 0.0, 2.0]
    """
    moved = times.astype(np.float64) - offset
    highest = np.floor(moved / every)
    lowest = np.floor((moved - length) / every) + 1
    known = np.where(is_first, -np.inf, np.concatenate(([0.0], highest[:-1] + 1))[: len(times)])
    counts: Array = np.maximum(highest - np.maximum(lowest, known) + 1, 0)
    return counts
