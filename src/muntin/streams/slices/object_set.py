"""Slices of aggregations that do not commute and have Python objects as states: folded on demand.

Such states tend to grow with their rows, as lists do. Combining each row on arrival would copy the slice for every row;
so rows are only kept, by compiled kernels, and a slice is folded by halving when a window is due, and cached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations import count
from muntin.aggregations.binding import Binding, bind
from muntin.aggregators.states import States
from muntin.streams.found import Found
from muntin.streams.places import Places
from muntin.streams.slices.kept_kernels import HALVES
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.shapes import Shapes
from muntin.streams.slices.slice_set import require
from muntin.streams.strategy import Batch
from muntin.types import Array


class ObjectSet(KeptSet):
    """Slices with their rows; the state of a slice only counts them."""

    only_counts: ClassVar[bool] = True

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, merger: str) -> None:
        self.objects = binding
        self.made = np.zeros(0, np.bool_)
        """Whether the state of a tag is up to date."""
        self.folded = binding.slots(0)
        rows = bind({"rows": count()}, {}, nullable=False, gaps=False)
        super().__init__(rows, shapes, watched=watched, merger=merger)

    @property
    def may_fail(self) -> bool:
        """Whether an aggregation can raise an error: any may, with Python objects."""
        return self.objects.may_fail

    @property
    def _halves(self) -> Any:
        return self.objects.uncompiled.kernels(HALVES, "fold_tags", "answer_from_tags", "answer_by_halves")

    def _add(self, tags: Array, batch: Batch) -> None:
        self.rows.add(tags, batch.times, self.objects.inputs(batch.columns, len(batch.times)))
        more = len(self.rows.count) - len(self.made)
        if more > 0:
            self.made = np.concatenate((self.made, np.zeros(more, np.bool_)))
            self.folded = np.concatenate((self.folded, self.objects.slots(more)))
        self._unmake(tags)

    def _join(self, into: Array, from_: Array, *, by_rows: bool) -> None:
        super()._join(into, from_, by_rows=by_rows)
        self._unmake(into)
        self._unmake(from_)

    def _free(self, tags: Array) -> None:
        super()._free(tags)
        self._unmake(tags)

    def _unmake(self, tags: Array) -> None:
        gone = tags[self.made[tags]]
        self.made[gone] = False
        self.folded[gone] = self.objects.slots(1)[0]  # releases the object

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name."""
        outputs = self.objects.outputs(len(found.keys))
        if len(found.keys):
            first, last, tags = self._spans_of(found)
            self._make(np.unique(tags[~self.made[tags]]))
            self._halves.answer_from_tags(self.folded, tags, first, last, outputs)
            self._write_entangled(found, outputs, self._halves.answer_by_halves)
        triples = zip(self.objects.names, self.objects.results, self.objects.raw_results(outputs), strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def _make(self, tags: Array) -> None:
        """Fold the slices of tags."""
        if len(tags):
            order, ends = self.rows.ordered(tags, np.arange(1, len(tags) + 1))
            self._halves.fold_tags(self.rows.inputs, self.rows.times, order, ends, self.folded, tags)
            self.made[tags] = True

    def places(self, prefix: str) -> Places:
        """Return where the saved arrays have what belongs to which aggregate: only rows are kept."""
        return Places.of(prefix, self.objects, rows=True)

    def _load_slices(self, arrays: Mapping[str, Array]) -> None:
        """Load slices; their states are refolded from the rows."""
        super()._load_slices(arrays)
        tags = len(self.rows.count)
        self.made, self.folded = np.zeros(tags, np.bool_), self.objects.slots(tags)

    def check(self) -> None:
        """Raise `InvariantError` if slices contradict each other, or a state its rows."""
        super().check()
        made = np.flatnonzero(self.made)
        states, folded = States(self.objects), self.folded.copy()
        self._make(made)
        for tag in made.tolist():
            same = states.close(states.load(folded, tag), states.load(self.folded, tag))
            require(same, "the state of a slice is not that of its rows")
