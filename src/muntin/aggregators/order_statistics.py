"""Order statistics over arrays: the sorted window, kept as a set of ranks.

The rows are cut into blocks at least as long as the longest window, so a window lies in two adjacent blocks. Each block
is sorted once; two adjacent ones are merged in one pass, and a row's place in the merged order is its rank. The window
is then a set of ranks: a bitmap, with a Fenwick tree over groups of 64 words. A row enters or leaves in O(log n). From
one window to the next a quantile moves by a rank or two: so the word of the last one is cached, with the number of
ranks before it, and the search for the next one starts there, in O(1); ranks further off are found by the tree in O(log
n), with at most 64 words to count.

Rejected: a skip list (as in pandas: five times slower); linked lists of two sorted blocks and one pointer to the median
(Suomela), which answer only one fixed rank, while `lower` may read any, and whose steps branch on the data; a loop that
clears the lowest bits of the word up to the wanted one: its end is unpredictable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.columns import read_only
from muntin.kernels.runtime import count_bits, nth_bit, single_bit
from muntin.kernels.vocabulary import Ints, Outputs, emit, emit_empty, index, kernel, spread
from muntin.types import Array

ROWS, GROUPS, WORD, BEFORE, TREE = 0, 1, 2, 3, 3
"""Places in the memory: the number of rows, of groups, the last word read, the number of ranks before it, and the
Fenwick tree: group g, from 1 on, is at TREE + g."""
HEAD = 4
"""The numbers before the tree. The bitmap, 64 ranks per word, follows both, at HEAD + groups."""
NEAR = 64
"""The most words to scan before the tree is used."""

_AT_ONCE = 1 << 14
"""Rows per NumPy call: few enough for the CPU cache, and enough to pay for a call."""


class SortedWindow(NamedTuple):
    """A set of ranks, and the value of each rank."""

    values: Any
    memory: Ints
    """All that determines which ranks are in the window: one array, because numba counts references to each array that
    a function touches, which costs more than the lookup."""


@kernel
def size(view: SortedWindow) -> Any:
    """Return the number of rows in the window."""
    return view.memory[ROWS]


@kernel
def find_word(memory: Ints, rank: int) -> None:
    """Move to the word with a rank: from the last one, or by the tree."""
    groups = memory[GROUPS]
    word = memory[WORD]
    before = memory[BEFORE]
    steps = 0
    while rank < before and steps < NEAR:
        word -= 1
        before -= count_bits(memory[index(word)])
        steps += 1
    inside = count_bits(memory[index(word)])
    while before + inside <= rank and steps < NEAR:
        before += inside
        word += 1
        inside = count_bits(memory[index(word)])
        steps += 1
    if steps == 0:
        return  # write nothing that the next lookup would have to wait for
    if steps == NEAR:
        group = 0
        before = 0
        step = 1
        while 2 * step <= groups:
            step *= 2
        while step > 0 and groups > 1:
            if group + step <= groups and before + memory[TREE + group + step] <= rank:
                group += step
                before += memory[TREE + group]
            step >>= 1
        word = HEAD + groups + (group << 6)
        inside = count_bits(memory[index(word)])
        while before + inside <= rank:
            before += inside
            word += 1
            inside = count_bits(memory[index(word)])
    memory[WORD] = word
    memory[BEFORE] = before


@kernel
def nth(view: SortedWindow, rank: int) -> Any:
    """Return the value with `rank` values before it in the sorted window."""
    memory = view.memory
    find_word(memory, rank)
    word = memory[WORD]
    at = nth_bit(memory[index(word)], rank - memory[BEFORE])
    return view.values[index(((word - HEAD - memory[GROUPS]) << 6) + at)]


@kernel
def toggle(memory: Ints, rank: int, change: int) -> None:
    """Add (change 1) or remove (change -1) a rank."""
    groups = memory[GROUPS]
    word = HEAD + groups + (rank >> 6)
    memory[index(word)] ^= single_bit(rank & 63)
    memory[ROWS] += change
    memory[BEFORE] += change if word < memory[WORD] else 0
    group = (rank >> 12) + 1
    while group <= groups:
        memory[index(TREE + group)] += change
        group += group & -group


@kernel
def refill(memory: Ints, ranks: Ints, begin: int, end: int) -> None:
    """Hold the rows [begin, end) of two blocks, and no others. O(words + rows)."""
    groups = memory[GROUPS]
    base = HEAD + groups
    for at in range(HEAD, len(memory)):
        memory[index(at)] = 0
    for row in range(begin, end):
        rank = ranks[index(row)]
        memory[index(base + (rank >> 6))] ^= single_bit(rank & 63)
    for group in range(1, groups + 1):
        inside = 0
        for word in range(64):
            inside += count_bits(memory[index(base + ((group - 1) << 6) + word)])
        memory[index(TREE + group)] += inside
        above = group + (group & -group)
        if above <= groups:
            memory[index(TREE + above)] += memory[index(TREE + group)]
    memory[ROWS] = end - begin
    memory[WORD] = base
    memory[BEFORE] = 0


@kernel
def merge_blocks(values: Any, order: Ints, left: int, block: int, ranks: Ints, merged: Any) -> None:
    """Rank the rows of two adjacent blocks, whose values and places are sorted; NaN is the greatest.

    Which block the next value comes from is random, so the loop must not branch on it: it computes with the outcome of
    the comparison, 0 or 1, since the compiler turns a choice between two places into a branch: twice as long. Each step
    waits for the previous one: so two whole blocks are merged from both ends at once, half of the values from each, and
    neither end can exhaust one block before that. A NaN on the right is less than nothing, as required; one on the left
    would need more comparisons, and takes the loops below.
    """
    i = left
    j = left + block
    middle = min(j, len(values))
    stop = min(j + block, len(values))
    at = 0
    if stop == j + block and values[middle - 1] == values[middle - 1]:
        p = middle - 1
        q = stop - 1
        while at < block:
            right = (values[index(j)] < values[index(i)]) * 1
            row = i + ((j - i) & -right)
            ranks[index(order[index(row)] + (block & -right))] = at
            merged[index(at)] = values[index(row)]
            j += right
            i += 1 - right
            right = 1 - (values[index(q)] < values[index(p)]) * 1
            row = p + ((q - p) & -right)
            last = 2 * block - 1 - at
            ranks[index(order[index(row)] + (block & -right))] = last
            merged[index(last)] = values[index(row)]
            q -= right
            p -= 1 - right
            at += 1
        return
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
        if left < 0 or first[i] >= left + block:
            left = first[i] // block * block
            merge_blocks(values, order, left, block, ranks, view.values)
            begin = first[i]
            end = last[i]
            refill(memory, ranks, begin - left, end - left)
        while end < last[i]:
            toggle(memory, ranks[index(end - left)], 1)
            end += 1
        while begin < first[i]:
            toggle(memory, ranks[index(begin - left)], -1)
            begin += 1
        emit(outputs, i, whole)


def sorted_runner(
    binding: Binding, values: Array, first: Array, last: Array, outputs: tuple[Array, ...]
) -> Callable[[int, int], None]:
    """Return a function that runs some of the windows over a column of numbers without nulls. O(log n) per row."""
    module = binding.kernels(
        (size, find_word, nth, toggle, refill, merge_blocks, slide_sorted), "slide_sorted", sorted_store=True
    )

    def run(start: int, stop: int) -> None:
        lowest = int(first[start])
        rows = read_only(values[lowest : max(lowest + 1, int(last[stop - 1]))])
        longest = _longest(first[start:stop], last[start:stop])
        block = max(64, min(len(rows), -(-longest // 64) * 64))
        order, ordered = _sorted_blocks(rows, block)
        groups = -(-2 * block // 4096)
        memory = np.zeros(HEAD + groups + (groups << 6), np.int64)
        memory[GROUPS] = groups
        view = SortedWindow(np.zeros(2 * block, values.dtype), memory)
        ranks = np.zeros(2 * block, np.int32)  # half the cache space
        bounds = [read_only(each - lowest if lowest else each) for each in (first, last)]
        module.slide_sorted(ordered, order, block, *bounds, start, stop, outputs, view, ranks)

    return run


def _longest(first: Array, last: Array) -> int:
    """Return the rows of the longest window. O(windows), in parts, with little memory."""
    parts = range(0, len(first), _AT_ONCE)
    return max(int((last[at : at + _AT_ONCE] - first[at : at + _AT_ONCE]).max()) for at in parts)


def _sorted_blocks(values: Array, block: int) -> tuple[Array, Array]:
    """Return the places of each block's rows in ascending order, and the values in that order.

    A few blocks at a time, whose places are still in the CPU cache when they are read again. Rejected: runs of 32,768
    rows merged by pairs into blocks of a million, 86 ns per row where NumPy sorts one in 46.
    """
    order, ordered = np.empty(len(values), np.int32), np.empty_like(values)
    step = max(block, _AT_ONCE // block * block)
    whole = len(values) // block * block
    for begin in (*range(0, whole, step), whole):
        end = min(begin + step, whole) if begin < whole else len(values)
        if begin < end:
            length = min(block, end - begin)
            places = np.argsort(values[begin:end].reshape(-1, length), axis=1)
            order[begin:end] = places.ravel()
            places += np.arange(begin, end, length)[:, None]
            np.take(values, places.ravel(), out=ordered[begin:end], mode="clip")  # the other modes copy
    return order, ordered
