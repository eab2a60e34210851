"""Session windows: they last for as long as rows follow each other closely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from muntin.durations import in_unit_of
from muntin.types import ColumnType
from muntin.windows.base import Context, Measure, Window, positive


@dataclass(frozen=True, repr=False)
class Session(Window):
    """Windows [first row, last row + gap), as Spark's `session_window` makes them. Made by `session`.

    A row at the very end of a session, a whole gap after its last row, still belongs to it and prolongs it.
    """

    context: ClassVar[Context] = Context.FORWARD_FREE
    measure: ClassVar[Measure] = Measure.TIME
    splits: ClassVar[bool] = False  # a row can only make sessions longer, or one of several

    gap: Any

    def __post_init__(self) -> None:
        """Refuse a duration that means nothing."""
        object.__setattr__(self, "gap", positive(self.gap, "window.session: gap"))

    def resolve(self, time: ColumnType) -> Self:
        """Return it in the unit of the time column. O(1)."""
        return type(self)(in_unit_of(self.gap, time, "gap"))

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.session({self.gap!r})"
