"""A LogMonoidTree whose body is in a store: the forest of a MonoidTree there, with the bounds of both.

In memory a LogMonoidTree renews the nodes above its newest row with every insert, and those above its oldest one with
every eviction. In a store such nodes would be written again and again. The nodes of a MonoidTree never change once they
are there, and O(log n) combines for every call is what it promises too: so this is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregators.log_monoid_tree import LogMonoidTree
from muntin.aggregators.ring import RingAggregator
from muntin.aggregators.stored.tree import StoredMonoidTree
from muntin.stores.base import Store


class StoredLogMonoidTree(StoredMonoidTree, LogMonoidTree):
    """What `LogMonoidTree(store=...)` returns. Use it as a context manager, or close it: that flushes."""

    title: ClassVar[str] = "LogMonoidTree"
    spare: ClassVar[int] = 1
    _in_ring = RingAggregator._in_ring

    @classmethod
    def open(
        cls, store: Store, window_id: str, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any
    ) -> StoredLogMonoidTree:
        """Return a stored window as its last flush left it. See `LogMonoidTree.open`."""
        return cls.reopen(store, window_id, aggregation, **options)
