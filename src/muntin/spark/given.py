"""DataFrames whose columns are known here, so that Spark Connect need not be asked for them.

Each question is a call of the server. In the functions of a declarative pipeline it is more: Spark answers none there,
since the tables of the pipeline are not there yet, and what `Query.spark` makes of a DataFrame must do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import InvalidArgumentError
from muntin.spark.quoting import quoted
from muntin.spark.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def with_schema(frame: DataFrame, schema: Any) -> DataFrame:
    """Return the columns of a schema, in their order, of a DataFrame that has them."""
    from pyspark.sql import functions as F

    known = struct_of(schema)
    return known_as(frame.select(*(F.col(quoted(name)) for name in known.names)), known)


def known_as(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a DataFrame that has these columns, and knows it.

    Spark Connect notes the schema of what it has asked for, or was told by `mapInArrow`; there is no public way to tell
    it of another DataFrame that the server need not look at. A classic session is in the same process, and is asked.
    """
    if hasattr(frame, "_cached_schema"):
        vars(frame)["_cached_schema"] = schema
    return frame


def struct_of(schema: Any) -> StructType:
    """Return what was given as a schema as Spark's; reject what is none."""
    from pyspark.sql.types import StructField, StructType

    if isinstance(schema, Mapping):
        schema = pa.schema(dict(schema))
    if isinstance(schema, pa.Schema):
        schema = spark_schema(schema)
    if isinstance(schema, StructType):
        return StructType([StructField(each.name, each.dataType) for each in schema])
    hint = "; StructType.fromDDL makes one of a text, outside of the functions of a pipeline"
    raise InvalidArgumentError(
        f"schema is {schema!r}; give a StructType of Spark, an Arrow schema or a mapping of names to Arrow types"
        f"{hint if isinstance(schema, str) else ''}"
    )


def is_streaming(frame: DataFrame) -> bool:
    """Return whether a DataFrame is streaming; of one of Spark Connect by its plan, which is here."""
    plan: Any = getattr(frame, "_plan", None)
    if plan is None:
        return frame.isStreaming
    client: Any = frame.sparkSession
    return _reads_stream(plan.to_proto(client.client))


def _reads_stream(message: Any) -> bool:
    """Return whether some part of a plan reads a stream."""
    for field, value in message.ListFields():
        if field.name == "is_streaming" and value:
            return True
        if field.message_type is None:
            continue
        # A map of messages has keys only to iterate over; no part of a plan that reads is in one.
        parts = [value] if hasattr(value, "ListFields") else [] if hasattr(value, "items") else value
        if any(map(_reads_stream, parts)):
            return True
    return False
