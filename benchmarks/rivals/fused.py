"""The aggregates of a stream, fused into as few states as can be, and the way of rows into them and answers out."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.arrays.results import to_arrow
from muntin.columns import Column, boxed, mask_of, read_only
from muntin.query.plan import Plan
from muntin.types import Array


class Fused:
    """The bindings of a plan's aggregates: what compiles together is one, and what holds objects another.

    Nothing is known of the rows to come, so that every column may hold nulls and NaN.
    """

    def __init__(self, plan: Plan) -> None:
        self.names = tuple(plan.aggregates)
        self.commutative = all(each.commutative for each in plan.aggregates.values())
        groups: dict[tuple[bool, bool], dict[str, Aggregation]] = {}
        for name, each in plan.aggregates.items():
            alone = _bound({name: each}, plan)
            objects = all(part.fields is None for part in alone.parts)  # these get Python objects, the others ticks
            groups.setdefault((alone.compiled, objects), {})[name] = each
        self.bindings: tuple[Binding, ...] = tuple(_bound(group, plan) for group in groups.values())

    @property
    def fixed(self) -> bool:
        """Whether every state is a record of numbers."""
        return all(binding.fixed for binding in self.bindings)

    def inputs(self, columns: Mapping[str, Column], rows: Array | slice) -> list[tuple[Array, ...]]:
        """Return for each binding what `lift` reads of some rows, in this order."""
        taken = {
            name: Column(each.values[rows], None if each.valid is None else each.valid[rows], each.type)
            for name, each in columns.items()
        }
        return [_inputs(binding, taken) for binding in self.bindings]

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


def _bound(aggregates: Mapping[str, Aggregation], plan: Plan) -> Binding:
    types = {column: plan.types[column] for each in aggregates.values() for column in each.columns}
    return bind(aggregates, types, time=plan.time_type)


def _inputs(binding: Binding, columns: Mapping[str, Column]) -> tuple[Array, ...]:
    read = [columns[name] for name in binding.columns]
    rows = len(next(iter(columns.values())).values) if columns else 0
    masks = [mask_of([read[p] for p in positions], skip_nan, rows) for positions, skip_nan in binding.masks]
    values = [boxed(column) if binding.boxed(c) else column.values for c, column in enumerate(read)]
    return tuple(read_only(each) for each in (*values, *masks))
