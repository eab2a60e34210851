"""What Spark knows of a plan and of its cores, read from SQL's EXPLAIN.

That is the one public door to it that classic sessions and Spark Connect share. It runs no job, prints nothing, and
several threads may use it at once. In a declarative pipeline Spark refuses it, and what can be had otherwise must do.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REFUSED = ("UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION")
_SPLITS = re.compile(r"splits=(\d+)")
# A node stands behind the lines of its tree, and names the column; text in a literal does neither.
_WATERMARK = re.compile(r"^[ :|+~-]*EventTimeWatermark .*#\d+.*, ", re.MULTILINE)
_SIZE = re.compile(r"sizeInBytes=([\d.]+(?:E\+?\d+)?) (\w+)")
_UNITS = {unit: 1 << 10 * i for i, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


def default_parallelism(session: SparkSession) -> int:
    """Return how many tasks Spark runs at once where nothing else says how many: the cores, normally.

    In a pipeline it is what makes for as many buckets as Spark has partitions after a shuffle.
    """
    text = _text_of(session, "EXPLAIN SELECT id FROM range(1)")
    if text is None:
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 200) // 4)
    found = _SPLITS.search(text)
    return int(found[1]) if found else 1


def has_watermark(frame: DataFrame) -> bool:
    """Return whether a streaming DataFrame, or one that it was made from, has a watermark; in a pipeline never."""
    return _WATERMARK.search(_explained("EXPLAIN EXTENDED SELECT * FROM {frame}", frame) or "") is not None


def size_in_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a DataFrame's bytes; in a pipeline 0, so that no rows are looked at beforehand."""
    text = _explained("EXPLAIN COST SELECT * FROM {frame}", frame)
    if text is None:
        return 0
    found = _SIZE.search(text)
    return parse_size(*found.groups()) if found else _UNITS["EiB"]  # what Spark takes for unknown


def parse_size(number: str, unit: str) -> int:
    """Return bytes as Spark writes them.

    >>> parse_size("17.5", "KiB"), parse_size("1.11E+25", "B")
    (17920, 11100000000000000511705088)
    """
    return int(float(number) * _UNITS[unit])


def _explained(statement: str, frame: DataFrame) -> str | None:
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # a view has no two names that are alike
    return _text_of(frame.sparkSession, statement, frame=plain)


def _text_of(session: SparkSession, statement: str, **frames: Any) -> str | None:
    """Return what Spark explains; None in a pipeline, which has no EXPLAIN."""
    from pyspark.errors import AnalysisException

    try:
        (row,) = session.sql(statement, **frames).collect()
    except AnalysisException as error:
        if error.getCondition() not in _REFUSED:
            raise
        return None
    text: str = row[0]
    return text
