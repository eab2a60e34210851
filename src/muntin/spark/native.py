"""Batch queries by Spark's own operators, if these give the same answers: no row leaves the JVM.

Windows by time in two levels: rows are aggregated into slices, as long as the edges of windows allow, and each slice is
copied into the windows that hold it. So slices are copied, not rows. Measured, that is faster than Python if a window
is one slice; if it is more, only if a slice holds many rows, which nobody knows beforehand: then ask for it.

Frames by rows are in `native_frames`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.spark import native_frames
from muntin.spark.native_values import aliases, answers, keyed_rows, known, refused_values, required, source
from muntin.spark.quoting import quoted
from muntin.spark.schemas import spark_schema
from muntin.windows.base import Window
from muntin.windows.shapes import SLIDING, Periodic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from muntin.spark.batch import Resolved


def refused(resolved: Resolved) -> str | None:
    """Return why Spark's own operators cannot answer a query; None if they can."""
    query = resolved.query
    for definition in resolved.windows:
        if _sliding(definition) is None and native_frames.bounds_of(definition) is None:
            return f"{definition!r} is neither tumbling nor sliding by time, nor a frame by rows"
    problem = refused_values(resolved)
    if problem is not None:
        return problem
    kind = resolved.rows.field(query.time).type
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return f"the time column {query.time!r} has no zone"
    if query.emit_empty:
        return "windows without rows are asked for"
    if native(resolved).schema.simpleString() != spark_schema(resolved.answers).simpleString():
        return "Spark gives other types"
    return None


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
    """Return the shape of windows that Spark has, too; None of others."""
    shape = window.time_shape
    return shape if isinstance(shape, Periodic) and shape.branch == SLIDING else None


def faster(resolved: Resolved) -> str | None:
    """Return why Spark's own operators are faster, however many rows a slice holds; None if they may not be."""
    windows = resolved.windows
    if all(_sliding(each) is not None and slices_of(each) == 1 for each in windows):
        return "all windows are tumbling, and Spark knows every aggregate"
    # Each definition would sort all rows again.
    return native_frames.faster(resolved) if len(windows) == 1 else None


def explained(resolved: Resolved) -> str:
    """Return how Spark answers a query."""
    by_rows = any(each.is_frame and each.row_shape is not None for each in resolved.windows)
    return native_frames.EXPLAINED if by_rows else "rows are aggregated into slices, slices into windows"


def native(resolved: Resolved) -> DataFrame:
    """Return the answers as a DataFrame. Each row is looked at once for each window definition, or row of a frame."""
    parts = [_window(resolved, i, each) for i, each in enumerate(resolved.windows)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


def _window(resolved: Resolved, window_id: int, window: Window) -> DataFrame:
    shape = _sliding(window)
    if shape is not None:
        return _sliced(resolved, window_id, shape)
    return native_frames.framed(resolved, window_id, window)


def _sliced(resolved: Resolved, window_id: int, each: Periodic) -> DataFrame:
    """Return the answers of a tumbling or sliding window: rows to slices, slices to windows."""
    from pyspark.sql import functions as F

    query = resolved.query
    step = math.gcd(each.length, each.every)
    keys, read = aliases(resolved)
    ticks = required(resolved, resolved.ticks)
    rows = keyed_rows(resolved, _floor(ticks, step, each.offset % step).alias("slice"))
    partials = [
        (alias, how, first.alias(alias))
        for i, one in enumerate(query.aggregates.values())
        for alias, how, first in _partials(one, f"part {i}", source(one, read))
    ]
    slices = rows.groupBy(*map(quoted, keys), "slice").agg(*(first for _, _, first in partials))
    # The windows that hold a slice begin at the multiples of `every` from here on.
    last = _floor(F.col("slice"), each.every, each.offset)
    starts = F.sequence(last - (each.length - step) // each.every * each.every, last, F.lit(each.every))
    if each.length != step:
        held = slices.withColumn("start", F.explode(F.filter(starts, lambda t: t + each.length > F.col("slice"))))
        merged = held.groupBy(*map(quoted, keys), "start").agg(
            *(getattr(F, how)(F.col(quoted(alias))).alias(alias) for alias, how, _ in partials)
        )
    else:
        merged = slices.withColumnRenamed("slice", "start")
    start = F.col("start")
    bounds = {"start": resolved.as_time(start), "end": resolved.as_time(start + each.length)}
    results = [_result(one, f"part {i}") for i, one in enumerate(query.aggregates.values())]
    return answers(resolved, merged, window_id, bounds, results)


def _floor(ticks: Column, step: int, offset: int) -> Column:
    """Return the last multiple of a step, plus an offset, that is not after a time."""
    from pyspark.sql import functions as F

    return ticks - F.pmod(ticks - offset, F.lit(step))


def _partials(aggregation: Aggregation, alias: str, value: Column) -> list[tuple[str, str, Column]]:
    """Return what a slice has of an aggregate: a name, how two are put together, and how it is made of rows."""
    from pyspark.sql import functions as F

    how = str(known(aggregation))
    if how == "count":
        return [(alias, "sum", F.count(value))]
    if how == "mean":
        return [(alias, "sum", F.sum(value)), (f"{alias} n", "sum", F.count(value))]
    return [(alias, how, getattr(F, how)(value))]


def _result(aggregation: Aggregation, alias: str) -> Column:
    from pyspark.sql import functions as F

    whole = F.col(quoted(alias))
    if known(aggregation) != "mean":
        return whole
    count = F.col(quoted(f"{alias} n"))
    return F.when(count > 0, whole.cast("double") / count)
