"""Final aggregation: merges the slices of each window into one answer, lazily or by a maintained tree.

Lazy merging combines every slice of a window. With a tree a window takes O(log n) combines.
"""

from __future__ import annotations

from muntin.kernels.vocabulary import Ints, Outputs, Slots, combine, emit, hold, kernel, load
from muntin.streams.blocks import Blocks
from muntin.streams.tree import TREE, query_slices


@kernel
def fold_windows(
    states: Slots, skip: Ints, definitions: Ints, firsts: Ints, lasts: Ints, shift: int, outputs: Outputs
) -> None:
    """Answer windows from all their slices. Definitions from `shift` on are sessions, which may skip slices."""
    for i in range(len(firsts)):
        state = hold(load(states, firsts[i]))
        bit = 1 << (definitions[i] - shift) if definitions[i] >= shift and len(skip) > 0 else 0
        for slot in range(firsts[i] + 1, lasts[i]):
            if bit == 0 or skip[slot] & bit == 0:
                state = combine(state, load(states, slot))
        emit(outputs, i, state)


@kernel
def query_windows(
    states: Slots, tree: Slots, blocks: Blocks, keys: Ints, firsts: Ints, lasts: Ints, outputs: Outputs
) -> None:
    """Answer windows from the trees of their keys."""
    for i in range(len(keys)):
        emit(outputs, i, query_slices(states, tree, blocks, keys[i], firsts[i], lasts[i]))


MERGE = (*TREE, fold_windows, query_windows)
