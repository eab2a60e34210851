"""The benchmarks name only what the package has: a run would find out after minutes, and on a quiet machine only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def imported(path: Path) -> list[tuple[str, str]]:
    """Return what a file imports of the package, wherever in it: modules and names."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    mine = [node for node in nodes if (node.module or "").split(".")[0] == "muntin"]
    return [(node.module or "", alias.name) for node in mine for alias in node.names]


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_what_is_imported_is_there(path: Path) -> None:
    for module, name in imported(path):
        found = import_module(module)
        assert hasattr(found, name) or import_module(f"{module}.{name}")


def test_every_experiment_is_a_file() -> None:
    tree = ast.parse((FOLDER / "run.py").read_text())
    (names,) = [ast.literal_eval(node.value) for node in tree.body if _assigns(node, "EXPERIMENTS")]
    assert all((FOLDER / f"{name}.py").exists() for name in names)


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == [name]
