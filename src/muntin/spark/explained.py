"""Facts about a plan and Spark's cores, read from SQL's EXPLAIN.

That is the one public way that classic sessions and Spark Connect share. It runs no job, prints nothing, and is
thread-safe. In a declarative pipeline Spark rejects it, and fallbacks are used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REFUSED = ("UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION")
_SPLITS = re.compile(r"splits=(\d+)")
# A node follows the lines of its tree, and names the column; text in a literal does neither.
_WATERMARK = re.compile(r"^[ :|+~-]*EventTimeWatermark .*#\d+.*, ", re.MULTILINE)
_SIZE = re.compile(r"sizeInBytes=([\d.]+(?:E\+?\d+)?) (\w+)")
_UNITS = {unit: 1 << 10 * i for i, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


def default_parallelism(session: SparkSession) -> int:
    """Return Spark's default parallelism: normally the number of cores.

    In a pipeline it is chosen so that there are as many buckets as shuffle partitions.
    """
    text = _text_of(session, "EXPLAIN SELECT id FROM range(1)")
    if text is None:
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 200) // 4)
    found = _SPLITS.search(text)
    return int(found[1]) if found else 1


def has_watermark(frame: DataFrame) -> bool:
    """Return whether a streaming DataFrame, or one of its sources, has a watermark; in a pipeline always False."""
    return _WATERMARK.search(_explained("EXPLAIN EXTENDED SELECT * FROM {frame}", frame) or "") is not None


def size_in_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a DataFrame's bytes; in a pipeline 0, so that no rows are sampled."""
    text = _explained("EXPLAIN COST SELECT * FROM {frame}", frame)
    if text is None:
        return 0
    found = _SIZE.search(text)
    return parse_size(*found.groups()) if found else _UNITS["EiB"]  # Spark's value for unknown


def physical_plan(frame: DataFrame) -> str | None:
    """Return Spark's plan of a DataFrame; None in a pipeline."""
    return _explained("EXPLAIN SELECT * FROM {frame}", frame)


def parse_size(number: str, unit: str) -> int:
    """Parse a number of bytes as Spark writes it.

    >>> parse_size("17.5", "KiB"), parse_size("1.11E+25", "B")
    (17920, 11100000000000000511705088)
    """
    return int(float(number) * _UNITS[unit])


def _explained(statement: str, frame: DataFrame) -> str | None:
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))  # names in a view must be distinct
    return _text_of(frame.sparkSession, statement, frame=plain)


def _text_of(session: SparkSession, statement: str, **frames: Any) -> str | None:
    """Return the text of EXPLAIN; None in a pipeline, which has no EXPLAIN."""
    from pyspark.errors import AnalysisException

    try:
        (row,) = session.sql(statement, **frames).collect()
    except AnalysisException as error:
        if error.getCondition() not in _REFUSED:
            raise
        return None
    text: str = row[0]
    return text
