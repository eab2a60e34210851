"""The columns and the condition of a query by Spark's own expressions, before anything else looks at the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.query.computing import expressions_of, without_expressions
from muntin.query.query import Query
from muntin.spark.collations import collation_of
from muntin.spark.given import known_as
from muntin.spark.schemas import arrow_schema, known_to_spark, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.expressions.rows import RowExpressions


def computed(query: Query, frame: DataFrame) -> tuple[Query, DataFrame]:
    """Return a query without expressions, and the rows that they leave, with their columns. Reads no row."""
    if not query.computes:
        return query, frame
    found = _found(query, frame)
    names = list(frame.columns)
    return without_expressions(query), _rows(
        found, frame, names, [*names, *(n for n in found.columns if n not in names)]
    )


def computed_beside(query: Query, frame: DataFrame) -> tuple[Query, DataFrame]:
    """Return the same for `over`: the columns of the rows under names that mean nothing, then those that it reads.

    Its aggregates have such names as well, since they may be called as a computed column is.
    """
    found, needed = _found(query, frame), query.needed
    own = [f"own {i}" for i in range(len(frame.columns))]
    while set(own) & set(needed):
        own = [f"{name} " for name in own]
    plain = without_expressions(query)
    aggregates = {f"{own[0]} answer {i}": each for i, each in enumerate(query.aggregates.values())}
    return replace(plain, aggregates=aggregates), _rows(found, frame, own, [*own, *needed])


def _found(query: Query, frame: DataFrame) -> RowExpressions:
    found = expressions_of(query, arrow_schema(frame))
    assert found is not None
    return found


def _rows(found: RowExpressions, frame: DataFrame, own: list[str], wanted: list[str]) -> DataFrame:
    """Return the rows that the condition holds for, with the wanted columns: computed ones, or those of the rows.

    `own` are the names that these have, besides those in the DataFrame.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    places = [f"p{i}" for i in range(len(frame.columns))]
    kinds = [each.dataType for each in frame.schema]
    inside = {
        name: place if collation_of(kind) is None else f"collate({place}, 'UTF8_BINARY')"
        for name, place, kind in zip(frame.columns, places, kinds, strict=True)
    }
    rows = frame.toDF(*places)
    where = found.text_of_where(inside)
    if where is not None:
        rows = rows.where(F.expr(where))
    made = spark_schema(known_to_spark(pa.schema(found.types)))
    known = dict(zip(frame.columns, zip(places, kinds, strict=True), strict=True))
    known |= dict(zip(own, zip(places, kinds, strict=True), strict=True))
    texts = found.texts(inside)
    columns = [F.expr(texts[name]) if name in texts else F.col(known[name][0]) for name in wanted]
    fields = [StructField(name, made[name].dataType if name in texts else known[name][1]) for name in wanted]
    chosen = [each.alias(name) for each, name in zip(columns, wanted, strict=True)]
    return known_as(rows.select(*chosen), StructType(fields))
