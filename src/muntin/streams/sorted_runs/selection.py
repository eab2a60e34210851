"""The k-th smallest value of many sorted runs, found without merging them.

Each run has a stretch that may still hold the answer. A pivot is taken from one of them, looked up in all, and the rows
before it say on which side the answer lies. Runs of one stream are mostly alike, so the first pivots are taken where
the rank would be if they were, a little to the far side of it, so that the answer is soon shut in from both. When that
fails, as for runs that share no values, the next pivot is any row at random, which halves what is left on average:
O(log n) pivots are expected whatever the runs are, each of them a binary search in every run.

When about one entry a run is left these few are sorted, and answer all ranks among them: a quantile asks for two
neighbours, and a definition that goes through the whole window pays O(log n) for each of its rows.

Rejected: a heap over the runs (O(k) for rank k), the bits of the value from the top (64 steps where eight do), and the
weighted median of the runs' medians (no chance in it, but it sorts the runs at each step).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.vocabulary import Ints, Outputs, emit, emit_empty, index, kernel, spread
from muntin.streams.sorted_runs.order_keys import value_of

# A window is a view (keys, ends, bounds, few, memory, turned, kind): the arena; of each run where it begins, where the
# stretch at hand begins and ends, where it ends itself, and where the pivot is; the few entries that were sorted, a row
# of keys and one of how many rows there are up to each; and what is known of the window: its runs, its rows, how many
# few there are, the rank of the first of them and the one after the last, and the state of the random numbers.


@kernel
def size(view: Any) -> Any:
    """Return the number of rows in the window."""
    return int(view[4][1])


@kernel
def nth(view: Any, rank: int) -> Any:
    """Return the value that has `rank` smaller ones before it in the window."""
    keys, ends, bounds, few, memory, turned, kind = view
    if rank < memory[3] or rank >= memory[4]:
        shut_in(keys, ends, bounds, few, memory, rank)
        sort_entries(few, memory[2])
        count_up(few, memory[2])
    at = first_beyond(few[1], 0, memory[2], rank - memory[3])
    return value_of(few[0, index(at)], turned, kind)


@kernel
def shut_in(keys: Ints, ends: Ints, bounds: Ints, few: Any, memory: Ints, rank: int) -> None:
    """Narrow the stretches around a rank that is not among the few, until they are few enough; copy them there."""
    runs = memory[0]
    after = rank >= memory[4]
    below = memory[4] if after else 0
    above = memory[1] if after else memory[3]
    left = 0
    for r in range(runs):
        bounds[index(r), 1 if after else 2] = bounds[index(r), 2 if after else 1]
        bounds[index(r), 2 if after else 1] = bounds[index(r), 3 if after else 0]
        left += bounds[index(r), 2] - bounds[index(r), 1]
    alike = True
    while left > few.shape[1]:
        entry = choose_entry(ends, bounds, memory, rank - below, above - below, alike, few.shape[1] >> 1)
        pivot = keys[index(entry)]
        rows = above - below
        less, equal = look_up(keys, ends, bounds, runs, pivot)
        # The stretches begin at the pivot unless the answer is before it, and end with it unless the answer is after.
        before = rank < below + less
        beyond = rank >= below + less + equal
        left = 0
        for r in range(runs):
            low = bounds[index(r), 4]
            high = low + (1 if low < bounds[index(r), 2] and keys[index(low)] == pivot else 0)
            bounds[index(r), 1] = bounds[index(r), 1] if before else (high if beyond else low)
            bounds[index(r), 2] = low if before else (bounds[index(r), 2] if beyond else high)
            left += bounds[index(r), 2] - bounds[index(r), 1]
        above = below + less if before else (above if beyond else below + less + equal)
        below = below if before else (below + less + equal if beyond else below + less)
        alike = 2 * (above - below) < rows
    at = 0
    for r in range(runs):
        for entry in range(bounds[index(r), 1], bounds[index(r), 2]):
            few[0, index(at)] = keys[index(entry)]
            few[1, index(at)] = ends[index(entry)] - ends[index(entry - 1)]
            at += 1
    memory[2] = at
    memory[3] = below
    memory[4] = above


@kernel
def choose_entry(ends: Ints, bounds: Ints, memory: Ints, rank: int, rows: int, alike: bool, margin: int) -> int:
    """Return the entry to take as a pivot, for a rank among the rows of all stretches.

    The run is that of a row taken at random. Its entry is that row's, or, among runs that are alike, the one whose rank
    in the run is in proportion. How far that is from the truth goes with the root of the ranks; so far, and by the
    margin within which nothing more is to be found out, it goes beyond.
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
        beyond = np.sqrt(shorter * (rows / inside)) + margin
        aim = rank + beyond if 2 * rank < rows else rank - beyond
        row = max(0, min(inside - 1, int(aim / rows * inside)))
    low = bounds[index(r), 1]
    return first_beyond(ends, low, bounds[index(r), 2], row + ends[index(low - 1)])


@kernel
def first_beyond(ends: Ints, low: int, high: int, row: int) -> int:
    """Return the first of the entries [low, high) that ends after a row."""
    while low < high:
        middle = (low + high) >> 1
        if ends[index(middle)] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_entries(few: Any, count: int) -> None:
    """Sort entries by their keys: first those that are far apart, then closer ones."""
    gap = count
    while gap > 1:
        gap = max(1, gap * 5 // 11)
        for i in range(gap, count):
            key = few[0, index(i)]
            rows = few[1, index(i)]
            j = i
            while j >= gap and few[0, index(j - gap)] > key:
                few[0, index(j)] = few[0, index(j - gap)]
                few[1, index(j)] = few[1, index(j - gap)]
                j -= gap
            few[0, index(j)] = key
            few[1, index(j)] = rows


@kernel
def count_up(few: Any, count: int) -> None:
    """Let each entry say how many rows there are up to it."""
    for i in range(1, count):
        few[1, index(i)] += few[1, index(i - 1)]


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
    memory = view[4]
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


SELECTION = (value_of, size, first_beyond, choose_entry, look_up, shut_in, sort_entries, count_up, nth, answer_windows)
