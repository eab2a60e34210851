"""`muntin bench`: runs the benchmarks, which are part of the source."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import muntin
from muntin.errors import UnsupportedOperationError


def runner() -> Path:
    """Return the script that runs the benchmarks: in the package, or in the folder it was installed from."""
    package = Path(muntin.__path__[0])
    places = [package / "_benchmarks" / "run.py", package.parent.parent / "benchmarks" / "run.py"]
    for place in places:
        if place.is_file():
            return place
    raise UnsupportedOperationError("the benchmarks are not here; they come with the source of muntin: make bench")


def names_like(begin: str) -> list[str]:
    """Return the benchmarks whose names start with `begin`, for shell completion."""
    source = runner().read_text(encoding="utf-8")
    found = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign) and _is_list(node)]
    return [name for name in ast.literal_eval(found[0]) if name.startswith(begin)]


def _is_list(node: ast.Assign) -> bool:
    return [getattr(each, "id", "") for each in node.targets] == ["EXPERIMENTS"]


def run(arguments: list[str]) -> int:
    """Run the benchmarks in a separate process; return its exit code."""
    command = [sys.executable, str(runner()), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603
