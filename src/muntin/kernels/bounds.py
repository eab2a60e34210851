"""Kernels that find which rows a window covers. They know times, not values."""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, kernel


@kernel
def first_descent(times: Ints) -> int:
    """Return the first row whose time is before that of the row above it, -1 if there is none."""
    for row in range(1, len(times)):
        if times[row] < times[row - 1]:
            return row
    return -1


@kernel
def trailing_bounds(times: Ints, width: int, floor: int, first: Ints, last: Ints) -> None:
    """For each row's window (time - width, time]: its first row, and the row after its last.

    Rows of equal time belong to each other's windows. `floor` is the least time from which `width` can be taken.
    """
    begin = 0
    end = 0
    for row in range(len(times)):
        time = times[row]
        if time >= floor:
            while times[begin] <= time - width:
                begin += 1
        while end < len(times) and times[end] <= time:
            end += 1
        first[row] = begin
        last[row] = end
