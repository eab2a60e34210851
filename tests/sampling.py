"""How much a run tries: all that the tests name, or a few examples of it in a quick run."""

from __future__ import annotations

import os

QUICK = os.environ.get("MUNTIN_QUICK", "") not in ("", "0")
FEW = 5
"""Random examples of each property in a quick run."""


def examples(count: int) -> int:
    """Return how many random examples to try where a whole run tries `count`."""
    return min(count, FEW) if QUICK else count
