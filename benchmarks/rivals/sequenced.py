"""Keys with their leaves in the order of time, of which each context-free window is a stretch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from muntin.query.plan import Plan
from muntin.streams.strategy import Batch
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.kinds.context_free import ContextFree
from rivals.fused import Fused
from rivals.leaves import Leaves, leaf_kernels
from rivals.spanned import Candidates, Spanned


def runs(keys: Array) -> Iterator[tuple[int, int, int]]:
    """Yield each key of rows that are sorted by it, with the first of its rows and the one after the last."""
    cuts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(keys)]
    for begin, stop in pairwise(bounds):
        if begin < stop:
            yield int(keys[begin]), begin, stop


def kept(order: Array | slice, taken: Array) -> Array | slice:
    """Return the rows of an order that were taken: where that is all of them, without a copy."""
    if taken.all():
        return order
    return np.flatnonzero(taken) if isinstance(order, slice) else order[taken]


class Keyed:
    """The leaves of each key, saved and counted together."""

    def __init__(self, fused: Fused, *, tree: bool) -> None:
        self.fused, self.tree = fused, tree
        self.modules = leaf_kernels(fused)
        self.leaves: dict[int, Leaves] = {}

    def of(self, key: int) -> Leaves:
        """Return the leaves of a key, none if it is new."""
        if key not in self.leaves:
            self.leaves[key] = Leaves(self.fused, self.modules, tree=self.tree)
        return self.leaves[key]

    def metrics(self) -> dict[str, int]:
        """Return the numbers of leaves and keys, and bytes."""
        size = sum(each.nbytes for each in self.leaves.values())
        return {"leaves": sum(map(len, self.leaves.values())), "keys": len(self.leaves), "bytes": size}

    def save(self) -> dict[str, Array]:
        """Return all leaves as arrays, those of a key together."""
        saved = [each.save() for each in self.leaves.values()]
        empty = Leaves(self.fused, self.modules, tree=self.tree).save()
        joined = {name: np.concatenate([none, *(each[name] for each in saved)]) for name, none in empty.items()}
        sizes = np.array([len(each) for each in self.leaves.values()], np.int64)
        return {**joined, "keys": np.array(list(self.leaves), np.int64), "sizes": sizes}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace all leaves."""
        self.leaves = {}
        at = 0
        names = ("times", "counts", *(f"slots{b}" for b in range(len(self.modules))))
        for key, size in zip(state["keys"].tolist(), state["sizes"].tolist(), strict=True):
            self.of(key).load({name: state[name][at : at + size] for name in names})
            at += size

    def check(self) -> None:
        """Require what leaves must be."""
        for each in self.leaves.values():
            each.check()


@dataclass(frozen=True)
class Stretches:
    """Windows of one key to be emitted, and the leaves [first, last) of each."""

    key: int
    leaves: Leaves
    windows: Candidates
    first: Array
    last: Array
    revisions: Array


class Sequenced:
    """Context-free windows as stretches of leaves; how rows become leaves is for subclasses to say."""

    tree = True
    """Whether nodes above the leaves are kept."""

    def __init__(self, plan: Plan, windows: Mapping[int, ContextFree], fused: Fused) -> None:
        self.fused = fused
        self.spanned = Spanned(plan, windows)
        self.keyed = Keyed(fused, tree=self.tree)

    def _add(self, inputs: list[tuple[Array, ...]], times: Array, key: int, begin: int, stop: int) -> None:
        """Add the rows [begin, stop) of one key, in the order of their times."""
        self.keyed.of(key).merge(inputs, times, begin, stop)

    def _prepare(self, times: Array, keys: Array, taken: Array) -> None:
        """Look at all rows that were taken, sorted by key, before they are added."""

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Add rows; return which of them some window took."""
        taken = self.spanned.takes(batch.times[order], watermark)
        rows = kept(order, taken)
        keys, times = batch.keys[rows], batch.times[rows]
        inputs = self.fused.inputs(batch.columns, rows)
        self._prepare(times, keys, taken)
        for key, begin, stop in runs(keys):
            self.spanned.note(key, times[begin:stop], watermark)
            self._add(inputs, times, key, begin, stop)
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Answer the windows that are due or have changed, and let go the leaves that none needs."""
        found = [
            each
            for key in sorted(self.spanned.keys_to_look_at(self._keys(), watermark, early=early))
            for each in self._of_key(key, watermark, horizon, early=early)
        ]
        answers = self._answers(found)
        finalizes = self.spanned.finalizes_some(watermark)
        self.spanned.finalize(watermark)
        if finalizes:
            self._let_go()
        return answers

    def _keys(self) -> set[int]:
        return {*self.keyed.leaves, *self.spanned.keys()}

    def _of_key(self, key: int, watermark: int, horizon: int, *, early: bool) -> list[Stretches]:
        """Return the windows of a key that are to be emitted: one element, or none."""
        leaves = self.keyed.of(key)
        found = self.spanned.candidates(key, leaves.times, watermark, horizon, early=early)
        if not len(found.ids):
            return []
        first, last, counts = self._count(key, leaves, found)
        now = max(watermark, self.spanned.watermark)
        chosen, revisions = self.spanned.choose(key, found, counts, now, horizon)
        if not len(chosen):
            return []
        return [Stretches(key, leaves, found.pick(chosen), first[chosen], last[chosen], revisions)]

    def _count(self, key: int, leaves: Leaves, found: Candidates) -> tuple[Array, Array, Array]:
        """Return the leaves [first, last) of each window, and how many rows it has."""
        return leaves.stretches(found.start, found.end)

    def _answer(self, each: Stretches, outputs: list[tuple[Array, ...]], at: int) -> None:
        """Lower windows into the outputs, from row `at` on."""
        each.leaves.answer(each.first, each.last, outputs, at)

    def _answers(self, found: list[Stretches]) -> list[Answers]:
        """Answer the windows of all keys together."""
        if not found:
            return []
        sizes = [len(each.revisions) for each in found]
        outputs = self.fused.outputs(sum(sizes))
        at = 0
        for each, size in zip(found, sizes, strict=True):
            self._answer(each, outputs, at)
            at += size
        keys = np.repeat(np.array([each.key for each in found], np.int64), sizes)
        ids, start, end = (
            np.concatenate([getattr(each.windows, name) for each in found]) for name in ("ids", "start", "end")
        )
        revisions = np.concatenate([each.revisions for each in found])
        return [Answers(keys, ids, start, end, self.fused.arrays(outputs), revisions, np.zeros(at, np.bool_))]

    def _let_go(self) -> None:
        for key, leaves in list(self.keyed.leaves.items()):
            if len(leaves):
                leaves.drop(self.spanned.needed_from(leaves.times))
            if not len(leaves):
                del self.keyed.leaves[key]

    def held_keys(self) -> Array:
        """Return the keys with leaves, or with windows that may change."""
        return np.array(sorted(self._keys()), np.int64)

    def metrics(self) -> dict[str, int]:
        """Return the numbers of leaves and keys, and bytes."""
        return self.keyed.metrics()

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        return {**self.spanned.save(), **self.keyed.save()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.spanned.load(state)
        self.keyed.load(state)

    def check(self) -> None:
        """Require what leaves must be."""
        self.keyed.check()
