"""The rows of all keys in sorted arrays, from which any may be taken: kept where deletions come.

Rows are sorted by key, time and arrival. A row is found by binary search; an insertion or a deletion copies the arrays,
at the speed of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import Column, concatenated, read_only
from muntin.errors import InvariantError
from muntin.keys.table import key_numbers
from muntin.streams.strategy import Batch
from muntin.types import Array, ColumnType, logical_array


@dataclass(frozen=True)
class KeptRows:
    """Rows by key, time and arrival. Its arrays are never written to."""

    keys: Array
    times: Array
    numbers: Array
    """When each row came."""
    columns: Mapping[str, Column]

    @classmethod
    def none(cls, types: Mapping[str, ColumnType]) -> KeptRows:
        """Return no rows."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, {name: _none(kind) for name, kind in types.items()})

    @classmethod
    def of(cls, batch: Batch) -> KeptRows:
        """Return the rows of a batch, sorted. O(m log m)."""
        numbers = np.arange(batch.arrived, batch.arrived + len(batch.times))
        rows = cls(batch.keys, batch.times, numbers, batch.columns)
        return rows.take(np.lexsort((numbers, batch.times, batch.keys)))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, without what objects refer to."""
        masks = sum(0 if each.valid is None else each.valid.nbytes for each in self.columns.values())
        return 3 * self.keys.nbytes + sum(each.values.nbytes for each in self.columns.values()) + masks

    def take(self, places: Array) -> KeptRows:
        """Return some of the rows, by their places or a mask."""
        columns = {name: column.take(places) for name, column in self.columns.items()}
        return KeptRows(self.keys[places], self.times[places], self.numbers[places], columns)

    def bounds(self, keys: Array) -> tuple[Array, Array]:
        """Return the first row of each key, and the row after its last. O(log n) each."""
        return np.searchsorted(self.keys, keys, "left"), np.searchsorted(self.keys, keys, "right")

    def of_keys(self, keys: Array) -> tuple[KeptRows, Array]:
        """Return the rows of some keys, which ascend, and the row after the last of each. O(rows)."""
        first, last = self.bounds(keys)
        sizes = last - first
        ends = np.cumsum(sizes)
        if len(keys) and int(ends[-1]) == len(self):
            return self, ends
        return self.take(np.repeat(first - (ends - sizes), sizes) + np.arange(int(sizes.sum()))), ends

    def with_rows(self, new: KeptRows) -> KeptRows:
        """Return these rows and new ones, which came after them, in order. O(n)."""
        if not len(new):
            return self
        columns = {name: concatenated([column, new.columns[name]]) for name, column in self.columns.items()}
        keys, times, numbers = (
            np.concatenate(pair)
            for pair in ((self.keys, new.keys), (self.times, new.times), (self.numbers, new.numbers))
        )
        whole = KeptRows(keys, times, numbers, columns)
        places = self._places_after(new.keys, new.times) + np.arange(len(new))
        is_new = np.zeros(len(whole), np.bool_)
        is_new[places] = True
        order = np.empty(len(whole), np.int64)
        order[places] = np.arange(len(self), len(whole))
        order[~is_new] = np.arange(len(self))
        return whole.take(order)

    def _places_after(self, keys: Array, times: Array) -> Array:
        """Return how many rows are before new ones: all of their key up to their time. O(log n) each."""
        low, high = self.bounds(keys)
        while (low < high).any():
            middle = (low + high) >> 1
            is_open = low < high
            later = np.zeros(len(keys), np.bool_)
            later[is_open] = self.times[middle[is_open]] > times[is_open]
            high = np.where(is_open & later, middle, high)
            low = np.where(is_open & ~later, middle + 1, low)
        return low

    def at_times_of(self, keys: Array, times: Array) -> Array:
        """Return the places of the rows that have the key and the time of some deletion, in order. O(log n) each."""
        last = self._places_after(keys, times)
        first = self._places_after(keys, times - 1)
        sizes = last - first
        ends = np.cumsum(sizes)
        return np.unique(np.repeat(first - (ends - sizes), sizes) + np.arange(int(sizes.sum())))

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the rows as arrays by name."""
        state = {"keys": self.keys, "times": self.times, "numbers": self.numbers}
        for name, column in self.columns.items():
            state[f"value.{name}"] = column.values
            state[f"valid.{name}"] = np.zeros(0, np.bool_) if column.valid is None else column.valid
        return state

    def load(self, state: Mapping[str, Array], types: Mapping[str, ColumnType]) -> KeptRows:
        """Return the rows that `save` saved."""
        columns = {}
        for name, kind in types.items():
            valid = state[f"valid.{name}"]
            columns[name] = Column(read_only(state[f"value.{name}"]), valid if len(valid) else None, kind)
        return KeptRows(state["keys"], state["times"], state["numbers"], columns)

    def check(self) -> None:
        """Raise `InvariantError` if rows are not in order."""
        order = np.lexsort((self.numbers, self.times, self.keys))
        if not np.array_equal(order, np.arange(len(self))):
            raise InvariantError("rows that may be taken back are not in order")


def alike(parts: Sequence[KeptRows]) -> tuple[Array, int]:
    """Return a number for each row of some parts, equal where key, time and all values are, and how many there are."""
    columns: list[Any] = [np.concatenate([each.keys for each in parts]), np.concatenate([each.times for each in parts])]
    columns = [pa.array(values) for values in columns]
    for name in parts[0].columns:
        column = concatenated([each.columns[name] for each in parts])
        columns.append(logical_array(column.values, column.valid, column.type))
    return key_numbers(columns, sum(map(len, parts)))


def _none(kind: ColumnType) -> Column:
    return Column(read_only(np.zeros(0, kind.physical)), None, kind)
