"""The answers of strategies as tables of one schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.arrays.results import arrow_types
from muntin.query.plan import Plan
from muntin.types import INT64, Array, ColumnType, logical_array
from muntin.windows.advancing import Delta
from muntin.windows.base import Measure, Window


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


class AnswerTables:
    """Makes tables of what strategies answer: the same columns and types, whatever the answers."""

    def __init__(self, plan: Plan, windows: Sequence[Window], keys: Mapping[str, pa.DataType]) -> None:
        self.time_type = plan.time_type
        bounds: dict[str, pa.DataType] = dict.fromkeys(("start", "end"), plan.time_type.logical)
        if any(each.measure in (Measure.ROWS, Measure.MULTI) for each in windows):
            bounds |= dict.fromkeys(("from_row", "to_row"), pa.int64())
        if any(each.measure is Measure.DELTA for each in windows):
            bounds |= dict.fromkeys(("from_value", "to_value"), delta_type(windows, plan.types))
        self.keys = list(keys)
        self.schema = pa.schema(
            {
                **keys,
                "window": pa.struct(list(bounds.items())),
                "window_id": pa.int64(),
                **arrow_types(plan.aggregates, plan.types, plan.time_type),
                "revision": pa.int64(),
                "retracted": pa.bool_(),
            }
        )

    def table(self, answers: list[Answers], take_keys: Any) -> pa.Table:
        """Return the answers as a table; `take_keys` gives the key columns of key numbers."""
        if not answers:
            return self.schema.empty_table()
        return pa.concat_tables([self._table(each, take_keys) for each in answers]).combine_chunks()

    def _table(self, answers: Answers, take_keys: Any) -> pa.Table:
        columns = dict(zip(self.keys, take_keys(answers.keys), strict=True))
        columns["window"] = self._windows(answers)
        columns["window_id"] = pa.array(answers.window_ids)
        columns |= answers.aggregates
        columns["revision"] = pa.array(answers.revision)
        columns["retracted"] = pa.array(answers.retracted)
        arrays = [cast(columns[field.name], field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _windows(self, answers: Answers) -> pa.StructArray:
        kind: pa.StructType = self.schema.field("window").type
        bounds = {"start": answers.start, "end": answers.end}
        bounds |= dict(zip(("from_row", "to_row"), answers.rows or (), strict=False))
        bounds |= dict(zip(("from_value", "to_value"), answers.values or (), strict=False))
        arrays = [self._bounds(bounds.get(field.name), field, len(answers.keys)) for field in kind]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))

    def _bounds(self, values: Array | None, field: pa.Field, count: int) -> pa.Array:
        if values is None:
            return pa.nulls(count, field.type)
        if field.name in ("start", "end"):
            return logical_array(values.astype(self.time_type.physical), None, self.time_type)
        return pa.array(values).cast(field.type)


def delta_type(windows: Sequence[Window], types: Mapping[str, ColumnType]) -> pa.DataType:
    """Return the type of the bounds of windows by value: integers where all columns and steps are, floats otherwise."""
    whole = all(
        types.get(each.column, INT64).family == "integer"
        and all(isinstance(step, int) for step in (each.range, each.every, each.offset))
        for each in windows
        if isinstance(each, Delta)
    )
    return pa.int64() if whole else pa.float64()


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
