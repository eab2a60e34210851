"""Spark's worker processes: keeps the garbage collector from scanning loaded modules after each task.

PySpark collects garbage after every task. With NumPy, pandas, Arrow and Numba loaded that takes a tenth of a second or
two each time: more than a micro-batch of a million rows otherwise takes in Python.
"""

from __future__ import annotations

import gc

_MANY = 20_000
"""More new objects than this come from a module or a compiled kernel, not from a task."""


def freeze_loaded() -> None:
    """Freeze what a worker has loaded; called at the end of every task. O(new objects).

    Frozen objects are still freed when unreferenced; only cycles would stay, and none are left here.
    """
    if len(gc.get_objects()) > _MANY:
        gc.collect()
        gc.freeze()
