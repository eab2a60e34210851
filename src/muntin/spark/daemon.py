"""The process that Spark forks its Python workers from, preloaded with what a query needs.

Spark's own daemon has nothing loaded, so every worker begins with a second of imports, and the first micro-batch of a
query waits for those of all workers. `muntin.spark.session` makes local sessions use this one. On a cluster whose
machines have muntin installed, `spark.python.daemon.module=muntin.spark.daemon` does the same.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

from muntin.kernels.cache import is_uncompiled

_LOADED = ("pandas", "pyspark.worker", "muntin.spark.processor", "muntin.spark.task", "muntin.streams.stream")


def load() -> None:
    """Load what workers need; leave missing modules to the workers, which can report them."""
    for name in _LOADED:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if not is_uncompiled():
        with contextlib.suppress(Exception):
            _load_numba()
    gc.collect()
    gc.freeze()  # so that no worker scans, and thereby copies, it


def _load_numba() -> None:
    from numba.core.registry import cpu_target

    import muntin.kernels.intrinsics  # noqa: F401  # teaches numba the runtime functions

    cpu_target.target_context.refresh()


if __name__ == "__main__":
    load()
    from pyspark import daemon

    daemon.manager()
