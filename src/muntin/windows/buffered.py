"""Windows over a buffer of rows: which rows a kind takes, when its windows are due, and which rows it needs.

A window is emitted when the watermark reaches the time at which it is due. It is final, and never changes again, when
the watermark has advanced further by the allowed lateness. Most kinds take a row within the lateness without a check;
rows behind it take the slow path, and are judged one by one.
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
"""The fate of a row. A held row is in windows of other rows, but too late for its own."""

Late = Callable[[int], int]
"""Takes, holds or rejects a late row of one key, by its place among the new rows."""


@dataclass(frozen=True)
class Terms:
    """What a query specifies for all its windows, with column types resolved."""

    time_type: ColumnType
    types: Mapping[str, ColumnType]
    lateness: int = 0
    """How long after it is due a window may change, in the unit of the times."""
    emit_empty: bool = False


@dataclass(frozen=True)
class Moment:
    """The moment at which windows are examined."""

    before: int
    """The previous watermark: windows final by then stay unchanged."""
    watermark: int
    horizon: int
    """The greatest time that the stream has seen or was advanced to."""
    fresh: int
    """The number of the first row since windows were last examined."""


@dataclass(frozen=True)
class Windows:
    """The windows of one definition among the rows of some keys."""

    found: Found
    key: Array
    due: Array
    final: Array
    """The windows that were final before."""
    name: tuple[Array, Array, Array]
    full: Array | None = None
    """Which windows by rows are full; all, if None."""

    @property
    def first_rows(self) -> Array:
        """The first row of each window."""
        found = self.found
        return found.first if found.members is None else found.members[found.first]


class BufferedWindows(ABC):
    """One definition over a buffer. This base is for windows that hold every row and end after it."""

    forgets: ClassVar[bool] = False
    """Whether rows that it no longer needs must be hidden from it, even if others need them."""

    def __init__(self, definition: Any, terms: Terms) -> None:
        self.definition = definition
        self.terms = terms
        self.lateness = terms.lateness
        self.slack = terms.lateness
        """How long after it is due a window may change."""

    # ------------------------------------------------------------ rows

    def takes(self, new: HeldRows, held: HeldRows, watermark: int) -> Array:
        """Return which of the new rows, in time order, are taken or held; `held` are the earlier ones."""
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
        """Return which rows are taken without a check."""
        return (new.times >= watermark) | (new.times > less(watermark, self.lateness))

    def late(self, key: int, held: HeldRows, new: HeldRows, watermark: int) -> Late:
        """Return a function that takes or rejects the late rows of a key, in time order."""
        raise AssertionError(f"{type(self).__name__} judges all rows at once, in `takes`")

    def note(self, taken: HeldRows) -> None:
        """Record what is needed about rows that were taken."""

    # ------------------------------------------------------------ windows

    @abstractmethod
    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        """Return the windows of the sorted rows of the active keys."""

    def sorted_rows(self, rows: HeldRows) -> SortedRows:
        """Return the rows as `find` takes them."""
        return SortedRows(rows.times, rows.ends, rows.numbers, rows.columns, self.terms.time_type, partial=True)

    def final(self, due: Array, watermark: int) -> Array:
        """Return which windows are final at a watermark."""
        return due <= less(watermark, self.slack) if watermark < END_OF_TIME else np.ones(len(due), np.bool_)

    def needed(self, rows: HeldRows, windows: Windows, final: Array, watermark: int) -> Array:
        """Return the first row still needed of each key that has rows."""
        first = rows.ends.copy()
        alive = ~final & (windows.found.first < windows.found.last)
        if alive.any():
            key = np.searchsorted(rows.present, windows.key[alive])
            np.minimum.at(first, key, windows.first_rows[alive])
        return first

    def wakes(self, rows: HeldRows, first: Array, watermark: int) -> Array:
        """Return when rows of each key can be evicted though no window becomes final; END_OF_TIME: never."""
        return np.full(len(rows.ends), END_OF_TIME)

    def wakes_without_rows(self, keys: Array, watermark: int) -> Array:
        """Return when each key has windows even if no row comes."""
        return np.full(len(keys), END_OF_TIME)

    # ------------------------------------------------------------ points

    def first_answered(self, kept_from: int) -> int:
        """Return the earliest time whose frame begins at `kept_from` or later, judged by times. Frames only."""
        return BEFORE_TIME

    def complete_at(self, rows: SortedRows, points: Points, keys: Array, *, all_known: bool) -> Array | None:
        """Return for which points no row of their frames can have been evicted; None if times decide, not rows.

        `keys` are those of the points, in order; without `all_known`, rows came before the first one kept for this
        definition. Frames only.
        """
        return None

    # ------------------------------------------------------------ state

    def dropped(self, keys: Array, counts: Array) -> None:
        """Record how many rows of keys were evicted."""

    def finalize(self, windows: Windows, final: Array, watermark: int) -> None:
        """Record what is final now."""

    def forget_keys(self, keys: Array) -> None:
        """Forget the state of keys besides rows."""

    def held_keys(self) -> Array:
        """Return the keys with any state besides rows."""
        return np.zeros(0, np.int64)

    def save(self) -> dict[str, Array]:
        """Return the state as arrays by name."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""


def less(watermark: int, span: int) -> int:
    """Return a watermark less a span; the least integer, before all time, stays."""
    return max(BEFORE_TIME, watermark - span)


def keys_of(rows: HeldRows, first: Array) -> Array:
    """Return the keys of the rows at these places."""
    return rows.keys[first] if len(first) else first


def zeros(count: int) -> Array:
    """Return `count` zeros."""
    return np.zeros(count, np.int64)


def peers(rows: HeldRows) -> Array:
    """Return how many rows of the same key and time precede each row."""
    if not len(rows):
        return rows.keys
    begins = np.append(True, (np.diff(rows.keys) != 0) | (np.diff(rows.times) != 0))
    place = np.arange(len(rows))
    return place - np.maximum.accumulate(np.where(begins, place, 0))


class ByKey:
    """A number per key, with a default."""

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
        """Return the numbers of keys, some of which may be new or -1, without making room for these."""
        inside = (keys >= 0) & (keys < len(self.values))
        found = np.full(len(keys), self.default, np.int64)
        found[inside] = self.values[keys[inside]]
        return found

    def lower(self, keys: Array, values: Array) -> None:
        """Lower the numbers of keys to these, if less."""
        self._grow(keys)
        np.minimum.at(self.values, keys, values)

    def unset(self, keys: Array) -> None:
        """Forget the numbers of some keys."""
        self.values[keys[keys < len(self.values)]] = self.default

    def keys(self) -> Array:
        """Return the keys whose number is set."""
        return np.flatnonzero(self.values != self.default)

    def _grow(self, keys: Array) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.values):
            more = np.full(max(size, 2 * len(self.values)) - len(self.values), self.default, np.int64)
            self.values = np.concatenate((self.values, more))


def begins_of(rows: HeldRows) -> Array:
    """Return the place of the first row of each key that has rows."""
    return np.concatenate(([0], rows.ends)).astype(np.int64)[: len(rows.ends)]


def newer(rows: HeldRows, watermark: int, memory: int) -> Array:
    """Return each key's first row that is not older than `memory`."""
    old = rows.times <= less(watermark, memory)
    total = np.concatenate(([0], np.cumsum(old)))
    begins = begins_of(rows)
    return begins + total[rows.ends] - total[begins]


def when_older(rows: HeldRows, first: Array, watermark: int, memory: int) -> Array:
    """Return when each key's first kept row becomes older than `memory`."""
    if not len(rows):
        return rows.ends
    when = rows.times[np.minimum(first, rows.ends - 1)] + memory
    return np.where((first < rows.ends) & (when > watermark), when, END_OF_TIME)
