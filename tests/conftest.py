"""Shared set-up: hypothesis without deadlines (first calls compile), imports of test helpers, and what is compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from muntin.kernels.cache import uncompiled

HERE = Path(__file__).parent
PLAIN = {HERE / name for name in ("queries", "cli", "spark")}
"""Where whole queries are asked: with uncompiled kernels unless a test is marked, since each set of aggregates is
compiled anew."""

sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "benchmarks"))  # last: its modules have names that tests may have, too
import_module("rivals").register()
settings.register_profile("muntin", deadline=None, print_blob=True)
settings.load_profile("muntin")


@pytest.fixture(autouse=True)
def _plain(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.path.parent not in PLAIN or request.node.get_closest_marker("compiled"):
        yield
        return
    with uncompiled():
        yield
