"""Sessions as rows come: each row joins the session before it, the one after it, both, or begins one.

Only where sessions are and how many rows they hold is known here. Whoever keeps their rows or states learns which
session each row went into, and which one was merged into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from muntin.durations import BEFORE_TIME
from muntin.errors import InvariantError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.kernels.vocabulary import Ints, kernel
from muntin.types import Array

KEY, START, LAST, OLDER, COUNT, SAID, REVISION, INTO = range(8)
"""The columns of the table: SAID is the number of rows when the session was last emitted, REVISION -1 if it never was
under this start and end; INTO is the session that it was merged into, or -1."""
NOTHING, FRESH = -1, -2
"""What stands for a merged session where there was none, and where the row began a session."""


@kernel
def join_rows(
    table: Ints,
    newest: Ints,
    floors: Ints,
    marks: Ints,
    keys: Ints,
    times: Ints,
    gap: int,
    lateness: int,
    watermark: int,
    into: Ints,
    merged: Ints,
    retracted: Ints,
) -> None:
    """Put rows, those of a key in the order of their times, into sessions.

    `newest` is the youngest session of each key, from which OLDER leads on; `floors` is where the last final one of a
    key ended: at it or before nothing changes. marks are the numbers of sessions and of retractions.
    """
    slack = max(lateness, 1)  # a row may come at the watermark for a session that ended there
    for row in range(len(times)):
        key = keys[row]
        time = times[row]
        into[row] = -1
        merged[row] = -1
        after = -1
        before = newest[key]
        while before >= 0 and table[before, 1] > time:
            after = before
            before = table[before, 3]
        joins_before = before >= 0 and time <= table[before, 2] + gap
        joins_after = after >= 0 and table[after, 1] <= time + gap
        end = time + gap
        possible = time > floors[key]
        if joins_before:
            end = max(end, table[before, 2] + gap)
            if time > table[before, 2] or joins_after:
                possible = possible and table[before, 2] + gap + slack > watermark
        if joins_after:
            end = max(end, table[after, 2] + gap)
            possible = possible and table[after, 2] + gap + slack > watermark
        if not possible or end + lateness <= watermark:
            continue
        if not joins_before and not joins_after:
            at = begin_session(table, marks, key, time, before)
            if after >= 0:
                table[after, 3] = at
            else:
                newest[key] = at
            into[row] = at
            merged[row] = -2
            continue
        at = before if joins_before else after
        last = table[after, 2] if joins_after else max(table[at, 2], time)
        if table[at, 6] >= 0 and (time < table[at, 1] or last > table[at, 2]):
            take_back(table, marks, at, gap, retracted)
        if joins_before and joins_after:
            if table[after, 6] >= 0:
                take_back(table, marks, after, gap, retracted)
            absorb(table, newest, at, after)
            merged[row] = after
        table[at, 1] = min(table[at, 1], time)
        table[at, 2] = last
        table[at, 4] += 1
        into[row] = at


@kernel
def begin_session(table: Ints, marks: Ints, key: int, time: int, before: int) -> int:
    """Begin a session with one row, after another one or none."""
    at: int = marks[0]
    marks[0] += 1
    table[at, 0] = key
    table[at, 1] = time
    table[at, 2] = time
    table[at, 3] = before
    table[at, 4] = 1
    table[at, 5] = -1
    table[at, 6] = -1
    table[at, 7] = -1
    return at


@kernel
def absorb(table: Ints, newest: Ints, at: int, after: int) -> None:
    """Merge a session into the one before it."""
    key = table[at, 0]
    table[at, 4] += table[after, 4]
    table[after, 7] = at
    if newest[key] == after:
        newest[key] = at
    else:
        younger = newest[key]
        while table[younger, 3] != after:
            younger = table[younger, 3]
        table[younger, 3] = at


@kernel
def take_back(table: Ints, marks: Ints, at: int, gap: int, retracted: Ints) -> None:
    """Note that a session that was emitted is no more."""
    note = marks[1]
    marks[1] += 1
    retracted[note, 0] = table[at, 0]
    retracted[note, 1] = table[at, 1]
    retracted[note, 2] = table[at, 2] + gap
    retracted[note, 3] = table[at, 6] + 1
    table[at, 5] = -1
    table[at, 6] = -1


@cache
def _kernels(compiled: bool) -> Any:
    return kernel_cache.load(standalone(begin_session, absorb, take_back, join_rows), compiled=compiled)


@dataclass(frozen=True)
class Joined:
    """Where rows went: the session of each, -1 where it came too late, and which one was merged into that before."""

    into: Array
    merged: Array


@dataclass(frozen=True)
class Due:
    """Sessions to emit, and (key, start, end, revision) of those to take back."""

    sessions: Array
    retracted: Array


class Sessions:
    """The sessions of all keys that may still change."""

    def __init__(self, gap: int, lateness: int) -> None:
        self.gap = gap
        self.lateness = lateness
        self.table = np.zeros((0, 8), np.int64)
        self._newest = np.zeros(0, np.int64)
        self._floors = np.zeros(0, np.int64)
        self._retracted = np.zeros((0, 4), np.int64)
        self.merges = 0

    @property
    def ends(self) -> Array:
        """Where each session ends, as it is."""
        return self.table[:, LAST] + self.gap

    def join(self, keys: Array, times: Array, watermark: int) -> Joined:
        """Put rows into sessions, those of a key in the order of their times. O(open sessions of its key) a row."""
        rows, size = len(times), len(self.table)
        self._know(int(keys.max()) + 1 if rows else 0)
        table = np.concatenate((self.table, np.zeros((rows, 8), np.int64)))
        marks = np.array([size, len(self._retracted)], np.int64)
        retracted = np.concatenate((self._retracted, np.zeros((size, 4), np.int64)))
        into, merged = np.empty(rows, np.int64), np.empty(rows, np.int64)
        module = _kernels(not kernel_cache.is_uncompiled())
        words = (self.gap, self.lateness, max(watermark, BEFORE_TIME))
        module.join_rows(table, self._newest, self._floors, marks, keys, times, *words, into, merged, retracted)
        self.table, self._retracted = table[: marks[0]], retracted[: marks[1]]
        self.merges += int((merged >= 0).sum())
        return Joined(into, merged)

    def due(self, watermark: int, *, early: bool) -> Due:
        """Return what is to be emitted now, and count it as emitted."""
        chosen = (self.table[:, INTO] < 0) & (self.table[:, COUNT] != self.table[:, SAID])
        if not early:
            chosen &= self.ends <= watermark
        sessions = np.flatnonzero(chosen)
        self.table[sessions, SAID] = self.table[sessions, COUNT]
        self.table[sessions, REVISION] += 1
        retracted, self._retracted = self._retracted, self._retracted[:0]
        return Due(sessions, retracted)

    def finalize(self, watermark: int) -> Array | None:
        """Let go what never changes again; return the sessions that stay, as they were numbered, if any has gone."""
        merged = self.table[:, INTO] >= 0
        final = (self.ends <= watermark - max(self.lateness, 1)) & ~merged
        kept = None
        if final.any() or merged.any():
            np.maximum.at(self._floors, self.table[final, KEY], self.ends[final])
            kept = np.flatnonzero(~final & ~merged)
            self.table = self.table[kept]
            self._link()
        self._forget(watermark)
        return kept

    def _forget(self, watermark: int) -> None:
        """Forget keys that have no session, and whose last one no row that is taken could reach."""
        ended = self._floors <= watermark - self.gap - max(self.lateness, 1)
        self._floors[(self._newest < 0) & ended] = BEFORE_TIME

    def held_keys(self) -> Array:
        """Return the keys with a session, or where a final one keeps rows from joining it."""
        return np.flatnonzero((self._newest >= 0) | (self._floors > BEFORE_TIME))

    def _know(self, keys: int) -> None:
        more = max(0, keys - len(self._newest))
        self._newest = np.concatenate((self._newest, np.full(more, -1)))
        self._floors = np.concatenate((self._floors, np.full(more, BEFORE_TIME)))

    def _link(self) -> None:
        """Link each session to the one before it."""
        self._newest[:] = -1
        alive = np.flatnonzero(self.table[:, INTO] < 0)
        order = alive[np.lexsort((self.table[alive, START], self.table[alive, KEY]))]
        keys = self.table[order, KEY]
        older = np.concatenate(([-1], order[:-1]))[: len(order)]
        older[np.concatenate(([True], keys[1:] != keys[:-1]))[: len(order)]] = -1
        self.table[order, OLDER] = older
        self._newest[keys] = order  # of several sessions of a key the last one stays: the youngest

    def save(self) -> dict[str, Array]:
        """Return the state as arrays."""
        arrays = {"sessions": self.table.ravel(), "retracted": self._retracted.ravel(), "floors": self._floors}
        return {name: array.copy() for name, array in arrays.items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        self.table = state["sessions"].reshape(-1, 8).copy()
        self._retracted = state["retracted"].reshape(-1, 4).copy()
        self._floors = state["floors"].copy()
        self._newest = np.full(len(self._floors), -1)
        self._link()

    def check(self) -> None:
        """Require that sessions of a key are apart, and none reaches back to what is final."""
        alive = self.table[self.table[:, INTO] < 0]
        alive = alive[np.lexsort((alive[:, START], alive[:, KEY]))]
        same = alive[1:, KEY] == alive[:-1, KEY]
        if (same & (alive[1:, START] <= alive[:-1, LAST] + self.gap)).any():
            raise InvariantError("two sessions of a key are no more than a gap apart")
        if (alive[:, START] > alive[:, LAST]).any() or (alive[:, COUNT] < 1).any():
            raise InvariantError("a session ends before it begins, or holds no row")
        if (alive[:, START] <= self._floors[alive[:, KEY]]).any():
            raise InvariantError("a session begins before one that is final has ended")
