"""What a kernel raises, in words: which aggregations failed, and at what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.errors import AggregationOverflowError, ColumnTypeError, MuntinError
from muntin.types import OBJECT, ColumnType


class in_words:  # noqa: N801  # reads as a statement; a generator would take three times as long to enter
    """Name the aggregations in errors of their kernels: numbers too large, and objects that cannot be compared.

    What a user's own definition raises is left alone. Infinity minus itself is NaN without a warning, as in compiled
    kernels.
    """

    __slots__ = ("_aggregations", "_kinds", "_quiet")

    def __init__(self, aggregations: Iterable[Aggregation], kinds: Iterable[ColumnType]) -> None:
        self._aggregations = aggregations
        self._kinds = kinds
        self._quiet = np.errstate(invalid="ignore")

    def __enter__(self) -> None:
        """Begin."""
        self._quiet.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> Literal[False]:
        """End: an error of a kernel is raised as one of ours."""
        self._quiet.__exit__(None, None, None)
        if error is not None and not isinstance(error, MuntinError):
            self._raise(error)
        return False

    def _raise(self, error: BaseException) -> None:
        names = ", ".join(map(str, self._aggregations))
        if isinstance(error, OverflowError):
            raise AggregationOverflowError(f"{names}: {error}") from error
        own = any(each.own for one in self._aggregations for each in one.factory.definitions.values())
        if isinstance(error, TypeError) and not own and any(each.physical == OBJECT for each in self._kinds):
            raise ColumnTypeError(f"{names}: {error}; give values of one type, without nulls inside of them") from error
