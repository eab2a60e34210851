"""Compiles the kernels that see no state, for any processor of the last ten years, into the package.

They are most of what a first query waits for, and the same for all queries. With them go those of `slide` for the
aggregations that most begin with, over an array of floats: a first call is to need no compiler at all. A wheel that is
built after this holds them; in a checkout they are used at once. Python, numba and NumPy must be those that the package
will run with: machine code of others is not looked at (see `muntin.kernels.shipped`).

    python tools/ship_kernels.py
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


def main() -> None:
    """Ship what can be shipped."""
    from muntin.kernels.shipped import BASELINES, folder_for_shipping

    folder = folder_for_shipping()
    if folder is None:
        print(f"no kernels are shipped for {platform.machine()}: they are compiled where they are needed")
        return
    shutil.rmtree(folder, ignore_errors=True)
    processor, features = BASELINES[platform.machine()]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {
            "NUMBA_CPU_NAME": processor,
            "NUMBA_CPU_FEATURES": ",".join(f"+{feature}" for feature in features),
            "MUNTIN_CACHE_DIR": scratch,
        }
        ship(Path(scratch), folder, compile_all())


def compile_all() -> set[str]:
    """Slide, and answer queries of every kind of window with every kind of key; return the modules that are shipped."""
    import muntin

    for call in slides():
        print(f"compiling for slide of {call}")
        call()
    chosen = set(_modules())
    for query, schema in queries():
        print(f"compiling for {query}")
        muntin.warm(query, schema)
    return chosen | {name for name, module in _modules().items() if not hasattr(module, "combine")}


def _modules() -> dict[str, ModuleType]:
    from muntin.kernels import cache

    return {module.__name__: module for (_, compiled), module in cache._modules.items() if compiled}


class Slide(NamedTuple):
    """A call of `slide` over floats."""

    aggregation: str
    length: int

    def __call__(self) -> None:
        """Make it, and wait for its kernels."""
        import numpy as np

        import muntin
        from muntin.kernels.tiers import waiting

        with waiting():
            muntin.slide(np.arange(5_000.0), getattr(muntin.agg, self.aggregation)("v"), range=self.length)


def slides() -> Iterator[Slide]:
    """Yield calls whose kernels are shipped: windows of all lengths, since what runs them depends on that."""
    for aggregation in ("max", "mean", "min", "std", "sum"):
        for length in (3, 64, 1024):
            yield Slide(aggregation, length)


def queries() -> Iterator[tuple[object, dict[str, object]]]:
    """Make queries that together need every shared kernel, for the types that most tables have."""
    import pyarrow as pa

    from muntin import Query, agg, rows, window

    kinds = [
        [window.sliding("1 minute", every="10 seconds"), window.session("5 seconds")],
        [window.tumbling("1 minute"), window.tumbling(rows(3)), window.trailing("1 minute"), window.trailing(rows(3))],
        [window.tumbling("1 minute")],  # whose slices tasks of Spark put together
    ]
    for key in (pa.int64(), pa.string(), None):
        schema = {"ts": pa.timestamp("us"), "v": pa.float64()} | ({} if key is None else {"k": key})
        for windows in kinds:
            keyed = {} if key is None else {"key": "k"}
            yield Query(windows, {"n": agg.count()}, allowed_lateness="1 minute", **keyed), schema


def ship(scratch: Path, folder: Path, modules: set[str]) -> None:
    """Copy the machine code of some modules."""
    part = folder.with_name(f".{folder.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for file in scratch.rglob("*.code"):
        if file.name.split(".")[0] in modules:
            shutil.copy(file, part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    size = sum(file.stat().st_size for file in folder.glob("*.code"))
    print(f"{len(list(folder.glob('*.code')))} kernels, {size / 1e6:.1f} MB, in {folder}")


if __name__ == "__main__":
    sys.exit(main())
