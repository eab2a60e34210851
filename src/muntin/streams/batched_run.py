"""`Query.run` over tables that come in batches: the rows of a long one are folded into slices, and let go.

Few rows are loaded and answered as any table is. More are given to the slices of a stream that knows no watermark: no
row is late, no window is due, until the last row has come. What is held is a state per key and slice. Windows that no
slices answer without the rows (by rows, frames) and aggregates whose states grow need the rows of the table: then the
columns that the query reads are loaded, whatever their number.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.batches import BatchSource
from muntin.columns import in_one_piece
from muntin.errors import MuntinError
from muntin.kernels.tiers import working_on
from muntin.query.computing import computed_rows, without_expressions
from muntin.query.plan import Types, require_time_column
from muntin.query.query import Query
from muntin.streams.core import StreamCore
from muntin.streams.decisions import NOTHING, Facts, decide
from muntin.streams.plan import Forced
from muntin.streams.slices.slices import Slices
from muntin.tables.answers import Answers
from muntin.tables.run import run
from muntin.threads import require_threads

MOST_ROWS = 1 << 22
"""A table of at most so many rows is loaded: to sort them takes less time than to fold them."""
ROWS_AT_ONCE = 1 << 20
"""How many rows are folded together, at least, where there are more."""


def run_batches(query: Query, source: BatchSource, threads: int = 1) -> Any:
    """Return every window of a table that comes in batches, as a table of the same kind. See `Query.run`."""
    require_threads(threads)
    if query.time not in query.expressions:
        require_time_column(query, source.schema.names)
    tables = source.tables(query.inputs)
    if query.computes:
        query, tables = without_expressions(query), _computed(query, tables)
    first, whole = _first(tables)
    core = None if whole else _folding(query, first[0].schema)
    if core is None:
        return source.write(run(query, pa.concat_tables([*first, *tables]), threads))
    with working_on(MOST_ROWS):
        return source.write(_folded(core, first, tables))


def _computed(query: Query, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows that a query's condition holds for, with its columns, batch by batch."""
    for each in tables:
        yield computed_rows(query, each)[0]


def _first(tables: Iterator[pa.Table]) -> tuple[list[pa.Table], bool]:
    """Return tables of more than `MOST_ROWS` rows in all, and False; or all there are, and True."""
    taken, rows = [], 0
    for each in tables:
        taken.append(each)
        rows += each.num_rows
        if rows > MOST_ROWS:
            return taken, False
    return taken, True


def _folding(query: Query, schema: pa.Schema) -> StreamCore | None:
    """Return what folds rows into slices without keeping any; None if a window or an aggregate needs the rows."""
    if query.changes is not None:  # a deletion names a row that may have come any time before
        return None
    # What a stream does by its watermark or the clock is nothing to a finite table.
    finite = replace(query, watermark=0, allowed_lateness=0, idle_timeout=None, emit_early=None, forget_after=None)
    types = Types.of(finite, schema)
    core = StreamCore(finite, dict(enumerate(finite.windows)), types, Forced(), time.time_ns)
    for each in core.strategies:
        if type(each) is not Slices or decide(Facts.of_plan(each.plan)).kept.answer != NOTHING:
            return None
    return core


def _folded(core: StreamCore, first: list[pa.Table], others: Iterator[pa.Table]) -> pa.Table:
    """Return the answers of a core once all rows are folded."""
    rows = 0
    for each in _pushes(first, others):
        try:
            batch = core.read(in_one_piece(each), rows)
        except MuntinError as error:
            raise type(error)(f"{error} (rows are counted from row {rows} on, with which this batch begins)") from None
        core.take(batch)
        core.progress.seen = max(core.progress.seen, batch.latest)  # for ordered=True; no watermark moves
        rows += each.num_rows
    answers = core.close()
    return core.table(answers).take(pa.array(_as_run_has_them(answers)))


def _pushes(first: list[pa.Table], others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of `ROWS_AT_ONCE` rows or somewhat more, but for the last."""
    held: list[pa.Table] = []
    rows = 0
    while first:
        held.append(first.pop(0))
        rows += held[-1].num_rows
        if rows >= ROWS_AT_ONCE:
            yield pa.concat_tables(held)
            held, rows = [], 0
    for each in others:
        held.append(each)
        rows += each.num_rows
        if rows >= ROWS_AT_ONCE:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if rows:
        yield pa.concat_tables(held)


def _as_run_has_them(answers: list[Answers]) -> Any:
    """Return the order of `run` among answers: by window, key and time."""
    if not answers:
        return np.zeros(0, np.int64)
    names = ("end", "start", "keys", "window_ids")
    return np.lexsort([np.concatenate([getattr(each, name) for each in answers]) for name in names])
