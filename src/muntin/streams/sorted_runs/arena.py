"""Sorted, run-length encoded runs of integers, one per slot, all in the same few arrays.

A run is a stretch of the arena: its distinct keys ascending, each with the number of rows that have it or a smaller
one. A head precedes it, with the slot in place of a key and no rows, so that the rows before entry p are always `ends[p
- 1]`, and a scan of the arena sees where a run begins and whose it is.

New rows wait in a log until their slot is read: the rows of one slice come over many pushes, and merging each push into
the run would read the run as often. Rows to be read are grouped by slot, sorted, encoded and merged, each step one pass
over all slots. A run never changes in place: it is rewritten after the last one, and the arena is compacted when it is
full, O(1) per entry added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import Generated, standalone
from muntin.streams.sorted_runs.arena_kernels import ARENA, LIVE, LOGGED, TAIL
from muntin.types import Array

_SMALLEST_LOG = 1 << 18


@cache
def _generated() -> Generated:
    return standalone(*ARENA)


class Arena:
    """The runs of all slots over one column, and the log of rows waiting to be merged into them.

    >>> arena = Arena()
    >>> arena.add(np.array([0, 1, 0]), np.array([5, 7, 5]))
    >>> arena.merge_pending(np.array([0, 1]))
    >>> arena.lengths[:2].tolist(), arena.keys[arena.starts[0]], arena.ends[arena.starts[0]]
    ([1, 1], np.int64(5), np.int64(2))
    """

    def __init__(self, *, plain: bool = False) -> None:
        self.plain = plain
        self.starts = np.zeros(0, np.int64)
        self.lengths = np.zeros(0, np.int64)
        self.keys = np.zeros(0, np.int64)
        self.ends = np.zeros(0, np.int64)
        self._pending = np.zeros(0, np.int64)
        self._places = np.zeros(0, np.int64)
        self._log_slots = np.zeros(0, np.int64)
        self._log_keys = np.zeros(0, np.int64)
        self._counters = np.zeros(3, np.int64)
        self._rows = np.zeros(0, np.int64)
        self._spare = np.zeros(0, np.int64)

    @property
    def _kernels(self) -> Any:
        plain = self.plain or kernel_cache.is_uncompiled()
        return kernel_cache.load(_generated(), compiled=not plain)

    def add(self, slots: Array, keys: Array) -> None:
        """Add rows to slots. O(1) per row now, at most O(log n) comparisons when first read."""
        if not len(slots):
            return
        self.cover(slots)
        logged = int(self._counters[LOGGED])
        if logged + len(slots) > len(self._log_keys):
            room = max(1024, 2 * (logged + len(slots)))
            self._log_slots = _grown(self._log_slots, room)
            self._log_keys = _grown(self._log_keys, room)
        self._kernels.log_rows(slots, keys, self._log_slots, self._log_keys, self._pending, self._counters)
        # The log holds repeated values, which runs do not: it may not outgrow the runs.
        if self._counters[LOGGED] > max(_SMALLEST_LOG, int(self._counters[LIVE])):
            self._merge_pending(np.flatnonzero(self._pending))

    def merge_pending(self, slots: Array) -> None:
        """Merge the waiting rows of these slots into their runs, to be read. O(log + changed runs)."""
        self.cover(slots)
        chosen = np.empty(len(slots), np.int64)
        count = self._kernels.choose_waiting(slots, self._pending, self._places, chosen)
        if count:
            self._merge_pending(chosen[:count])

    def _merge_pending(self, chosen: Array) -> None:
        kernels = self._kernels
        bounds = np.concatenate(([0], np.cumsum(self._pending[chosen]))).astype(np.int64)
        if bounds[-1] > len(self._rows):
            self._rows, self._spare = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.int64)
        rows, spare = self._rows, self._spare
        log = (self._log_slots, self._log_keys, self._pending)
        kernels.take_rows(chosen, *log, self._places, bounds, rows, self._counters)
        distinct = np.zeros(len(chosen), np.int64)
        kernels.sort_rows(bounds, rows, spare, np.zeros(2048, np.int64), distinct)
        self._make_room(int(distinct.sum() + self.lengths[chosen].sum()) + len(chosen))
        kernels.absorb(chosen, bounds, rows, spare, distinct, *self._runs())
        if len(rows) > 2 * _SMALLEST_LOG:  # rare; buffers of the usual size are kept
            self._rows, self._spare = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def merge(self, into: Array, out_of: Array) -> None:
        """Move the rows of each slot of `out_of` to the slot at the same place of `into`, pair by pair.

        O(entries of both) per pair, O(1) if one of the two is empty.
        """
        self.merge_pending(np.concatenate((into, out_of)))
        kernels = self._kernels
        done = 0
        while (done := kernels.join_slots(into, out_of, done, *self._runs())) < len(into):
            self._make_room(int(self.lengths[into[done]] + self.lengths[out_of[done]]) + 1)

    def free(self, slots: Array) -> None:
        """Empty slots. O(1) each, plus O(log) once if any of their rows still wait."""
        self.cover(slots)
        log = (self._log_slots, self._log_keys, self._pending)
        self._kernels.forget(slots, self.lengths, *log, self._counters)

    def cover(self, slots: Array) -> None:
        """Add new slots, empty."""
        most = int(slots.max()) + 1 if len(slots) else 0
        if most > len(self.starts):
            room = max(16, 2 * most)
            self.starts, self.lengths = _grown(self.starts, room), _grown(self.lengths, room)
            self._pending = _grown(self._pending, room)
            self._places = np.full(room, -1, np.int64)

    def _runs(self) -> tuple[Array, ...]:
        return self.keys, self.ends, self.starts, self.lengths, self._counters

    def _make_room(self, entries: int) -> None:
        """Make room for `entries` entries after the last run."""
        if int(self._counters[TAIL]) + entries <= len(self.keys):
            return
        needed = int(self._counters[LIVE]) + entries
        # If a quarter can be reclaimed the arrays stay: allocating new ones takes longer than moving.
        if len(self.keys) // 8 <= needed <= len(self.keys) * 3 // 4:
            self._rewrite(self.keys, self.ends)
        else:
            room = max(1024, 2 * needed)
            self._rewrite(np.empty(room, np.int64), np.empty(room, np.int64))

    def _rewrite(self, keys: Array, ends: Array) -> None:
        """Write the runs without gaps into these arrays, which may be their own."""
        self._kernels.rewrite_runs(self.keys, self.ends, self.starts, self.lengths, keys, ends, self._counters)
        self.keys, self.ends = keys, ends

    @property
    def bytes(self) -> int:
        """The memory that is held."""
        per_slot = (self.starts, self.lengths, self._pending, self._places)
        rows = (self._log_slots, self._log_keys, self._rows, self._spare)
        return sum(each.nbytes for each in (*per_slot, *rows, self.keys, self.ends))

    def __len__(self) -> int:
        """Return the number of entries: one per value of each run, and one per waiting row."""
        return int(self.lengths.sum() + self._counters[LOGGED])

    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays by name, which never change afterwards. O(n)."""
        self._rewrite(self.keys, self.ends)
        live, logged = int(self._counters[LIVE]), int(self._counters[LOGGED])
        return {
            "keys": self.keys[:live].copy(),
            "ends": self.ends[:live].copy(),
            "log_slots": self._log_slots[:logged].copy(),
            "log_keys": self._log_keys[:logged].copy(),
        }

    @classmethod
    def loaded(cls, state: Mapping[str, Array], *, plain: bool = False) -> Arena:
        """Return an arena with the state that `save` returned. O(n)."""
        arena = cls(plain=plain)
        arena.keys, arena.ends = state["keys"].copy(), state["ends"].copy()
        heads = np.flatnonzero(arena.ends == 0)
        slots = arena.keys[heads]
        arena.cover(slots)
        arena.starts[slots] = heads + 1
        arena.lengths[slots] = np.diff(heads, append=len(arena.keys)) - 1
        arena._counters[:] = len(arena.keys), len(arena.keys), 0
        arena.add(state["log_slots"], state["log_keys"])
        return arena

    def check(self) -> None:
        """Raise `InvariantError` if runs overlap or do not ascend, or the counters contradict them. O(n)."""
        held = np.flatnonzero(self.lengths)
        held = held[np.argsort(self.starts[held])]
        starts, lengths = self.starts[held], self.lengths[held]
        tail, live, logged = (int(each) for each in self._counters)
        _require(bool((lengths > 0).all()) and live == int((lengths + 1).sum()), "the runs occupy what is counted")
        _require(tail <= len(self.keys) == len(self.ends), "the runs are in the arena")
        edges = np.concatenate(([0], starts + lengths, [tail]))
        _require(bool((edges[:-1] <= np.append(starts - 1, tail)).all()), "runs do not overlap")
        _require(np.array_equal(self.keys[starts - 1], held), "a run says whose it is")
        for start, stop in zip(starts.tolist(), (starts + lengths).tolist(), strict=True):
            keys, ends = self.keys[start:stop], self.ends[start - 1 : stop]
            _require(bool((keys[:-1] < keys[1:]).all()), "the keys of a run ascend")
            _require(ends[0] == 0 and bool((ends[:-1] < ends[1:]).all()), "every entry of a run has rows")
        waiting = np.bincount(self._log_slots[:logged], minlength=len(self._pending))
        _require(np.array_equal(waiting, self._pending), "the log holds the rows that slots wait for")
        _require(bool((self._places == -1).all()), "no slot is being read")


def _require(fact: bool, what: str) -> None:
    if not fact:
        raise InvariantError(f"it is not so that {what}")


def _grown(array: Array, room: int) -> Array:
    grown = np.zeros(room, np.int64)
    grown[: len(array)] = array
    return grown
