"""A row leaves a slice: by `invert`, or for nothing where another row was chosen; else the slice is folded again."""

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
    """Note how large the floats of a slice have been, where that matters. Here it does not."""


@replaceable
@kernel
def try_remove(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Take the slice's newest row out of it; say whether that could be done. Only for states that commute.

    Here it cannot.
    """
    return False


@replaces(try_remove)
@kernel
def try_remove_unchosen(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:  # noqa: ARG001
    """Remove a row of a selective aggregation: nothing is to be done, but where it may be the one that was chosen.

    How many rows were not null may be too high afterwards, but never where there is none.
    """
    leaving = load(rows, row)
    return not (counts(leaving) and prefers_newer(load(states, slot), leaving))


@replaces(watch)
@inlined
def watch_floats(peaks: Any, slot: int, state: State) -> None:
    """Note how large the floats of a slice have been."""
    raise_peaks(peaks[slot]["size"], state)


@replaces(try_remove)
@kernel
def try_invert(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:
    """Remove a row by `invert`; not where floats could show lost digits."""
    state = invert(load(states, slot), load(rows, row))
    raise_peaks(peaks[slot]["size"], state)
    store(states, slot, state)
    return not has_lost_digits(peaks[slot]["size"], state)


REMOVAL = {
    "invert": (watch_floats, try_invert),
    "beaten": (watch, try_remove_unchosen),
    "refold": (watch, try_remove),
}
"""The kernels by which a row leaves a slice."""
