"""What `import muntin` loads: nothing that is large, and nothing at all before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import muntin

LARGE = ["numba", "pyspark", "matplotlib", "pandas", "polars", "duckdb", "lmdb", "redis", "typer", "rich"]
LOADED = "import json, sys; {}; print(json.dumps(sorted(sys.modules)))"


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a new interpreter has after a statement."""
    command = [sys.executable, "-c", LOADED.format(statement)]
    return set(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def test_the_package_alone_loads_no_other() -> None:
    found = loaded_by("import muntin")
    assert not found & {*LARGE, "numpy", "pyarrow"}
    assert {name for name in found if name.startswith("muntin")} == {"muntin", "muntin._version"}


def test_no_public_name_loads_a_large_package() -> None:
    found = loaded_by("from muntin import *")
    assert "muntin.spark" in found  # all of them were loaded
    assert not found & {*LARGE}


def test_a_query_loads_no_engine() -> None:
    found = loaded_by("from muntin import Query, agg, rows, window")
    engines = {"muntin.streams", "muntin.tables", "muntin.plans", "muntin.spark", "muntin.arrays.runner"}
    assert not found & engines


@pytest.mark.parametrize("name", muntin.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(muntin, name) is getattr(muntin, name)
    assert name in dir(muntin)


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="module 'muntin' has no attribute 'sum'"):
        _ = muntin.sum
