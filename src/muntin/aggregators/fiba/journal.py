"""What a call on a tree of Python objects has written, so that it can be undone.

Only a combine of Python objects can fail halfway, and such trees run as plain Python. There a call writes through views
that note what they overwrite: O(log n) notes for a row, where a copy of the arena would take O(n).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from muntin.aggregators.fiba.nodes import Arena
from muntin.types import Array

Note: TypeAlias = tuple[str, Any, Any]
"""A field of the arena, a place in it, and what was there before."""


class _Noted(np.ndarray[Any, Any]):
    """A view of an array of the arena that notes what is overwritten."""

    field: str
    notes: list[Note]

    def __setitem__(self, at: Any, value: Any) -> None:
        """Note the old value of a place, and write the new one."""
        self.notes.append((self.field, at, self[at]))
        super().__setitem__(at, value)


def noted(window: Arena, notes: list[Note]) -> Arena:
    """Return views of an arena for one call of a kernel; what they overwrite is appended to the notes."""
    return Arena._make(_view(field, array, notes) for field, array in zip(Arena._fields, window, strict=True))


def undo(window: Arena, notes: list[Note]) -> None:
    """Restore what was overwritten. What has been grown since stays so."""
    for field, at, old in reversed(notes):
        getattr(window, field)[at] = old


def _view(field: str, array: Array, notes: list[Note]) -> _Noted:
    view = array.view(_Noted)
    view.field, view.notes = field, notes
    return view
