"""Texts with a collation: Spark considers some different texts equal, while muntin compares bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.errors import ColumnTypeError
from muntin.query.query import Query

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_NEVER_COMPARE = ("collect", "concat", "count", "count_values", "first", "last")


def require_bytewise(query: Query, schema: StructType) -> None:
    """Reject keys, and columns of aggregations that may compare, whose collation makes different texts equal."""
    found = {field.name: collation_of(field.dataType) for field in schema}
    for name in query.key:
        if found[name] is not None:
            raise ColumnTypeError(
                f"the key column {name!r} has the collation {found[name]}, by which Spark takes different texts for "
                f"one key and muntin does not: make a key that is the same for them, such as lower({name}), and give "
                "it the collation UTF8_BINARY"
            )
    for name, each in query.aggregates.items():
        for read in each.columns:
            if found[read] is not None and each.name not in _NEVER_COMPARE:
                raise ColumnTypeError(
                    f"{name} is {each}, and the column {read!r} has the collation {found[read]}, which muntin does not "
                    f"compare by: give it collate({read}, 'UTF8_BINARY')"
                )


def collation_of(kind: Any) -> str | None:
    """Return the collation of texts in a Spark type, nested ones included; None if compared as bytes."""
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    if isinstance(kind, StringType):
        return None if kind.isUTF8BinaryCollation() else kind.collation
    parts: list[Any] = []
    if isinstance(kind, StructType):
        parts = [field.dataType for field in kind]
    elif isinstance(kind, ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, MapType):
        parts = [kind.keyType, kind.valueType]
    return next((found for found in map(collation_of, parts) if found is not None), None)
