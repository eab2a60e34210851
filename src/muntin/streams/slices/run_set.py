"""Slices of holistic aggregations: each keeps its sorted values under its tag."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from muntin.aggregations import count
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import bind
from muntin.kernels import cache
from muntin.query.plan import Plan
from muntin.streams.found import Found
from muntin.streams.places import Places
from muntin.streams.slices.shapes import Shapes
from muntin.streams.slices.tagged_set import TaggedSet
from muntin.streams.sorted_runs.runs import Runs
from muntin.streams.strategy import Batch
from muntin.types import Array


class RunSet(TaggedSet):
    """Slices whose values are kept in sorted runs; the state of a slice only counts its rows."""

    only_counts: ClassVar[bool] = True

    def __init__(
        self, aggregations: Mapping[str, Aggregation], plan: Plan, shapes: Shapes, *, watched: bool, merger: str
    ) -> None:
        self.names = tuple(aggregations)
        self.runs = Runs(aggregations, plan.types, plain=cache.is_uncompiled())
        rows = bind({"rows": count()}, {}, time=plan.time_type, nullable=False, gaps=False)
        super().__init__(rows, shapes, watched=watched, merger=merger)

    def _add(self, tags: Array, batch: Batch) -> None:
        self.runs.add(tags, batch.columns)

    def _join(self, into: Array, from_: Array, *, by_rows: bool) -> None:
        self.runs.merge(into, from_)

    def _free(self, tags: Array) -> None:
        self.runs.free(tags)

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name, selected across the runs of their slices."""
        raw = self.runs.answer(*self._spans_of(found))
        triples = zip(self.names, self.runs.results, raw, strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def save(self) -> dict[str, Array]:
        """Return the slices, and their values."""
        return super().save() | {f"runs.{name}": array for name, array in self.runs.save().items()}

    def places(self, prefix: str) -> Places:
        """Return where the saved arrays have what belongs to which aggregate: only values are kept."""
        return Places(prefix, self.names, values=self.runs.names_by_group)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        super().load(arrays)
        self.runs.load({n.removeprefix("runs."): array for n, array in arrays.items() if n.startswith("runs.")})
        self.runs.cover(int(arrays["named"][0]))

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use, and of the runs."""
        return super().bytes + self.runs.bytes

    def check(self) -> None:
        """Raise `InvariantError` if slices or their values contradict each other."""
        super().check()
        self.runs.check()
