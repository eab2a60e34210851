"""A row leaves a slice by `invert`. Where floats could show lost digits the slice is folded anew instead."""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import (
    Slots,
    State,
    has_lost_digits,
    inlined,
    invert,
    kernel,
    load,
    raise_peaks,
    store,
)


@inlined
def watch(peaks: Any, slot: int, state: State) -> None:
    """Note how large the floats of a slice have been."""
    raise_peaks(peaks[slot]["size"], state)


@kernel
def left(states: Slots, peaks: Any, slot: int, rows: Slots, row: int) -> bool:
    """Take the slice's newest row out of it; say whether that could be done. Only for states that commute."""
    state = invert(load(states, slot), load(rows, row))
    raise_peaks(peaks[slot]["size"], state)
    store(states, slot, state)
    return not has_lost_digits(peaks[slot]["size"], state)


LEAVE_INVERTED = (watch, left)
