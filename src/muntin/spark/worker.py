"""Spark's worker processes: what one has loaded is there to stay, and not looked through after each of its tasks.

PySpark collects garbage whenever a worker has done a task. With NumPy, pandas, Arrow and Numba in it that takes a tenth
of a second or two each time: more than a micro-batch of a million rows otherwise needs of Python.
"""

from __future__ import annotations

import gc

_MANY = 20_000
"""More new objects than this are what a module or a compiled kernel brings, not a task."""


def freeze_loaded() -> None:
    """Take what a worker has loaded out of the collector's sight; called at the end of every task. O(new objects).

    Such objects still go when nothing refers to them; only cycles of them stay, of which none is left here.
    """
    if len(gc.get_objects()) > _MANY:
        gc.collect()
        gc.freeze()
