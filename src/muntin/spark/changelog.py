"""Finite DataFrames of changes: the rows that survive their deletions, found by Spark's own operators.

The rows of equal key, time and values are next to one another, in the order of arrival, and matched as
`muntin.tables.changelog` does: a row survives if more are open after it than at the start, and never fewer later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.errors import ColumnTypeError
from muntin.query.changes import ADDING, TAKING, in_words, require_change_type
from muntin.query.query import Query
from muntin.spark.given import known_as
from muntin.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COLUMNS = ("muntin_came", "muntin_sign", "muntin_open", "muntin_later")
"""When a row came, 1 or -1 for a deletion, how many are open after it, and the fewest later."""


def without_deletions(query: Query, frame: DataFrame) -> tuple[Query, DataFrame]:
    """Return a query over the rows that survive, and these. One sort by values, and one by arrival."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as F

    if query.changes is None:
        return query, frame
    _require_comparable(query, arrow_schema(frame))
    plain = replace(query, changes=None)
    came, sign, opened, later = _COLUMNS
    places = {name: f"p{i}" for i, name in enumerate(frame.columns)}
    rows = frame.toDF(*places.values())
    rows = rows.withColumn(came, F.monotonically_increasing_id())
    rows = rows.withColumn(sign, _sign(F.col(places[query.changes]), query.changes))
    alike = Over.partitionBy(*(places[name] for name in plain.inputs)).orderBy(came)
    since, until = Over.unboundedPreceding, Over.unboundedFollowing
    rows = rows.withColumn(opened, F.sum(sign).over(alike.rowsBetween(since, Over.currentRow)))
    rows = rows.withColumn(later, F.min(opened).over(alike.rowsBetween(1, until)))
    is_last = F.col(later).isNull() | (F.col(later) >= F.col(opened))
    stays = rows.where((F.col(sign) > 0) & (F.col(opened) > 0) & is_last)
    # Engines number rows as they find them: after the shuffle, that is no longer how they came.
    return plain, known_as(stays.orderBy(came).select(*places.values()).toDF(*frame.columns), frame.schema)


def _sign(word: Column, name: str) -> Column:
    """Return 1 for rows that come, -1 for deletions; an unknown word is an error of the job, which names it."""
    from pyspark.sql import functions as F

    wrong = F.concat(F.lit(f"the column '{name}' holds '"), word, F.lit(f"', and says what a row does: {in_words()}"))
    return (
        F.when(word.isNull() | word.isin(*ADDING), F.lit(1))
        .when(word.isin(*TAKING), F.lit(-1))
        .otherwise(F.raise_error(wrong).cast("int"))
    )


def _require_comparable(query: Query, schema: pa.Schema) -> None:
    """Reject columns that Spark cannot compare, and words that are no text."""
    for name in query.inputs:
        if name not in schema.names:
            continue  # rejected by name where the query is resolved
        kind = schema.field(name).type
        if name == query.changes:
            require_change_type(kind, name)
        elif pa.types.is_map(kind):
            raise ColumnTypeError(
                f"the column {name!r} holds {kind}, which Spark cannot compare to find the row that a deletion takes "
                "back: make its entries a list, as by map_entries"
            )
