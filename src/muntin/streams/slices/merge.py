"""Final aggregation: the slices of each window become one answer, lazily or by a tree that is kept up.

Lazily every slice of a window is combined anew. With a tree a window takes O(log n) combines.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.vocabulary import Outputs, Slots, combine, emit, hold, kernel, load
from muntin.streams.blocks import room_of
from muntin.streams.tree import TREE, query_tree, renew_tree


@kernel
def fold_windows(arena: Any, found: Any, shift: int, outputs: Outputs) -> None:
    """Answer windows from all their slices. Definitions from `shift` on are sessions, which may skip slices."""
    _, _, _, _, _, skip, _, _, states = arena
    _, definitions, _, _, firsts, lasts = found
    for i in range(len(firsts)):
        state = hold(load(states, firsts[i]))
        bit = 1 << (definitions[i] - shift) if definitions[i] >= shift and len(skip) > 0 else 0
        for slot in range(firsts[i] + 1, lasts[i]):
            if bit == 0 or skip[slot] & bit == 0:
                state = combine(state, load(states, slot))
        emit(outputs, i, state)


@kernel
def query_windows(arena: Any, tree: Slots, blocks: Any, found: Any, outputs: Outputs) -> None:
    """Answer windows from the trees of their keys."""
    base, length, _, _, stale = blocks
    states = arena[8]
    keys, _, _, _, firsts, lasts = found
    for i in range(len(keys)):
        key = keys[i]
        leaves = room_of(length[key])
        if stale[key] < leaves:
            renew_tree(arena, tree, blocks, key)
        begin = base[key]
        emit(outputs, i, query_tree(states, tree, begin, leaves, firsts[i] - begin, lasts[i] - begin))


MERGE = (*TREE, fold_windows, query_windows)
