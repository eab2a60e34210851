"""Slices of aggregations that do not commute: each keeps its rows, so that it can be refolded in order.

A row in order is combined with its slice's state, as usual. A row before the last of its slice invalidates the state;
the slice is refolded from its rows when it is next read.

Rows that a session rejected have slices of their own, which may lie within the time of another slice. Then no order of
slices is that of the rows; windows with such slices are folded from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.streams.found import Found
from muntin.streams.places import Places
from muntin.streams.slices.kept_kernels import FOLDS
from muntin.streams.slices.kept_rows import KeptRows
from muntin.streams.slices.shapes import Shapes
from muntin.streams.slices.slice_set import require
from muntin.streams.slices.tagged_set import TaggedSet
from muntin.streams.strategy import Batch
from muntin.types import Array

_ENTRIES = ("fold_slices", "answer_from_rows")


class KeptSet(TaggedSet):
    """Slices with their rows."""

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, merger: str) -> None:
        self.rows = KeptRows()
        self._lacks_rows = False  # of slices that another query began, whose aggregates read other columns
        super().__init__(binding, shapes, watched=watched, merger=merger)

    @property
    def _folds(self) -> Any:
        return self.binding.kernels(FOLDS, *_ENTRIES)

    def _add(self, tags: Array, batch: Batch) -> None:
        self.rows.add(tags, batch.times, self.binding.inputs(batch.columns, len(batch.times)))

    def _join(self, into: Array, from_: Array, *, by_rows: bool) -> None:
        self.rows.join(into, from_, mixes=by_rows)

    def _free(self, tags: Array) -> None:
        self.rows.free(tags)

    def _write(self, found: Found, outputs: tuple[Array, ...]) -> None:
        self._refold(found)
        super()._write(found, outputs)
        self._write_entangled(found, outputs, self._folds.answer_from_rows)

    def _write_entangled(self, found: Found, outputs: tuple[Array, ...], answer: Any) -> None:
        """Rewrite the answers of windows that only their rows can answer."""
        entangled = self._entangled(found)
        if len(entangled):
            order, ends = self.rows.ordered(*self._tags_of(found.pick(entangled)))
            for valid in outputs[1::2]:
                if len(valid):
                    valid[entangled] = True  # `emit` only ever marks nulls
            answer(self.rows.inputs, self.rows.times, order, ends, outputs, entangled)

    def _refold(self, found: Found) -> None:
        """Refold the slices of windows whose rows did not come in order."""
        if not self.rows.mixed.any():
            return
        slots, keys, _ = self._stretches(found)
        mixed = self.rows.mixed[self.slices.tag[slots]] != 0
        slots, keys = slots[mixed], keys[mixed]
        self._fold(self._folds, slots, self.states, slots)
        self.rows.mixed[self.slices.tag[slots]] = 0
        np.minimum.at(self.blocks.stale, keys, slots - self.blocks.base[keys])

    def _fold(self, module: Any, slots: Array, states: Array, places: Array) -> None:
        """Write the states of slices, folded from their rows."""
        if len(slots):
            order, ends = self.rows.ordered(self.slices.tag[slots], np.arange(1, len(slots) + 1))
            module.fold_slices(self.rows.inputs, self.rows.times, order, ends, states, places)

    def _entangled(self, found: Found) -> Array:
        """Return the windows in which a slice begins before the last row of an earlier one."""
        if not self.has_gaps or not len(found.keys):
            return np.zeros(0, np.int64)
        slots, keys, shift = self._stretches(found)
        within = (self.slices.first[slots[1:]] < self.slices.last[slots[:-1]]) & (keys[1:] == keys[:-1])
        before = np.concatenate(([0], np.cumsum(within)))  # the number of such slices up to each
        return np.flatnonzero(before[found.last + shift - 1] > before[found.first + shift])

    @property
    def kept(self) -> int:
        """The number of rows kept."""
        return len(self.rows)

    def save(self) -> dict[str, Array]:
        """Return the slices and their rows."""
        return super().save() | {f"rows.{name}": array for name, array in self.rows.save().items()}

    def places(self, prefix: str) -> Places:
        """Return where the saved arrays have what belongs to which aggregate."""
        return Places.of(prefix, self.binding, states=("states",), rows=True)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        self.rows.load({n.removeprefix("rows."): array for n, array in arrays.items() if n.startswith("rows.")})
        self.rows.know_tags(int(arrays["named"][0]))
        self._load_slices(arrays)

    def _load_slices(self, arrays: Mapping[str, Array]) -> None:
        super().load(arrays)
        slots = self.slots()[2]
        self._lacks_rows = self.watched and bool((self._rows_of(slots) < self.slices.count[slots]).any())

    def _rows_of(self, slots: Array) -> Array:
        count: Array = self.rows.count[self.slices.tag[slots]]
        return count

    @property
    def bytes(self) -> int:
        """The memory of the blocks in use, and of the rows."""
        return super().bytes + self.rows.bytes

    def check(self) -> None:
        """Raise `InvariantError` if slices contradict each other, or a state its rows."""
        super().check()
        self.rows.check()
        _, _, slots = self.slots()
        tags = self.slices.tag[slots]
        require(len(np.unique(tags)) == len(tags), "two slices have one name")
        require(int(self.rows.count[tags].sum()) == len(self.rows), "rows are kept of a slice that is gone")
        if self.watched:
            lacking = self.slices.count[slots] - self._rows_of(slots)
            whole = (lacking >= 0 if self._lacks_rows else lacking == 0).all()
            require(bool(whole), "a slice has other rows than are kept")
        slots = slots[(self.rows.mixed[tags] == 0) & (self.rows.count[tags] > 0)]
        states, folded = States(self.binding), self.binding.slots(len(slots))
        self._fold(self.binding.uncompiled.kernels(FOLDS, *_ENTRIES), slots, folded, np.arange(len(slots)))
        for i, slot in enumerate(slots):
            same = states.close(states.load(folded, i), states.load(self.states, slot))
            require(same, "the state of a slice is not that of its rows")
