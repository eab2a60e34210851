"""What each kind of window asks of a buffer of rows."""

from __future__ import annotations

from typing import Any

from muntin.query.plan import Plan
from muntin.streams.buffer.kinds.aware import AwareKind
from muntin.streams.buffer.kinds.base import Kind, Moment, Windows
from muntin.streams.buffer.kinds.content import DeltaKind, ProgrammedKind, PunctuatedKind
from muntin.streams.buffer.kinds.counts import RowsEveryKind, SlidingRowsKind, TrailingRowsKind
from muntin.streams.buffer.kinds.rows_by_time import SessionKind, TrailingKind
from muntin.streams.buffer.kinds.times import HoppingKind, OwnKind
from muntin.windows.advancing import Delta
from muntin.windows.base import Window
from muntin.windows.counts import SlidingRows, TrailingRows
from muntin.windows.mixed import RowsEvery
from muntin.windows.own import ContextAware, ContextFree
from muntin.windows.programmed import Programmed
from muntin.windows.punctuation import Punctuated
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

__all__ = ["Kind", "Moment", "Windows", "kind_of"]

_KINDS: tuple[tuple[Any, type[Kind]], ...] = (
    (Sliding | Cumulative, HoppingKind),
    (ContextFree, OwnKind),
    (Session, SessionKind),
    (Trailing, TrailingKind),
    (SlidingRows, SlidingRowsKind),
    (TrailingRows, TrailingRowsKind),
    (RowsEvery, RowsEveryKind),
    (Punctuated, PunctuatedKind),
    (Programmed, ProgrammedKind),
    (Delta, DeltaKind),
    (ContextAware, AwareKind),
)


def kind_of(definition: Window, plan: Plan) -> Kind:
    """Return what a definition asks of a buffer."""
    for windows, kind in _KINDS:
        if isinstance(definition, windows):
            return kind(definition, plan)
    raise AssertionError(f"{definition!r} was let through, though no kind is made for it")
