"""Windows by time: sliding (of which tumbling are a kind) and cumulative ones, and those that trail each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from muntin.durations import in_unit_of
from muntin.types import ColumnType
from muntin.windows.base import Context, Measure, Window, any_sign, positive, steps_fit
from muntin.windows.own import ContextFree


@dataclass(frozen=True, repr=False)
class Sliding(ContextFree):
    """Windows [start, start + range), one every `every`, at its multiples from the epoch on, plus `offset`.

    Made by `tumbling` and `sliding`.
    """

    range: Any
    every: Any
    offset: Any = 0

    def __post_init__(self) -> None:
        """Refuse durations that mean nothing."""
        name = "window.tumbling" if self.range == self.every else "window.sliding"
        object.__setattr__(self, "range", positive(self.range, f"{name}: range"))
        object.__setattr__(self, "every", positive(self.every, f"{name}: every"))
        object.__setattr__(self, "offset", any_sign(self.offset, f"{name}: offset"))
        steps_fit(self.range, self.every, name)

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; of the offsets that mean the same, the least from 0 on. O(1).

        >>> import pyarrow as pa
        >>> from muntin import window
        >>> from muntin.types import column_type
        >>> window.sliding("1 hour", every="1 minute", offset="-15 seconds").resolve(column_type(pa.timestamp("s")))
        window.sliding(3600, every=60, offset=45)
        """
        length = in_unit_of(self.range, time, "range")
        every = in_unit_of(self.every, time, "every")
        return type(self)(length, every, in_unit_of(self.offset, time, "offset") % every)

    def next_edge(self, t: int) -> int:
        """Return the first time after t at which a window begins or ends. Resolved windows only. O(1).

        >>> from muntin import window
        >>> [window.sliding(10, every=4).next_edge(t) for t in (0, 2, 4, 5)]
        [2, 4, 6, 6]
        """
        return min(_next(t, self.every, self.offset), _next(t, self.every, self.offset + self.range))

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        """Yield the windows whose end is in (previous, watermark], by their ends. Resolved windows only. O(1) each.

        >>> from muntin import window
        >>> list(window.sliding(10, every=5).ended(12, 20))
        [(5, 15), (10, 20)]
        """
        end = _next(previous, self.every, self.offset + self.range)
        while end <= watermark:
            yield end - self.range, end
            end += self.every

    def __repr__(self) -> str:
        """Show it as it is written."""
        if self.range == self.every:
            return f"window.tumbling({self.range!r}{_shown(self.offset)})"
        return f"window.sliding({self.range!r}, every={self.every!r}{_shown(self.offset)})"


@dataclass(frozen=True, repr=False)
class Cumulative(ContextFree):
    """Windows that grow by `every` until they are `range` long, and then begin anew. Made by `cumulative`."""

    range: Any
    every: Any
    offset: Any = 0

    def __post_init__(self) -> None:
        """Refuse durations that mean nothing."""
        object.__setattr__(self, "range", positive(self.range, "window.cumulative: range"))
        object.__setattr__(self, "every", positive(self.every, "window.cumulative: every"))
        object.__setattr__(self, "offset", any_sign(self.offset, "window.cumulative: offset"))
        steps_fit(self.range, self.every, "window.cumulative", whole=True)

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column; of the offsets that mean the same, the least from 0 on. O(1)."""
        length = in_unit_of(self.range, time, "range")
        every = in_unit_of(self.every, time, "every")
        return type(self)(length, every, in_unit_of(self.offset, time, "offset") % length)

    def next_edge(self, t: int) -> int:
        """Return the first time after t at which a window begins or ends. Resolved windows only. O(1)."""
        return _next(t, self.every, self.offset)

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        """Yield the windows whose end is in (previous, watermark], by their ends. Resolved windows only. O(1) each.

        >>> from muntin import window
        >>> list(window.cumulative(20, every=10).ended(0, 40))
        [(0, 10), (0, 20), (20, 30), (20, 40)]
        """
        end = self.next_edge(previous)
        while end <= watermark:
            yield end - 1 - (end - 1 - self.offset) % self.range, end
            end += self.every

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.cumulative({self.range!r}, every={self.every!r}{_shown(self.offset)})"


@dataclass(frozen=True, repr=False)
class Trailing(Window):
    """One window for each row: (t - range, t], where t is the time of the row. Made by `trailing`."""

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the window of a later row may begin at any time before it
    measure: ClassVar[Measure] = Measure.TIME
    each_row: ClassVar[bool] = True

    range: Any

    def __post_init__(self) -> None:
        """Refuse a duration that means nothing."""
        object.__setattr__(self, "range", positive(self.range, "window.trailing: range"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.range, time, "range"))

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.trailing({self.range!r})"


def _next(t: int, step: int, offset: int) -> int:
    """Return the first of the times offset + k * step after t."""
    return t + step - (t - offset) % step


def _shown(offset: Any) -> str:
    return "" if offset == 0 else f", offset={offset!r}"
