"""Stores to test with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_server import Server

from muntin import stores
from muntin.testing.faults import Faulty


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(params=["memory", "faulty", "lmdb", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[stores.Store]:
    if request.param == "redis":
        made: stores.Store = stores.Redis(request.getfixturevalue("redis").url)
    elif request.param == "lmdb":
        made = stores.Lmdb(tmp_path / "store")
    else:
        made = stores.Memory()
    yield Faulty(made) if request.param == "faulty" else made
    made.close()
