"""How much a run tries: a third of what the tests name, a few examples of it in a quick run, more in a thorough one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

QUICK = os.environ.get("MUNTIN_QUICK", "") not in ("", "0")
THOROUGH = int(os.environ.get("MUNTIN_THOROUGH", "") or 1)
"""How many times as many random examples as tests name a thorough run tries; it leaves out no case."""
FEW = 5
"""Random examples of each property in a quick run, and the fewest in any."""


def examples(count: int) -> int:
    """Return how many random examples to try of `count`: a third of them, which differ from run to run, or more."""
    few = min(count, FEW)
    return few if QUICK else count * THOROUGH if THOROUGH > 1 else max(few, count // 3)


def some(cases: Sequence[Any], step: int) -> Sequence[Any]:
    """Return each of some cases whose number is a multiple of `step`; in a thorough run all."""
    return cases if THOROUGH > 1 else cases[::step]
