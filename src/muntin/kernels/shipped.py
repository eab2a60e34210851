"""Machine code shipped with the package, for any processor of the last ten years.

It covers kernels that see no state, and a few aggregations over arrays.

`tools/ship_kernels.py` creates it when a wheel is built, and `make` for a checkout. It is ignored if versions or the
processor differ, and kernels are compiled as needed.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from muntin.kernels.folder import machine_name

BASELINES = {
    "x86_64": (
        "x86-64-v3",
        ("avx", "avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2", "ssse3"),
    )
}
"""By architecture, the processor of shipped machine code, and its required features."""


@cache
def shipped_folders() -> tuple[Path, ...]:
    """Return the folder of shipped machine code that runs here, or nothing."""
    import llvmlite.binding

    folder = folder_for_shipping()
    if folder is None or not folder.is_dir():
        return ()
    here = llvmlite.binding.get_host_cpu_features()
    _, features = BASELINES[platform.machine()]
    return (folder,) if all(here.get(feature) for feature in features) else ()


def folder_for_shipping() -> Path | None:
    """Return the folder for shipped machine code of this architecture; None if none is shipped for it."""
    if platform.machine() not in BASELINES:
        return None
    return Path(__file__).parent / "shipped_code" / machine_name(BASELINES[platform.machine()][0])
