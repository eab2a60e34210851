"""The slices of many keys by time: a pane holds the slices of all keys between two edges, in key order.

    pane             oldest ................ turn ................ until ......... latest
    of each pane     whether each key has a slice in it, and its state
    folds            for each pane and key   one for each key

By key, a row and its answer touch about eleven cache lines that are in no cache. By time, rows go into one pane, small
enough for a cache, and windows are answered in memory order, all keys together. That takes a state for each key in each
pane, whether it has rows there or not, and edges at equal distances.

The panes are two stacks (see `stacks`), flipped for all keys at once. A row behind `until` ends the stacks: the next
window flips them. Panes are numbered by time: pane p begins at phase + p * step. They are a ring of `capacity` panes;
all that are not among [oldest, latest] are empty.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.states import States
from muntin.columns import read_only
from muntin.kernels.tiers import SameTypes
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    combine,
    emit,
    index,
    kernel,
    lift,
    load,
    store,
)
from muntin.streams.slices.slice_set import move_states, require
from muntin.streams.slices.slicer import LEAST
from muntin.streams.strategy import Batch
from muntin.types import Array

NEVER = -(1 << 63)
"""A pane before all others."""


@kernel
def take_by_time(
    columns: Columns,
    times: Ints,
    keys: Ints,
    step: int,
    phase: int,
    capacity: int,
    width: int,
    held: Any,
    sizes: Ints,
    states: Slots,
) -> int:
    """Fold rows into the panes of their times; return how many slices are new."""
    low = high = base = new = 0
    for row in range(len(keys)):
        time = times[index(row)]
        if time < low or time >= high:
            low = time - (time - phase) % step
            high = low + step
            base = (low - phase) // step % capacity * width
        key = keys[index(row)]
        slot = base + key
        state = lift(columns, times, row)
        if held[index(slot)]:
            state = combine(load(states, slot), state)
        else:
            held[index(slot)] = True
            sizes[index(key)] += 1
            new += 1
        store(states, slot, state)
    return new


@kernel
def flip(
    states: Slots, held: Any, folds: Slots, newest: Ints, keys: int, capacity: int, width: int, first: int, last: int
) -> None:
    """Fold each of the panes [first, last) with all that follow it; note the last one in which each key has a slice."""
    for key in range(keys):
        newest[index(key)] = LEAST
    for pane in range(last - 1, first - 1, -1):
        base = pane % capacity * width
        after = (pane + 1) % capacity * width
        for key in range(keys):
            if held[index(base + key)]:
                state = load(states, base + key)
                if newest[index(key)] == LEAST:
                    newest[index(key)] = pane
                else:
                    state = combine(state, load(folds, after + key))
                store(folds, base + key, state)
            elif newest[index(key)] != LEAST:
                store(folds, base + key, load(folds, after + key))


@kernel
def fold_pane(states: Slots, held: Any, back: Slots, covers: Any, keys: int, base: int) -> None:
    """Fold the pane at `base` into the fold of each key from the turn on; `covers` says which keys have one."""
    for key in range(keys):
        if held[index(base + key)]:
            state = load(states, base + key)
            if covers[index(key)]:
                state = combine(load(back, key), state)
            covers[index(key)] = True
            store(back, key, state)


@kernel
def answer_keys(
    folds: Slots,
    back: Slots,
    newest: Ints,
    covers: Any,
    base: int,
    first: int,
    keys: int,
    found: Ints,
    outputs: Outputs,
) -> int:
    """Answer the window from the pane `first` on, which is at `base`, of each key that has slices in it.

    Writes these keys, and returns their number.
    """
    count = 0
    for key in range(keys):
        if newest[index(key)] >= first:
            state = load(folds, base + key)
            if covers[index(key)]:
                state = combine(state, load(back, key))
        elif covers[index(key)]:
            state = load(back, key)
        else:
            continue
        emit(outputs, count, state)
        found[index(count)] = key
        count += 1
    return count


PANES = (take_by_time, flip, fold_pane, answer_keys)
ENTRIES = ("take_by_time", "flip", "fold_pane", "answer_keys")


class Panes:
    """Slices at equal distances of `step`, the same for all keys; windows are `length` panes long.

    There is room for `capacity` panes from `oldest` on, of keys below `width`.
    """

    def __init__(
        self, binding: Binding, step: int, phase: int, length: int, *, oldest: int, capacity: int, width: int
    ) -> None:
        self.binding = binding
        self.step, self.phase, self.length = step, phase, length
        self.oldest, self.latest = oldest, oldest - 1
        self.capacity, self.width = capacity, width
        self.keys = 0
        """One more than the greatest key."""
        self.slices = 0
        self.held = np.zeros(capacity * width, np.bool_)
        self.states, self.folds = binding.slots(capacity * width), binding.slots(capacity * width)
        self.sizes = np.zeros(width, np.int64)
        """The number of slices of each key."""
        self.back, self.covers = binding.slots(width), np.zeros(width, np.bool_)
        self.newest = np.full(width, NEVER)
        self.turn = self.until = NEVER

    @cached_property
    def _kernels(self) -> Any:
        return SameTypes(self.binding.kernels(PANES, *ENTRIES))

    def pane_of(self, time: Any) -> Any:
        """Return the panes of times."""
        return (time - self.phase) // self.step

    def time_of(self, pane: Any) -> Any:
        """Return where panes begin."""
        return self.phase + pane * self.step

    def _base(self, pane: int) -> int:
        return pane % self.capacity * self.width

    @property
    def count(self) -> int:
        """The number of panes, from the oldest to the latest. O(1)."""
        return self.latest - self.oldest + 1

    @property
    def bytes(self) -> int:
        """The memory of all panes. O(1)."""
        arrays = (self.held, self.states, self.folds, self.sizes, self.back, self.covers, self.newest)
        return sum(each.nbytes for each in arrays)

    # ------------------------------------------------------------ rows and slices in

    def take(self, batch: Batch) -> None:
        """Fold rows into the panes of their times, in order of arrival. There must be room. O(1) combines per row."""
        grid = (self.step, self.phase, self.capacity, self.width)
        inputs = self.binding.inputs(batch.columns, len(batch.times))
        rows = (inputs, read_only(batch.times), read_only(batch.keys))
        self.slices += int(self._kernels.take_by_time(*rows, *grid, self.held, self.sizes, self.states))
        self.latest = max(self.latest, self.pane_of(batch.latest))
        if self.pane_of(batch.least) < self.until:
            self.turn = self.until = NEVER

    def put(self, keys: Array, low: Array, states: Array) -> None:
        """Put slices where there are none. O(slices)."""
        panes = self.pane_of(low)
        slots = panes % self.capacity * self.width + keys
        self.held[slots] = True
        move_states(states, np.arange(len(slots)), self.states, slots)
        self.sizes += np.bincount(keys, minlength=self.width)
        self.slices += len(slots)
        self.latest = max(self.latest, int(panes.max(initial=NEVER)))
        self.keys = max(self.keys, int(keys.max(initial=-1)) + 1)

    # ------------------------------------------------------------ windows out

    def ends(self, after: int, until: int) -> range:
        """Return the panes before which windows end in (after, until], as far as these may have slices."""
        first = max(self.pane_of(after), self.oldest) + 1
        return range(first, min(self.pane_of(until), self.latest + self.length) + 1)

    def answer(self, end: int) -> tuple[Array, tuple[Array, ...]]:
        """Return the keys that have slices in the window before the pane `end`, ascending, and their answers.

        Windows must ascend. O(1) combines per key, amortised.
        """
        first, stop = max(end - self.length, self.oldest), min(end, self.latest + 1)
        folded = (self.states, self.held)
        if end - self.length >= self.turn:
            self._kernels.flip(*folded, self.folds, self.newest, self.keys, self.capacity, self.width, first, stop)
            self.covers[:] = False
            self.turn = end
        else:
            for pane in range(self.until, stop):
                self._kernels.fold_pane(*folded, self.back, self.covers, self.keys, self._base(pane))
        self.until = end
        found, outputs = np.empty(self.keys, np.int64), self.binding.outputs(self.keys)
        ends = (self.newest, self.covers, self._base(first), first)
        count = self._kernels.answer_keys(self.folds, self.back, *ends, self.keys, found, outputs)
        return found[:count], tuple(each[:count] for each in outputs)

    def drop_before(self, time: int) -> None:
        """Evict the panes that begin before an edge. O(keys) for each."""
        needed = self.pane_of(time)
        for pane in range(self.oldest, min(needed, self.latest + 1)):
            base = self._base(pane)
            dropped = self.held[base : base + self.keys]
            self.sizes[: self.keys] -= dropped
            self.slices -= int(np.count_nonzero(dropped))
            dropped[:] = False
        self.oldest = max(self.oldest, needed)
        self.latest = max(self.latest, self.oldest - 1)

    # ------------------------------------------------------------ all slices

    def slots(self) -> tuple[Array, Array, Array]:
        """Return the key of each slice, its pane and its slot, key by key. O(panes * keys)."""
        panes = np.arange(self.oldest, self.latest + 1)
        held = self.held.reshape(self.capacity, self.width)[panes % self.capacity, : self.keys]
        keys, place = np.divmod(np.flatnonzero(held.T), max(1, len(panes)))  # of the transpose's copy
        return keys, panes[place], panes[place] % self.capacity * self.width + keys

    def check(self) -> None:
        """Raise `InvariantError` if slices or folds contradict each other. O(panes * keys) combines."""
        keys, panes, slots = self.slots()
        require(len(slots) == self.slices, "the number of slices is not that of the panes")
        require(np.count_nonzero(self.held) == self.slices, "a pane that was evicted has slices")
        sizes = np.bincount(keys, minlength=self.width)
        require(np.array_equal(sizes, self.sizes), "the number of slices of a key is wrong")
        require(self.count <= self.capacity, "there are more panes than fit")
        states = States(self.binding)
        for key in np.flatnonzero(sizes).tolist():
            mine = dict(zip(panes[keys == key].tolist(), slots[keys == key].tolist(), strict=True))
            self._check_folds(states, key, mine)

    def _check_folds(self, states: States, key: int, slots: dict[int, int]) -> None:
        """Recompute the folds of a key."""
        front = [pane for pane in slots if pane < self.turn]
        state = None
        for pane in reversed(range(self.oldest, self.turn) if front else ()):
            if pane in slots:
                older = states.load(self.states, slots[pane])
                state = older if state is None else states.combine(older, state)
            if state is not None:
                fold = states.load(self.folds, self._base(pane) + key)
                require(states.close(state, fold), "a fold is not that of its slices")
        covered = [slot for pane, slot in slots.items() if self.turn <= pane < self.until]
        if self.turn > NEVER:
            newest = int(self.newest[key])
            require(newest == front[-1] if front else newest < self.oldest, "a key's newest pane is another one")
            require(bool(self.covers[key]) == bool(covered), "a key has slices from the turn on, and no fold, or none")
        if covered:
            state = states.load(self.states, covered[0])
            for slot in covered[1:]:
                state = states.combine(state, states.load(self.states, slot))
            require(states.close(state, states.load(self.back, key)), "the newer fold is not that of its slices")
