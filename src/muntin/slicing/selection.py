"""The k-th smallest value of many sorted runs, found without merging them.

Each run has a stretch that may still hold the answer. A pivot is taken from one of them, looked up in all, and the rows
before it say on which side the answer lies. Runs of one stream are mostly alike, so the first pivots are taken where
the rank would be if they were, a little to the far side of it, so that the answer is soon shut in from both. When that
fails, as for runs that share no values, the next pivot is any row at random, which halves what is left on average:
O(log n) pivots are expected whatever the runs are, each of them a binary search in every run.

What was found stays: the next rank begins from it, and a neighbour of the last is found by a look at each run.

Rejected: a heap over the runs (O(k) for rank k), the bits of the value from the top (64 steps where ten do), and the
weighted median of the runs' medians (no chance in it, but it sorts the runs at each step).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.vocabulary import Ints, Outputs, emit, emit_empty, index, kernel, spread
from muntin.slicing.order_keys import value_of

# A window is a view (keys, ends, bounds, memory, turned, kind): the arena; the runs, of each where it begins, where the
# stretch at hand begins and ends, where it ends itself, and where the pivot is; and what is known of the window: its
# runs, its rows, the last key found, the rows before it, those up to it, and the state of the random numbers.


@kernel
def size(view: Any) -> Any:
    """Return the number of rows in the window."""
    return int(view[3][1])


@kernel
def nth(view: Any, rank: int) -> Any:
    """Return the value that has `rank` smaller ones before it in the window."""
    keys, ends, bounds, memory, turned, kind = view
    if rank < memory[3] or rank >= memory[4]:
        select(keys, ends, bounds, memory, rank)
    return value_of(memory[2], turned, kind)


@kernel
def select(keys: Ints, ends: Ints, bounds: Ints, memory: Ints, rank: int) -> None:
    """Find the key at a rank other than those of the last key found, and the stretch that it is in each run."""
    runs = memory[0]
    if rank >= memory[4]:
        below = memory[4]
        above = memory[1]
        for r in range(runs):
            bounds[index(r), 1] = bounds[index(r), 2]
            bounds[index(r), 2] = bounds[index(r), 3]
    else:
        below = 0
        above = memory[3]
        for r in range(runs):
            bounds[index(r), 2] = bounds[index(r), 1]
            bounds[index(r), 1] = bounds[index(r), 0]
    alike = True
    while True:
        if rank == below:
            pivot = least_key(keys, bounds, runs)
        elif rank == above - 1:
            pivot = greatest_key(keys, bounds, runs)
        else:
            pivot = keys[index(choose_entry(ends, bounds, memory, rank - below, above - below, alike))]
        less, equal = look_up(keys, ends, bounds, runs, pivot)
        if rank < below + less:
            alike = 2 * less < above - below
            above = below + less
            for r in range(runs):
                bounds[index(r), 2] = bounds[index(r), 4]
        elif rank >= below + less + equal:
            alike = 2 * (less + equal) > above - below
            below += less + equal
            for r in range(runs):
                low = bounds[index(r), 4]
                bounds[index(r), 1] = low + (1 if low < bounds[index(r), 2] and keys[index(low)] == pivot else 0)
        else:
            memory[2] = pivot
            memory[3] = below + less
            memory[4] = below + less + equal
            for r in range(runs):
                low = bounds[index(r), 4]
                held = low < bounds[index(r), 2] and keys[index(low)] == pivot
                bounds[index(r), 1] = low
                bounds[index(r), 2] = low + (1 if held else 0)
            return


@kernel
def least_key(keys: Ints, bounds: Ints, runs: int) -> int:
    """Return the least key of all stretches."""
    least = 0x7FFFFFFFFFFFFFFF
    for r in range(runs):
        if bounds[index(r), 1] < bounds[index(r), 2]:
            least = min(least, keys[index(bounds[index(r), 1])])
    return least


@kernel
def greatest_key(keys: Ints, bounds: Ints, runs: int) -> int:
    """Return the greatest key of all stretches."""
    greatest = -0x7FFFFFFFFFFFFFFF - 1
    for r in range(runs):
        if bounds[index(r), 1] < bounds[index(r), 2]:
            greatest = max(greatest, keys[index(bounds[index(r), 2] - 1)])
    return greatest


@kernel
def choose_entry(ends: Ints, bounds: Ints, memory: Ints, rank: int, rows: int, alike: bool) -> int:
    """Return the entry to take as a pivot, for a rank among the rows of all stretches.

    The run is that of a row taken at random. Its entry is that row's, or, among runs that are alike, the one whose rank
    in the run is in proportion. How far that is from the truth goes with the root of the ranks; so far it goes beyond.
    """
    memory[5] = (memory[5] * 1103515245 + 12345) & 0x7FFFFFFF
    row = min(rows - 1, int(memory[5] / 2147483648.0 * rows))
    r = 0
    inside = 0
    while True:
        inside = ends[index(bounds[index(r), 2] - 1)] - ends[index(bounds[index(r), 1] - 1)]
        if row < inside:
            break
        row -= inside
        r += 1
    if alike:
        shorter = min(rank, rows - 1 - rank)
        beyond = np.sqrt(shorter * (rows / inside)) + 1.0
        aim = rank + beyond if 2 * rank < rows else rank - beyond
        row = max(0, min(inside - 1, int(aim / rows * inside)))
    low: int = bounds[index(r), 1]
    high: int = bounds[index(r), 2]
    row += ends[index(low - 1)]
    while low < high:
        middle = (low + high) >> 1
        if ends[index(middle)] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def look_up(keys: Ints, ends: Ints, bounds: Ints, runs: int, pivot: int) -> tuple[int, int]:
    """Find the pivot in every stretch; return how many of their rows are before it, and how many equal it."""
    less = 0
    equal = 0
    for r in range(runs):
        begin = bounds[index(r), 1]
        end = bounds[index(r), 2]
        low = begin
        high = end
        while low < high:
            middle = (low + high) >> 1
            before = keys[index(middle)] < pivot
            low = middle + 1 if before else low
            high = high if before else middle
        bounds[index(r), 4] = low
        less += ends[index(low - 1)] - ends[index(begin - 1)]
        if low < end and keys[index(low)] == pivot:
            equal += ends[index(low)] - ends[index(low - 1)]
    return less, equal


@kernel
def answer_windows(
    slots: Ints, first: Ints, last: Ints, starts: Ints, lengths: Ints, view: Any, outputs: Outputs
) -> None:
    """Answer the windows that are the runs of slots[first[i]:last[i]]."""
    ends = view[1]
    bounds = view[2]
    memory = view[3]
    whole = spread(view)
    for i in range(len(first)):
        runs = 0
        rows = 0
        for at in range(first[i], last[i]):
            slot = slots[index(at)]
            length = lengths[index(slot)]
            if length > 0:
                start = starts[index(slot)]
                bounds[index(runs), 0] = start
                bounds[index(runs), 1] = start
                bounds[index(runs), 2] = start
                bounds[index(runs), 3] = start + length
                rows += ends[index(start + length - 1)]
                runs += 1
        if rows == 0:
            emit_empty(outputs, i)
            continue
        memory[0] = runs
        memory[1] = rows
        memory[3] = 0
        memory[4] = 0
        emit(outputs, i, whole)


SELECTION = (value_of, size, least_key, greatest_key, choose_entry, look_up, select, nth, answer_windows)
