"""Stores of features to test with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_features import Faulty

from muntin.serving import publishing
from muntin.serving import served as opening
from muntin.serving.base import FeatureStore
from muntin.serving.urls import store_of


@pytest.fixture(
    params=["sqlite", pytest.param("redis", marks=pytest.mark.slow), pytest.param("postgres", marks=pytest.mark.slow)]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'features.db'}"
    found: str = request.getfixturevalue(request.param).url
    return found


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'features.db'}"


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Faulty]]:
    """The stores that are opened from now on, which count round trips and fail on demand."""
    opened: list[Faulty] = []

    def faulty_store(url: str) -> FeatureStore:
        opened.append(Faulty(store_of(url)))
        return opened[-1]

    monkeypatch.setattr(publishing, "store_of", faulty_store)
    monkeypatch.setattr(opening, "store_of", faulty_store)
    monkeypatch.setattr(publishing, "PATIENCE", 0.0)
    yield opened
    for each in opened:
        each.close()
