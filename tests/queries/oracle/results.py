"""The rows of a query in plain Python, the windows found among them, and what is answered of these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muntin.testing.oracle import recompute

NEVER = math.inf


@dataclass(frozen=True)
class Row:
    """A row with its number in the order of arrival."""

    time: int
    number: int
    values: Mapping[str, Any] = field(compare=False)
    judged: bool = field(default=False, compare=False)
    """Whether a policy has left it, and is not asked about it again."""


@dataclass(frozen=True)
class Result:
    """A row of the answer."""

    key: tuple[Any, ...]
    window_id: int
    start: int | None
    end: int | None
    aggregates: Mapping[str, Any]
    revision: int = 0
    retracted: bool = False
    rows: tuple[int, int] | None = None
    """from_row and to_row."""
    values: tuple[Any, Any] | None = None
    """from_value and to_value."""
    at: int | None = None
    """The time of its row, where a frame does not end with that."""
    name: Any = field(default=None, compare=False, repr=False)
    """What tells the window from others of its definition, where that is known."""


@dataclass(frozen=True)
class Found:
    """One window and the rows in it."""

    name: Any
    """What tells it from others of its definition, for the user."""
    start: int | None
    end: int | None
    members: tuple[Row, ...]
    due: float
    rows: tuple[int, int] | None = None
    values: tuple[Any, Any] | None = None
    full: bool = True
    row: Row | None = None
    """Its row, of a frame."""
    at: int | None = None
    slot: Any = None
    """What tells it from others for the query whether it is final: the name, unless said."""

    @property
    def place(self) -> Any:
        return self.name if self.slot is None else self.slot


def aggregate(aggregation: Any, members: Iterable[Row]) -> Any:
    """Fold the rows from scratch."""
    names = aggregation.reads

    def value(row: Row) -> Any:
        return row.values[names[0]] if len(names) == 1 else tuple(row.values[name] for name in names)

    return recompute(aggregation, [(row.time, value(row)) for row in members])
