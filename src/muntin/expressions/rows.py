"""The columns and the condition of a query over rows: resolved once by the types of the columns, then evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.columns import missing
from muntin.errors import ColumnError, ColumnTypeError
from muntin.expressions import arrow, spark, types
from muntin.expressions.functions import operation
from muntin.expressions.parse import parse
from muntin.expressions.places import Text
from muntin.expressions.tree import Call, Expression, Name, Value
from muntin.expressions.typed import RefusedTypes, Typed, condition
from muntin.layouts import plain_column, plain_type

Columns = Mapping[str, str]
WHERE = "where"


def label(name: str) -> str:
    """Return what errors call the expression of a column."""
    return f"columns[{name!r}]"


def names_of(text: str, where: str) -> tuple[str, ...]:
    """Return the columns that an expression reads, each once. O(length).

    >>> names_of("price * pieces > price", "where")
    ('price', 'pieces')
    """
    return tuple(dict.fromkeys(each.path[0] for each in parse(text, where).names()))


@dataclass(frozen=True)
class RowExpressions:
    """Expressions whose types are known: computed columns, and which rows there are."""

    columns: Mapping[str, Typed]
    where: Typed | None
    inputs: pa.Schema
    """The columns that they read, in Spark's types."""

    @classmethod
    def of(cls, columns: Columns, where: str | None, schema: pa.Schema) -> RowExpressions:
        """Resolve expressions by the types of a table's columns; reject what does not fit, at its place."""
        resolver = _Resolver(schema)
        found = {name: resolver.resolved(text, label(name)) for name, text in columns.items()}
        kept = None if where is None else resolver.resolved(where, WHERE, of_rows=True)
        return cls(found, kept, pa.schema(resolver.read))

    @cached_property
    def read_by_columns(self) -> frozenset[str]:
        """The columns that the computed ones read; the condition may read others."""
        return frozenset(name for each in self.columns.values() for name in _columns_of(each))

    @property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the computed columns."""
        return {name: each.type for name, each in self.columns.items()}

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of rows with the computed ones: in the place of one of the same name, else behind."""
        kinds = dict(zip(schema.names, schema.types, strict=True)) | self.types
        return pa.schema(kinds)

    def kept(self, table: pa.Table) -> pa.ChunkedArray | None:
        """Return which rows of a table the condition holds for; None where all are kept. O(rows)."""
        if self.where is None:
            return None
        return pc.fill_null(_evaluated(self.where, _read(table, self.inputs)), False)

    def over(self, table: pa.Table) -> pa.Table:
        """Return the rows that the condition holds for, with the computed columns. O(rows)."""
        kept = self.kept(table)
        if kept is not None and not pc.all(kept, min_count=0).as_py():
            table = table.filter(kept)
        return self.with_columns(table)

    def with_columns(self, table: pa.Table) -> pa.Table:
        """Return rows with the computed columns, in the places of those of the same names, else behind. O(rows)."""
        read = _read(table, self.inputs)
        for name, each in self.columns.items():
            column = _evaluated(each, read)
            place = table.schema.get_field_index(name)
            table = table.append_column(name, column) if place < 0 else table.set_column(place, name, column)
        return table

    def texts(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the computed columns as texts for Spark, whose names of the read ones are given."""
        return {name: spark.text(each, dict(columns)) for name, each in self.columns.items()}

    def text_of_where(self, columns: Mapping[str, str]) -> str | None:
        """Return the condition as a text for Spark."""
        return None if self.where is None else spark.text(self.where, dict(columns))


class _Resolver:
    """Finds the types of expressions over columns of known types."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.read: dict[str, pa.DataType] = {}

    def resolved(self, text: str, where: str, *, of_rows: bool = False) -> Typed:
        """Return an expression with its types."""
        tree, written = parse(text, where), Text(text, where)
        found = self._part(tree, written)
        if not of_rows:
            return found
        return self._typed(lambda: condition("WHERE", found), tree, written)

    def _part(self, part: Expression, text: Text) -> Typed:
        if isinstance(part, Value):
            return Typed("value", part.type, value=part.value)
        if isinstance(part, Name):
            return self._column(part, text)
        assert isinstance(part, Call)
        operands = [self._part(each, text) for each in part.arguments]
        node = Typed(part.name, types.NULL, word=part.word)
        return self._typed(lambda: operation(part.name).rule(node, operands), part, text)

    def _typed(self, rule: Callable[[], Typed], part: Expression, text: Text) -> Typed:
        try:
            return rule()
        except RefusedTypes as error:
            raise ColumnTypeError(str(text.refused_at(part.start, str(error)))) from error

    def _column(self, part: Name, text: Text) -> Typed:
        name, *fields = part.path
        known = self._schema.names
        if known.count(name) != 1:
            times = known.count(name)
            what = missing(name, known) if not times else f"there are {times} columns {name!r}; give each its own name"
            raise ColumnError(str(text.refused_at(part.start, str(what))))
        kind = types.as_spark(plain_type(self._schema.field(name).type))
        self.read[name] = kind
        for i, each in enumerate(fields):
            if not pa.types.is_struct(kind) or kind.get_field_index(each) < 0:
                inside = [field.name for field in kind] if pa.types.is_struct(kind) else []
                whole = ".".join(part.path[: i + 1])
                raise ColumnError(
                    str(
                        text.refused_at(
                            part.start, f"{whole} has no field {each!r}; it has {', '.join(inside) or 'none'}"
                        )
                    )
                )
            kind = types.as_spark(plain_type(kind.field(each).type))
        return Typed("column", kind, value=part.path)


def _columns_of(part: Typed) -> Iterator[str]:
    if part.name == "column":
        yield part.value[0]
    for each in part.arguments:
        yield from _columns_of(each)


# ---------------------------------------------------------------- evaluation


def _read(table: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    """Return the columns of a schema in its types, chunk by chunk, and the number of rows of each."""
    columns = [as_type(table.column(table.schema.get_field_index(each.name)), each.type) for each in schema]
    if not columns:
        return [{"": table.num_rows}]
    held = pa.Table.from_arrays(
        columns, schema=pa.schema([(each.name, c.type) for each, c in zip(schema, columns, strict=True)])
    )
    batches = held.to_batches() or [
        pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in held.schema], schema=held.schema)
    ]
    return [{"": batch.num_rows, **dict(zip(held.column_names, batch.columns, strict=True))} for batch in batches]


def as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column in the type that Spark has for it; times are cut to microseconds."""
    column = plain_column(column)
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_time(kind) and column.type != types.DATE:
        return _in_micros(column, kind)
    return column.cast(kind)


def _in_micros(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == types.DATE:
        return column.cast(kind)
    if getattr(column.type, "unit", "us") == "ns":
        column = pc.floor_temporal(column.cast(pa.timestamp("ns")) if column.type.tz else column, unit="microsecond")
    plain = column.cast(pa.timestamp(column.type.unit)) if column.type.tz else column
    found = plain.cast(pa.timestamp("us"))
    return pa.chunked_array([each.view(kind) for each in found.chunks], kind)


def _evaluated(part: Typed, batches: Iterable[Mapping[str, Any]]) -> pa.ChunkedArray:
    return pa.chunked_array([_whole(part, batch) for batch in batches], part.type)


def _whole(part: Typed, columns: Mapping[str, Any]) -> pa.Array:
    found = _value(part, columns)
    if isinstance(found, pa.Scalar):
        return pa.repeat(found, columns[""]) if part.type != types.NULL else pa.nulls(columns[""])
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    return found


def _value(part: Typed, columns: Mapping[str, Any]) -> Any:
    """Return the value of a part for all rows: an array, or a scalar where no column is in it."""
    if part.name == "value":
        return arrow.value(part)
    if part.name == "column":
        return _of_column(part, columns)
    operands = [_value(each, columns) for each in part.arguments]
    if all(isinstance(each, pa.Scalar) for each in operands):
        return operation(part.name).evaluate(part, [pa.repeat(each, 1) for each in operands])[0]
    return operation(part.name).evaluate(part, operands)


def _of_column(part: Typed, columns: Mapping[str, Any]) -> pa.Array:
    first, *fields = part.value
    found = columns[first]
    for each in fields:
        found = arrow.field(found, each)
    if not fields or found.type == part.type:
        return found
    return as_type(pa.chunked_array([found]), part.type).combine_chunks()
