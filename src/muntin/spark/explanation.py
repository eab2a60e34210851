"""`muntin.spark.explain`: how a query over a DataFrame is answered, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.errors import UnsupportedOperationError
from muntin.query.query import Query
from muntin.showing import Explanation
from muntin.spark import batch, native, native_frames, survey
from muntin.spark import over as beside
from muntin.spark.batch import Resolved, kept_whole
from muntin.spark.changelog import without_deletions
from muntin.spark.computed import computed
from muntin.spark.needs import advice
from muntin.tables.over import require_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def explain(query: Query, frame: DataFrame, *, path: str = "auto", over: bool = False) -> Explanation:
    """Return how `Query.spark` answers a query over a DataFrame, or `Query.over` with `over=True`, and why.

    For a batch DataFrame: which path runs, and which windows need all rows of a key in one task. No row is read.
    """
    query, frame = computed(query, frame)
    if over:
        return _explain_over(query, frame, path)
    if frame.isStreaming:
        text = "streaming: rows are grouped by buckets of keys, and answered by one stateful call a bucket"
        return Explanation("\n  ".join([text, *advice(frame.sparkSession)]))
    resolved = Resolved.of(*without_deletions(query, frame))
    name, why = batch.chosen(resolved, path)
    if name == "native":
        return Explanation(f"path native: {why}\n  {native.explained(resolved)}, by Spark alone")
    held = [repr(each) for each in resolved.windows if not each.cuttable]
    lines = [f"  {each} needs all rows of a key at once: a task holds a key in memory" for each in held]
    return _by_python(resolved, why, lines, kept_whole(resolved), frame)


def _explain_over(query: Query, frame: DataFrame, path: str) -> Explanation:
    if frame.isStreaming:
        raise UnsupportedOperationError("over is for finite DataFrames, and this one is streaming; use spark")
    require_frames(query)
    resolved = Resolved.of(*without_deletions(query, frame))
    name, why = beside.chosen(resolved, path)
    if name == "native":
        return Explanation(f"path native: {why}\n  {native_frames.EXPLAINED}, by Spark alone")
    back = survey.lookback(resolved.windows)
    counted = back is not None and back.rows > 0
    return _by_python(resolved, why, [], [*kept_whole(resolved), *(["a frame counts rows"] if counted else [])], frame)


def _by_python(resolved: Resolved, why: str, lines: list[str], whole: list[str], frame: DataFrame) -> Explanation:
    """Return how Python answers; `whole` has the reasons not to cut keys."""
    order = ", ".join([*resolved.query.key, str(resolved.query.time)])
    above = [f"path python: {why}", f"  rows are sorted by {order}, by Spark"]
    above += ["  and by arrival among equal times, which matters here"] if resolved.ordered else []
    below = [f"  each key is answered in one task, because {each}" for each in whole]
    below = below or [
        "  a key with more than its share of the rows is cut by time into pieces that overlap by a window"
    ]
    below += [f"  {each}" for each in advice(frame.sparkSession)]
    return Explanation("\n".join([*above, *lines, *below]))
