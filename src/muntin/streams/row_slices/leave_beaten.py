"""A row leaves a slice of a selective aggregation: where another row was chosen, nothing is to be done."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Slots, State, counts, inlined, kernel, load, prefers_newer


@inlined
def watch(peaks: Any, slot: int, state: State) -> None:
    """Note nothing: what was chosen is a row as it came."""


@kernel
def left(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Take the slice's newest row out of it; say whether that could be done: not where it may be the chosen one.

    How many rows were not null may be said too high afterwards, but never where there is none.
    """
    leaving = load(rows, row)
    return not (counts(leaving) and prefers_newer(load(states, slot), leaving))


LEAVE_BEATEN = (watch, left)
