"""The tool behind `make mutants`: what it makes is Python, and what it leaves out is there."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules["mutants"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_each_mutant_is_python_and_differs(tool: ModuleType) -> None:
    for mutant in tool.sampled(36, 1, None):
        assert ast.dump(ast.parse(mutant.text)) != ast.dump(ast.parse(mutant.path.read_text())), str(mutant)


def test_equivalent_ones_are_not_made(tool: ModuleType) -> None:
    known = tool.known_equivalent()
    assert all((tool.PACKAGE / file).exists() for file, _, _ in known)
    assert not {mutant.key for mutant in tool.sampled(1 << 20, 1, None)} & known


def test_every_test_of_a_group_is_there(tool: ModuleType) -> None:
    for _, tests in tool.GROUPS.values():
        assert all((TOOL.parents[1] / name).exists() for name in tests.split())


SMALL = """
def of(a, b):
    total = a + 1
    other = b
    if a < b and not a:
        b.append(total)
    return total
"""


def test_what_is_changed(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "PACKAGE", tmp_path)
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    assert {mutant.key[2] for mutant in tool.Source("group", path).mutants()} == {
        "total = (a - 1)",
        "total = a + (2)",
        "if (a < b or not a):",
        "if (a <= b) and not a:",
        "if a < b and (a):",
        "pass",
    }
