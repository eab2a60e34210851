"""Unpacks binaries of answers into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from muntin.spark.bucket import PACKED_ANSWERS
from muntin.spark.local_files import read_table
from muntin.spark.names import inner_schema
from muntin.spark.pack import from_binary
from muntin.spark.worker import settle

LATE = "late"
"""The column of late rows, if requested."""


@dataclass(frozen=True)
class Unpacker:
    """Unpacks the answers of buckets; Spark calls it with batches."""

    schema: pa.Schema
    """The columns of the answers, in Spark's types; the last one is `late` if late rows are requested."""
    late: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers, and late rows as rows that are null except for `late`. O(n)."""
        for batch in batches:
            for answers, path, late in zip(*(batch[name] for name in PACKED_ANSWERS.names), strict=True):
                if answers.is_valid:
                    yield from self._answers(from_binary(answers.as_buffer())).to_batches()
                if path.is_valid:
                    yield from self._answers(read_table(path.as_py())).to_batches()
                if late.is_valid:
                    yield from self._late(from_binary(late.as_buffer())).to_batches()
        settle()

    def _answers(self, table: pa.Table) -> pa.Table:
        if self.late:
            table = table.append_column(LATE, pa.nulls(table.num_rows, self.schema.field(LATE).type))
        return table.cast(self.schema).rename_columns(inner_schema(self.schema).names)

    def _late(self, table: pa.Table) -> pa.Table:
        kind = self.schema.field(LATE).type
        arrays = [table[field.name].combine_chunks().cast(field.type) for field in kind]
        rows = pa.StructArray.from_arrays(arrays, fields=list(kind))
        columns = [
            rows if name == LATE else pa.nulls(len(rows), kind)
            for name, kind in zip(self.schema.names, self.schema.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=inner_schema(self.schema))
