"""The rows that slices keep, for states that cannot take a row in the middle and must be refolded.

Rows are appended as they come, whatever their slice, and chained by slice. When the arrays are full, they are compacted
or doubled.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import Generated, standalone
from muntin.streams.slices.kept_kernels import CHAINS
from muntin.types import Array

_FEWEST = 256
_BY_TAG = ("newest", "oldest", "latest", "count", "mixed")


@cache
def _generated() -> Generated:
    return standalone(*CHAINS)


class KeptRows:
    """Rows by tag, with the inputs of `lift`. O(1) per row, amortised, to keep, move and evict it.

    >>> kept = KeptRows()
    >>> kept.add(np.array([0, 1, 0]), np.array([5, 3, 4]), (np.array([7, 8, 9]),))
    >>> order, ends = kept.ordered(np.array([0, 1]), np.array([1, 2]))
    >>> kept.inputs[0][order].tolist(), ends.tolist(), kept.mixed.tolist()[:2]
    ([9, 7, 8], [2, 3], [1, 0])
    """

    def __init__(self) -> None:
        self.used = 0
        self.times = np.zeros(0, np.int64)
        self.inputs: tuple[Array, ...] = ()
        self.older = np.zeros(0, np.int64)
        self.newest, self.oldest, self.latest = (np.zeros(0, np.int64) for _ in range(3))
        self.count, self.mixed = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def __len__(self) -> int:
        """Return the number of rows kept."""
        return int(self.count.sum())

    @property
    def _kernels(self) -> Any:
        return kernel_cache.load(_generated(), compiled=not kernel_cache.is_uncompiled())

    @property
    def _chains(self) -> tuple[Array, ...]:
        return self.older, self.newest, self.oldest, self.latest, self.count, self.mixed

    def add(self, tags: Array, times: Array, inputs: tuple[Array, ...]) -> None:
        """Keep rows, each under its tag, in order of arrival."""
        if not len(tags):
            return
        self.know_tags(int(tags.max()) + 1)
        if not self.inputs:
            self.inputs = tuple(np.zeros(0, each.dtype) for each in inputs)
        begin = self._room_for(len(tags))
        self.used = begin + len(tags)
        for held, new in zip((self.times, *self.inputs), (times, *inputs), strict=True):
            held[begin : self.used] = new
        self._kernels.chain_rows(tags, times, begin, self._chains)

    def join(self, into: Array, from_: Array, *, mixes: bool) -> None:
        """Move the rows of tags to others; `mixes` marks the states of those as invalid."""
        self._kernels.join_chains(into, from_, int(mixes), self._chains)

    def free(self, tags: Array) -> None:
        """Evict the rows of tags."""
        self.count[tags] = 0
        self.mixed[tags] = 0

    def ordered(self, tags: Array, last: Array) -> tuple[Array, Array]:
        """Return rows by groups of tags (the i-th is tags[last[i - 1]:last[i]]), by time, by arrival; and their ends.

        O(n log n).
        """
        rows = self._gathered(tags)
        ends = np.concatenate(([0], np.cumsum(self.count[tags])))[last].astype(np.int64)
        groups = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        return rows[np.lexsort((rows, self.times[rows], groups))], ends

    def _gathered(self, tags: Array) -> Array:
        rows = np.empty(int(self.count[tags].sum()), np.int64)
        self._kernels.gather_rows(tags, self._chains, rows)
        return rows

    def know_tags(self, tags: int) -> None:
        """Have room for some tags."""
        if tags > len(self.count):
            more = max(tags, 2 * len(self.count)) - len(self.count)
            for name in _BY_TAG:
                setattr(self, name, np.concatenate((getattr(self, name), np.zeros(more, np.int64))))

    def _room_for(self, rows: int) -> int:
        """Make room for `rows` more; return the place of the first."""
        if self.used + rows > len(self.times):
            live = np.flatnonzero(self.count)
            is_alive = np.zeros(self.used, np.bool_)
            is_alive[self._gathered(live)] = True
            alive = np.flatnonzero(is_alive)
            places = np.full(self.used + 1, -1, np.int64)  # the last is where -1 points to
            places[alive] = np.arange(len(alive))
            older = places[self.older[alive]]
            self.newest[live], self.oldest[live] = places[self.newest[live]], places[self.oldest[live]]
            length = max(_FEWEST, 2 * (len(alive) + rows))
            self.times = _moved(self.times, alive, length)
            self.inputs = tuple(_moved(each, alive, length) for each in self.inputs)
            self.older = _moved(older, np.arange(len(alive)), length)
            self.used = len(alive)
        return self.used

    def save(self) -> dict[str, Array]:
        """Return the rows in the order of arrival, each with its tag. O(n)."""
        live = np.flatnonzero(self.count)
        owners = np.full(self.used, -1, np.int64)
        owners[self._gathered(live)] = np.repeat(live, self.count[live])
        rows = np.flatnonzero(owners >= 0)
        arrays = {"times": self.times[rows], "tags": owners[rows], "mixed": np.flatnonzero(self.mixed)}
        return arrays | {f"input.{i}": each[rows] for i, each in enumerate(self.inputs)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned. O(n)."""
        self.__init__()  # type: ignore[misc]
        inputs = tuple(state[f"input.{i}"] for i in range(len(state) - 3))
        self.add(state["tags"], state["times"], inputs)
        self.mixed[:] = 0
        self.mixed[state["mixed"]] = 1

    @property
    def bytes(self) -> int:
        """The memory in use, without what objects refer to."""
        row = sum(each.itemsize for each in (self.times, self.older, *self.inputs))
        return self.used * row + 5 * 8 * len(self.count)

    def check(self) -> None:
        """Raise `InvariantError` if chains contradict each other."""
        live = np.flatnonzero(self.count)
        rows = self._gathered(live)
        if len(np.unique(rows)) != len(rows):
            raise InvariantError("KeptRows: a row is under two tags")
        tags = np.repeat(live, self.count[live])
        greatest = np.full(len(self.count), np.iinfo(np.int64).min)
        np.maximum.at(greatest, tags, self.times[rows])
        if not np.array_equal(greatest[live], self.latest[live]):
            raise InvariantError("KeptRows: the latest time of a tag is not that of its rows")


def _moved(array: Array, rows: Array, length: int) -> Array:
    longer = np.zeros(length, array.dtype)
    longer[: len(rows)] = array[rows]
    return longer
