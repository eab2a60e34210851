"""The process that Spark forks its Python workers from, with what a query needs of Python loaded already.

Spark's own has nothing loaded, so that every worker begins with a second of imports, and the first micro-batch of a
query waits for those of all workers. `muntin.spark.session` has local sessions start this one. On a cluster whose
machines have muntin installed, `spark.python.daemon.module=muntin.spark.daemon` does the same.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

from muntin.kernels.cache import is_uncompiled

_LOADED = ("pandas", "pyspark.worker", "muntin.spark.processor", "muntin.spark.task", "muntin.streams.stream")


def load() -> None:
    """Load what workers need; what cannot be loaded is theirs to miss, where they can say so."""
    for name in _LOADED:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if not is_uncompiled():
        with contextlib.suppress(Exception):
            _load_numba()
    gc.collect()
    gc.freeze()  # not to be looked through, and so not copied, in every worker


def _load_numba() -> None:
    from numba.core.registry import cpu_target

    import muntin.kernels.intrinsics  # noqa: F401  # teaches numba the runtime functions

    cpu_target.target_context.refresh()


if __name__ == "__main__":
    load()
    from pyspark import daemon

    daemon.manager()
