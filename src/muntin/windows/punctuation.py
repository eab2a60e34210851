"""Windows that end where a row says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muntin.errors import InvalidArgumentError
from muntin.windows.base import Context, Measure, Window


@dataclass(frozen=True, repr=False)
class Punctuated(Window):
    """Windows of the rows after one marker, up to the next and with it. Made by `punctuated`."""

    context: ClassVar[Context] = Context.FORWARD_FREE
    measure: ClassVar[Measure] = Measure.PUNCTUATION

    column: str

    def __post_init__(self) -> None:
        """Refuse what is no name of a column."""
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgumentError(f"window.punctuated: the column is {self.column!r}; give its name")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The column that marks."""
        return (self.column,)

    def __repr__(self) -> str:
        """Show it as it is written."""
        return f"window.punctuated({self.column!r})"
