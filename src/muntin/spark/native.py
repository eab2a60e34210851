"""Batch queries by Spark's own operators, if these give the same answers: no row leaves the JVM.

Windows by time in two levels: rows are aggregated into slices, as long as the edges of windows allow, and each slice is
copied into the windows that hold it. So slices are copied, not rows. Measured, that is faster than Python if a window
is one slice; if it is more, only if a slice holds many rows, which nobody knows beforehand: then ask for it.

Frames by rows are Spark's `rowsBetween`, which looks at every row of a frame. Measured over 6 M rows of 10 keys: frames
of 10 rows take 650 ns per row, by Python 800 to 1,000; each further row of a frame takes 17 ns more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
_SHORT_FRAME = 16
"""The most rows of a frame for which Spark's own operator is the faster one."""
_SEGMENT_TREE = "spark.sql.window.segmentTree.enabled"
"""With it Spark takes longer for short frames, and less for long ones."""


def refused(resolved: Resolved) -> str | None:
    """Return why Spark's own operators cannot answer a query; None if they can."""
    query = resolved.query
    for definition in resolved.windows:
        if _sliding(definition) is None and _row_frame(definition) is None:
            return f"{definition!r} is neither tumbling nor sliding by time, nor a frame by rows"
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
    """Return the name of an aggregation that Spark has, too; None of one that it has not."""
    if len(aggregation.columns) > 1:
        return None
    names = _KNOWN if aggregation.columns else ("count",)
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


def _row_frame(window: Window) -> tuple[int, int] | None:
    """Return the rows of frames that Spark has, too; None of others, which hold no row or count beyond 32 bits."""
    bounds = window.row_bounds
    known = bounds is not None and -(2**31) < bounds[0] < bounds[1] < 2**31
    return bounds if known else None


def faster(resolved: Resolved) -> str | None:
    """Return why Spark's own operators are faster, however many rows a slice holds; None if they may not be."""
    windows = resolved.windows
    if all(_sliding(each) is not None and slices_of(each) == 1 for each in windows):
        return "all windows are tumbling, and Spark knows every aggregate"
    bounds = _row_frame(windows[0])
    if bounds is None or len(windows) > 1 or not resolved.query.key:
        return None  # several frames would be sorted once each, and a frame without a key would be one task
    if bounds[1] - bounds[0] > _SHORT_FRAME or resolved.frame.sparkSession.conf.get(_SEGMENT_TREE, "false") == "true":
        return None
    return f"a frame holds {_SHORT_FRAME} rows or fewer, and Spark knows every aggregate"


def explained(resolved: Resolved) -> str:
    """Return how Spark answers a query."""
    by_rows = any(each.row_bounds is not None for each in resolved.windows)
    return "each frame is aggregated row by row" if by_rows else "rows are aggregated into slices, slices into windows"


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
    bounds = _row_frame(window)
    assert bounds is not None
    return _framed(resolved, window_id, bounds, window.tells_at)


def _sliced(resolved: Resolved, window_id: int, each: Periodic) -> DataFrame:
    """Return the answers of a tumbling or sliding window: rows to slices, slices to windows."""
    from pyspark.sql import functions as F

    query = resolved.query
    step = math.gcd(each.length, each.every)
    keys, read = _aliases(resolved)
    rows = _rows(resolved, _floor(_required(resolved), step, each.offset % step).alias("slice"))
    partials = [
        (alias, how, first.alias(alias))
        for i, one in enumerate(query.aggregates.values())
        for alias, how, first in _partials(one, f"part {i}", _source(one, read))
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
    return _answers(resolved, merged, window_id, bounds)


def _framed(resolved: Resolved, window_id: int, held: tuple[int, int], tells_at: bool) -> DataFrame:
    """Return the answers of a frame that holds the rows [since, until) of its key, counted from its own."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    since, until = held
    keys, read = _aliases(resolved)
    rows = _rows(resolved, _required(resolved).alias("tick"), F.monotonically_increasing_id().alias("arrival"))
    ordered = Over.partitionBy(*map(quoted, keys)).orderBy("tick", "arrival")
    frame = ordered.rowsBetween(since, until - 1)
    found = rows.select(
        "*",
        (F.row_number().over(ordered).cast("long") - 1).alias("number"),
        *([F.count(F.lit(1)).over(Over.partitionBy(*map(quoted, keys))).alias("total")] if until > 1 else []),
        F.first("tick").over(frame).alias("first"),
        (F.col("tick") if until == 1 else F.last("tick").over(frame)).alias("last"),
        *(
            first.over(frame).alias(alias)
            for i, one in enumerate(resolved.query.aggregates.values())
            for alias, _, first in _partials(one, f"part {i}", _source(one, read))
        ),
    )
    number = F.col("number")
    zero = F.lit(0).cast("long")
    last = F.least(number + until, F.col("total")) if until > 1 else number + until
    begin = F.greatest(number + since, zero) if since < 1 else F.least(number + since, F.col("total"))
    bounds = {
        "start": resolved.as_time(F.col("first")),
        "end": resolved.as_time(F.col("last")),
        "from_row": begin,
        "to_row": F.greatest(begin, last),
    }
    if tells_at:
        bounds["at"] = resolved.as_time(F.col("tick"))
    return _answers(resolved, found, window_id, bounds)


def _aliases(resolved: Resolved) -> tuple[list[str], dict[str, str]]:
    """Return the names that the keys have on the way, and those of the columns that aggregates read."""
    query = resolved.query
    return [f"key {i}" for i in range(len(query.key))], {name: f"value {i}" for i, name in enumerate(query.columns)}


def _rows(resolved: Resolved, *more: Column) -> DataFrame:
    """Return the rows under these names, with some more columns."""
    frame = resolved.frame
    keys, read = _aliases(resolved)
    return frame.select(
        *(column(frame, name).alias(alias) for name, alias in zip(resolved.query.key, keys, strict=True)),
        *(column(frame, name).alias(alias) for name, alias in read.items()),
        *more,
    )


def _answers(resolved: Resolved, found: DataFrame, window_id: int, bounds: Mapping[str, Column]) -> DataFrame:
    """Return windows in the columns of answers; bounds that a kind does not have are null."""
    from pyspark.sql import functions as F

    query = resolved.query
    keys, _ = _aliases(resolved)
    fields: Any = spark_schema(resolved.answers)["window"].dataType
    return found.select(
        *(F.col(quoted(alias)).alias(name) for name, alias in zip(query.key, keys, strict=True)),
        F.struct(*(bounds.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name) for each in fields)).alias(
            "window"
        ),
        F.lit(window_id).cast("long").alias("window_id"),
        *(_result(one, f"part {i}").alias(name) for i, (name, one) in enumerate(query.aggregates.items())),
        F.lit(0).cast("long").alias("revision"),
        F.lit(False).alias("retracted"),
    )


def _required(resolved: Resolved) -> Column:
    """Return the times; Spark fails at one that is null."""
    from pyspark.sql import functions as F

    text = f"the time column {resolved.query.time!r} is null in some row; every row needs a time"
    return F.coalesce(resolved.ticks, F.raise_error(F.lit(text)).cast("long"))


def _floor(ticks: Column, step: int, offset: int) -> Column:
    """Return the last multiple of a step, plus an offset, that is not after a time."""
    from pyspark.sql import functions as F

    return ticks - F.pmod(ticks - offset, F.lit(step))


def _source(aggregation: Aggregation, read: dict[str, str]) -> Column:
    from pyspark.sql import functions as F

    value = F.col(quoted(read[aggregation.columns[0]])) if aggregation.columns else F.lit(1)
    return value if aggregation.where is None else F.when(F.col(quoted(read[aggregation.where])), value)


def _partials(aggregation: Aggregation, alias: str, value: Column) -> list[tuple[str, str, Column]]:
    """Return what a slice has of an aggregate: a name, how two are put together, and how it is made of rows."""
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
