"""What was said of windows that may still change: how many rows they had, and which revision it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from muntin.types import Array


@dataclass(frozen=True)
class Found:
    """Windows, and the slots [first, last) of their slices."""

    keys: Array
    definitions: Array
    start: Array
    end: Array
    first: Array
    last: Array
    rows: Array
    """How many rows each holds; nothing where that is not counted."""

    @classmethod
    def of_length(cls, count: int) -> Found:
        """Return room for so many windows."""
        keys, definitions, start, end, first, last = (np.empty(count, np.int64) for _ in range(6))
        return cls(keys, definitions, start, end, first, last, np.zeros(0, np.int64))

    def cut(self, count: int, rows: Array) -> Found:
        """Return the first windows, with the number of their rows."""
        keys, definitions, start, end, first, last = (array[:count] for array in self.arrays)
        return Found(keys, definitions, start, end, first, last, rows)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All but the rows, as kernels take them."""
        return self.keys, self.definitions, self.start, self.end, self.first, self.last

    def pick(self, chosen: Array) -> Found:
        """Return some of the windows: their numbers, or where they are."""
        rows = self.rows[chosen] if len(self.rows) else self.rows
        keys, definitions, start, end, first, last = (array[chosen] for array in self.arrays)
        return Found(keys, definitions, start, end, first, last, rows)


def matched(known: Found | Records, wanted: Found) -> Array:
    """Return for each wanted window its number among the known ones, of which no two are equal; -1 where there is none.

    O(n log n).
    """
    count = len(known.keys)
    sides = np.concatenate((np.zeros(count, np.int64), np.ones(len(wanted.keys), np.int64)))
    columns = [np.concatenate((a, b)) for a, b in zip(_names(known), _names(wanted), strict=True)]
    order = np.lexsort((sides, *columns))
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for column in columns:
        same &= column[order[1:]] == column[order[:-1]]
    found = np.full(len(wanted.keys), -1, np.int64)
    found[order[1:][same] - count] = order[:-1][same]
    return found


def _names(windows: Found | Records) -> tuple[Array, ...]:
    return windows.keys, windows.definitions, windows.start, windows.end


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass
class Records:
    """Windows that were emitted, and not as revision 0 once and for all."""

    keys: Array
    definitions: Array
    start: Array
    end: Array
    rows: Array
    revision: Array
    retracted: Array

    @classmethod
    def empty(cls) -> Records:
        """Return a record of nothing."""
        return cls(*(_none() for _ in fields(cls)))

    def __len__(self) -> int:
        """Return how many windows are on record."""
        return len(self.keys)

    def revisions(self, found: Found, emitted: Array) -> Array:
        """Return the number of each window's next revision; those not on record were `emitted` once, or never."""
        known = matched(self, found)
        numbers = emitted.astype(np.int64)
        numbers[known >= 0] = self.revision[known[known >= 0]] + 1
        return numbers

    def changed(self, found: Found) -> Array:
        """Return which windows are not on record as they are."""
        known = matched(self, found)
        changed = known < 0
        on_record = known[~changed]
        changed[~changed] = (self.rows[on_record] != found.rows[~changed]) | (self.retracted[on_record] != 0)
        return changed

    def vanished(self, found: Found) -> Found:
        """Return the windows on record, and not retracted, that are not among those found."""
        known = matched(self, found)
        gone = self.retracted == 0
        gone[known[known >= 0]] = False
        nothing = np.zeros(int(gone.sum()), np.int64)
        return Found(
            self.keys[gone], self.definitions[gone], self.start[gone], self.end[gone], nothing, nothing, self.rows[gone]
        )

    def note(self, found: Found, revision: Array, *, retracted: bool = False) -> None:
        """Put windows on record as they are emitted."""
        known = matched(self, found)
        kept = np.ones(len(self), np.bool_)
        kept[known[known >= 0]] = False
        entry = (*_names(found), found.rows, revision, np.full(len(found.keys), int(retracted)))
        for field, array in zip(fields(self), entry, strict=True):
            setattr(self, field.name, np.concatenate((getattr(self, field.name)[kept], array)))

    def keep(self, kept: Array) -> None:
        """Forget the others."""
        if len(self) and not kept.all():
            for field in fields(self):
                setattr(self, field.name, getattr(self, field.name)[kept])

    def renumber(self, places: Array) -> None:
        """Follow definitions that have moved; forget those that are no more, at -1."""
        self.definitions = places[self.definitions]
        self.keep(self.definitions >= 0)

    def save(self) -> dict[str, Array]:
        """Return the record as arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Take over what `save` returned."""
        for field in fields(self):
            setattr(self, field.name, arrays[field.name])
