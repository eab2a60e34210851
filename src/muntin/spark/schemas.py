"""Type conversions: Spark's types to Arrow's, and answers to types that Spark has."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return a DataFrame's schema as Arrow's; times are in UTC, whatever the session's zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.2 they always are, and there is no such option.
    asked: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    schema = to_arrow_schema(frame.schema, **asked)
    return pa.schema([pa.field(field.name, field.type) for field in schema])


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema, in types that Spark has, as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)  # a time without a zone stays one


def known_to_spark(schema: pa.Schema) -> pa.Schema:
    """Return a schema in types that Spark has, each as wide or wider.

    >>> known_to_spark(pa.schema({"a": pa.uint8(), "b": pa.list_(pa.int8(), 4), "c": pa.timestamp("s")})).types
    [DataType(int16), ListType(list<element: int8>), TimestampType(timestamp[us])]
    """
    return pa.schema([pa.field(field.name, _known(field.type)) for field in schema])


def _known(kind: pa.DataType) -> pa.DataType:
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_known(field.type)) for field in kind])  # metadata marks a variant
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _known(kind.value_type)))
    if pa.types.is_null(kind):
        return pa.string()
    return pa.float32() if pa.types.is_float16(kind) else kind
