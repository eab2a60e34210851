"""Slices of holistic aggregations: each has a name, under which its sorted values are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.aggregations import count
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import bind
from muntin.kernels import cache
from muntin.slicing.blocks import JOINS, NAMED, SLICES
from muntin.slicing.records import Found
from muntin.slicing.runs import Runs
from muntin.slicing.shapes import Shapes, ints
from muntin.slicing.slice_set import SliceSet
from muntin.slicing.strategy import Batch, Plan
from muntin.types import Array


class RunSet(SliceSet):
    """Slices whose values are kept in sorted runs; the state of a slice itself only counts its rows."""

    tagged: ClassVar[bool] = True

    def __init__(self, aggregations: Mapping[str, Aggregation], plan: Plan, shapes: Shapes, *, watched: bool) -> None:
        self.names = tuple(aggregations)
        self.runs = Runs(aggregations, plan.types, plain=cache.is_uncompiled())
        self.unused: list[int] = []
        self.named = 0
        rows = bind({"rows": count()}, {}, time=plan.time_type, nullable=False, gaps=False)
        super().__init__(rows, shapes, watched=watched, merger="lazy")

    def take(self, batch: Batch) -> None:
        """Put rows into slices, and their values into the runs of these."""
        self._prepare(len(batch.times))
        super().take(batch)
        self._add_values(batch)

    def take_late(self, batch: Batch, lateness: int, watermark: int) -> Array:
        """Put rows behind the watermark into slices, and their values into the runs of these."""
        self._prepare(len(batch.times))
        taken = super().take_late(batch, lateness, watermark)
        self.tags = self.tags[taken]
        self._add_values(batch.take(np.flatnonzero(taken)))
        return taken

    def purge(self, chosen: Array, needed: int, watermark: int, lateness: int) -> None:
        """Let slices go that no window needs any more, and their values."""
        self.joins = np.zeros(2 * int(self.marks[SLICES]), np.int64)
        super().purge(chosen, needed, watermark, lateness)
        self._move_values()

    def _prepare(self, rows: int) -> None:
        """Be ready to name as many slices as there are rows, and to note as many joins."""
        self.joins = np.zeros(2 * rows, np.int64)
        self.tags = np.zeros(rows, np.int64)
        more = rows - len(self.unused)
        self.fresh = ints(self.unused) if more <= 0 else ints([*self.unused, *range(self.named, self.named + more)])

    def _add_values(self, batch: Batch) -> None:
        used = int(self.marks[NAMED])
        self.marks[NAMED] = 0
        self.named += max(0, used - len(self.unused))
        self.unused = self.unused[used:]
        self.runs.add(self.tags, batch.columns)
        self._move_values()

    def _move_values(self) -> None:
        """Follow the slices that became one, and forget those that are gone."""
        into, from_ = self.joins[: self.marks[JOINS]].reshape(-1, 2).T
        self.marks[JOINS] = 0
        if len(from_):
            moved = into >= 0
            self.runs.merge(np.ascontiguousarray(into[moved]), np.ascontiguousarray(from_[moved]))
            self.runs.free(np.ascontiguousarray(from_[~moved]))
            self.unused += from_.tolist()

    def answer(self, found: Found) -> dict[str, Any]:
        """Return the raw results of windows by name, selected across the runs of their slices."""
        first, last, tags = self._with_gaps(found) if self.has_gaps else self._slots_of(found)
        raw = self.runs.answer(first, last, tags)
        triples = zip(self.names, self.runs.results, raw, strict=True)
        return {name: (values, valid, result) for name, result, (values, valid) in triples}

    def _slots_of(self, found: Found) -> tuple[Array, Array, Array]:
        """Return for each window its first tag, and the one after its last, among the tags of all windows' slices."""
        keys, window = np.unique(found.keys, return_inverse=True)
        begin, end = np.full(len(keys), len(self.tag)), np.zeros(len(keys), np.int64)
        np.minimum.at(begin, window, found.first)
        np.maximum.at(end, window, found.last)
        sizes = end - begin
        starts = np.cumsum(sizes) - sizes
        slots = np.repeat(begin - starts, sizes) + np.arange(int(sizes.sum()))
        shift = (starts - begin)[window]
        return found.first + shift, found.last + shift, self.tag[slots]

    def _with_gaps(self, found: Found) -> tuple[Array, Array, Array]:
        """Return the same where sessions skip slices in their midst: each window then has tags of its own."""
        bits = np.where(
            found.definitions >= len(self.shapes.kinds), 1 << (found.definitions - len(self.shapes.kinds)), 0
        )
        pieces = []
        for bit, first, last in zip(bits, found.first, found.last, strict=True):
            slots = np.arange(first, last)
            pieces.append(self.tag[slots[self.skip[slots] & bit == 0]])
        sizes = ints(len(piece) for piece in pieces)
        ends = np.cumsum(sizes)
        return ends - sizes, ends, np.concatenate([*pieces, ints([])])

    def save(self) -> dict[str, Array]:
        """Return the slices, and their values."""
        runs = {f"runs.{name}": array for name, array in self.runs.save().items()}
        return super().save() | runs | {"unused": ints(self.unused), "named": ints([self.named])}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `save` returned."""
        super().load(arrays)
        self.runs.load({n.removeprefix("runs."): array for n, array in arrays.items() if n.startswith("runs.")})
        self.unused, self.named = arrays["unused"].tolist(), int(arrays["named"][0])

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use, and of the runs."""
        return super().bytes + self.runs.bytes

    def check(self) -> None:
        """Raise `InvariantError` where slices or their values contradict each other."""
        super().check()
        self.runs.check()
