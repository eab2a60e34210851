"""Machine code that comes with the package, for any processor of the last ten years.

It is that of kernels that see no state, and of a few aggregations over arrays.

It is made by `tools/ship_kernels.py` when a wheel is built, and by `make` for a checkout. Where versions or the
processor are others than it was made for it is not looked at, and kernels are compiled as they are needed.
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
"""By architecture, the processor that machine code is shipped for, and what it must be able to do."""


@cache
def shipped_folders() -> tuple[Path, ...]:
    """Return the folder of machine code that came with the package and runs here, or nothing."""
    import llvmlite.binding

    folder = folder_for_shipping()
    if folder is None or not folder.is_dir():
        return ()
    here = llvmlite.binding.get_host_cpu_features()
    _, features = BASELINES[platform.machine()]
    return (folder,) if all(here.get(feature) for feature in features) else ()


def folder_for_shipping() -> Path | None:
    """Return where machine code for processors like this one is shipped; None where none is made for them."""
    if platform.machine() not in BASELINES:
        return None
    return Path(__file__).parent / "shipped_code" / machine_name(BASELINES[platform.machine()][0])
