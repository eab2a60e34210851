"""The plain truth: fold the rows of each window, one by one, with nothing shared and nothing kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import PlainAlgebra, plain_algebra
from muntin.types import NULL, ColumnType, value_type, wider


def recompute(aggregation: Aggregation, rows: Sequence[tuple[int, Any]]) -> Any:
    """Return the aggregate of rows (time, value), folded from scratch in the order given.

    A value is a tuple if the aggregation reads several columns, with that of `where` last. O(n) combines.

    >>> from muntin import agg
    >>> recompute(agg.max("v"), [(1, 5), (2, None), (3, 7)])
    7
    """
    named = [(time, dict(zip(aggregation.reads, _row(aggregation, v), strict=True))) for time, v in rows]
    wanted = [(time, row) for time, row in named if aggregation.where is None or row[aggregation.where]]
    read = [(time, tuple(row[column] for column in aggregation.columns)) for time, row in wanted]
    kept = [(time, row) for time, row in read if _counts(aggregation, row)]
    if not kept:
        return aggregation.empty
    algebra = _algebra(aggregation, [row for _, row in kept])
    state = None
    for time, row in kept:
        lifted = algebra.lift(*row, time)
        state = lifted if state is None else algebra.combine(state, lifted)
    answer = algebra.lower(state)
    return answer.item() if isinstance(answer, np.generic) else answer


def _row(aggregation: Aggregation, value: Any) -> tuple[Any, ...]:
    width = len(aggregation.reads)
    return () if width == 0 else (value,) if width == 1 else tuple(value)


def _counts(aggregation: Aggregation, row: tuple[Any, ...]) -> bool:
    if aggregation.definition.nulls:
        return True
    return not any(value is None or (aggregation.skip_nan and value != value) for value in row)


def _algebra(aggregation: Aggregation, rows: list[tuple[Any, ...]]) -> PlainAlgebra:
    kinds: list[ColumnType] = [NULL] * len(aggregation.columns)
    for row in rows:
        kinds = [wider(old, value_type(value)) or old for old, value in zip(kinds, row, strict=True)]
    return plain_algebra(aggregation, tuple(kinds))
