"""Arrow columns in layouts that all functions of Arrow take: views, runs and extensions as what they hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_VIEWS = {
    "string_view": pa.string(),
    "binary_view": pa.binary(),
}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which columns of a type are read; most are read as they are.

    A UUID stays one, since Arrow makes arrays of UUIDs. O(fields of the type).

    >>> plain_type(pa.list_(pa.string_view())), plain_type(pa.run_end_encoded(pa.int32(), pa.float64()))
    (ListType(list<item: string>), DataType(double))
    """
    if pa.types.is_primitive(kind):
        return kind
    if isinstance(kind, pa.BaseExtensionType):
        return kind if kind.extension_name == "arrow.uuid" else plain_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        held = plain_type(kind.value_type)
        return kind if held == kind.value_type else pa.dictionary(kind.index_type, held, kind.ordered)
    if pa.types.is_nested(kind):
        return _plain_nested(kind)
    return _VIEWS.get(str(kind), kind)


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind), kind.list_size)
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind))
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_plain_field(kind))
    return kind  # a union


def _plain_field(kind: pa.DataType) -> pa.Field:
    return kind.value_field.with_type(plain_type(kind.value_type))


def is_plain(kind: pa.DataType) -> bool:
    """Say whether columns of a type are read as they are.

    >>> is_plain(pa.string()), is_plain(pa.string_view())
    (True, False)
    """
    return bool(pa.types.is_primitive(kind) or plain_type(kind) == kind)


def plain_column(column: Any) -> Any:
    """Return an Arrow column in the type in which it is read. O(1) where it has that type, else a copy.

    >>> plain_column(pa.array(["a", None], pa.string_view())).type
    DataType(string)
    """
    while not is_plain(column.type):
        if "list_view" in str(column.type):  # Arrow casts those with nulls to lists that are not valid
            column = pa.chunked_array([pa.array(column.to_pylist(), plain_type(column.type))])
        elif pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        elif isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        else:
            column = column.cast(plain_type(column.type))
    return column


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table with all its columns in the types in which they are read."""
    if all(map(is_plain, table.schema.types)):
        return table
    return pa.Table.from_arrays([plain_column(each) for each in table.columns], names=table.column_names)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows, of whatever types: `Schema.empty_table` cannot make unions, nor lists of UUIDs.

    >>> empty_table(pa.schema({"a": pa.int64()})).num_rows
    0
    """
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)
