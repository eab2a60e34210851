"""Answers as tables: one builder for `run`, streams and Spark, with a schema known before the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.layouts import empty_table
from muntin.query.plan import Plan
from muntin.threads import in_threads
from muntin.types import Array, logical_array
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS

_FEW = 16
_MOST_REPEATED = 64
"""How many small arrays are cached."""

TakeKeys = Callable[[Array], Sequence[Any]]
"""Returns the key columns of key numbers."""


@dataclass(slots=True, eq=False)
class Answers:
    """Emitted windows as columns."""

    keys: Array
    window_ids: Array
    start: Array
    end: Array
    aggregates: Mapping[str, pa.Array]
    revision: Array
    retracted: Array
    rows: tuple[Array, Array] | None = None
    """from_row and to_row, for windows by rows."""
    values: tuple[Array, Array] | None = None
    """from_value and to_value, for windows by a growing column."""
    at: Array | None = None
    """The times of their rows, for frames that do not end with them."""


class AnswerTables:
    """Builds the tables of all engines, with the columns and types of a plan, whatever the answers.

    >>> from muntin import Query, agg, window
    >>> from muntin.query.plan import resolve
    >>> query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    >>> tables = AnswerTables(resolve(query, pa.schema({"t": pa.int64()})))
    >>> tables.table([], lambda numbers: []).column_names
    ['window', 'window_id', 'n', 'revision', 'retracted']
    """

    def __init__(self, plan: Plan) -> None:
        self.time_type = plan.time_type
        self.schema = plan.answer_schema
        self._window_type = self.schema.field("window").type
        self._bounds = [(field.name, field.type) for field in self._window_type]
        self._repeated: dict[bytes, pa.Array] = {}
        self._empty = empty_table(self.schema)
        self._aggregates = list(plan.aggregates)
        self._types = [None if pa.types.is_null(kind) else kind for kind in self.schema.types]
        """None if only the results determine the type of a column."""
        self._all_known = all(kind is not None for kind in self._types)
        self._times_alone = tuple(name for name, _ in self._bounds) == TIME_BOUNDS

    def table(self, answers: Sequence[Answers], take_keys: TakeKeys, threads: int = 1) -> pa.Table:
        """Return the answers as a table, one chunk each; `take_keys` returns the columns of key numbers.

        O(answers). A column whose type is not known before takes that of its results.
        """
        if not answers:
            return self._empty
        tables = in_threads([partial(self._table, each, take_keys) for each in answers], threads)
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables, promote_options="none" if self._all_known else "permissive")

    def _table(self, answers: Answers, take_keys: TakeKeys) -> pa.Table:
        keys, aggregates = take_keys(answers.keys), [answers.aggregates[name] for name in self._aggregates]
        typed = [
            *[cast(array, kind) for array, kind in zip(keys, self._types, strict=False)],
            self._windows(answers),
            self._array(answers.window_ids),
            *[cast(array, kind) for array, kind in zip(aggregates, self._types[len(keys) + 2 :], strict=False)],
            self._array(answers.revision),
            self._array(answers.retracted),
        ]
        if self._all_known:
            return pa.Table.from_arrays(typed, schema=self.schema)
        return pa.Table.from_arrays(typed, names=self.schema.names)

    def _array(self, values: Array) -> pa.Array:
        """Return window numbers or flags as an array; for few windows they mostly repeat, and are cached."""
        if len(values) > _FEW:
            return pa.array(values)
        content = values.dtype.char.encode() + values.tobytes()
        if content not in self._repeated:
            if len(self._repeated) >= _MOST_REPEATED:
                self._repeated.clear()
            self._repeated[content] = pa.array(values)
        return self._repeated[content]

    def _windows(self, answers: Answers) -> pa.StructArray:
        if self._times_alone:
            ends = [self._times(answers.start, None), self._times(answers.end, None)]
            return pa.Array.from_buffers(self._window_type, len(answers.keys), [None], children=ends)
        bounds = {"start": answers.start, "end": answers.end}
        held = None
        if answers.rows is not None:
            bounds |= dict(zip(ROW_BOUNDS, answers.rows, strict=True))
            held = answers.rows[0] < answers.rows[1]  # a window by rows without rows has no first and last one
        if answers.values is not None:
            bounds |= dict(zip(VALUE_BOUNDS, answers.values, strict=True))
        if answers.at is not None:
            bounds[AT] = answers.at
        count = len(answers.keys)
        arrays = [self._bound(bounds.get(name), held, name, kind, count) for name, kind in self._bounds]
        return pa.Array.from_buffers(self._window_type, count, [None], children=arrays)

    def _bound(self, values: Array | None, held: Array | None, name: str, kind: pa.DataType, count: int) -> pa.Array:
        if values is None:
            return pa.nulls(count, kind)
        if name in TIME_BOUNDS:
            return self._times(values, held)
        if name == AT:
            return self._times(values, None)
        return pa.array(values).cast(kind)

    def _times(self, values: Array, held: Array | None) -> pa.Array:
        return logical_array(values.astype(self.time_type.physical), held, self.time_type)


def cast(array: Any, kind: pa.DataType | None) -> Any:
    """Return an array cast to a type, unless that is None; an array of nulls fits any."""
    if kind is None or array.type == kind:
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), kind)
    return array.cast(kind)


def empty_late() -> pa.Table:
    """Return the late rows of a stream that has seen none."""
    return pa.table({})


def as_bytes(table: pa.Table) -> Array:
    """Return a table as an array of bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8).copy()


def from_bytes(data: Array) -> pa.Table:
    """Return the table that `as_bytes` wrote."""
    return pa.ipc.open_stream(pa.py_buffer(data.tobytes())).read_all()
