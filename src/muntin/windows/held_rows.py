"""The rows of a stream that may still matter, as flat arrays: contiguous per key, by time and then by arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from muntin.columns import Column, concatenated, read_only
from muntin.types import Array, ColumnType


@dataclass(frozen=True)
class HeldRows:
    """Rows with their keys, times, arrival numbers and columns."""

    keys: Array
    times: Array
    numbers: Array
    columns: Mapping[str, Column]

    @classmethod
    def none(cls, types: Mapping[str, ColumnType]) -> HeldRows:
        """Return no rows."""
        empty = {name: Column(np.zeros(0, kind.physical), None, kind) for name, kind in types.items()}
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, empty)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.keys)

    def take(self, which: Array | slice) -> HeldRows:
        """Return some of the rows, by their places or by a mask. O(rows taken), or O(n) for a mask."""
        columns = {name: column.take(which) for name, column in self.columns.items()}
        return HeldRows(self.keys[which], self.times[which], self.numbers[which], columns)

    def sorted(self) -> HeldRows:
        """Return the rows by key and time, stably. O(n log n), O(n) if already sorted."""
        if ascends(self.keys, self.times):
            return self
        return self.take(np.lexsort((self.times, self.keys)))

    def with_rows(self, new: HeldRows) -> HeldRows:
        """Return these sorted rows merged with new ones, which go after those of the same key and time.

        O(n) to copy them, and O(log n) to place each new one.
        """
        new = new.sorted()
        if not len(self) or not len(new):
            return new if len(new) else self
        low, high = self.stretches(new.keys)
        before = _sought(self.times, low, high, new.times, np.less_equal)
        if len(new) <= _FEW:
            edges = [0, *before.tolist(), len(self)]
            old = [self.take(slice(*edge)) for edge in pairwise(edges)]
            fresh = [new.take(slice(i, i + 1)) for i in range(len(new))]
            return joined([old[0], *(part for pair in zip(fresh, old[1:], strict=True) for part in pair)])
        order = np.empty(len(self) + len(new), np.int64)
        is_old = np.ones(len(order), np.bool_)
        places = before + np.arange(len(new))
        is_old[places] = False
        order[places] = len(self) + np.arange(len(new))
        order[is_old] = np.arange(len(self))
        return joined([self, new]).take(order)

    def without(self, first: Array, last: Array) -> HeldRows:
        """Return the rows without the places [first, last), which ascend. O(n)."""
        return self.gathered(np.concatenate(([0], last)), np.append(first, len(self)))

    @property
    def _places(self) -> tuple[Array, Array, Array]:
        return self.keys, self.times, self.numbers

    @cached_property
    def present(self) -> Array:
        """The keys that have rows, ascending."""
        return self.keys[np.flatnonzero(np.diff(self.keys, prepend=-1))] if len(self) else self.keys

    @cached_property
    def ends(self) -> Array:
        """The row after the last one of each key that has rows."""
        return np.append(np.flatnonzero(np.diff(self.keys)) + 1, len(self)).astype(np.int64) if len(self) else self.keys

    def of_key(self, key: int) -> slice:
        """Return the slice of a key's rows. O(log n)."""
        return slice(int(self.keys.searchsorted(key)), int(self.keys.searchsorted(key, "right")))

    def stretches(self, keys: Array) -> tuple[Array, Array]:
        """Return the start and end of each key's rows. O(log n) per key."""
        return np.searchsorted(self.keys, keys, "left"), np.searchsorted(self.keys, keys, "right")

    def near(self, keys: Array, since: Array, until: Array, rows: int) -> tuple[Array, Array]:
        """Return the start and end of each key's rows in [since, until], and `rows` more each way.

        Keys ascend; one without rows gets an empty range. O(log n) per key.
        """
        if len(keys) <= _FEW:  # faster than the overhead of NumPy calls
            each = zip(keys.tolist(), since.tolist(), until.tolist(), strict=True)
            places = [self.near_key(*one, rows) for one in each]
            return np.array([p.start for p in places], np.int64), np.array([p.stop for p in places], np.int64)
        low, high = self.stretches(keys)
        first = _sought(self.times, low, high, since, np.less)
        last = _sought(self.times, low, high, until, np.less_equal)
        return np.maximum(first - rows, low), np.minimum(last + rows, high)

    def near_key(self, key: int, since: int, until: int, rows: int) -> slice:
        """Return the slice of a key's rows in [since, until], and `rows` more each way. O(log n)."""
        mine = self.of_key(key)
        times = self.times[mine]
        first, last = int(times.searchsorted(since, "left")), int(times.searchsorted(until, "right"))
        return slice(mine.start + max(0, first - rows), min(mine.start + last + rows, mine.stop))

    def gathered(self, first: Array, last: Array) -> HeldRows:
        """Return the rows at the places [first, last), which ascend. O(rows taken), no copy if contiguous."""
        if len(first) > 1:
            held = first < last
            first, last = first[held], last[held]
        if not len(first) or (first[1:] == last[:-1]).all():
            return self.take(slice(int(first[0]), int(last[-1])) if len(first) else slice(0, 0))
        if len(first) <= _FEW:
            return joined([self.take(slice(*each)) for each in zip(first.tolist(), last.tolist(), strict=True)])
        sizes = last - first
        skipped = first - np.concatenate(([0], np.cumsum(sizes)[:-1]))
        return self.take(np.repeat(skipped, sizes) + np.arange(sizes.sum()))

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, without what objects refer to."""
        arrays = [*self._places, *(each.values for each in self.columns.values())]
        arrays += [each.valid for each in self.columns.values() if each.valid is not None]
        return sum(array.nbytes for array in arrays)

    def save(self) -> dict[str, Array]:
        """Return the rows as arrays by name."""
        state = {"keys": self.keys, "times": self.times, "numbers": self.numbers}
        for name, column in self.columns.items():
            state[f"value.{name}"] = column.values
            state[f"valid.{name}"] = np.zeros(0, np.bool_) if column.valid is None else column.valid
        return state

    def load(self, state: Mapping[str, Array]) -> HeldRows:
        """Return the rows that `save` returned, with the types of these."""
        columns = {}
        for name, column in self.columns.items():
            valid = state[f"valid.{name}"]
            mask = valid if len(valid) == len(state["keys"]) and len(valid) else None
            columns[name] = Column(read_only(state[f"value.{name}"]), mask, column.type)
        return replace(self, keys=state["keys"], times=state["times"], numbers=state["numbers"], columns=columns)


def joined(parts: Sequence[HeldRows]) -> HeldRows:
    """Return the rows of at least one part, concatenated. O(n)."""
    columns = {name: concatenated([part.columns[name] for part in parts]) for name in parts[0].columns}
    keys, times, numbers = (np.concatenate(each) for each in zip(*(part._places for part in parts), strict=True))
    return HeldRows(keys, times, numbers, columns)


def ascends(keys: Array, times: Array) -> bool:
    """Return whether rows are sorted by key and time. O(n)."""
    same = keys[1:] == keys[:-1]
    return bool(((keys[1:] > keys[:-1]) | (same & (times[1:] >= times[:-1]))).all())


_FEW = 16


def _sought(times: Array, low: Array, high: Array, wanted: Array, goes_before: np.ufunc) -> Array:
    """Return for each range [low, high) of ascending times the first that does not go before. O(log n)."""
    low, high = low.copy(), high.copy()
    open_ones = np.flatnonzero(low < high)
    while len(open_ones):
        middle = (low[open_ones] + high[open_ones]) // 2
        before = goes_before(times[middle], wanted[open_ones])
        low[open_ones[before]] = middle[before] + 1
        high[open_ones[~before]] = middle[~before]
        open_ones = open_ones[low[open_ones] < high[open_ones]]
    return low
