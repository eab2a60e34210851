"""Keys as numbers, and as texts for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.keys.table import key_numbers
from muntin.types import Array

NO_KEY = "all rows"
_LONGEST = 60


class Keys:
    """Numbers for keys, in order of arrival, and a text for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.texts: list[str] = []
        """The text of each key, by its number."""
        self._numbers: dict[str, int] = {}

    def numbers(self, table: pa.Table) -> Array:
        """Return the number of each row's key. O(rows), and a lookup per distinct key.

        Not one `KeyTable` for all tables: a column may have another type in the next file of a folder.
        """
        numbers, _ = key_numbers([table[name] for name in self.names], table.num_rows)
        rows = np.unique(numbers, return_index=True)[1]  # in order of arrival, as keys are numbered
        cells = [table[name].take(pa.array(rows)).to_pylist() for name in self.names]
        found = [self._number(list(key)) for key in (zip(*cells, strict=True) if cells else [()])]
        return np.array(found, np.int64)[numbers]

    def _number(self, values: Sequence[Any]) -> int:
        identity = repr(values)
        if identity not in self._numbers:
            self._numbers[identity] = len(self.texts)
            self.texts.append(_text(values))
        return self._numbers[identity]


def _text(values: Sequence[Any]) -> str:
    """Return a key as readable text.

    >>> _text(["north", 3]), _text([])
    ('north, 3', 'all rows')
    """
    text = ", ".join("null" if value is None else str(value) for value in values) or NO_KEY
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
