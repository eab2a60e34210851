"""Windows that were found among slices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.types import Array


@dataclass(slots=True, eq=False)
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
    def without_slices(cls, names: tuple[Array, ...], rows: Array) -> Found:
        """Return windows by their names, of which no slices are left."""
        keys, definitions, start, end = names
        nothing = np.zeros(len(keys), np.int64)
        return cls(keys, definitions, start, end, nothing, nothing, rows)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """All but the rows, as kernels take them."""
        return self.keys, self.definitions, self.start, self.end, self.first, self.last

    @property
    def names(self) -> tuple[Array, ...]:
        """What tells a window from all others: its key, definition and bounds."""
        return self.keys, self.definitions, self.start, self.end

    def pick(self, chosen: Array) -> Found:
        """Return some of the windows: their numbers, or where they are."""
        rows = self.rows[chosen] if len(self.rows) else self.rows
        keys, definitions, start, end, first, last = (array[chosen] for array in self.arrays)
        return Found(keys, definitions, start, end, first, last, rows)
