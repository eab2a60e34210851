"""Kernels that all structures share: they call `push`, `pop` and `total`, which each structure defines.

`window` is the named tuple of the structure's arrays; only the structure's own kernels know its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.kernels.vocabulary import Columns, Ints, Outputs, Slots, emit, emit_empty, kernel, lift, load

if TYPE_CHECKING:

    def push(window: Any, time: int, state: Any) -> None:
        """Append a state to the window."""

    def pop(window: Any) -> None:
        """Remove the oldest state."""

    def total(window: Any) -> Any:
        """Return the state of the whole window, which is not empty."""


@kernel
def insert_rows(window: Any, columns: Columns, times: Ints, start: int, stop: int) -> None:
    """Insert rows of some columns."""
    for row in range(start, stop):
        push(window, times[row], lift(columns, times, row))


@kernel
def evict_rows(window: Any, count: int) -> None:
    """Evict the `count` oldest rows."""
    for _ in range(count):
        pop(window)


@kernel
def answer(window: Any, outputs: Outputs) -> None:
    """Lower the state of the whole window, which is not empty."""
    emit(outputs, 0, total(window))


@kernel
def slide_rows(
    window: Any, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs
) -> None:
    """Run the windows [first, last) of rows, both bounds ascending, through an empty structure."""
    begin = first[start]
    end = begin
    for i in range(start, stop):
        # Rows leave before others enter, so the structure never holds more than the longest window.
        while begin < first[i]:
            if begin < end:
                pop(window)
            else:
                end += 1  # a row between two windows
            begin += 1
        while end < last[i]:
            push(window, end, lift(columns, times, end))  # its number serves as a unique time
            end += 1
        if end > begin:
            emit(outputs, i, total(window))
        else:
            emit_empty(outputs, i)


@kernel
def slide_slots(window: Any, slots: Slots, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs) -> None:
    """Run the windows [first, last) of states, both bounds ascending and none empty, through an empty structure."""
    begin = first[start]
    end = begin
    for i in range(start, stop):
        while begin < first[i]:
            if begin < end:
                pop(window)
            else:
                end += 1
            begin += 1
        while end < last[i]:
            push(window, end, load(slots, end))
            end += 1
        emit(outputs, i, total(window))


COMMON = (insert_rows, evict_rows, answer, slide_rows, slide_slots)
