"""The columns and the condition of a query, over its rows: before windows, keys and times are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.query.query import Query
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.expressions.rows import RowExpressions


def expressions_of(query: Query, schema: pa.Schema) -> RowExpressions | None:
    """Return the expressions of a query that its windows need, by the types of the columns; None if it has none.

    >>> from muntin import agg, window
    >>> query = Query(window.tumbling(10), {"total": agg.sum("revenue")}, columns={"revenue": "price * pieces"})
    >>> expressions_of(query, pa.schema({"ts": pa.int64(), "price": pa.float64(), "pieces": pa.int32()})).types
    {'revenue': DataType(double)}
    """
    if not query.computes:
        return None
    from muntin.expressions.rows import RowExpressions

    return RowExpressions.of({name: query.expressions[name] for name in query.computed}, query.where, schema)


def computed_schema(query: Query, schema: pa.Schema) -> pa.Schema:
    """Return the types of a query's rows once its columns are computed."""
    found = expressions_of(query, schema)
    return schema if found is None else found.schema(schema)


def computed_rows(query: Query, table: pa.Table) -> tuple[pa.Table, Array | None]:
    """Return the rows that a query's condition holds for, and their numbers, None for all. O(n).

    They have the columns that the query needs, and those that these are computed of.
    """
    found = expressions_of(query, table.schema)
    if found is None:
        return table, None
    kept = found.kept(table)
    read = {*query.needed, *found.read_by_columns}
    table = table.select([name for name in table.column_names if name in read])
    if kept is None:
        return found.with_columns(table), None
    places = np.flatnonzero(kept.to_numpy())
    if len(places) < len(kept):
        table = table.filter(kept)
    return found.with_columns(table), places


def without_expressions(query: Query) -> Query:
    """Return the query over rows whose columns are computed already."""
    return replace(query, columns=None, where=None) if query.computes else query


COLUMN, _WHERE = "column ", "where"
"""What the facts of computed columns begin with, and the fact of the condition."""


def is_expression(fact: str) -> bool:
    """Return whether a fact of a query is one of its expressions."""
    return fact == _WHERE or fact.startswith(COLUMN)


def expression_facts(query: Query) -> Mapping[str, str]:
    """Return the expressions of a query as text: the same for all that differ in spaces and letters of words alone.

    >>> from muntin import agg, window
    >>> expression_facts(Query(window.tumbling(10), {"n": agg.count()}, where="price>0  and not sold"))
    {'where': 'price > 0 AND NOT sold'}
    """
    if not query.computes:
        return {}
    from muntin.expressions.parse import parse
    from muntin.expressions.rows import WHERE, label

    found = {f"{COLUMN}{name}": str(parse(text, label(name))) for name, text in query.expressions.items()}
    return found if query.where is None else {**found, WHERE: str(parse(query.where, WHERE))}
