"""Windows found among slices."""

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
    """The number of rows of each; empty if rows are not counted."""

    @classmethod
    def without_slices(cls, names: tuple[Array, ...], rows: Array) -> Found:
        """Return windows by their names, with no slices left."""
        keys, definitions, start, end = names
        nothing = np.zeros(len(keys), np.int64)
        return cls(keys, definitions, start, end, nothing, nothing, rows)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that kernels take: all but the rows."""
        return self.keys, self.definitions, self.start, self.end, self.first, self.last

    @property
    def names(self) -> tuple[Array, ...]:
        """The identity of each window: its key, definition and bounds."""
        return self.keys, self.definitions, self.start, self.end

    def pick(self, chosen: Array) -> Found:
        """Return some of the windows, by their numbers or a mask."""
        rows = self.rows[chosen] if len(self.rows) else self.rows
        keys, definitions, start, end, first, last = (array[chosen] for array in self.arrays)
        return Found(keys, definitions, start, end, first, last, rows)
