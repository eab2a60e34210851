"""Spark's worker processes: saves each task what PySpark would do again before and after it.

PySpark collects garbage after every task. With NumPy, pandas, Arrow and Numba loaded that takes a tenth of a second or
two each time: more than a micro-batch of a million rows otherwise takes in Python. Before every task it invalidates the
caches of imports, and reads the table of contents of its own zip file again: 14 ms.
"""

from __future__ import annotations

import gc
import pickle
import sys
from functools import lru_cache
from typing import Any
from zipimport import zipimporter

_MANY = 20_000
"""More new objects than this come from a module or a compiled kernel, not from a task."""


@lru_cache(maxsize=32)
def unpickled(data: bytes) -> Any:
    """Return what a task was sent; all tasks of a query share it, and the streams that are kept between them.

    Unpickling the definitions of a query takes as long as a small task, and they take 100 kB.
    """
    return pickle.loads(data)  # noqa: S301  # Spark would do no other


def settle() -> None:
    """Prepare a worker for its next task; called at the end of every task. O(new objects)."""
    freeze_loaded()
    forget_archives()


def freeze_loaded() -> None:
    """Freeze what a worker has loaded.

    Frozen objects are still freed when unreferenced; only cycles would stay, and none are left here.
    """
    if len(gc.get_objects()) > _MANY:
        gc.collect()
        gc.freeze()


def forget_archives() -> None:
    """Forget who imports from zip files: an import asks for them again, and no cache is left to invalidate."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
