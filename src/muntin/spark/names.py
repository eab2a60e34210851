"""Column names inside Spark: dots, backticks and names that differ only in case cause trouble there, not here.

Spark's names are case-insensitive, and a dot denotes a struct field. So every column gets an inner name, derived from
its own, and the answers get theirs back at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.spark.given import known_as

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def inner(name: str) -> str:
    """Return the inner name of a column.

    >>> inner("a.b"), inner("V") == inner("v")
    ('c_612e62', False)
    """
    return "c_" + name.encode().hex()


def column(frame: DataFrame, name: str) -> Column:
    """Return a column of a DataFrame with inner names."""
    return frame[inner(name)]


def with_inner_names(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Return some columns of a DataFrame, under their inner names, located by position."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    names = list(names)
    known = {each.name: each.dataType for each in frame.schema}
    places = {name: f"p{i}" for i, name in enumerate(frame.columns)}
    plain = frame.toDF(*(f"p{i}" for i in range(len(frame.columns))))
    chosen = plain.select(*(F.col(places[name]).alias(inner(name)) for name in names))
    return known_as(chosen, StructType([StructField(inner(name), known[name]) for name in names]))


def inner_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with inner names."""
    return pa.schema([field.with_name(inner(field.name)) for field in schema])
