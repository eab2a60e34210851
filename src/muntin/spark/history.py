"""A history for a streaming query: finite rows that Spark passes to the buckets before the first streamed ones.

It is Spark's initial state: read by the first micro-batch of a checkpoint, and never again. Rows are packed like those
of the stream, one row per bucket, and each bucket gets the watermark after the whole history, which Spark's own does
not include.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.spark.names import with_inner_names
from muntin.spark.pack import PACKED, Packer
from muntin.spark.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData


def require_history(history: Any, frame: DataFrame) -> None:
    """Reject what is not a finite DataFrame of the same session."""
    if not hasattr(history, "sparkSession"):
        raise InvalidArgumentError(
            f"history is a {type(history).__name__}, not a DataFrame of Spark: make it one by session.createDataFrame"
        )
    if history.sparkSession is not frame.sparkSession:
        raise InvalidArgumentError("history is a DataFrame of another session than the stream: read it by the same one")
    if history.isStreaming:
        raise UnsupportedOperationError(
            "history is a streaming DataFrame, and a history is finite: read it with spark.read, or union it with the "
            "rows of the stream"
        )


def require_same_types(wanted: pa.Schema, history: pa.Schema) -> None:
    """Reject a history whose column types differ from those of the stream."""
    for field in wanted:
        found = history.field(field.name).type
        if found != field.type:
            raise ColumnTypeError(
                f"the column {field.name!r} of the history holds {found}, and that of the stream {field.type}: cast it"
            )


def grouped(history: DataFrame, packer: Packer, delay: int) -> GroupedData:
    """Return the initial state of all buckets. `delay` is that of the watermark, in milliseconds."""
    from pyspark.sql import functions as F

    from muntin.spark.shipped import FOR_STREAMS, Shipped

    rows = with_inner_names(history, packer.schema.names)
    packed = rows.mapInArrow(Shipped(replace(packer, tells_all=True), FOR_STREAMS), spark_schema(PACKED))
    each = F.struct("task", "part", "sliced", "data")
    found = packed.groupBy("bucket").agg(
        (F.unix_millis(F.max("clock")) - F.lit(delay)).alias("watermark"),
        F.collect_list(F.when(F.col("data").isNotNull(), each)).alias("parts"),
    )
    return found.groupBy("bucket")
