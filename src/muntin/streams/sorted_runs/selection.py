"""Selects the k-th smallest value of many sorted runs without merging them.

Each run has a range that may still hold the answer. A pivot is taken from one of them and looked up in all, and the
number of rows before it tells on which side the answer lies. Runs of one stream are mostly alike, so the first pivots
are taken where the rank would be if they were, slightly beyond it, so that the answer is soon bracketed from both
sides. When that fails, as for runs that share no values, the next pivot is a random row, which halves the rest on
average: O(log n) pivots are expected for any runs, each a binary search in every run.

When about one entry per run is left these few are sorted, and answer all ranks among them: a quantile reads two
neighbours, and a definition that scans the whole window pays O(log n) per row.

Rejected: a heap over the runs (O(k) for rank k), the bits of the value from the top (64 steps where eight do), and the
weighted median of the runs' medians (deterministic, but it sorts the runs at each step).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.kernels.vocabulary import Ints, Outputs, emit, emit_empty, index, kernel, spread
from muntin.streams.sorted_runs.order_keys import value_of

RUNS, ROWS, FEW, BELOW, ABOVE, RANDOM = range(6)
"""Indices into a window's memory: the numbers of runs, of rows and of the few, the rank of the first of the few and of
the one after the last, and the state of the random numbers."""
BEGIN, LOW, HIGH, END, PIVOT = range(5)
"""The bounds of a run: its start, the start and end of the current range, its end, and the place of the pivot."""
KEY, COUNT = range(2)
"""The rows of `few`: keys, and the number of rows up to each."""


class View(NamedTuple):
    """A window over runs."""

    keys: Ints
    ends: Ints
    """The entries of the arena: keys, and the number of rows of the run up to each."""
    bounds: Ints
    few: Ints
    """The few sorted entries."""
    memory: Ints
    turned: Any
    kind: Any


@kernel
def size(view: View) -> Any:
    """Return the number of rows in the window."""
    return int(view.memory[ROWS])


@kernel
def nth(view: View, rank: int) -> Any:
    """Return the value with `rank` values before it in the sorted window."""
    keys, ends, bounds, few, memory, turned, kind = view
    if rank < memory[BELOW] or rank >= memory[ABOVE]:
        shut_in(keys, ends, bounds, few, memory, rank)
        sort_entries(few, memory[FEW])
        count_up(few, memory[FEW])
    at = first_beyond(few[COUNT], 0, memory[FEW], rank - memory[BELOW])
    return value_of(few[KEY, index(at)], turned, kind)


@kernel
def shut_in(keys: Ints, ends: Ints, bounds: Ints, few: Any, memory: Ints, rank: int) -> None:
    """Narrow the ranges around a rank that is not among the few until they are small enough; copy them to `few`."""
    runs = memory[RUNS]
    after = rank >= memory[ABOVE]
    below = memory[ABOVE] if after else 0
    above = memory[ROWS] if after else memory[BELOW]
    left = 0
    for r in range(runs):
        bounds[index(r), LOW if after else HIGH] = bounds[index(r), HIGH if after else LOW]
        bounds[index(r), HIGH if after else LOW] = bounds[index(r), END if after else BEGIN]
        left += bounds[index(r), HIGH] - bounds[index(r), LOW]
    alike = True
    while left > few.shape[1]:
        entry = choose_entry(ends, bounds, memory, rank - below, above - below, alike, few.shape[1] >> 1)
        pivot = keys[index(entry)]
        rows = above - below
        less, equal = look_up(keys, ends, bounds, runs, pivot)
        # The ranges begin at the pivot unless the answer is before it, and end with it unless the answer is after it.
        before = rank < below + less
        beyond = rank >= below + less + equal
        left = 0
        for r in range(runs):
            low = bounds[index(r), PIVOT]
            high = low + (1 if low < bounds[index(r), HIGH] and keys[index(low)] == pivot else 0)
            bounds[index(r), LOW] = bounds[index(r), LOW] if before else (high if beyond else low)
            bounds[index(r), HIGH] = low if before else (bounds[index(r), HIGH] if beyond else high)
            left += bounds[index(r), HIGH] - bounds[index(r), LOW]
        above = below + less if before else (above if beyond else below + less + equal)
        below = below if before else (below + less + equal if beyond else below + less)
        alike = 2 * (above - below) < rows
    at = 0
    for r in range(runs):
        for entry in range(bounds[index(r), LOW], bounds[index(r), HIGH]):
            few[KEY, index(at)] = keys[index(entry)]
            few[COUNT, index(at)] = ends[index(entry)] - ends[index(entry - 1)]
            at += 1
    memory[FEW] = at
    memory[BELOW] = below
    memory[ABOVE] = above


@kernel
def choose_entry(ends: Ints, bounds: Ints, memory: Ints, rank: int, rows: int, alike: bool, margin: int) -> int:
    """Return the entry to use as a pivot, for a rank among the rows of all ranges.

    The run is that of a random row. The entry is that row's, or, if runs are alike, the one whose rank in the run is in
    proportion. Its error grows with the square root of the ranks; the pivot goes beyond by that much, plus the margin
    within which nothing more can be learned.
    """
    memory[RANDOM] = (memory[RANDOM] * 1103515245 + 12345) & 0x7FFFFFFF
    row = min(rows - 1, int(memory[RANDOM] / 2147483648.0 * rows))
    r = 0
    inside = 0
    while True:
        inside = ends[index(bounds[index(r), HIGH] - 1)] - ends[index(bounds[index(r), LOW] - 1)]
        if row < inside:
            break
        row -= inside
        r += 1
    if alike:
        shorter = min(rank, rows - 1 - rank)
        beyond = np.sqrt(shorter * (rows / inside)) + margin
        aim = rank + beyond if 2 * rank < rows else rank - beyond
        row = max(0, min(inside - 1, int(aim / rows * inside)))
    low = bounds[index(r), LOW]
    return first_beyond(ends, low, bounds[index(r), HIGH], row + ends[index(low - 1)])


@kernel
def first_beyond(ends: Ints, low: int, high: int, row: int) -> int:
    """Return the first of the entries [low, high) that ends after `row`."""
    while low < high:
        middle = (low + high) >> 1
        if ends[index(middle)] <= row:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def sort_entries(few: Any, count: int) -> None:
    """Sort entries by key, by Shell sort: distant ones first, then closer ones."""
    gap = count
    while gap > 1:
        gap = max(1, gap * 5 // 11)
        for i in range(gap, count):
            key = few[KEY, index(i)]
            rows = few[COUNT, index(i)]
            j = i
            while j >= gap and few[KEY, index(j - gap)] > key:
                few[KEY, index(j)] = few[KEY, index(j - gap)]
                few[COUNT, index(j)] = few[COUNT, index(j - gap)]
                j -= gap
            few[KEY, index(j)] = key
            few[COUNT, index(j)] = rows


@kernel
def count_up(few: Any, count: int) -> None:
    """Replace each entry's count by the number of rows up to it."""
    for i in range(1, count):
        few[COUNT, index(i)] += few[COUNT, index(i - 1)]


@kernel
def look_up(keys: Ints, ends: Ints, bounds: Ints, runs: int, pivot: int) -> tuple[int, int]:
    """Find the pivot in every range; return how many rows are before it, and how many equal it."""
    less = 0
    equal = 0
    for r in range(runs):
        begin = bounds[index(r), LOW]
        end = bounds[index(r), HIGH]
        low = begin
        high = end
        while low < high:
            middle = (low + high) >> 1
            before = keys[index(middle)] < pivot
            low = middle + 1 if before else low
            high = high if before else middle
        bounds[index(r), PIVOT] = low
        less += ends[index(low - 1)] - ends[index(begin - 1)]
        if low < end and keys[index(low)] == pivot:
            equal += ends[index(low)] - ends[index(low - 1)]
    return less, equal


@kernel
def answer_windows(
    slots: Ints, first: Ints, last: Ints, starts: Ints, lengths: Ints, view: View, outputs: Outputs
) -> None:
    """Answer windows, each made of the runs of slots[first[i]:last[i]]."""
    ends, bounds, memory = view.ends, view.bounds, view.memory
    whole = spread(view)
    for i in range(len(first)):
        runs = 0
        rows = 0
        for at in range(first[i], last[i]):
            slot = slots[index(at)]
            length = lengths[index(slot)]
            if length > 0:
                start = starts[index(slot)]
                bounds[index(runs), BEGIN] = start
                bounds[index(runs), LOW] = start
                bounds[index(runs), HIGH] = start
                bounds[index(runs), END] = start + length
                rows += ends[index(start + length - 1)]
                runs += 1
        if rows == 0:
            emit_empty(outputs, i)
            continue
        memory[RUNS] = runs
        memory[ROWS] = rows
        memory[BELOW] = 0
        memory[ABOVE] = 0
        emit(outputs, i, whole)


SELECTION = (value_of, size, first_beyond, choose_entry, look_up, shut_in, sort_entries, count_up, nth, answer_windows)
