"""A task of a batch query: answers rows sorted by key and time chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from muntin.query.query import Query
from muntin.spark.names import inner, inner_schema
from muntin.spark.worker import settle
from muntin.tables.answers import cast
from muntin.tables.sorted_rows import SortedStream
from muntin.windows.found import Cut

PIECE = "muntin_piece"
"""The column with the number of a row's piece, if long keys are cut."""
ARRIVAL = "muntin_arrival"
"""The column with arrival numbers, if the order matters."""
_ROWS = 1 << 16
"""The rows of answers in one batch to Spark."""


@dataclass(frozen=True)
class Piece:
    """A part of a long key, between two cuts; None at the start or end of the key."""

    since: Cut | None
    until: Cut | None


@dataclass(frozen=True)
class Task:
    """Answers the rows of a partition; Spark calls it with batches."""

    query: Query
    schema: pa.Schema
    """The columns of the rows."""
    answers: pa.Schema
    """The columns of the answers, in Spark's types, without constant ones."""
    ordered: bool
    """Whether there is a column with arrival numbers."""
    pieces: Mapping[int, Piece] = field(default_factory=dict)
    """The pieces of long keys, by number; each is its own partition."""
    horizon: int | None = None
    """The greatest time of all rows, if windows without rows are wanted."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers. Memory is a chunk of rows and the windows of one key."""
        stream: SortedStream | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch])
            if stream is None:
                stream = self._stream(table)
            yield from self._given(stream.push(self._rows(table)))
        if stream is not None:
            yield from self._given(stream.close())
        settle()

    def _stream(self, table: pa.Table) -> SortedStream:
        number = table[PIECE][0].as_py() if self.pieces else -1
        piece = self.pieces.get(number, Piece(None, None))
        arrival = ARRIVAL if self.ordered else None
        return SortedStream(self.query, arrival=arrival, since=piece.since, until=piece.until, horizon=self.horizon)

    def _rows(self, table: pa.Table) -> pa.Table:
        rows = table.select([inner(name) for name in self.schema.names]).rename_columns(self.schema.names)
        rows = rows.cast(self.schema)  # Spark passes times in the session's zone
        return rows.append_column(ARRIVAL, table[ARRIVAL]) if self.ordered else rows

    def _given(self, table: pa.Table | None) -> Iterator[pa.RecordBatch]:
        if table is None or not table.num_rows:
            return
        columns = [cast(table[field.name].combine_chunks(), field.type) for field in self.answers]
        yield from pa.Table.from_arrays(columns, schema=inner_schema(self.answers)).to_batches(max_chunksize=_ROWS)
