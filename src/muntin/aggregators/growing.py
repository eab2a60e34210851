"""Rings that grow while they are in use, so that no call copies all rows.

    ring    [ i j c d e f g h ]                    nearly full: a ring of twice the size is begun
    next    [ . . c d . . . . . . . . . . . . ]    every inserted row copies a few rows; then it takes the ring's place

Kernels read the ring. A state that is written while the next ring is filled is written to both by `put`.

Rejected: copying all rows when the ring is full, a hundred thousand times as long as an insert for a million rows; and
a list of chunks, which every access would have to look up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.aggregators.states import States
from muntin.kernels.vocabulary import State, inlined, store
from muntin.memory import shorten, zeros_to_extend
from muntin.types import Array

_SMALL = 1 << 12
"""Rings of up to this many rows are copied at once."""
_RATE = 6
"""The rows copied for each row inserted. The next ring is begun when a quarter of the ring is free, and holds all rows
before that is used up: 4 would do, if none came late."""
_BATCH = 1 << 10
"""The rows copied in one go, at least: a call to copy one row would cost as much."""


@inlined
def put(window: Any, position: int, state: State) -> None:
    """Store the state of a position, in the next ring too while there is one."""
    slots, ahead = window.slots, window.ahead
    store(slots, position & (len(slots) - 1), state)
    if len(ahead) > 1:
        store(ahead, position & (len(ahead) - 1), state)


class GrowingRing(RingAggregator):
    """A ring that grows in steps."""

    _next: tuple[Array, Array] | None = None
    """The slots and the times of the next ring."""
    _grown_from: Array | None = None
    """The slots of the ring that the next one was begun for."""
    _copied = 0
    """The position up to which rows are in the next ring."""
    _due = 0
    """How many rows to copy by now."""
    _replaced: tuple[list[Array], ...] = ()
    """The slots and the times of the ring that was replaced last, each in a list of its own until it is given back."""

    def _reserve(self, rows: int) -> None:
        """Make room for `rows` rows, in steps: O(1) for each new row."""
        room = self._room
        if self._replaced:
            self._give_back()
        if self._next is None and 4 * rows <= 3 * room:
            return
        if self._next is not None and self._grown_from is not self._window.slots:
            self._stop_growing()  # the window was replaced
        if room >= _SMALL:
            self._grow(rows, room)
        if rows > self._room:
            self._settled_end(wait=True)
            self._stop_growing()
            super()._reserve(rows)

    def _grow(self, rows: int, room: int) -> None:
        if self._next is None:
            self._begin_next()
        self._due += _RATE * (rows - len(self))
        if self._due >= _BATCH or rows > room:
            end = self._settled_end(wait=rows > room)
            begin = max(self._copied, int(self._marks[FRONT]))
            stop = max(begin, end if rows > room else min(end, begin + self._due))
            self._copy_rows(begin, stop)
            self._due = max(0, self._due - (stop - begin))
            if self._copied >= self._marks[END]:
                self._take_next()

    def _begin_next(self) -> None:
        """Make the next ring; from now on, `put` writes to both."""
        held = self._window
        # Pages of their own: zeros from memory that was used before would be written one by one.
        slots, times = (zeros_to_extend(2 * len(array), array.dtype) for array in (held.slots, held.times))
        self._next, self._grown_from = (slots, times), held.slots
        self._copied, self._due = int(self._marks[FRONT]), 0
        if hasattr(held, "ahead"):
            self._window = held._replace(ahead=slots)

    def _take_next(self) -> None:
        """Let the next ring, which holds all rows, take the place of the ring."""
        assert self._next is not None
        self._replaced = [self._window.slots], [self._window.times]
        slots, times = self._next
        self._window = self._window._replace(slots=slots, times=times)
        self._stop_growing()

    def _give_back(self) -> None:
        """Give back a part of the ring that was replaced: for all of it the system takes O(n)."""
        for held in self._replaced:
            shorten(held, len(held[0]) - _RATE * _BATCH)
        self._replaced = tuple(filter(None, self._replaced))

    def _stop_growing(self) -> None:
        self._next = self._grown_from = None
        if hasattr(self._window, "ahead"):
            self._window = self._window._replace(ahead=self._binding.slots(1))

    def _settled_end(self, *, wait: bool) -> int:
        """Return the position up to which no other thread writes; `wait` until there is none."""
        return int(self._marks[END])

    def _copy_rows(self, begin: int, end: int) -> None:
        """Copy rows to the next ring."""
        assert self._next is not None
        slots, times = self._next
        for at, to, count in self._slot_runs(begin, end):
            slots[to : to + count] = self._window.slots[at : at + count]
        for at, to, count in runs(begin, end, len(self._window.times), len(times)):
            times[to : to + count] = self._window.times[at : at + count]
        self._copied = end

    def _slot_runs(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the slots of some rows: where they begin in the ring and in the next one, and how many they are."""
        assert self._next is not None
        return runs(begin, end, len(self._window.slots), len(self._next[0]))

    def _check(self, states: States, require: Any) -> None:
        super()._check(states, require)
        if self._next is not None and self._grown_from is self._window.slots:
            self._check_next(*self._next, states, require)

    def _check_next(self, slots: Array, times: Array, states: States, require: Any) -> None:
        """Require that the rows copied so far are the same in both rings."""
        held = self._window
        front, copied = int(self._marks[FRONT]), min(self._copied, int(self._marks[END]))
        for at, to, count in self._slot_runs(front, copied):
            same = (states.close(states.load(held.slots, at + i), states.load(slots, to + i)) for i in range(count))
            require(all(same), f"of the states from slot {at} on, one differs in the next ring")
        for at, to, count in runs(front, copied, len(held.times), len(times)):
            same_times = np.array_equal(held.times[at : at + count], times[to : to + count])
            require(same_times, f"of the times from place {at} on, one differs in the next ring")


def runs(begin: int, end: int, size: int, grown: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pieces of a ring of `size` places that hold the positions [begin, end).

    Each with its place there, its place in a larger ring of `grown`, and its length.
    """
    while begin < end:
        at = begin & (size - 1)
        count = min(end - begin, size - at)
        yield at, begin & (grown - 1), count
        begin += count
