"""The map side: packs the rows of a task into a few binaries, one per bucket, and a row with the time.

Spark silently drops rows behind its watermark, and calls Python for each row it groups. So data rows have no event
time, and one row per task, which carries nothing else, has the greatest time that the task has seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import InvalidArgumentError
from muntin.query.query import Query
from muntin.spark.buckets import CLERK, Keyed, bucket_of_each
from muntin.spark.clock import Clock
from muntin.spark.cutter import CUTTERS
from muntin.spark.worker import settle
from muntin.types import Array

PACKED = pa.schema(
    {
        "bucket": pa.int32(),
        "task": pa.int32(),
        "part": pa.int32(),
        "sliced": pa.bool_(),
        "clock": pa.timestamp("us", tz="UTC"),
        "data": pa.binary(),
    }
)
"""The output of a task: task and part give binaries an order that is the same when a task reruns."""
_ROWS = 1 << 18
"""Rows are packed in parts of this size, so that memory is bounded."""


@dataclass
class Packer:
    """Packs the rows of a task; Spark calls it with the task's batches."""

    schema: pa.Schema
    """The columns to pack."""
    key: Sequence[str]
    time: str
    clock: Clock
    labels: list[int]
    query: Query | None = None
    """The query, if rows may be cut into slices before they are sent."""
    rows: int = _ROWS
    wakes: bool = False
    """Whether a batch with rows calls every bucket, not only those with rows."""
    tells_all: bool = False
    """Whether every bucket gets the greatest time, instead of Spark, as for a history."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed rows. O(rows)."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        waiting: list[pa.RecordBatch] = []
        latest: int | None = None
        part = 0
        for inner in batches:
            batch = inner.rename_columns(self.schema.names)
            if batch.num_rows:
                newest = self.latest(batch.column(batch.schema.get_field_index(self.time)))
                latest = newest if latest is None else max(latest, newest)
                waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= self.rows:
                yield self.packed(waiting, task, part)
                waiting, part = [], part + 1
        if waiting:
            yield self.packed(waiting, task, part)
        if latest is not None:
            yield from self._markers(task, self.clock.micros(latest))
        settle()

    def _markers(self, task: int, latest: int) -> Iterator[pa.RecordBatch]:
        """Yield rows without data: for Spark's watermark, and for buckets without rows of this task."""
        none = [None] * len(self.labels)
        if self.tells_all:
            yield _batch(self.labels, task, 0, False, [latest] * len(self.labels), none)
            return
        yield watermark_row(task, latest)
        if self.wakes:
            yield _batch(self.labels, task, 0, False, none, none)

    def latest(self, times: pa.Array) -> int:
        """Return the greatest time; reject a row without one."""
        if times.null_count:
            raise InvalidArgumentError(f"the time column {self.time!r} is null in some row; every row needs a time")
        width = pa.int32() if self.clock.kind == "date" else pa.int64()
        plain = times.cast(width) if self.clock.kind == "integer" else times.view(width)
        return int(plain.to_numpy(zero_copy_only=False).max())

    def packed(self, batches: list[pa.RecordBatch], task: int, part: int) -> pa.RecordBatch:
        """Return rows as one binary per bucket: raw, or cut into slices."""
        table = pa.Table.from_batches(batches).combine_chunks().cast(self.schema)
        table, numbers, is_cut = self._in_buckets(table)
        counts = np.bincount(numbers, minlength=len(self.labels))
        if np.count_nonzero(counts) > 1:
            # 16-bit numbers are radix-sorted, in linear time.
            small = numbers.astype(np.uint16) if len(self.labels) < 1 << 16 else numbers
            table = table.take(pa.array(np.argsort(small, kind="stable")))
        begins = np.cumsum(counts) - counts
        used = np.flatnonzero(counts).tolist()
        data = [as_binary(table.slice(begins[i], counts[i])) for i in used]
        return _batch([self.labels[i] for i in used], task, part, is_cut, [None] * len(used), data)

    def _in_buckets(self, table: pa.Table) -> tuple[pa.Table, Array, bool]:
        """Return rows, or the slices they were cut into, the bucket of each, and whether they were cut."""
        columns, rows, count = [table[name] for name in self.key], table.num_rows, len(self.labels)
        cutter = None if self.query is None else CUTTERS.get(self.token, self.query, self.schema)
        if cutter is not None and cutter.waits():
            return table, bucket_of_each(columns, rows, count), False
        keyed = Keyed.of(columns, rows, count)
        if cutter is None:
            return table, keyed.buckets[keyed.numbers], False
        return *cutter.cut(table, keyed), True


def watermark_row(task: int, micros: int) -> pa.RecordBatch:
    """Return two rows: one with the time, for Spark's watermark, and one for the bucket without rows."""
    return _batch([CLERK, CLERK], task, 0, False, [micros, None], [None, None])


def _batch(labels: list[int], task: int, part: int, sliced: bool, clock: list[Any], data: list[Any]) -> pa.RecordBatch:
    count = len(labels)
    columns = [labels, [task] * count, [part] * count, [sliced] * count, clock, data]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, kind) for each, kind in zip(columns, PACKED.types, strict=True)], schema=PACKED
    )


def as_binary(table: pa.Table) -> bytes:
    """Return a table as bytes (Arrow IPC)."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_binary(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table that `as_binary` wrote, without a copy."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
