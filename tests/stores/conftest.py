"""Stores to test with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muntin import stores
from muntin.testing.faults import Faulty


@pytest.fixture(params=["memory", "faulty", "lmdb", pytest.param("redis", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[stores.Store]:
    if request.param == "redis":
        made: stores.Store = stores.Redis(request.getfixturevalue("redis").url)
    elif request.param == "lmdb":
        made = stores.Lmdb(tmp_path / "store")
    else:
        made = stores.Memory()
    yield Faulty(made) if request.param == "faulty" else made
    made.close()
