"""Order statistics over arrays: the sorted window, kept as a set of ranks.

The rows are cut into blocks at least as long as the longest window, so that a window lies in two neighbouring blocks.
Each block is sorted once; two neighbours are merged in one pass, and a row's place in the merged order is its rank.
The window is then a set of ranks: a bitmap, with a Fenwick tree over groups of 64 words. A row enters or leaves in
O(log n), and the k-th smallest value is found in O(log n), with at most 64 words to count.

Rejected: a skip list (what pandas has: five times slower), and one pointer to the median in a linked list of sorted
blocks (faster still, but it answers only one fixed rank, and `lower` may ask for any).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.columns import read_only
from muntin.kernels.runtime import count_bits, lowest_bit, single_bit, without_lowest_bit
from muntin.kernels.vocabulary import Ints, Outputs, emit, emit_empty, index, kernel, spread
from muntin.types import Array

ROWS, GROUPS, TREE = 0, 1, 1
"""Where in the memory are the number of rows, that of groups, and the Fenwick tree: group g, from 1 on, is at TREE + g.
"""
HEAD = 2
"""The numbers before the tree. The bitmap, 64 ranks a word, is after both: at HEAD + groups."""


class SortedWindow(NamedTuple):
    """A set of ranks, and the value of each rank."""

    values: Any
    memory: Ints
    """All that says which ranks are in the window: one array, because numba counts references to each that a function
    touches, which costs more than the look-up."""


@kernel
def size(view: SortedWindow) -> Any:
    """Return the number of rows in the window."""
    return view.memory[ROWS]


@kernel
def nth(view: SortedWindow, rank: int) -> Any:
    """Return the value that has `rank` smaller ones before it in the window."""
    memory = view.memory
    groups = memory[GROUPS]
    group = 0
    step = 1
    while 2 * step <= groups:
        step *= 2
    while step > 0 and groups > 1:
        if group + step <= groups and memory[TREE + group + step] <= rank:
            group += step
            rank -= memory[TREE + group]
        step >>= 1
    word = HEAD + groups + (group << 6)
    inside = count_bits(memory[index(word)])
    while inside <= rank:
        rank -= inside
        word += 1
        inside = count_bits(memory[index(word)])
    bits = memory[index(word)]
    for _ in range(rank):
        bits = without_lowest_bit(bits)
    return view.values[index(((word - HEAD - groups) << 6) + lowest_bit(bits))]


@kernel
def toggle(memory: Ints, rank: int, change: int) -> None:
    """Let a rank in (change 1) or out (change -1)."""
    groups = memory[GROUPS]
    memory[index(HEAD + groups + (rank >> 6))] ^= single_bit(rank & 63)
    memory[ROWS] += change
    group = (rank >> 12) + 1
    while group <= groups:
        memory[index(TREE + group)] += change
        group += group & -group


@kernel
def merge_blocks(values: Any, order: Ints, left: int, block: int, ranks: Ints, merged: Any) -> None:
    """Rank the rows of two neighbouring blocks, whose values and places are sorted; NaN is the greatest.

    Which block the next value comes from is random, so the loop chooses without a branch: twice as fast.
    """
    i = left
    j = left + block
    middle = min(j, len(values))
    stop = min(j + block, len(values))
    at = 0
    while i < middle and j < stop:
        a = values[index(i)]
        b = values[index(j)]
        right = (b < a) | ((a != a) & (b == b))
        ranks[index(order[index(j if right else i)] + (block if right else 0))] = at
        merged[index(at)] = b if right else a
        j += 1 if right else 0
        i += 0 if right else 1
        at += 1
    while i < middle:
        ranks[order[i]] = at
        merged[at] = values[i]
        i += 1
        at += 1
    while j < stop:
        ranks[order[j] + block] = at
        merged[at] = values[j]
        j += 1
        at += 1


@kernel
def slide_sorted(
    values: Any,
    order: Ints,
    block: int,
    first: Ints,
    last: Ints,
    start: int,
    stop: int,
    outputs: Outputs,
    view: SortedWindow,
    ranks: Ints,
) -> None:
    """Run the windows [first, last) of rows, both bounds ascending, none longer than a block."""
    memory = view.memory
    whole = spread(view)
    left = -1
    begin = 0
    end = 0
    for i in range(start, stop):
        if last[i] <= first[i]:
            emit_empty(outputs, i)
            continue
        needed = first[i] // block * block
        if needed != left:
            memory[ROWS] = 0
            memory[HEAD:] = 0
            left = needed
            merge_blocks(values, order, left, block, ranks, view.values)
            begin = first[i]
            end = first[i]
        while end < last[i]:
            toggle(memory, ranks[end - left], 1)
            end += 1
        while begin < first[i]:
            toggle(memory, ranks[begin - left], -1)
            begin += 1
        emit(outputs, i, whole)


def sorted_runner(
    binding: Binding, values: Array, first: Array, last: Array, outputs: tuple[Array, ...]
) -> Callable[[int, int], None]:
    """Return what runs some of the windows over a column of numbers without nulls. O(log n) a row."""
    module = binding.kernels((size, nth, toggle, merge_blocks, slide_sorted), "slide_sorted", sorted_store=True)

    def run(start: int, stop: int) -> None:
        lowest = int(first[start])
        rows = read_only(values[lowest : max(lowest + 1, int(last[stop - 1]))])
        longest = int((last[start:stop] - first[start:stop]).max())
        block = max(64, min(len(rows), -(-longest // 64) * 64))
        order = _sorted_blocks(rows, block)
        ordered = rows[order + np.arange(len(rows)) // block * block]
        groups = -(-2 * block // 4096)
        memory = np.zeros(HEAD + groups + (groups << 6), np.int64)
        memory[GROUPS] = groups
        view = SortedWindow(np.zeros(2 * block, values.dtype), memory)
        ranks = np.zeros(2 * block, np.int64)
        bounds = first - lowest, last - lowest
        module.slide_sorted(ordered, order, block, *bounds, start, stop, outputs, view, ranks)

    return run


def _sorted_blocks(values: Array, block: int) -> Array:
    """Return for each block the places of its rows in ascending order."""
    whole = len(values) // block * block
    order = np.empty(len(values), np.int64)
    if whole:
        order[:whole] = np.argsort(values[:whole].reshape(-1, block), axis=1).ravel()
    order[whole:] = np.argsort(values[whole:])
    return order
