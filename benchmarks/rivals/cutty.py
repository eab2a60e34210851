"""Cutty (Carbone et al.): slices begin only where windows begin, and a tree over them answers windows.

window    [--------------)             a window may end inside a slice: its answer is then taken when the first
window         [--------------)        row after its end comes, from whole slices and what the last one has so far
slices    |    |         |  (no edge at the ends)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.aggregators.base_intervals import highest_level
from muntin.aggregators.flat_fat import stretch
from muntin.aggregators.states import States
from muntin.kernels.vocabulary import Ints, Outputs, Slots, emit, kernel, load, store
from muntin.query.plan import Plan
from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from rivals.fused import Fused
from rivals.in_order import InOrder, Slices, earliest
from rivals.leaves import Leaves
from rivals.sequenced import Stretches
from rivals.spanned import Candidates


@kernel
def put_aside(slots: Slots, capacity: int, first: Ints, last: Ints, aside: Slots) -> None:
    """Store the aggregates of stretches of leaves, none of them empty."""
    for i in range(len(first)):
        store(aside, i, stretch(slots, capacity + first[i], capacity + last[i]))


@kernel
def answer_aside(aside: Slots, at: int, outputs: Outputs, row: int) -> None:
    """Lower a state that was put aside."""
    emit(outputs, row, load(aside, at))


class _Cutty(Slices):
    """Slices between begins, and the states of windows that have ended inside one."""

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree], fused: Fused) -> None:
        super().__init__(plan, windows, fused)
        kernels = (highest_level, stretch, put_aside, answer_aside)
        self.asides = [binding.kernels(kernels, "put_aside", "answer_aside") for binding in fused.bindings]
        self.ended: dict[tuple[int, int, int], tuple[int, int, list[Array], int]] = {}
        """By key, id and number: the rows of a window, its end, and where its states are."""

    def _edge_after(self, time: int) -> int:
        return earliest([bank.begin_after(time) for bank in self.spanned.banks])

    def _extend(self, inputs: list[tuple[Array, ...]], times: Array, key: int, begin: int, stop: int) -> None:
        """Add rows, and stop before each that goes on with a slice in which a window has ended."""
        leaves = self.keyed.of(key)
        known = np.concatenate((leaves.times, times[begin:stop]))
        _, since = self.last.get(key, (0, int(times[begin])))
        found = self.spanned.ending(since if len(leaves) else int(times[begin]), int(times[stop - 1]), known)
        rows = begin + np.searchsorted(times[begin:stop], found.end, "left")
        inside = np.flatnonzero(self._fresh[rows] == 0)
        at = begin
        for row in np.unique(rows[inside]).tolist():
            leaves.extend(inputs, times, at, row, self._fresh)
            at = row
            self._end(key, leaves, found.pick(inside[rows[inside] == row]))
        leaves.extend(inputs, times, at, stop, self._fresh)

    def _end(self, key: int, leaves: Leaves, found: Candidates) -> None:
        """Put aside what windows hold that end here."""
        first, last, counts = leaves.stretches(found.start, found.end)
        held = np.flatnonzero(counts)
        leaves.renew()
        capacity = len(leaves.all_times)
        states = [binding.slots(len(held)) for binding in self.fused.bindings]
        for module, slots, aside in zip(self.asides, leaves.slots, states, strict=True):
            module.put_aside(slots, capacity, first[held], last[held], aside)
        for at, i in enumerate(held.tolist()):
            name = (key, int(found.ids[i]), int(found.numbers[i]))
            self.ended[name] = (int(counts[i]), int(found.end[i]), states, at)

    def _count(self, key: int, leaves: Leaves, found: Candidates) -> tuple[Array, Array, Array]:
        first, last, counts = super()._count(key, leaves, found)
        for i, (rows, _, _, _) in self._aside(key, found):
            counts[i] = rows
        return first, last, counts

    def _aside(self, key: int, found: Candidates) -> list[tuple[int, Any]]:
        if not self.ended:
            return []
        names = zip(found.ids.tolist(), found.numbers.tolist(), strict=True)
        return [(i, self.ended[(key, *name)]) for i, name in enumerate(names) if (key, *name) in self.ended]

    def _answer(self, each: Stretches, outputs: list[tuple[Array, ...]], at: int) -> None:
        aside = self._aside(each.key, each.windows)
        each.last[[i for i, _ in aside]] = 0  # not from slices, the last of which holds rows after the window too
        super()._answer(each, outputs, at)
        for i, (_, _, states, place) in aside:
            for module, slots, out in zip(self.asides, states, outputs, strict=True):
                for valid in out[1::2]:
                    valid[at + i : at + i + 1] = True  # it was written as a window without rows
                module.answer_aside(slots, place, out, at + i)

    def _let_go(self) -> None:
        limit = self.spanned.watermark - self.spanned.plan.lateness
        self.ended = {name: each for name, each in self.ended.items() if each[1] > limit}
        super()._let_go()

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        names = [(*name, each[0], each[1]) for name, each in self.ended.items()]
        states = {
            f"aside{b}": np.concatenate(
                [binding.slots(0), *(each[2][b][each[3] : each[3] + 1] for each in self.ended.values())]
            )
            for b, binding in enumerate(self.fused.bindings)
        }
        return {**super().save(), "ended": np.array(names, np.int64).ravel(), **states}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        super().load(state)
        bindings = self.fused.bindings
        states = [States(binding).revived(state[f"aside{b}"].copy()) for b, binding in enumerate(bindings)]
        names = state["ended"].reshape(-1, 5).tolist()
        self.ended = {(key, i, number): (rows, end, states, at) for at, (key, i, number, rows, end) in enumerate(names)}


class Cutty(InOrder):
    """Slices that begin where windows begin, under a tree; rows in order and context-free windows by time only.

    O(1) combines a row, O(log slices) to answer a window.

    >>> import numpy as np
    >>> from muntin import agg, window
    >>> from muntin.durations import BEFORE_TIME
    >>> from muntin.query.plan import Plan
    >>> from muntin.streams.strategy import Batch
    >>> from muntin.types import INT64
    >>> plan = Plan({0: window.sliding(6, every=4)}, {"n": agg.count()}, {}, INT64, ordered=True)
    >>> strategy = Cutty(plan)
    >>> strategy.take(Batch(np.array([0, 0, 0]), np.array([1, 5, 7]), {}), BEFORE_TIME).tolist()
    [True, True, True]
    >>> [(each.end.tolist(), each.aggregates["n"].to_pylist()) for each in strategy.emit(10, 10)]
    [([2, 6, 10], [1, 2, 2])]
    """

    slices = _Cutty
    kinds = ContextFree
    says = "context-free windows by time"
    merger = ("flat_fat", "a tree over slices that begin where windows begin")
