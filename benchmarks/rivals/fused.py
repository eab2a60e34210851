"""The aggregates of a stream, fused into as few states as can be, and the way of rows into them and answers out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.arrays.results import to_arrow
from muntin.columns import Column, read_only
from muntin.query.plan import Plan
from muntin.types import Array


class Fused:
    """The bindings of a plan's aggregates: what compiles together is one, and what holds objects another.

    Nothing is known of the rows to come, so that every column may hold nulls and NaN.
    """

    def __init__(self, plan: Plan) -> None:
        self.names = tuple(plan.aggregates)
        self.commutative = all(each.commutative for each in plan.aggregates.values())
        bind = partial(plan.bind, gaps=True)
        self.bindings: tuple[Binding, ...] = tuple(map(bind, run_together(plan.aggregates, bind)))

    @property
    def fixed(self) -> bool:
        """Whether every state is a record of numbers."""
        return all(binding.fixed for binding in self.bindings)

    def inputs(self, columns: Mapping[str, Column], rows: Array | slice) -> list[tuple[Array, ...]]:
        """Return for each binding what `lift` reads of some rows, in this order."""
        taken = {name: each.take(rows) for name, each in columns.items()}
        count = len(next(iter(taken.values())).values) if taken else 0
        return [tuple(map(read_only, binding.inputs(taken, count))) for binding in self.bindings]

    def outputs(self, count: int) -> list[tuple[Array, ...]]:
        """Return for each binding the arrays that `emit` writes."""
        return [binding.outputs(count) for binding in self.bindings]

    def arrays(self, outputs: list[tuple[Array, ...]]) -> dict[str, pa.Array]:
        """Return answers by name, in the order of the plan."""
        found = {}
        for binding, written in zip(self.bindings, outputs, strict=True):
            raw = binding.raw_results(written)
            for name, result, (values, valid) in zip(binding.names, binding.results, raw, strict=True):
                found[name] = to_arrow((values, valid, result))
        return {name: found[name] for name in self.names}

    def nothing(self, count: int) -> dict[str, pa.Array]:
        """Return nulls, for windows that are taken back."""
        return {name: pa.nulls(count, each.type) for name, each in self.arrays(self.outputs(0)).items()}
