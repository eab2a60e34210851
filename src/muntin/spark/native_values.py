"""Aggregates and columns that Spark's own operators share with ours: which are the same, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin import aggregations as agg
from muntin.aggregations.aggregation import Aggregation
from muntin.spark.names import column
from muntin.spark.quoting import quoted
from muntin.spark.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from muntin.spark.batch import Resolved

KNOWN = ("count", "sum", "min", "max", "mean")


def refused_values(resolved: Resolved) -> str | None:
    """Return why Spark's aggregates or keys are not ours; None if they are."""
    for name, each in resolved.query.aggregates.items():
        how = known(each)
        if how is None:
            return f"{name} is {each!r}, and not one of {', '.join(KNOWN)}"
        for read in each.columns:  # where= is a boolean in any case
            kind = resolved.rows.field(read).type
            if not _same_numbers(how, kind):
                return f"{name} reads {read!r}, which holds {kind}: Spark's {how} of it may differ in the end"
    if any(pa.types.is_floating(resolved.rows.field(name).type) for name in resolved.query.key):
        return "a key is a float, of which Spark takes both zeros for one"
    return None


def known(aggregation: Aggregation) -> str | None:
    """Return the name of an aggregation that Spark has, too; None of one that it has not."""
    if len(aggregation.columns) > 1:
        return None
    names = KNOWN if aggregation.columns else ("count",)
    plain = aggregation.unfiltered
    return next((name for name in names if getattr(agg, name)(*plain.columns) == plain), None)


def _same_numbers(how: str, kind: pa.DataType) -> bool:
    """Say whether Spark's aggregate is the same of all numbers, but for the order in which floats are added."""
    if how == "count":
        return True
    if how in ("min", "max"):
        return bool(pa.types.is_integer(kind) or pa.types.is_float64(kind))
    if how == "mean":
        # Spark adds integers as floats: exact as long as the sum has 53 bits.
        return bool(pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 16))
    return bool(pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 32))


def aliases(resolved: Resolved) -> tuple[list[str], dict[str, str]]:
    """Return the names that the keys have on the way, and those of the columns that aggregates read."""
    query = resolved.query
    return [f"key {i}" for i in range(len(query.key))], {name: f"value {i}" for i, name in enumerate(query.reads)}


def keyed_rows(resolved: Resolved, *more: Column) -> DataFrame:
    """Return the rows under these names, with some more columns."""
    frame = resolved.frame
    keys, read = aliases(resolved)
    return frame.select(
        *(column(frame, name).alias(alias) for name, alias in zip(resolved.query.key, keys, strict=True)),
        *(column(frame, name).alias(alias) for name, alias in read.items()),
        *more,
    )


def answers(
    resolved: Resolved,
    found: DataFrame,
    window_id: int,
    bounds: Mapping[str, Column],
    results: Sequence[Column],
) -> DataFrame:
    """Return windows in the columns of answers; bounds that a kind does not have are null."""
    from pyspark.sql import functions as F

    query = resolved.query
    keys, _ = aliases(resolved)
    fields: Any = spark_schema(resolved.answers)["window"].dataType
    return found.select(
        *(F.col(quoted(alias)).alias(name) for name, alias in zip(query.key, keys, strict=True)),
        F.struct(*(bounds.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name) for each in fields)).alias(
            "window"
        ),
        F.lit(window_id).cast("long").alias("window_id"),
        *(each.alias(name) for name, each in zip(query.aggregates, results, strict=True)),
        F.lit(0).cast("long").alias("revision"),
        F.lit(False).alias("retracted"),
    )


def required(resolved: Resolved, times: Column, kind: Any = "long") -> Column:
    """Return times of a type; Spark fails at one that is null."""
    from pyspark.sql import functions as F

    text = f"the time column {resolved.query.time!r} is null in some row; every row needs a time"
    return F.coalesce(times, F.raise_error(F.lit(text)).cast(kind))


def aggregate(aggregation: Aggregation, value: Column) -> Column:
    """Return an aggregate as Spark's."""
    from pyspark.sql import functions as F

    how = str(known(aggregation))
    column: Column = getattr(F, {"mean": "avg"}.get(how, how))(value)
    return column


def source(aggregation: Aggregation, read: Mapping[str, str]) -> Column:
    """Return the values of an aggregate, null where `where` excludes a row. `read` has the columns' names on Spark."""
    from pyspark.sql import functions as F

    value = F.col(quoted(read[aggregation.columns[0]])) if aggregation.columns else F.lit(1)
    return value if aggregation.where is None else F.when(F.col(quoted(read[aggregation.where])), value)
