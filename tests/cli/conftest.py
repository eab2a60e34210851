"""A command line to run, and a query for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli.files import QUERY
from typer.testing import CliRunner

from muntin.cli.app import app


@pytest.fixture
def muntin() -> Any:
    """Run the command line in this process; return its result, with `exit_code`, `stdout` and `stderr`."""
    return lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def query_file(tmp_path: Path) -> Path:
    """A file with a query."""
    path = tmp_path / "query.toml"
    path.write_text(QUERY)
    return path
