"""Kernels that find which rows a window covers. They know times, not values."""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, index, kernel


@kernel
def count_disorder(times: Ints) -> tuple[int, int]:
    """Return how many times are before the one above them, and how many are equal to it."""
    descents = 0
    ties = 0
    for row in range(1, len(times)):
        descents += times[index(row)] < times[index(row - 1)]
        ties += times[index(row)] == times[index(row - 1)]
    return descents, ties


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
