"""Splits the one DataFrame of a query into answers and late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muntin.errors import ColumnError
from muntin.spark.unpack import LATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def split(frame: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the answers and the late rows of a batch of `q.spark(df, late=True)`: for `foreachBatch`.

        def write(batch, number):
            batch.persist()
            answers, late = muntin.spark.split(batch)
            answers.write.mode("overwrite").parquet(f"answers/{number}")
            late.write.mode("overwrite").parquet(f"late/{number}")
            batch.unpersist()

    Without `persist` Spark would compute the batch twice, and some versions would count its rows twice.
    """
    if LATE not in frame.columns:
        raise ColumnError(f"there is no column {LATE!r}; ask for late rows with q.spark(df, late=True)")
    column = frame[LATE]
    return frame.where(column.isNull()).drop(LATE), frame.where(column.isNotNull()).select(f"{LATE}.*")
