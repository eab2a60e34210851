"""What every kind of window asks of a buffer of rows: which it takes, when its windows are due, and what it needs.

A window is due at a time: it is emitted when the watermark reaches that. It is final when the watermark has gone on
by the allowed lateness: it never changes again. A row that is not behind the lateness is taken by most kinds without
asking; one that is goes the slow way, and is asked about one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.types import Array, ColumnType
from muntin.windows.found import Found, Points, SortedRows
from muntin.windows.held_rows import HeldRows

REFUSED, TAKEN, HELD = 0, 1, 2
"""What becomes of a row. One that is held is in windows of other rows, but late for the one that it would have."""

Late = Callable[[int], int]
"""Takes a late row of one key, by its place among the new rows, or holds or refuses it."""


@dataclass(frozen=True)
class Terms:
    """What a query says of all its windows, with the types of the columns known."""

    time_type: ColumnType
    types: Mapping[str, ColumnType]
    lateness: int = 0
    """For how long after it was due a window may change, in the unit of the times."""
    emit_empty: bool = False


@dataclass(frozen=True)
class Moment:
    """When windows are looked at."""

    before: int
    """The watermark up to now: what was final by it stays as it is."""
    watermark: int
    horizon: int
    """The greatest time that the stream has seen or was advanced to."""
    fresh: int
    """The number of the first row that came since windows were last looked at."""


@dataclass(frozen=True)
class Windows:
    """The windows of one definition among the rows of some keys."""

    found: Found
    key: Array
    due: Array
    final: Array
    """Those that were final before."""
    name: tuple[Array, Array, Array]
    full: Array | None = None
    """Which windows by rows are full; all, if None."""

    @property
    def first_rows(self) -> Array:
        """The first row of each window."""
        found = self.found
        return found.first if found.members is None else found.members[found.first]


class BufferedWindows(ABC):
    """One definition over a buffer. This one is for windows that hold every row and end after it."""

    forgets: ClassVar[bool] = False
    """Whether rows that it does not need must be out of its sight, though others need them."""

    def __init__(self, definition: Any, terms: Terms) -> None:
        self.definition = definition
        self.terms = terms
        self.lateness = terms.lateness
        self.slack = terms.lateness
        """For how long after it was due a window may change."""

    # ------------------------------------------------------------ rows

    def takes(self, new: HeldRows, held: HeldRows, watermark: int) -> Array:
        """Return which of the new rows, in the order of time, are taken or held; `held` are those that were."""
        taken = self.punctual(new, watermark).astype(np.int8)
        slow = np.flatnonzero(taken == REFUSED)
        slow = slow[np.argsort(new.keys[slow], kind="stable")]
        for group in np.split(slow, np.flatnonzero(np.diff(new.keys[slow])) + 1):
            if len(group):
                key = int(new.keys[group[0]])
                late = self.late(key, held.take(held.of_key(key)), new, watermark)
                for row in group:
                    taken[row] = late(int(row))
        return taken

    def punctual(self, new: HeldRows, watermark: int) -> Array:
        """Return which rows are taken without asking."""
        return (new.times >= watermark) | (new.times > less(watermark, self.lateness))

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        """Return what takes or refuses the late rows of a key, in the order of time."""
        raise AssertionError(f"{type(self).__name__} judges all rows at once, in `takes`")

    def note(self, taken: HeldRows) -> None:
        """Note something of rows that were taken."""

    # ------------------------------------------------------------ windows

    @abstractmethod
    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        """Return the windows of the sorted rows of the keys that are active."""

    def sorted_rows(self, rows: HeldRows) -> SortedRows:
        """Return the rows as `find` takes them."""
        return SortedRows(rows.times, rows.ends, rows.numbers, rows.columns, self.terms.time_type, partial=True)

    def final(self, due: Array, watermark: int) -> Array:
        """Return which windows never change again at a watermark."""
        return due <= less(watermark, self.slack) if watermark < END_OF_TIME else np.ones(len(due), np.bool_)

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        """Return for each key that has rows the first that is still needed."""
        first = rows.ends.copy()
        alive = ~final & (windows.found.first < windows.found.last)
        if alive.any():
            key = np.searchsorted(rows.present, windows.key[alive])
            np.minimum.at(first, key, windows.first_rows[alive])
        return first

    def wakes(self, rows: HeldRows, first: Array, watermark: int) -> Array:
        """Return for each key with rows when some can be evicted though no window becomes final; END_OF_TIME: never."""
        return np.full(len(rows.ends), END_OF_TIME)

    def wakes_without_rows(self, keys: Array, watermark: int) -> Array:
        """Return for each key when it has windows though no row comes."""
        return np.full(len(keys), END_OF_TIME)

    # ------------------------------------------------------------ points

    def first_answered(self, kept_from: int) -> int:
        """Return the least time whose frame begins at a time or later, as far as times tell. Frames only."""
        return BEFORE_TIME

    def complete_at(self, rows: SortedRows, points: Points, keys: Array, *, all_known: bool) -> Array | None:
        """Return for which points no row of their frames can have been let go; None where times tell, and not rows.

        `keys` are those that the points have, one after the other; without `all_known`, rows came before the first
        one that was kept for this definition. Frames only.
        """
        return None

    # ------------------------------------------------------------ state

    def dropped(self, keys: Array, counts: Array) -> None:
        """Note how many rows of keys were let go."""

    def finalize(self, windows: Windows, final: Array, watermark: int) -> None:
        """Note what is final now."""

    def forget_keys(self, keys: Array) -> None:
        """Forget all that is known of keys besides rows."""

    def held_keys(self) -> Array:
        """Return keys of which something is known besides rows."""
        return np.zeros(0, np.int64)

    def save(self) -> dict[str, Array]:
        """Return the state as arrays by name."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


def less(watermark: int, span: int) -> int:
    """Return a watermark less a span; the least integer is before all time, and stays so."""
    return max(BEFORE_TIME, watermark - span)


def keys_of(rows: HeldRows, first: Array) -> Array:
    """Return the keys of the rows at these places."""
    return rows.keys[first] if len(first) else first


def zeros(count: int) -> Array:
    """Return `count` zeros."""
    return np.zeros(count, np.int64)


def peers(rows: HeldRows) -> Array:
    """Return for each row how many rows of its key and time are before it."""
    if not len(rows):
        return rows.keys
    begins = np.append(True, (np.diff(rows.keys) != 0) | (np.diff(rows.times) != 0))
    place = np.arange(len(rows))
    return place - np.maximum.accumulate(np.where(begins, place, 0))


class ByKey:
    """A number for each key, zero unless it was set."""

    def __init__(self, default: int = 0) -> None:
        self.default = default
        self.values = np.zeros(0, np.int64)

    def __getitem__(self, keys: Array) -> Array:
        """Return the numbers of some keys."""
        self._grow(keys)
        return self.values[keys]

    def __setitem__(self, keys: Array, values: Array) -> None:
        """Set the numbers of some keys."""
        self._grow(keys)
        self.values[keys] = values

    def known(self, keys: Array) -> Array:
        """Return the numbers of keys of which some may be new, or -1, and make no room for these."""
        inside = (keys >= 0) & (keys < len(self.values))
        found = np.full(len(keys), self.default, np.int64)
        found[inside] = self.values[keys[inside]]
        return found

    def lower(self, keys: Array, values: Array) -> None:
        """Lower the numbers of keys to these, where they are less."""
        self._grow(keys)
        np.minimum.at(self.values, keys, values)

    def unset(self, keys: Array) -> None:
        """Forget the numbers of some keys."""
        self.values[keys[keys < len(self.values)]] = self.default

    def keys(self) -> Array:
        """Return the keys whose number was set."""
        return np.flatnonzero(self.values != self.default)

    def _grow(self, keys: Array) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.values):
            more = np.full(max(size, 2 * len(self.values)) - len(self.values), self.default, np.int64)
            self.values = np.concatenate((self.values, more))


def begins_of(rows: HeldRows) -> Array:
    """Return for each key that has rows the place of its first."""
    return np.concatenate(([0], rows.ends)).astype(np.int64)[: len(rows.ends)]


def newer(rows: HeldRows, watermark: int, memory: int) -> Array:
    """Return for each key its first row that is not older than so much."""
    old = rows.times <= less(watermark, memory)
    total = np.concatenate(([0], np.cumsum(old)))
    begins = begins_of(rows)
    return begins + total[rows.ends] - total[begins]


def when_older(rows: HeldRows, first: Array, watermark: int, memory: int) -> Array:
    """Return for each key when its first row that is kept is older than so much."""
    if not len(rows):
        return rows.ends
    when = rows.times[np.minimum(first, rows.ends - 1)] + memory
    return np.where((first < rows.ends) & (when > watermark), when, END_OF_TIME)
