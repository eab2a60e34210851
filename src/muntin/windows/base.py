"""What every window says of itself: the facts from which a planner chooses how to cut and merge slices."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError
from muntin.types import INT64, ColumnType, column_type

ROW_BOUNDS = ("from_row", "to_row")
"""The fields of windows by rows: the number of the first row, and of the row after the last."""
VALUE_BOUNDS = ("from_value", "to_value")
"""The fields of windows by a column that advances."""


class Context(Enum):
    """What must be known of the rows to tell where windows begin and end."""

    FREE = "context free"
    """Nothing: the edges follow from the parameters."""
    FORWARD_FREE = "forward context free"
    """The rows up to a time: they tell all edges up to that time."""
    FORWARD_AWARE = "forward context aware"
    """Rows after a time, too: they may bring an edge before it."""


class Measure(Enum):
    """What the edges of a window are measured in."""

    TIME = "time"
    ROWS = "rows"
    DELTA = "delta"
    PUNCTUATION = "punctuation"
    POLICY = "policy"
    MULTI = "multi-measure"


class Window(ABC):
    """A window definition: where windows begin and end, whatever is computed of them.

    Those built in are immutable, and equal when they were made with the same words. Durations stay as they were
    written until `resolve`.
    """

    context: ClassVar[Context]
    """What must be known of the rows to tell its edges."""
    measure: ClassVar[Measure]
    """What its edges are measured in."""
    edges_known: ClassVar[bool] = False
    """Whether its edges follow from the parameters alone, in its own measure."""
    splits: ClassVar[bool] = True
    """Whether a row out of order may bring an edge between rows that had none: those rows must be kept."""
    each_row: ClassVar[bool] = False
    """Whether there is one window for each row, which ends with it."""
    columns: tuple[str, ...] = ()
    """The columns that it reads besides the time."""

    def resolve(self, time: ColumnType) -> Self:
        """Return the same window with every duration an integer in the unit of the time column.

        Idempotent. Raises `InvalidArgumentError` where a duration does not fit that unit. O(1).
        """
        return self

    def bounds(self, types: Mapping[str, ColumnType]) -> Mapping[str, pa.DataType]:
        """Return the fields that its windows have in answers besides `start` and `end`, with their types. O(1).

        `types` are those of the columns that the query reads.
        """
        return {}


@dataclass(frozen=True)
class Rows:
    """A length in rows, where a duration could stand too. Made by `rows`."""

    count: int

    def __post_init__(self) -> None:
        """Refuse what is no number of rows."""
        if isinstance(self.count, bool) or not isinstance(self.count, int | np.integer):
            raise InvalidArgumentError(f"rows({self.count!r}): give a positive integer")
        if self.count < 1:
            raise InvalidArgumentError(f"rows({self.count!r}): a window needs at least one row")
        object.__setattr__(self, "count", int(self.count))

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"rows({self.count})"


def rows(n: int) -> Rows:
    """Return a length of n rows, for windows that count.

    >>> from muntin import rows, window
    >>> window.tumbling(rows(100))
    window.tumbling(rows(100))
    """
    return Rows(n)


_FINEST = column_type(pa.timestamp("ns"))


def sized(value: Any, what: str) -> int:
    """Return a duration whose unit may be unknown as an integer: as it is, or in nanoseconds.

    >>> sized(5, "range"), sized("1 microsecond", "range")
    (5, 1000)
    """
    if isinstance(value, Rows):
        raise InvalidArgumentError(f"{what} is {value!r}; give a duration like '10 minutes', a timedelta or an integer")
    return in_unit_of(value, INT64 if unitless(value) else _FINEST, what)


def unitless(value: Any) -> bool:
    """Say whether a duration is an integer, in a unit that only the time column tells."""
    return isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64)


def positive(value: Any, what: str) -> Any:
    """Return a duration as it is written, refused unless it is positive.

    >>> positive("10 minutes", "range")
    '10 minutes'
    """
    if sized(value, what) <= 0:
        raise InvalidArgumentError(f"{what} is {value!r}; it must be positive")
    return int(value) if unitless(value) else value


def any_sign(value: Any, what: str) -> Any:
    """Return a duration as it is written, refused if it is none."""
    sized(value, what)
    return int(value) if unitless(value) else value


def steps_fit(range: Any, every: Any, what: str, *, whole: bool = False) -> None:
    """Refuse a step that is longer than the range, or with `whole` does not divide it, once both units are known."""
    if unitless(range) != unitless(every):
        return
    length, step = sized(range, f"{what}: range"), sized(every, f"{what}: every")
    if step > length:
        raise InvalidArgumentError(
            f"{what}: every is {every!r}, longer than the range {range!r}, so that rows between would be in no window; "
            f"give an every of at most {range!r}"
        )
    if whole and length % step:
        raise InvalidArgumentError(f"{what}: every is {every!r}; give one that divides the range, {range!r}")
