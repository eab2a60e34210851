"""Keys as numbers, and as the texts that a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.types import Array

NO_KEY = "all rows"
_LONGEST = 60


class Keys:
    """Numbers for keys, in the order in which they came, and a text for each."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.texts: list[str] = []
        """The text of each key, by its number."""
        self._numbers: dict[str, int] = {}

    def numbers(self, table: pa.Table) -> Array:
        """Return the number of the key of each row. O(rows), and a look-up for each key among them."""
        codes = np.zeros(table.num_rows, np.int64)
        for name in self.names:
            column = pc.dictionary_encode(table[name].combine_chunks(), null_encoding="encode")
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            codes = codes * max(1, len(column.dictionary)) + column.indices.to_numpy()
            codes = np.unique(codes, return_inverse=True)[1]  # small again, whatever the number of columns
        _, rows, places = np.unique(codes, return_index=True, return_inverse=True)
        found = np.empty(len(rows), np.int64)
        for i in np.argsort(rows).tolist():  # in the order of arrival
            found[i] = self._number([table[name][int(rows[i])].as_py() for name in self.names])
        return found[places]

    def _number(self, values: Sequence[Any]) -> int:
        identity = repr(values)
        if identity not in self._numbers:
            self._numbers[identity] = len(self.texts)
            self.texts.append(_text(values))
        return self._numbers[identity]


def _text(values: Sequence[Any]) -> str:
    """Return a key for people.

    >>> _text(["north", 3]), _text([])
    ('north, 3', 'all rows')
    """
    text = ", ".join("null" if value is None else str(value) for value in values) or NO_KEY
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
