"""The first `slide` call in a new process with a warm cache, interpreter start and imports included: under 1.5 s."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from harness import OURS, Entrant, Figure, race, rounds_for

FIRST_CALL = "import numpy as np, muntin; muntin.slide(np.arange(1e6), muntin.agg.{}('v'), range=1024)"
PARTS = {"import numpy": "import numpy", "import numba": "import numba", "import muntin": "import muntin"}


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figure. The first, uncounted round warms the cache; the parts show where the time goes."""
    programs = {f"{OURS}, max": FIRST_CALL.format("max"), f"{OURS}, std": FIRST_CALL.format("std"), **PARTS}
    entrants = [Entrant(name, lambda p=program: _run(p), 1) for name, program in programs.items()]
    times = race(entrants, rounds_for(quick))
    for name in ("max", "std"):
        mine = times[f"{OURS}, {name}"]
        shown = {f"{OURS}, {name}": mine, **{part: times[part] for part in PARTS}}
        yield Figure("cold_start", f"first slide in a process, {name}", mine.median / 1e9, 1.5, False, " s", shown)


def _run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)
