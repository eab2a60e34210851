"""Map-side slicing: slices go over the network instead of rows."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import select
from muntin.durations import BEFORE_TIME
from muntin.kernels.tiers import working_on
from muntin.query.plan import resolve
from muntin.query.query import Query
from muntin.spark.buckets import Keyed
from muntin.streams.driven import mergeable_slices
from muntin.streams.plan import Forced, strategies_for
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.slices import Slices
from muntin.streams.strategy import Batch
from muntin.tables.run import time_column
from muntin.types import Array

_FEW = 4
"""With fewer rows per slice than this, sending the rows is cheaper."""
_AGAIN = 16
"""The number of batches sent as rows before slices are tried again."""


class Cutter:
    """Cuts rows into slices, as long as that reduces their number."""

    def __init__(self, query: Query, slices: Slices) -> None:
        self.query = query
        # `early` makes every slice count its rows; nothing is ever emitted here.
        self.slices = Slices(replace(slices.plan, early=True))
        self._waits = 0

    @classmethod
    def of(cls, query: Query, schema: pa.Schema) -> Cutter | None:
        """Return a cutter for a query, or None if slices built elsewhere cannot be merged."""
        slices = mergeable_slices(strategies_for(resolve(query, schema), Forced()))
        if not slices or len(slices) != 1 or slices[0].shapes.own.each:
            return None
        return cls(query, slices[0])

    def waits(self) -> bool:
        """Return whether sending rows is better this time."""
        self._waits = max(0, self._waits - 1)
        return self._waits > 0

    def cut(self, table: pa.Table, keyed: Keyed) -> tuple[pa.Table, Array]:
        """Return the slices of rows as a table, and the bucket of each."""
        times = time_column(table, str(self.query.time)).values.astype(np.int64)  # as in streams, to share machine code
        batch = Batch(keyed.numbers, times, select(table, self.query.reads))
        with working_on(table.num_rows):
            self.slices.take(batch, BEFORE_TIME)
        partials = self.slices.give_partials()
        if len(partials.keys) * _FEW > table.num_rows:
            self._waits = _AGAIN + 1
        which = pa.array(partials.keys)
        return as_table([column.take(which) for column in keyed.columns], partials), keyed.buckets[partials.keys]


def as_table(keys: list[Any], partials: Partials) -> pa.Table:
    """Return slices as a table: the key columns by place, then the columns of a slice, its states as bytes."""
    columns = {f"key {i}": column for i, column in enumerate(keys)}
    columns |= {name: pa.array(getattr(partials, name)) for name in ("low", "high", "count")}
    for i, states in enumerate(partials.states):
        data = pa.py_buffer(np.ascontiguousarray(states).view(np.uint8).reshape(-1))
        columns[f"state {i}"] = pa.Array.from_buffers(pa.binary(states.itemsize), len(states), [None, data])
    return pa.table(columns)


def from_table(table: pa.Table, slices: Slices) -> tuple[list[Any], Partials]:
    """Return the key columns and slices that `as_table` was given."""
    keys = [table[name] for name in table.column_names if name.startswith("key ")]
    low, high, count = (table[name].to_numpy().copy() for name in ("low", "high", "count"))
    states = [_states(table[f"state {i}"], each.binding.dtype) for i, each in enumerate(slices.sets)]
    return keys, Partials(low, low, high, count, states)


def _states(column: pa.ChunkedArray, dtype: np.dtype[Any]) -> Array:
    """Return the states of a column; each chunk is read from its own part of a buffer."""
    parts = [
        np.frombuffer(chunk.buffers()[1], np.uint8)[chunk.offset * dtype.itemsize :][: len(chunk) * dtype.itemsize]
        for chunk in column.chunks
    ]
    states = np.empty(len(column), dtype)
    states.view(np.uint8)[:] = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return states


class Cutters:
    """The cutters of this process by query token: a worker gets a new copy of the query for each task."""

    def __init__(self, most: int = 8) -> None:
        self.most = most
        self._known: OrderedDict[str, Cutter | None] = OrderedDict()

    def get(self, token: str, query: Query, schema: pa.Schema) -> Cutter | None:
        """Return the cutter of a query, or None."""
        if token not in self._known:
            self._known[token] = Cutter.of(query, schema)
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return self._known[token]


CUTTERS = Cutters()
