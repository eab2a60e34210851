"""`muntin bench`: runs the benchmarks, which come with the source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import muntin
from muntin.errors import UnsupportedOperationError


def runner() -> Path:
    """Return the script that runs the benchmarks: of the package, or of the folder that it was installed from."""
    package = Path(muntin.__path__[0])
    places = [package / "_benchmarks" / "run.py", package.parent.parent / "benchmarks" / "run.py"]
    for place in places:
        if place.is_file():
            return place
    raise UnsupportedOperationError("the benchmarks are not here; they come with the source of muntin: make bench")


def run(arguments: list[str]) -> int:
    """Run them as a process of their own, so that nothing else is in it; return its exit code."""
    command = [sys.executable, str(runner()), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603
