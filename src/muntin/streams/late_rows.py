"""The rows that no window took, as one table, even if pushes differ in their columns or types."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count

import pyarrow as pa

from muntin.columns import in_one_piece, wide
from muntin.layouts import empty_table, plain_table
from muntin.types import Array


@dataclass(frozen=True)
class LateRows:
    """Rows that no window took, in the order of arrival."""

    tables: tuple[pa.Table, ...] = ()
    schema: pa.Schema | None = None
    """The columns of all late rows; before the first one, those of the first push. None before that."""

    def table(self) -> pa.Table:
        """Return the rows as one table, with null where a push lacks a column. O(rows)."""
        if self.schema is None:
            return pa.table({})
        return in_one_piece(pa.concat_tables([empty_table(self.schema), *(_in(self.schema, t) for t in self.tables)]))

    def with_rows(self, data: pa.Table, late: Array) -> LateRows:
        """Return these rows and the late ones of a table. O(rows)."""
        data = plain_table(data)
        if self.schema is None:
            data = _distinct(data)
            rows = data.filter(pa.array(late))
            return LateRows((rows,) if rows.num_rows else (), _wide(data.schema))
        if not late.any():
            return self
        rows = _distinct(data.filter(pa.array(late)))
        return LateRows((*self.tables, rows), _unified(self.schema, _fitting(rows, self.schema)))

    def newest(self, most: int | None) -> tuple[LateRows, int]:
        """Return the last `most` rows at most, and how many were dropped. O(pushes with late rows)."""
        let_go = 0 if most is None else max(0, sum(each.num_rows for each in self.tables) - most)
        if not let_go:
            return self, 0
        kept, over = list(self.tables), let_go
        while over >= (kept[0].num_rows if kept else over + 1):
            over -= kept.pop(0).num_rows
        if over:
            kept[0] = kept[0].slice(over)
        return LateRows(tuple(kept), self.schema), let_go


def _distinct(data: pa.Table) -> pa.Table:
    """Return rows with distinct column names: columns that no query reads may share one."""
    names: list[str] = []
    for name in data.column_names:
        variants = chain([name], (f"{name} {number}" for number in count(2)))
        names.append(next(each for each in variants if each not in names))
    return data if names == data.column_names else data.rename_columns(names)


def _fitting(rows: pa.Table, schema: pa.Schema) -> pa.Schema:
    """Return the types of rows, or the earlier types of their columns if the rows fit them: a boolean as 1."""
    return pa.schema([(field.name, _fits(rows, field.name, field.type, schema)) for field in rows.schema])


def _fits(rows: pa.Table, name: str, kind: pa.DataType, schema: pa.Schema) -> pa.DataType:
    place = schema.get_field_index(name)
    if place >= 0 and schema.types[place] != kind:
        with suppress(pa.ArrowException):
            rows[name].cast(schema.types[place])
            return schema.types[place]
    return kind


def _wide(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, wide(field.type)) for field in schema])


def _unified(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return a schema for the rows of both. A column that no common type holds is text."""
    kinds = dict(zip(one.names, one.types, strict=True))
    for name, kind in zip(other.names, other.types, strict=True):
        kinds[name] = _common(kinds.get(name, wide(kind)), wide(kind))
    return pa.schema(kinds)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    try:
        both = [pa.schema({"": kind}) for kind in (one, other)]
        return pa.unify_schemas(both, promote_options="permissive").types[0]
    except pa.ArrowException:
        return pa.string()


def _in(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    """Return rows with the columns of a schema that holds them."""
    columns = [
        _cast(rows[field.name], field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:  # Arrow has no cast to text for this type
        return pa.chunked_array([[None if each is None else str(each) for each in column.to_pylist()]], kind)
