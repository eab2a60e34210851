"""Which tables of the rows of a store must be written again: see `segments`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.streams.rows import tree
from muntin.streams.segments import COUNTS, HELD, STARTS, Segment, Segmented
from muntin.types import OBJECT, Array

if TYPE_CHECKING:
    from muntin.streams.rows.store import RowStore

_LEAST, _MOST = 1 << 14, 1 << 17
"""The least and the most bytes of a table, before integers are shortened."""
_TABLES = 128
"""How many tables there are between these: each save writes about one again beside what is new, and names all."""
_OBJECT = 64
"""The bytes that a value without a fixed size is taken to have."""


class RowSegments:
    """The segments of the rows of a store, and which of them have changed since they were written.

    Rows of a key are evicted from the front, so a table need not say which of its rows are gone, as long as each row
    that is held comes after those. A row that comes before some of these has their tables written again.

    Marking a row costs O(log segments). A save writes what was marked, compares the numbers beside all rows with those
    saved last, and once tables have more evicted rows than others, writes those that have most: amortised O(1) a row.
    """

    def __init__(self, store: RowStore) -> None:
        self.length = 0
        """How many rows make a table."""
        self.starts = np.array([BEFORE_TIME])
        self.segments = [Segment(0, None)]
        self.changed = np.ones(1, np.bool_)
        self.gone = np.zeros(0, np.int64)
        """For each key the greatest time of a row that was evicted."""
        self.beside = {name: held.copy() for name, held in store.beside.items()}
        """The numbers beside rows as they were saved last, by place."""

    @classmethod
    def of(cls, store: RowStore, known: Segmented) -> RowSegments:
        """Return the segments of a store that was loaded from them."""
        made = cls(store)
        made.starts, made.segments = known.starts.copy(), list(known.segments)
        made.changed = np.zeros(len(made.segments), np.bool_)
        made.note_evicted(*known.gone)
        return made

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return int(self.starts.nbytes + self.gone.nbytes + sum(held.nbytes for held in self.beside.values()))

    # ------------------------------------------------------------ what changes

    def note_inserted(self, keys: Array, times: Array) -> None:
        """Mark the segments of inserted rows, and those with evicted rows that come after one of them."""
        self._know_keys(keys)
        first = self._segments_of(times)
        self.changed[first] = True
        behind = np.flatnonzero(times < self.gone[keys])
        if len(behind):
            last = self._segments_of(self.gone[keys[behind]])
            for low, high in set(zip(first[behind].tolist(), last.tolist(), strict=True)):
                self.changed[low : high + 1] = True

    def note_evicted(self, keys: Array, times: Array) -> None:
        """Note the times of the last rows evicted of keys, BEFORE_TIME for none."""
        self._know_keys(keys)
        self.gone[keys] = np.maximum(self.gone[keys], times)

    def grow(self, store: RowStore) -> None:
        """Have room for as many places as the store."""
        for name, held in self.beside.items():
            longer = store.beside[name].copy()
            longer[: len(held)] = held
            self.beside[name] = longer

    def _segments_of(self, times: Array) -> Array:
        found: Array = np.searchsorted(self.starts, times, "right") - 1
        return found

    def _know_keys(self, keys: Array) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.gone):
            more = np.full(max(size, 2 * len(self.gone)) - len(self.gone), BEFORE_TIME)
            self.gone = np.concatenate((self.gone, more))

    # ------------------------------------------------------------ saving

    def save(self, store: RowStore) -> tuple[dict[str, Array], list[Segment]]:
        """Return the facts of the segments, and the segments: those that have changed have arrays."""
        self.length = rows_of_table(store)
        self._mark_changed_numbers(store)
        self._drop_evicted(store)
        self._mark_mostly_evicted(store)
        self._replace_changed(store)
        held = store.tree.keys[tree.ROWS :: tree.KEY]
        held = held[: int(np.flatnonzero(held).max(initial=-1)) + 1]
        counts = np.array([each.rows for each in self.segments], np.int64)
        return {STARTS: self.starts.copy(), COUNTS: counts, HELD: held.copy()}, list(self.segments)

    def _mark_changed_numbers(self, store: RowStore) -> None:
        used = int(store.tree.marks[tree.USED])
        for name, held in store.beside.items():
            before = self.beside[name]
            bits = f"u{held.dtype.itemsize}"  # a number that is not one is itself
            places = np.flatnonzero(held[:used].view(bits) != before[:used].view(bits))
            before[places] = held[places]
            self.changed[self._segments_of(store.tree.times[places])] = True

    def _drop_evicted(self, store: RowStore) -> None:
        """Drop the first segments, of which all rows were evicted."""
        nodes = store.tree.nodes
        leaves = store.tree.keys[tree.KEY * store.present + tree.FIRST] * tree.NODE
        least = store.tree.times[nodes[leaves + tree.BASE] + nodes[leaves + tree.LO]].min()
        first = int(self._segments_of(least))
        self.starts, self.changed = self.starts[first:].copy(), self.changed[first:].copy()
        self.segments = self.segments[first:]

    def _mark_mostly_evicted(self, store: RowStore) -> None:
        counts = np.array([each.rows for each in self.segments], np.int64)
        if int(counts.sum()) > 2 * (len(store) + self.length):
            times = store.tree.times[store.rows()[1]]
            live = np.bincount(self._segments_of(times), minlength=len(counts))
            self.changed |= 2 * live < counts

    def _replace_changed(self, store: RowStore) -> None:
        edges = [*self.starts.tolist(), END_OF_TIME]
        starts: list[int] = []
        segments: list[Segment] = []
        for first, last, is_changed in self._runs():
            if not is_changed:
                starts += edges[first:last]
                segments += self.segments[first:last]
                continue
            for start, rows in self._cut(store, edges[first], edges[last]):
                starts.append(start)
                segments.append(rows)
        starts[0] = BEFORE_TIME  # where a late row belongs
        self.starts, self.segments = np.array(starts, np.int64), segments
        self.changed = np.zeros(len(segments), np.bool_)

    def _runs(self) -> Iterator[tuple[int, int, bool]]:
        """Yield between which segments all have changed, or none."""
        ends = [*(np.flatnonzero(np.diff(self.changed)) + 1).tolist(), len(self.changed)]
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            yield first, last, bool(self.changed[first])

    def _cut(self, store: RowStore, low: int, high: int) -> Iterator[tuple[int, Segment]]:
        """Yield new segments for the rows between two times, with their starts."""
        keys, places = store.rows_between(low, high)
        times = store.tree.times[places]
        starts = [low, *self._cuts(times)]
        which = np.searchsorted(np.array(starts), times, "right") - 1
        for i, start in enumerate(starts):
            mine = slice(None) if len(starts) == 1 else which == i
            if len(places[mine]):
                yield start, Segment(len(places[mine]), store.as_arrays(keys[mine], places[mine]))

    def _cuts(self, times: Array) -> list[int]:
        """Return where to cut rows into tables: the last one has up to one and a half times as many."""
        count = len(times)
        if 2 * count <= 3 * self.length:
            return []
        ranks = np.arange(self.length, count - self.length // 2, self.length)
        cuts = np.unique(np.partition(times, ranks)[ranks])
        return [each for each in cuts.tolist() if each > times.min()]


def has_tables(store: RowStore) -> bool:
    """Return whether the rows of a store are so many that not all are written by each save."""
    return len(store) * _row_bytes(store) >= 4 * _LEAST


def rows_of_table(store: RowStore) -> int:
    """Return how many rows of a store make a table."""
    size = min(max(_LEAST, len(store) * _row_bytes(store) // _TABLES), _MOST)
    return max(1, size // _row_bytes(store))


def _row_bytes(store: RowStore) -> int:
    kinds = [each.dtype for each in (*store.values.values(), *store.beside.values())]
    return 16 + sum(_OBJECT if kind == OBJECT else kind.itemsize for kind in kinds)
