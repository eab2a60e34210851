"""A row leaves a slice of any other aggregation: the slice is folded anew from its rows."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Slots, State, inlined, kernel


@inlined
def watch(peaks: Any, slot: int, state: State) -> None:
    """Note nothing."""


@kernel
def left(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Say that the slice's newest row cannot be taken out of it."""
    return False


LEAVE_ANEW = (watch, left)
