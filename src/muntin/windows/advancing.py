"""Windows by a column that advances with time: an odometer, a counter, an invoice number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.errors import InvalidArgumentError
from muntin.types import INT64, ColumnType
from muntin.windows.base import VALUE_BOUNDS, Context, Measure, Window


@dataclass(frozen=True, repr=False)
class Delta(Window):
    """Windows of the rows whose value is in [from, from + range), one at each multiple of `every`, plus `offset`.

    Made by `delta`. The column is promised not to go back as event time goes on.
    """

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.DELTA
    edges_known: ClassVar[bool] = True  # as values of the column
    splits: ClassVar[bool] = False

    column: str
    range: int | float
    every: int | float
    offset: int | float = 0

    def __post_init__(self) -> None:
        """Refuse steps that mean nothing."""
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgumentError(f"window.delta: the column is {self.column!r}; give its name")
        for name in ("range", "every", "offset"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not math.isfinite(value):
                raise InvalidArgumentError(
                    f"window.delta: {name} is {value!r}; give a number, in the unit of column {self.column!r}"
                )
            if value <= 0 and name != "offset":
                raise InvalidArgumentError(f"window.delta: {name} is {value!r}; it must be positive")
            object.__setattr__(self, name, value.item() if isinstance(value, np.number) else value)
        if self.every > self.range:
            raise InvalidArgumentError(
                f"window.delta: every is {self.every!r}, longer than the range {self.range!r}, so that rows between "
                f"would be in no window; give an every of at most {self.range!r}"
            )

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column that advances."""
        return (self.column,)

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return `from_value` and `to_value`: integers where the column and all steps are, floats otherwise. O(1)."""
        steps = (self.range, self.every, self.offset)
        whole = types.get(self.column, INT64).family == "integer" and all(isinstance(step, int) for step in steps)
        return dict.fromkeys(VALUE_BOUNDS, pa.int64() if whole else pa.float64())

    def __repr__(self) -> str:
        """Show it as it is written."""
        every = "" if self.every == self.range else f", every={self.every!r}"
        offset = "" if self.offset == 0 else f", offset={self.offset!r}"
        return f"window.delta({self.column!r}, {self.range!r}{every}{offset})"
