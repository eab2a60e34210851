"""What slicing is measured against and tested by: buckets, a tree over tuples, Pairs and Cutty, as strategies."""

from __future__ import annotations

from muntin.streams import plan
from muntin.streams.strategy import Strategy
from rivals.buckets import Buckets
from rivals.cutty import Cutty
from rivals.pairs import Pairs
from rivals.tuple_tree import TupleTree

STRATEGIES: dict[str, type[Strategy]] = {"buckets": Buckets, "tuple_tree": TupleTree, "pairs": Pairs, "cutty": Cutty}


def register() -> None:
    """Make all of them available to `Query.stream(strategy=...)`, by name."""
    for name, strategy in STRATEGIES.items():
        plan.register(name, strategy)
