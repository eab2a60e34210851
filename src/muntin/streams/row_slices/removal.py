"""Removal of a row from a slice: by `invert`, or for free if another row was selected; else by refolding."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import (
    Slots,
    State,
    counts,
    has_lost_digits,
    inlined,
    invert,
    kernel,
    load,
    prefers_newer,
    raise_peaks,
    replaceable,
    replaces,
    store,
)


@replaceable
@inlined
def watch(peaks: Any, slot: int, state: State) -> None:
    """Record the largest sizes of a slice's floats, where that matters. Here it does not."""


@replaceable
@kernel
def try_remove(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Remove the newest row of a slice; return whether that was possible. Only for commutative states.

    Here it is not.
    """
    return False


@replaces(try_remove)
@kernel
def try_remove_unchosen(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Remove a row of a selective aggregation: free, unless it may be the selected one.

    The count of non-null rows may be too high afterwards, but never if there is none.
    """
    leaving = load(rows, row)
    return not (counts(leaving) and prefers_newer(load(states, slot), leaving))


@replaces(watch)
@inlined
def watch_floats(peaks: Any, slot: int, state: State) -> None:
    """Record the largest sizes of a slice's floats."""
    raise_peaks(peaks[slot]["size"], state)


@replaces(try_remove)
@kernel
def try_invert(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:
    """Remove a row by `invert`, unless floats could have lost digits."""
    state = invert(load(states, slot), load(rows, row))
    raise_peaks(peaks[slot]["size"], state)
    store(states, slot, state)
    return not has_lost_digits(peaks[slot]["size"], state)


REMOVAL = {
    "invert": (watch_floats, try_invert),
    "beaten": (watch, try_remove_unchosen),
    "refold": (watch, try_remove),
}
"""The kernels that remove a row from a slice."""
