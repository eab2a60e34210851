"""The code of the documentation runs, and says what the pages say. Those that need Spark run where Spark is."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from muntin.kernels.cache import uncompiled

ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / "tools" / "check_docs.py"))
PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if "```python" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with uncompiled(), np.errstate(invalid="ignore"):  # compiled kernels do not warn of infinities either
        assert CHECK["run_page"](page) == []
