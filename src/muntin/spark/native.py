"""Batch queries by Spark's own operators, if these give the same answers: no row leaves the JVM.

In two levels: rows are aggregated into slices, as long as the windows' edges allow, and each slice is copied into the
windows that hold it. So slices are copied, not rows. Measured, that is faster than Python if windows are one slice
each; otherwise only if a slice holds many rows, which is not known in advance: then the user must ask for it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin import aggregations as agg
from muntin.aggregations.aggregation import Aggregation
from muntin.spark.names import column
from muntin.spark.quoting import quoted
from muntin.spark.schemas import spark_schema
from muntin.windows.base import Window
from muntin.windows.shapes import SLIDING, Periodic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from muntin.spark.batch import Resolved

_KNOWN = ("count", "sum", "min", "max", "mean")


def refused(resolved: Resolved) -> str | None:
    """Return why Spark's own operators cannot answer a query; None if they can."""
    query = resolved.query
    for definition in resolved.windows:
        if _sliding(definition) is None:
            return f"{definition!r} is neither tumbling nor sliding by time"
    for name, each in query.aggregates.items():
        how = _known(each)
        if how is None:
            return f"{name} is {each!r}, and not one of {', '.join(_KNOWN)}"
        for read in each.columns:  # where= is a boolean in any case
            kind = resolved.rows.field(read).type
            if not _same_numbers(how, kind):
                return f"{name} reads {read!r}, which holds {kind}: Spark's {how} of it may differ in the end"
    kind = resolved.rows.field(query.time).type
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return f"the time column {query.time!r} has no zone"
    if query.emit_empty:
        return "windows without rows are asked for"
    if any(pa.types.is_floating(resolved.rows.field(name).type) for name in query.key):
        return "a key is a float, of which Spark takes both zeros for one"
    if native(resolved).schema.simpleString() != spark_schema(resolved.answers).simpleString():
        return "Spark gives other types"
    return None


def _known(aggregation: Aggregation) -> str | None:
    """Return the name of an aggregation that Spark has too; None if it has not."""
    if len(aggregation.columns) > 1:
        return None
    names = _KNOWN if aggregation.columns else ("count",)
    plain = aggregation.unfiltered
    return next((name for name in names if getattr(agg, name)(*plain.columns) == plain), None)


def _same_numbers(how: str, kind: pa.DataType) -> bool:
    """Return whether Spark's aggregate agrees on all numbers, except for the order in which floats are added."""
    if how == "count":
        return True
    if how in ("min", "max"):
        return bool(pa.types.is_integer(kind) or pa.types.is_float64(kind))
    if how == "mean":
        # Spark adds integers as floats: exact as long as the sum has 53 bits.
        return bool(pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 16))
    return bool(pa.types.is_float64(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 32))


def slices_of(window: Window) -> int:
    """Return how many slices a window holds.

    >>> from muntin import window
    >>> slices_of(window.sliding(60, every=20)), slices_of(window.sliding(50, every=20))
    (3, 5)
    """
    shape = _sliding(window)
    assert shape is not None
    return shape.length // math.gcd(shape.length, shape.every)


def _sliding(window: Window) -> Periodic | None:
    """Return the shape of windows that Spark has too; None for others."""
    shape = window.time_shape
    return shape if isinstance(shape, Periodic) and shape.branch == SLIDING else None


def is_faster(resolved: Resolved) -> bool:
    """Return whether Spark's own operators are faster, however many rows a slice holds."""
    return all(slices_of(each) == 1 for each in resolved.windows)


def native(resolved: Resolved) -> DataFrame:
    """Return the answers as a DataFrame. Reads each row once per window definition."""
    shapes = [_sliding(each) for each in resolved.windows]
    parts = [_window(resolved, i, each) for i, each in enumerate(shapes) if each is not None]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


def _window(resolved: Resolved, window_id: int, each: Periodic) -> DataFrame:
    from pyspark.sql import functions as F

    query, frame = resolved.query, resolved.frame
    step = math.gcd(each.length, each.every)
    keys = [f"key {i}" for i in range(len(query.key))]
    read = {name: f"value {i}" for i, name in enumerate(query.columns)}
    rows = frame.select(
        *(column(frame, name).alias(alias) for name, alias in zip(query.key, keys, strict=True)),
        *(column(frame, name).alias(alias) for name, alias in read.items()),
        _floor(_required(resolved), step, each.offset % step).alias("slice"),
    )
    partials = [
        (alias, how, first.alias(alias))
        for i, one in enumerate(query.aggregates.values())
        for alias, how, first in _partials(one, f"part {i}", _source(one, read))
    ]
    slices = rows.groupBy(*map(quoted, keys), "slice").agg(*(first for _, _, first in partials))
    # The windows that hold a slice begin at multiples of `every` from here on.
    last = _floor(F.col("slice"), each.every, each.offset)
    starts = F.sequence(last - (each.length - step) // each.every * each.every, last, F.lit(each.every))
    if each.length != step:
        held = slices.withColumn("start", F.explode(F.filter(starts, lambda t: t + each.length > F.col("slice"))))
        merged = held.groupBy(*map(quoted, keys), "start").agg(
            *(getattr(F, how)(F.col(quoted(alias))).alias(alias) for alias, how, _ in partials)
        )
    else:
        merged = slices.withColumnRenamed("slice", "start")
    bounds = F.struct(
        resolved.as_time(F.col("start")).alias("start"), resolved.as_time(F.col("start") + each.length).alias("end")
    )
    return merged.select(
        *(F.col(quoted(alias)).alias(name) for name, alias in zip(query.key, keys, strict=True)),
        bounds.alias("window"),
        F.lit(window_id).cast("long").alias("window_id"),
        *(_result(one, f"part {i}").alias(name) for i, (name, one) in enumerate(query.aggregates.items())),
        F.lit(0).cast("long").alias("revision"),
        F.lit(False).alias("retracted"),
    )


def _required(resolved: Resolved) -> Column:
    """Return the times; Spark raises an error for a null."""
    from pyspark.sql import functions as F

    text = f"the time column {resolved.query.time!r} is null in some row; every row needs a time"
    return F.coalesce(resolved.ticks, F.raise_error(F.lit(text)).cast("long"))


def _floor(ticks: Column, step: int, offset: int) -> Column:
    """Return the last multiple of a step, plus an offset, at or before a time."""
    from pyspark.sql import functions as F

    return ticks - F.pmod(ticks - offset, F.lit(step))


def _source(aggregation: Aggregation, read: dict[str, str]) -> Column:
    from pyspark.sql import functions as F

    value = F.col(quoted(read[aggregation.columns[0]])) if aggregation.columns else F.lit(1)
    return value if aggregation.where is None else F.when(F.col(quoted(read[aggregation.where])), value)


def _partials(aggregation: Aggregation, alias: str, value: Column) -> list[tuple[str, str, Column]]:
    """Return the partial aggregates of a slice: a name, how two are merged, and how it is computed from rows."""
    from pyspark.sql import functions as F

    how = str(_known(aggregation))
    if how == "count":
        return [(alias, "sum", F.count(value))]
    if how == "mean":
        return [(alias, "sum", F.sum(value)), (f"{alias} n", "sum", F.count(value))]
    return [(alias, how, getattr(F, how)(value))]


def _result(aggregation: Aggregation, alias: str) -> Column:
    from pyspark.sql import functions as F

    whole = F.col(quoted(alias))
    if _known(aggregation) != "mean":
        return whole
    count = F.col(quoted(f"{alias} n"))
    return F.when(count > 0, whole.cast("double") / count)
