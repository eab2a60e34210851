"""The rows of one key, or its slices, as the leaves of a tree: any stretch of them is answered.

Leaf i of a tree of `capacity` leaves is slot capacity + i, node v has the children 2v and 2v + 1, as in `FlatFat`. The
leaves that are let go stay where they are until there is no room any more; the others then move to the left, into a
tree of twice the size where they need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.aggregators.base_intervals import highest_level
from muntin.aggregators.flat_fat import renew_complete, stretch
from muntin.aggregators.states import States
from muntin.errors import InvariantError
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    combine,
    emit,
    emit_empty,
    hold,
    kernel,
    lift,
    load,
    store,
)
from muntin.types import Array
from rivals.fused import Fused


@kernel
def merge_rows(
    slots: Slots, times: Ints, front: int, end: int, columns: Columns, row_times: Ints, begin: int, stop: int
) -> int:
    """Insert the rows [begin, stop) among the leaves [front, end), after those of equal time; return the first new one.

    From the right: leaves move only as far as the first row that comes before them.
    """
    capacity = len(times)
    leaf = end - 1
    to = end + stop - begin - 1
    row = stop - 1
    while row >= begin:
        if leaf >= front and times[leaf] > row_times[row]:
            store(slots, capacity + to, load(slots, capacity + leaf))
            leaf -= 1
        else:
            store(slots, capacity + to, lift(columns, row_times, row))
            row -= 1
        to -= 1
    return to + 1


@kernel
def merge_times(times: Ints, front: int, end: int, row_times: Ints, begin: int, stop: int) -> None:
    """Insert the times as `merge_rows` does the rows."""
    leaf = end - 1
    to = end + stop - begin - 1
    row = stop - 1
    while row >= begin:
        if leaf >= front and times[leaf] > row_times[row]:
            times[to] = times[leaf]
            leaf -= 1
        else:
            times[to] = row_times[row]
            row -= 1
        to -= 1


@kernel
def extend_slices(
    slots: Slots, capacity: int, end: int, columns: Columns, times: Ints, begin: int, stop: int, fresh: Ints
) -> None:
    """Combine the rows [begin, stop) into the last leaf; those that are fresh begin the next one."""
    leaf = capacity + end - 1
    for row in range(begin, stop):
        state = lift(columns, times, row)
        if fresh[row] != 0:
            leaf += 1
            store(slots, leaf, state)
        else:
            store(slots, leaf, combine(load(slots, leaf), state))


@kernel
def move_leaves(slots: Slots, capacity: int, front: int, end: int, others: Slots, room: int) -> None:
    """Copy the leaves [front, end) to the left of another tree."""
    for leaf in range(front, end):
        store(others, room + leaf - front, load(slots, capacity + leaf))


@kernel
def answer_tree(slots: Slots, capacity: int, first: Ints, last: Ints, outputs: Outputs, at: int) -> None:
    """Lower the stretches [first, last) of leaves: O(log) combines each."""
    for i in range(len(first)):
        if first[i] >= last[i]:
            emit_empty(outputs, at + i)
        else:
            emit(outputs, at + i, stretch(slots, capacity + first[i], capacity + last[i]))


@kernel
def answer_leaves(slots: Slots, capacity: int, first: Ints, last: Ints, outputs: Outputs, at: int) -> None:
    """Lower the stretches [first, last) of leaves, each folded from its leaves."""
    for i in range(len(first)):
        if first[i] >= last[i]:
            emit_empty(outputs, at + i)
            continue
        state = hold(load(slots, capacity + first[i]))
        for leaf in range(first[i] + 1, last[i]):
            state = combine(state, load(slots, capacity + leaf))
        emit(outputs, at + i, state)


KERNELS = (
    highest_level, stretch, renew_complete, merge_times, merge_rows, extend_slices, move_leaves, answer_tree,
    answer_leaves,
)  # fmt: skip
ENTRIES = tuple(each.__name__ for each in KERNELS[2:])


def leaf_kernels(fused: Fused) -> list[Any]:
    """Return the modules in which these kernels run each binding."""
    return [binding.kernels(KERNELS, *ENTRIES) for binding in fused.bindings]


class Leaves:
    """The leaves of one key, by time. With `tree` the nodes above them are kept up to date; else answers are folded."""

    def __init__(self, fused: Fused, modules: list[Any], *, tree: bool) -> None:
        self.fused, self.modules, self.tree = fused, modules, tree
        self.front = self.end = self.changed = 0
        """The leaves are [front, end), and above those from `changed` on the nodes are not up to date."""
        self.all_times = np.zeros(4, np.int64)
        self.counts = np.zeros(4, np.int64)
        self.slots = [binding.slots(8) for binding in fused.bindings]

    def __len__(self) -> int:
        """Return how many leaves there are."""
        return self.end - self.front

    @property
    def times(self) -> Array:
        """The time of each leaf: that of its first row."""
        return self.all_times[self.front : self.end]

    # ------------------------------------------------------------ rows in

    def merge(self, inputs: list[tuple[Array, ...]], times: Array, begin: int, stop: int) -> None:
        """Insert rows, sorted by time, as a leaf each. O(rows + leaves after the first of them)."""
        self._reserve(stop - begin)
        where = (self.front, self.end)
        for module, slots, columns in zip(self.modules, self.slots, inputs, strict=True):
            changed = module.merge_rows(slots, self.all_times, *where, columns, times, begin, stop)
            self.changed = min(self.changed, int(changed))
        self.modules[0].merge_times(self.all_times, *where, times, begin, stop)
        self.end += stop - begin
        self.counts[self.changed : self.end] = 1

    def extend(self, inputs: list[tuple[Array, ...]], times: Array, begin: int, stop: int, fresh: Array) -> None:
        """Combine rows in order into slices: where `fresh` is not 0 one begins. O(1) combines a row."""
        opened = begin + np.flatnonzero(fresh[begin:stop])
        self._reserve(len(opened))
        self.changed = min(self.changed, max(self.end - 1, self.front))
        for module, slots, columns in zip(self.modules, self.slots, inputs, strict=True):
            module.extend_slices(slots, len(self.all_times), self.end, columns, times, begin, stop, fresh)
        cuts = np.concatenate(([begin], opened, [stop]))
        if self.end > self.front:
            self.counts[self.end - 1] += cuts[1] - begin
        self.all_times[self.end : self.end + len(opened)] = times[opened]
        self.counts[self.end : self.end + len(opened)] = np.diff(cuts)[1:]
        self.end += len(opened)

    def _reserve(self, more: int) -> None:
        if self.end + more > len(self.all_times):
            self._move(more)

    def _move(self, more: int) -> None:
        """Move the leaves to the left of a tree with room for as many again, and rebuild it. Amortised O(1) a leaf."""
        size, old = len(self), len(self.all_times)
        capacity = 1 << max(2, (2 * max(size, 1) + more - 1).bit_length())
        for b, (binding, module) in enumerate(zip(self.fused.bindings, self.modules, strict=True)):
            slots = binding.slots(2 * capacity)
            module.move_leaves(self.slots[b], old, self.front, self.end, slots, capacity)
            self.slots[b] = slots
        for name in ("all_times", "counts"):
            array = np.zeros(capacity, np.int64)
            array[:size] = getattr(self, name)[self.front : self.end]
            setattr(self, name, array)
        self.front, self.end, self.changed = 0, size, 0

    def drop(self, time: int) -> int:
        """Let go the leaves before a time; return how many."""
        gone = int(np.searchsorted(self.times, time, "left"))
        self.front += gone
        return gone

    # ------------------------------------------------------------ answers out

    def stretches(self, start: Array, end: Array) -> tuple[Array, Array, Array]:
        """Return the leaves [first, last) whose times are in [start, end), and how many rows they have."""
        first = self.front + np.searchsorted(self.times, start, "left")
        last = self.front + np.searchsorted(self.times, end, "left")
        before = np.concatenate(([0], np.cumsum(self.counts[self.front : self.end])))
        return first, last, before[last - self.front] - before[first - self.front]

    def answer(self, first: Array, last: Array, outputs: list[tuple[Array, ...]], at: int) -> None:
        """Lower stretches of leaves into the outputs, from row `at` on."""
        capacity = len(self.all_times)
        self.renew()
        for module, slots, out in zip(self.modules, self.slots, outputs, strict=True):
            (module.answer_tree if self.tree else module.answer_leaves)(slots, capacity, first, last, out, at)

    def renew(self) -> None:
        """Bring the nodes up to date. O(changed leaves)."""
        if self.tree and self.changed < self.end:
            for module, slots in zip(self.modules, self.slots, strict=True):
                module.renew_complete(slots, len(self.all_times), 0, self.end, self.changed, self.end)
        self.changed = self.end

    # ------------------------------------------------------------ looked at from outside

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return sum(each.nbytes for each in (self.all_times, self.counts, *self.slots))

    def save(self) -> dict[str, Array]:
        """Return the leaves as arrays."""
        capacity = len(self.all_times)
        kept = slice(capacity + self.front, capacity + self.end)
        states = {f"slots{b}": slots[kept].copy() for b, slots in enumerate(self.slots)}
        return {"times": self.times.copy(), "counts": self.counts[self.front : self.end].copy(), **states}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the leaves."""
        size = len(state["times"])
        capacity = 1 << max(2, (2 * size).bit_length())
        self.front, self.end, self.changed = 0, size, 0
        self.all_times, self.counts = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self.all_times[:size], self.counts[:size] = state["times"], state["counts"]
        for b, binding in enumerate(self.fused.bindings):
            self.slots[b] = binding.slots(2 * capacity)
            self.slots[b][capacity : capacity + size] = States(binding).revived(state[f"slots{b}"].copy())

    def check(self) -> None:
        """Require that leaves are in order and each complete node is the combination of its children."""
        if (self.times[1:] < self.times[:-1]).any():
            raise InvariantError("the leaves are not in the order of their times")
        if (self.counts[self.front : self.end] < 1).any():
            raise InvariantError("a leaf has no row")
        capacity = len(self.all_times)
        for binding, slots in zip(self.fused.bindings, self.slots, strict=True):
            states = States(binding)
            low, high = capacity + self.front, capacity + min(self.changed, self.end)
            while self.tree and low < high:
                low, high = (low + 1) // 2, high // 2
                for node in range(low, high):
                    both = states.combine(states.load(slots, 2 * node), states.load(slots, 2 * node + 1))
                    if not states.close(states.load(slots, node), both):
                        raise InvariantError(f"node {node} is not the combination of its children")
