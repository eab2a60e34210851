"""DataFrames with locally known columns, so that Spark Connect need not be asked for them.

Each question is a call to the server. In the functions of a declarative pipeline Spark answers none, since the
pipeline's tables do not exist yet, so `Query.spark` must do without.
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
    """Return the columns of a schema, in its order, from a DataFrame that has them."""
    from pyspark.sql import functions as F

    known = struct_of(schema)
    return known_as(frame.select(*(F.col(quoted(name)) for name in known.names)), known)


def known_as(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a DataFrame with its schema cached.

    Spark Connect caches schemas that it has requested or got from `mapInArrow`; there is no public way to set that of
    another DataFrame without a server call. A classic session is in the same process, and is asked.
    """
    if hasattr(frame, "_cached_schema"):
        vars(frame)["_cached_schema"] = schema
    return frame


def struct_of(schema: Any) -> StructType:
    """Return a given schema as Spark's; reject anything else."""
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
    """Return whether a DataFrame is streaming; on Spark Connect by its local plan."""
    plan: Any = getattr(frame, "_plan", None)
    if plan is None:
        return frame.isStreaming
    client: Any = frame.sparkSession
    return _reads_stream(plan.to_proto(client.client))


def _reads_stream(message: Any) -> bool:
    """Return whether any part of a plan reads a stream."""
    for field, value in message.ListFields():
        if field.name == "is_streaming" and value:
            return True
        if field.message_type is None:
            continue
        # Iterating over a map of messages yields only keys; no reading part of a plan is in one.
        parts = [value] if hasattr(value, "ListFields") else [] if hasattr(value, "items") else value
        if any(map(_reads_stream, parts)):
            return True
    return False
