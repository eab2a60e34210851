"""Slices with data kept elsewhere: each has a tag, and the data under it follows the slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.streams.blocks import JOINS, NAMED, SLICES
from muntin.streams.found import Found
from muntin.streams.slices.shapes import Shapes, ints
from muntin.streams.slices.slice_set import SliceSet
from muntin.streams.strategy import Batch
from muntin.types import Array


class TaggedSet(SliceSet):
    """Slices with tags: small numbers, reused after their slices are evicted."""

    tagged: ClassVar[bool] = True

    def __init__(self, binding: Binding, shapes: Shapes, *, watched: bool, merger: str) -> None:
        self.unused: list[int] = []
        self.named = 0
        super().__init__(binding, shapes, watched=watched, merger=merger)

    @abstractmethod
    def _add(self, tags: Array, batch: Batch) -> None:
        """Keep data of rows, under the tags of their slices."""

    @abstractmethod
    def _join(self, into: Array, from_: Array, *, by_rows: bool) -> None:
        """Move the data of some tags to others, pair by pair: their slices were merged, by rows or by time."""

    @abstractmethod
    def _free(self, tags: Array) -> None:
        """Drop the data of tags."""

    def take(self, batch: Batch) -> None:
        """Put rows into slices, and keep their data under the slices' tags."""
        self._prepare(len(batch.times))
        super().take(batch)
        self._added(batch)

    def take_late(self, batch: Batch, lateness: int, watermark: int) -> Array:
        """Put rows behind the watermark into slices, and keep their data under the slices' tags."""
        self._prepare(len(batch.times))
        taken = super().take_late(batch, lateness, watermark)
        self.tags = self.tags[taken]
        self._added(batch.take(np.flatnonzero(taken)))
        return taken

    def purge(self, chosen: Array, needed: int, watermark: int, lateness: int) -> None:
        """Evict slices that no window needs any more, and their data."""
        self._note_joins(int(self.marks[SLICES]))
        super().purge(chosen, needed, watermark, lateness)
        self._follow(by_rows=False)

    def _prepare(self, rows: int) -> None:
        """Make room for as many tags and joins as there are rows."""
        self._note_joins(rows)
        self.tags = np.zeros(rows, np.int64)
        more = max(0, rows - len(self.unused))
        self.fresh = np.concatenate((ints(self.unused[:rows]), np.arange(self.named, self.named + more)))

    def _note_joins(self, most: int) -> None:
        """Make room for `most` joins."""
        self.slices = self.slices._replace(joins=np.zeros(2 * most, np.int64))

    def _added(self, batch: Batch) -> None:
        used = int(self.marks[NAMED])
        self.marks[NAMED] = 0
        self.named += max(0, used - len(self.unused))
        self.unused = self.unused[used:]
        self._add(self.tags, batch)
        self._follow(by_rows=True)

    def _follow(self, *, by_rows: bool) -> None:
        """Move the data of merged slices, and drop that of evicted ones."""
        into, from_ = self.slices.joins[: self.marks[JOINS]].reshape(-1, 2).T
        self.marks[JOINS] = 0
        if len(from_):
            moved = into >= 0
            self._join(np.ascontiguousarray(into[moved]), np.ascontiguousarray(from_[moved]), by_rows=by_rows)
            self._free(np.ascontiguousarray(from_[~moved]))
            self.unused += from_.tolist()

    def _stretches(self, found: Found) -> tuple[Array, Array, Array]:
        """Return the slots between the first and the last of each key's windows, and the key of each.

        Third is the offset of each window's slots from their places among these.
        """
        keys, window = np.unique(found.keys, return_inverse=True)
        begin, end = np.full(len(keys), len(self.slices.tag)), np.zeros(len(keys), np.int64)
        np.minimum.at(begin, window, found.first)
        np.maximum.at(end, window, found.last)
        sizes = end - begin
        starts = np.cumsum(sizes) - sizes
        slots = np.repeat(begin - starts, sizes) + np.arange(int(sizes.sum()))
        return slots, np.repeat(keys, sizes), (starts - begin)[window]

    def _spans_of(self, found: Found) -> tuple[Array, Array, Array]:
        """Return each window's first tag, and the one after its last, among the tags of all windows' slices."""
        if self.has_gaps:
            tags, last = self._tags_of(found)  # sessions skip slices in the middle: each window has its own tags
            return last - np.diff(last, prepend=0), last, tags
        slots, _, shift = self._stretches(found)
        return found.first + shift, found.last + shift, self.slices.tag[slots]

    def _tags_of(self, found: Found) -> tuple[Array, Array]:
        """Return the tags of each window, without slices that a session skips, and the end of each window's."""
        shift = len(self.shapes.kinds)
        bits = np.where(found.definitions >= shift, 1 << np.maximum(0, found.definitions - shift), 0)
        pieces = []
        for bit, first, last in zip(bits, found.first, found.last, strict=True):
            slots = np.arange(first, last)
            pieces.append(self.slices.tag[slots[self.slices.skip[slots] & bit == 0]])
        return np.concatenate([*pieces, ints([])]), np.cumsum(ints(len(piece) for piece in pieces))

    def save(self) -> dict[str, Array]:
        """Return the slices and their tags."""
        return super().save() | {"unused": ints(self.unused), "named": ints([self.named])}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        super().load(arrays)
        self.unused, self.named = arrays["unused"].tolist(), int(arrays["named"][0])
