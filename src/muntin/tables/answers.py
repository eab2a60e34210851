"""Answers as tables: one builder for `run`, streams and Spark, whose schema is known before the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.query.plan import Plan
from muntin.types import Array, logical_array
from muntin.windows.base import AT, ROW_BOUNDS, TIME_BOUNDS, VALUE_BOUNDS

TakeKeys = Callable[[Array], Sequence[Any]]
"""Gives the key columns of key numbers."""


@dataclass(frozen=True)
class Answers:
    """Windows that are emitted, column by column."""

    keys: Array
    window_ids: Array
    start: Array
    end: Array
    aggregates: Mapping[str, pa.Array]
    revision: Array
    retracted: Array
    rows: tuple[Array, Array] | None = None
    """from_row and to_row, where these are windows by rows."""
    values: tuple[Array, Array] | None = None
    """from_value and to_value, where these are windows by a column that advances."""
    at: Array | None = None
    """The times of their rows, where these are frames that do not end with them."""


class AnswerTables:
    """Makes the tables of all engines: the columns and types of a plan, whatever the answers.

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
        self._keys = list(plan.key_types)
        self._empty = self.schema.empty_table()
        self._unknown = [field.name for field in self.schema if pa.types.is_null(field.type)]

    def table(self, answers: Sequence[Answers], take_keys: TakeKeys) -> pa.Table:
        """Return the answers as a table, a chunk for each of them; `take_keys` gives the columns of key numbers.

        O(answers). A column whose type only the results tell has the type of these.
        """
        if not answers:
            return self._empty
        tables = [self._table(each, take_keys) for each in answers]
        return pa.concat_tables(tables, promote_options="permissive" if self._unknown else "none")

    def _table(self, answers: Answers, take_keys: TakeKeys) -> pa.Table:
        columns: dict[str, Any] = dict(zip(self._keys, take_keys(answers.keys), strict=True))
        columns["window"] = self._windows(answers)
        columns["window_id"] = pa.array(answers.window_ids)
        columns |= answers.aggregates
        columns["revision"] = pa.array(answers.revision)
        columns["retracted"] = pa.array(answers.retracted)
        return pa.table({field.name: self._typed(columns[field.name], field) for field in self.schema})

    def _windows(self, answers: Answers) -> pa.StructArray:
        kind: pa.StructType = self.schema.field("window").type
        bounds = dict(zip(TIME_BOUNDS, (answers.start, answers.end), strict=True))
        bounds |= dict(zip(ROW_BOUNDS, answers.rows or (), strict=False))
        bounds |= dict(zip(VALUE_BOUNDS, answers.values or (), strict=False))
        bounds |= {} if answers.at is None else {AT: answers.at}
        # A window by rows that holds none has no first and last one.
        held = None if answers.rows is None else answers.rows[0] < answers.rows[1]
        arrays = [self._bounds(bounds.get(field.name), held, field, len(answers.keys)) for field in kind]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))

    def _bounds(self, values: Array | None, held: Array | None, field: pa.Field, count: int) -> pa.Array:
        if values is None:
            return pa.nulls(count, field.type)
        if field.name in (*TIME_BOUNDS, AT):
            valid = held if field.name in TIME_BOUNDS else None
            return logical_array(values.astype(self.time_type.physical), valid, self.time_type)
        return pa.array(values).cast(field.type)

    def _typed(self, array: Any, field: pa.Field) -> Any:
        """Return an array in the type of its column, or as it is where only the results tell that type."""
        return array if field.name in self._unknown else cast(array, field.type)


def cast(array: Any, kind: pa.DataType) -> Any:
    """Return an array in a type; one of nulls alone fits any."""
    if array.type == kind:
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
