"""`muntin.latest` of a finite DataFrame, by Spark's own operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.errors import UnsupportedOperationError
from muntin.spark.quoting import quoted
from muntin.tables.latest import bound_columns, key_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def latest_of_frame(answers: DataFrame) -> DataFrame:
    """Return the latest revision of each window. One shuffle by key and window."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if answers.isStreaming:
        raise UnsupportedOperationError(
            "latest is for a finite DataFrame: what comes last is known in the end only; keep the answers of a stream "
            "in a table, and ask for the latest of that"
        )
    names = list(answers.columns)
    keys = key_columns(names)
    identity = [F.col(quoted(name)) for name in (*keys, "window_id")]
    if "from_row" in answers.select("window.*").columns:
        answers = _with_trailing(answers, identity)
    answers = _with_moved(answers, identity)
    same = Window.partitionBy(*identity, *_bounds(answers))
    newest = F.row_number().over(same.orderBy(F.col("revision").desc()))
    # Each window is emitted once as revision 0: that counts the windows with the same bounds (rows of equal time).
    windows = F.sum(F.when(F.col("revision") == 0, 1).otherwise(0)).over(same)
    is_top = (F.col("revision") == F.max("revision").over(same)) & ~F.col("retracted")
    known = answers.select(
        "*",
        (newest == 1).alias("muntin newest"),
        windows.alias("muntin windows"),
        is_top.alias("muntin top"),
        F.max("retracted").over(same).alias("muntin lost"),
    )
    # Where rows change, windows that look alike are emitted together: then the greatest revision has all of them.
    tops = F.sum(F.col("`muntin top`").cast("int")).over(same)
    together = F.col("`muntin lost`") | ((tops > 1) & (tops >= F.col("`muntin windows`")))
    ranked = known.select("*", together.alias("muntin together"))
    chosen = F.when(F.col("`muntin together`"), F.col("`muntin top`")).otherwise(F.col("`muntin newest`"))
    last = ranked.where(chosen & ~F.col("retracted"))
    counted = F.when(F.col("`muntin together`"), 1).otherwise(F.col("`muntin windows`"))
    times = F.sequence(F.lit(1), F.greatest(F.lit(1), counted.cast("int")))
    return last.select("*", F.explode(times).alias("muntin nth")).select(*(F.col(quoted(name)) for name in names))


def _with_trailing(answers: DataFrame, identity: list[Column]) -> DataFrame:
    """Return answers with an added column: whether the last row is part of the identity of windows by rows.

    It is, for all windows of a definition, if windows with the same first row had different last rows in their first
    emission.
    """
    from pyspark.sql import functions as F

    new = answers.where(F.col("revision") == 0).groupBy(*identity, F.col("window.from_row").alias("from_row"))
    ends = new.agg((F.min("window.to_row") != F.max("window.to_row")).alias("several"))
    trailing = ends.groupBy("window_id").agg(F.max("several").alias("muntin trailing"))
    return answers.join(F.broadcast(trailing), "window_id", "left")


def _with_moved(answers: DataFrame, identity: list[Column]) -> DataFrame:
    """Return answers with an added column: whether late rows may move the starts of their windows.

    They may, for all windows of a definition, if a revision exists without the previous one, and none is retracted:
    windows of policies.
    """
    from pyspark.sql import functions as F

    by_time = answers
    for name in ("from_row", "from_value"):
        if name in answers.select("window.*").columns:
            by_time = by_time.where(F.col(f"window.{name}").isNull())
    bounds = [F.col(f"window.{name}").alias(f"muntin {name}") for name in ("start", "end")]
    known = F.size(F.collect_set("revision"))
    moved = by_time.groupBy(*identity, *bounds).agg(
        (known <= F.max("revision")).alias("moved"), F.max("retracted").alias("retracted")
    )
    flags = moved.groupBy("window_id").agg((F.max("moved") & ~F.max("retracted")).alias("muntin moved"))
    return answers.join(F.broadcast(flags), "window_id", "left")


def _bounds(answers: DataFrame) -> list[Column]:
    """Return the bounds that identify windows; null for those of another sort of window."""
    from pyspark.sql import functions as F

    found: list[Column] = []
    free = F.lit(True)
    for sort, bounds in bound_columns(answers.select("window.*").columns).items():
        mine = free if sort == "times" else free & F.col(f"window.{bounds[0]}").isNotNull()
        wanted = [F.when(mine, F.col(f"window.{name}")) for name in bounds]
        if sort == "rows":
            wanted[1] = F.when(F.col("`muntin trailing`"), wanted[1])
        if sort == "times":
            wanted[0] = F.when(~F.coalesce(F.col("`muntin moved`"), F.lit(False)), wanted[0])
        found += wanted
        free = free & ~mine
    return found
