"""Which windows the rows of a key are in, by the kind of the definition."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from queries.oracle.by_contents import context_aware, delta, programmed, punctuated
from queries.oracle.by_rows import rows_every, sliding_rows, time_every
from queries.oracle.by_time import cumulative, ones_own, sessions, sessions_by_column, sliding
from queries.oracle.frames import ROW_FRAMES, TIME_FRAMES, frames_by_rows, frames_by_time
from queries.oracle.results import Found, Row

from muntin import window as w
from muntin.types import ColumnType
from muntin.windows.kinds.cumulative import Cumulative
from muntin.windows.kinds.delta import Delta
from muntin.windows.kinds.policy import Programmed
from muntin.windows.kinds.punctuated import Punctuated
from muntin.windows.kinds.rows_every import RowsEvery
from muntin.windows.kinds.session import Session
from muntin.windows.kinds.session_by_column import SessionByColumn
from muntin.windows.kinds.sliding import Sliding
from muntin.windows.kinds.sliding_rows import SlidingRows
from muntin.windows.kinds.time_every import TimeEvery

ALL_TIMES = (
    Sliding
    | Cumulative
    | Session
    | TIME_FRAMES
    | SlidingRows
    | ROW_FRAMES
    | RowsEvery
    | TimeEvery
    | Punctuated
    | Programmed
)
"""Definitions of which every row has some window, or counts for some, that is due no earlier than the row."""


def find(definition: Any, rows: list[Row], time_type: ColumnType) -> list[Found]:
    """Return the windows of the sorted rows of one key, those that hold a row."""
    if isinstance(definition, Programmed):
        return programmed(definition, rows, time_type)  # its spans are as they were written
    return of_kind(definition, rows)


@singledispatch
def of_kind(definition: Any, rows: list[Row]) -> list[Found]:
    """Return the windows of a kind, whose lengths are in the unit of the times."""
    raise NotImplementedError(definition)


of_kind.register(Sliding, sliding)
of_kind.register(Cumulative, cumulative)
of_kind.register(w.ContextFree, ones_own)
of_kind.register(Session, sessions)
of_kind.register(SessionByColumn, sessions_by_column)
of_kind.register(TIME_FRAMES, frames_by_time)
of_kind.register(ROW_FRAMES, frames_by_rows)
of_kind.register(SlidingRows, sliding_rows)
of_kind.register(RowsEvery, rows_every)
of_kind.register(TimeEvery, time_every)
of_kind.register(Delta, delta)
of_kind.register(Punctuated, punctuated)
of_kind.register(w.ContextAware, context_aware)
