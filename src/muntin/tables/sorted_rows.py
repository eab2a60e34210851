"""Answers rows that arrive sorted by key and time chunk by chunk, even if they exceed memory.

A chunk ends between two keys if possible. A key longer than a chunk is cut, and the rows that windows still need are
kept for the next one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.columns import select
from muntin.kernels.tiers import working_on
from muntin.query.plan import Plan, resolve
from muntin.query.query import Query
from muntin.tables import cuts
from muntin.tables.answers import AnswerTables
from muntin.tables.run import answers, reach_of, require_room, take_from, time_column
from muntin.types import Array
from muntin.windows.found import Cut, SortedRows

_BYTES = 32 << 20
_ROWS = 1 << 19


class SortedStream:
    """Answers a query over rows that arrive sorted by key and time, ties in order of arrival.

    Memory is that of a chunk, plus the rows that the windows of one key need. If the rows are a piece of a single key,
    `since` and `until` are its cuts; `arrival` is a column with arrival numbers.

    >>> from muntin import Query, agg, window
    >>> query = Query(window.trailing(2), {"n": agg.count()}, key="k", time="t")
    >>> stream = SortedStream(query, chunk=2)
    >>> rows = pa.table({"k": [1, 1, 1, 1, 1, 1, 2], "t": [1, 2, 2, 3, 4, 9, 3]})
    >>> parts = [stream.push(rows.slice(i, 2)) for i in range(0, 7, 2)] + [stream.close()]
    >>> [part["n"].to_pylist() for part in parts if part is not None]
    [[1], [3, 3, 3, 2], [1, 1]]
    """

    def __init__(
        self,
        query: Query,
        *,
        arrival: str | None = None,
        since: Cut | None = None,
        until: Cut | None = None,
        horizon: int | None = None,
        chunk: int = _ROWS,
    ) -> None:
        self.query = query
        self.arrival = arrival
        self.until = until
        self.horizon = horizon
        self.chunk = chunk
        self._since = since
        self._resolved: Plan | None = None
        self._kept = 0
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def push(self, rows: pa.Table) -> pa.Table | None:
        """Take rows; return the complete windows, or None before a chunk is full. O(1) combines per row."""
        if not rows.num_rows:
            return None
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        # Kept rows are read again: there must be more new ones, lest the time become quadratic.
        if (self._rows < self.chunk and self._bytes < _BYTES) or self._rows < 2 * self._kept:
            return None
        return self._chunk()

    def close(self) -> pa.Table | None:
        """Return the remaining windows."""
        if not self._waiting:
            return None
        table, rows = self._read()
        return self._answered(table, rows, self.until)

    def _chunk(self) -> pa.Table | None:
        """Answer what is complete, and keep the rest."""
        table, rows = self._read()
        begin = int(rows.begins[-1])
        if begin:  # only the last key may have more rows
            out = self._answered(table.slice(0, begin), _first_keys(rows, begin), None)
            self._since = None
            self._keep(table.slice(begin))
            return out
        windows = list(self._plan(table.schema).windows.values())
        since = self._since or Cut(int(rows.times[0]), 0)
        cut = Cut(int(rows.times[-1]), since.offset + len(rows.times), since.offset)
        if cut.time < since.time or not all(each.cuttable for each in windows):
            self._keep(table)
            return None
        out = self._answered(table, rows, cut)
        # At least one row stays, needed or not, to tell whether the next ones have the same key.
        kept = min(len(rows.times) - 1, *(each.first_needed(rows, cut) for each in windows))
        self._since = replace(cut, offset=cut.offset + kept)
        self._keep(table.slice(kept))
        return out

    def _keep(self, table: pa.Table) -> None:
        self._kept = table.num_rows
        # A slice would keep the whole table in memory.
        self._waiting = [table.take(pa.array(np.arange(table.num_rows)))] if table.num_rows else []
        self._rows = self._bytes = 0

    def _read(self) -> tuple[pa.Table, SortedRows]:
        table = pa.concat_tables(self._waiting).combine_chunks()
        query = self.query
        time = time_column(table, str(query.time))
        arrival = range(table.num_rows) if self.arrival is None else table[self.arrival].to_numpy()
        rows = SortedRows(
            times=time.values.astype(np.int64),
            ends=key_ends([table[name] for name in query.key], table.num_rows),
            arrival=arrival,
            columns=select(table, query.reads),
            time_type=time.type,
            partial=query.partial,
            emit_empty=query.emit_empty,
            horizon=self.horizon,
        )
        windows = self._plan(table.schema).windows.values()
        require_room(time, str(query.time), reach_of(windows))
        for each in windows:
            each.require_values(rows.columns)
        return table, rows

    def _plan(self, schema: pa.Schema) -> Plan:
        if self._resolved is None:
            self._resolved = resolve(self.query, schema, finite=True)
        return self._resolved

    def _answered(self, table: pa.Table, rows: SortedRows, until: Cut | None) -> pa.Table:
        with working_on(len(rows.times)):
            return self._answers(table, rows, until)

    def _answers(self, table: pa.Table, rows: SortedRows, until: Cut | None) -> pa.Table:
        plan = self._plan(table.schema)
        tables = AnswerTables(plan)
        parts = []
        for i, each in plan.windows.items():
            found, skipped = cuts.answered(each, rows, self._since, until)
            mine = rows.after(skipped)
            take_keys = take_from(self.query.key, table.slice(skipped), mine.begins)
            parts.append(tables.table([answers(plan, i, found, mine)], take_keys))
        return pa.concat_tables(parts, promote_options="permissive")  # types that only the results determine


def key_ends(columns: list[pa.ChunkedArray], rows: int) -> Array:
    """Return the row after the last one of each key, for rows sorted by key. O(rows).

    >>> key_ends([pa.chunked_array([["a", "a", None]])], 3).tolist()
    [2, 3]
    """
    new = np.zeros(rows, np.bool_)
    new[:1] = True
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        new[1:] |= numbers[1:] != numbers[:-1]
    return np.append(np.flatnonzero(new)[1:], rows).astype(np.int64)


def _first_keys(rows: SortedRows, end: int) -> SortedRows:
    """Return the rows of all keys but the last, which begins at `end`."""
    columns = {name: column.take(slice(0, end)) for name, column in rows.columns.items()}
    return replace(rows, times=rows.times[:end], ends=rows.ends[:-1], arrival=rows.arrival[:end], columns=columns)
