"""Queries are asked with uncompiled kernels unless a test says otherwise: each set of aggregates is compiled anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muntin.kernels.cache import uncompiled


@pytest.fixture(autouse=True)
def _uncompiled(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("compiled"):
        yield
        return
    with uncompiled():
        yield
