"""Rows on their way to the task that answers them: Spark moves bundles of them, and Python sorts what has come.

Spark's own shuffle and sort take each row apart and put it together again, several times. A bundle is one binary
however many rows it has. What a task gets is sorted in its memory; so this is for tasks that are known not to get
much, see survey.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.engines.batch import time_column
from muntin.engines.spark.pack import as_binary, by_number
from muntin.slicing.keys import key_numbers
from muntin.types import Array

PLACE = "muntin_place"
"""The column that holds the number of the task to which a row goes."""
BUNDLES = pa.schema({PLACE: pa.int32(), "task": pa.int32(), "part": pa.int32(), "data": pa.binary()})
BUNDLES_DDL = f"{PLACE} int, task int, part int, data binary"
_ROWS, _BYTES = 1 << 20, 64 << 20
"""After so many rows, or bytes of them, bundles are made, so that memory is bounded."""
_CHUNK = 1 << 19
"""So many sorted rows are handed on at once."""


@dataclass(frozen=True)
class Bundler:
    """Bundles the rows of a task; Spark calls it with the task's batches."""

    schema: pa.Schema
    """The columns to send."""
    rows: int = _ROWS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a bundle for each place to which some of the rows go. O(rows)."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        waiting: list[pa.RecordBatch] = []
        rows = size = part = 0
        for batch in batches:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= self.rows or size >= _BYTES:
                yield self._bundled(waiting, task, part)
                waiting, rows, size, part = [], 0, 0, part + 1
        if rows:
            yield self._bundled(waiting, task, part)

    def _bundled(self, batches: list[pa.RecordBatch], task: int, part: int) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).combine_chunks()
        places = table[PLACE].to_numpy()
        table = table.select(self.schema.names).cast(self.schema)  # Spark gives times in the session's zone
        found = [(place, task, part, as_binary(rows)) for place, rows in by_number(table, places)]
        columns = [pa.array(each, kind) for each, kind in zip(zip(*found, strict=True), BUNDLES.types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=BUNDLES)


def unbundled(batches: Iterable[pa.RecordBatch], key: Sequence[str], time: str) -> Iterator[tuple[int, pa.Table]]:
    """Yield the place of bundles and their rows, by key and time, equal times as they came. O(rows log bundles).

    Keys are in no order. Memory is twice that of the rows.
    """
    found: list[tuple[int, int, Any]] = []
    place = -1
    for batch in batches:
        for task, part, data in zip(batch["task"], batch["part"], batch["data"], strict=True):
            found.append((task.as_py(), part.as_py(), data.as_buffer()))
        place = batch[PLACE][0].as_py() if batch.num_rows else place
    if not found:
        return
    found.sort(key=lambda each: each[:2])
    table = pa.concat_tables([pa.ipc.open_stream(data).read_all() for _, _, data in found]).combine_chunks()
    found.clear()
    order = key_time_order(table, key, time)
    if order is not None:
        order = pa.array(order)
    for begin in range(0, table.num_rows, _CHUNK):
        yield place, table.slice(begin, _CHUNK) if order is None else table.take(order.slice(begin, _CHUNK))


def key_time_order(table: pa.Table, key: Sequence[str], time: str) -> Array | None:
    """Return rows by key and time, equal ones as they are; None where they are so already.

    Linear in what is in order by time, in some runs; O(n log n) in what is not.

    >>> key_time_order(pa.table({"k": ["b", "a", "b"], "t": [2, 1, 1]}), ["k"], "t").tolist()
    [2, 0, 1]
    """
    times = time_column(table, time).values
    # Of 64 bits NumPy sorts by merging runs: rows that came in order, from several files, have few.
    order = np.argsort(times, kind="stable") if (times[1:] < times[:-1]).any() else None
    numbers, count = key_numbers([table[name] for name in key], table.num_rows)
    if count > 1:
        for shift in range(0, (count - 1).bit_length(), 16):
            digits = (numbers >> shift).astype(np.uint16)  # of 16 bits it sorts in linear time
            step = np.argsort(digits if order is None else digits[order], kind="stable")
            order = step if order is None else order[step]
    return order
