"""Frames by rows as Spark's `rowsBetween`, for `Query.spark` and for `Query.over`.

Spark looks at every row of a frame. Measured over 6 M rows of 10 keys: frames of 10 rows take 650 ns per row, by Python
800 to 1,000; each further row of a frame takes 17 ns more.

Rows of equal time are in order of arrival, which Spark alone does not promise: a number by arrival is one more column
to sort by, and takes 3 to 6 % of the time. Sorting by it first, and dropping it before the frames, was no faster; nor
were frames as `lag(v, 1)`, `lag(v, 2)`, ..., which took 10 to 15 % longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.spark.names import inner
from muntin.spark.native_values import aggregate, aliases, answers, keyed_rows, refused_values, required, source
from muntin.spark.quoting import quoted
from muntin.spark.schemas import spark_schema
from muntin.spark.task import ARRIVAL
from muntin.windows.base import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from muntin.spark.batch import Resolved

EXPLAINED = "each frame is aggregated row by row"
_SHORT = 16
"""The most rows of all frames for which Spark's own operator is the faster one."""
_SEGMENT_TREE = "spark.sql.window.segmentTree.enabled"
"""With it Spark takes longer for short frames, and less for long ones."""


def bounds_of(window: Window) -> tuple[int, int] | None:
    """Return the rows of frames that Spark has, too; None of others, which hold no row or count beyond 32 bits."""
    shape = window.row_shape if window.is_frame else None
    if shape is None or not -(2**31) < shape.since < shape.until < 2**31:
        return None
    return shape.since, shape.until


def faster(resolved: Resolved) -> str | None:
    """Return why `rowsBetween` is faster than Python; None if it may not be."""
    bounds = [bounds_of(each) for each in resolved.windows]
    known = [each for each in bounds if each is not None]
    if len(known) < len(bounds) or not resolved.query.key:
        return None  # without a key there would be one task
    if sum(until - since for since, until in known) > _SHORT:
        return None
    if resolved.frame.sparkSession.conf.get(_SEGMENT_TREE, "false") == "true":
        return None
    held = "a frame holds" if len(known) == 1 else "all frames together hold"
    return f"{held} {_SHORT} rows or fewer, and Spark knows every aggregate"


def framed(resolved: Resolved, window_id: int, window: Window) -> DataFrame:
    """Return the answers of a frame by rows, as windows."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    since, until = _bounds(window)
    keys, read = aliases(resolved)
    ticks = required(resolved, resolved.ticks)
    rows = keyed_rows(resolved, ticks.alias("tick"), F.monotonically_increasing_id().alias("arrival"))
    ordered = Over.partitionBy(*map(quoted, keys)).orderBy("tick", "arrival")
    frame = ordered.rowsBetween(since, until - 1)
    aggregates = resolved.query.aggregates.values()
    parts = [f"part {i}" for i in range(len(aggregates))]
    # All of it by one operator: another order or partition would sort again.
    found = rows.select(
        "*",
        (F.row_number().over(ordered).cast("long") - 1).alias("number"),
        *([F.count(F.lit(1)).over(_whole(ordered)).alias("total")] if until > 1 else []),
        _first_tick(ordered, since, until).alias("first"),
        _last_tick(ordered, since, until).alias("last"),
        *(
            aggregate(one, source(one, read)).over(frame).alias(alias)
            for one, alias in zip(aggregates, parts, strict=True)
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
    if window.tells_at:
        bounds["at"] = resolved.as_time(F.col("tick"))
    return answers(resolved, found, window_id, bounds, [F.col(quoted(alias)) for alias in parts])


def _bounds(window: Window) -> tuple[int, int]:
    bounds = bounds_of(window)
    assert bounds is not None
    return bounds


def _whole(ordered: WindowSpec) -> WindowSpec:
    """Return the frame of all rows of a key."""
    from pyspark.sql import Window as Over

    return ordered.rowsBetween(Over.unboundedPreceding, Over.unboundedFollowing)


def _first_tick(ordered: WindowSpec, since: int, until: int) -> Column:
    """Return the time of a frame's first row. `lag` reads one row; `first` reads all rows of the frame."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    if not since <= 0 < until:
        return F.first("tick").over(ordered.rowsBetween(since, until - 1))
    if since == 0:
        return F.col("tick")
    of_key = F.first("tick").over(ordered.rowsBetween(Over.unboundedPreceding, Over.currentRow))
    return F.coalesce(F.lag("tick", -since).over(ordered), of_key)


def _last_tick(ordered: WindowSpec, since: int, until: int) -> Column:
    """Return the time of a frame's last row."""
    from pyspark.sql import functions as F

    if not since <= 0 < until:
        return F.last("tick").over(ordered.rowsBetween(since, until - 1))
    if until == 1:
        return F.col("tick")
    return F.coalesce(F.lead("tick", until - 1).over(ordered), F.last("tick").over(_whole(ordered)))


def over_refused(resolved: Resolved) -> str | None:
    """Return why Spark's own operators cannot answer `Query.over`; None if they can."""
    for definition in resolved.windows:
        if bounds_of(definition) is None:
            return f"{definition!r} is no frame by rows"
    problem = refused_values(resolved)
    if problem is not None:
        return problem
    names = [str(i) for i in range(len(resolved.windows) * len(resolved.query.aggregates))]
    found = over_native(resolved, resolved.frame, names).schema
    for i, name in enumerate(resolved.query.aggregates):
        if found[inner(str(i))].dataType != spark_schema(resolved.answers)[name].dataType:
            return "Spark gives other types"
    return None


def over_native(resolved: Resolved, rows: DataFrame, names: list[str]) -> DataFrame:
    """Return rows, under their inner names, with the answers of all frames, under these. One sort, one operator."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    query, time = resolved.query, inner(str(resolved.query.time))
    times = required(resolved, rows[time], rows.schema[time].dataType)
    placed = rows.withColumn(time, times).withColumn(ARRIVAL, F.monotonically_increasing_id())
    ordered = Over.partitionBy(*map(inner, query.key)).orderBy(time, ARRIVAL)
    read = {name: inner(name) for name in query.reads}
    frames = [ordered.rowsBetween(since, until - 1) for since, until in map(_bounds, resolved.windows)]
    columns = [aggregate(one, source(one, read)).over(frame) for frame in frames for one in query.aggregates.values()]
    return placed.select(*rows.columns, *(each.alias(inner(name)) for name, each in zip(names, columns, strict=True)))
