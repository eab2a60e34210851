"""Trees of rows that are high although they hold few rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muntin.kernels.cache import uncompiled
from muntin.streams.rows import by_mark, by_policy, ledger, rows
from muntin.streams.rows.store import RowStore


class SmallNodes(RowStore):
    """A store whose trees are high although they hold few rows."""

    def __init__(self, types: Any, bindings: Any, leaf: int = 4, fanout: int = 4, moving: Any = None) -> None:
        super().__init__(types, bindings, min(leaf, 4), min(fanout, 4), moving)


@contextmanager
def small_nodes() -> Iterator[None]:
    """Keep rows, marks and emitted windows in such trees, by plain kernels."""
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        for module in (rows, by_policy, by_mark, ledger):
            patch.setattr(module, "RowStore", SmallNodes)
        yield
