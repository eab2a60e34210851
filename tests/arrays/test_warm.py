"""Warming compiles what is needed later, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.compiled  # a process that compiles
def test_after_warming_nothing_is_compiled(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, muntin\n"
        "from muntin import agg\n"
        "first = muntin.warm(agg.min('v'))\n"
        "files = sorted(p.name for p in first.folder.rglob('*.code'))\n"
        "muntin.slide(np.ones(9), agg.min('v'), range=4)\n"
        "muntin.slide(np.ones(9), agg.min('v'), range=4, times=np.arange(9))\n"
        "print(files == sorted(p.name for p in first.folder.rglob('*.code')), len(files) > 0)\n"
    )
    environment = {**os.environ, "MUNTIN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr
