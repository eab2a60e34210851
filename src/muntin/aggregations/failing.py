"""What a kernel raises, in words: which aggregations failed, and at what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import AggregationOverflowError, ColumnTypeError, MuntinError
from muntin.types import OBJECT, ColumnType


@contextmanager
def in_words(aggregations: Iterable[Aggregation], kinds: Iterable[ColumnType]) -> Iterator[None]:
    """Name the aggregations in errors of their kernels: numbers too large, and objects that cannot be compared.

    What a user's own definition raises is left alone.
    """
    try:
        with np.errstate(invalid="ignore"):  # infinity minus itself is NaN, as in compiled kernels, which do not warn
            yield
    except MuntinError:
        raise
    except OverflowError as error:
        raise AggregationOverflowError(f"{', '.join(map(str, aggregations))}: {error}") from error
    except TypeError as error:
        own = any(each.own for one in aggregations for each in one.factory.definitions.values())
        if own or all(kind.physical != OBJECT for kind in kinds):
            raise
        raise ColumnTypeError(
            f"{', '.join(map(str, aggregations))}: {error}; give values of one type, without nulls inside of them"
        ) from error
