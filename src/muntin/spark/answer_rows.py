"""Answers as rows of a database: the fields of `window` are columns, and an identity is the key of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError
from muntin.query.query import Query
from muntin.spark.identity import moving_bounds
from muntin.tables.latest import bound_columns, key_columns

ID = "muntin_id"
"""The column of identities, 16 bytes each: a primary key must not be null, as columns that identify a window may be."""


@dataclass(frozen=True)
class AnswerRows:
    """The last word of a batch on each of its windows."""

    table: pa.Table
    """The answers, `window` as columns `window_start`, `window_end` and so on, without `retracted`; one a window."""
    ids: Sequence[bytes]
    gone: Sequence[bool]
    """Which windows are retracted."""

    @classmethod
    def of(cls, answers: pa.Table, query: Query | None = None) -> AnswerRows:
        """Return the last word on each window of some answers, of a batch in order of emission. O(answers)."""
        ids = identities(answers, query)
        last: dict[bytes, int] = {}
        revisions = answers["revision"].to_pylist()
        for row, (each, revision) in enumerate(zip(ids, revisions, strict=True)):
            if each not in last or revision >= revisions[last[each]]:
                last[each] = row
        places = list(last.values())
        kept = answers.take(pa.array(places, pa.int64()))
        return cls(_flat(kept), list(last), kept["retracted"].to_pylist())

    @cached_property
    def schema(self) -> pa.Schema:
        """The names and types of the columns, without that of identities."""
        return self.table.schema

    def kept(self, columns: Sequence[list[Any]]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that are not retracted: the identity, and a value of each of these columns."""
        for gone, *row in zip(self.gone, self.ids, *columns, strict=True):
            if not gone:
                yield tuple(row)

    def retracted(self) -> Iterator[tuple[bytes, int]]:
        """Yield the identities and revisions of retracted windows."""
        for gone, each, revision in zip(self.gone, self.ids, self.table["revision"].to_pylist(), strict=True):
            if gone:
                yield each, revision


def _flat(answers: pa.Table) -> pa.Table:
    columns: dict[str, Any] = {}
    for name in answers.column_names:
        if name == "retracted":
            continue
        column = answers[name]
        fields = {name: column}
        if name == "window":
            flat = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            flat = flat if isinstance(flat, pa.StructArray) else pa.array([], column.type)
            fields = {f"window_{each.name}": flat.field(each.name) for each in column.type}
        for each, values in fields.items():
            if each in columns or each == ID:
                raise InvalidArgumentError(
                    f"the table would have two columns {each!r}: give the key or the aggregate of that name another"
                )
            columns[each] = values
    return pa.table(columns)


def identities(answers: pa.Table, query: Query | None = None) -> list[bytes]:
    """Return 16 bytes per row that are equal where the key, `window_id` and the bounds that identify it are. O(rows).

    >>> bounds = pa.array([{"start": 0, "end": 5}, {"start": 5, "end": 10}, {"start": 0, "end": 5}])
    >>> answers = pa.table({"window": bounds, "window_id": [0, 0, 0], "revision": [0, 0, 1], "retracted": [False] * 3})
    >>> first, second, again = identities(answers)
    >>> first == again, first == second
    (True, False)
    """
    window = answers["window"].combine_chunks()
    if isinstance(window, pa.ChunkedArray):  # without rows
        return []
    columns = [answers[name] for name in (*key_columns(answers.column_names), "window_id")]
    moving, window_ids = moving_bounds(query), answers["window_id"].combine_chunks()
    free = pa.array([True] * len(window), pa.bool_())
    for sort, bounds in bound_columns([field.name for field in window.type]).items():
        mine = free if sort == "times" else pc.and_(free, pc.is_valid(window.field(bounds[0])))
        for name in bounds:
            fixed = pc.invert(pc.is_in(window_ids, value_set=pa.array(moving.get(name, []), window_ids.type)))
            columns.append(pc.if_else(pc.and_(mine, fixed), window.field(name), None))
        free = pc.and_(free, pc.invert(mine))
    cells = zip(*[_canonical(column) for column in columns], strict=True)
    return [blake2b(repr(each).encode(), digest_size=16).digest() for each in cells]


def _canonical(column: Any) -> list[Any]:
    """Return values whose `repr` is the same wherever and whenever it is made; -0.0 is 0.0, as Spark has keys."""
    if pa.types.is_temporal(column.type):
        width = pa.int32() if column.type.bit_width == 32 else pa.int64()
        return column.cast(width).to_pylist()  # type: ignore[no-any-return]
    values = column.to_pylist()
    return [None if each is None else each + 0.0 for each in values] if pa.types.is_floating(column.type) else values


def as_json(value: Any) -> str | None:
    """Return a list or a struct as JSON; NaN and infinities as texts, as in Spark's `to_json`.

    >>> as_json({"slope": 2.0, "at": [float("nan"), None]})
    '{"slope": 2.0, "at": ["NaN", null]}'
    """
    return None if value is None else json.dumps(_jsonable(value), allow_nan=False)


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if isinstance(value, float) and value - value != 0:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value if value is None or isinstance(value, str | int | float | bool) else _text(value)


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
