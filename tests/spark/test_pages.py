"""The code of the pages that need Spark does what they show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/tutorial-spark.md", "docs/beyond-spark.md", "docs/gallery/top-products.md"])
def test_page(page, spark):
    run_page = runpy.run_path(str(ROOT / "tools" / "check_docs.py"))["run_page"]
    assert run_page(ROOT / page, spark=True) == []
