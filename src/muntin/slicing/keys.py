"""Keys as numbers: one or several columns of any type, each combination of values a small integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.types import Array

_MOST = 1 << 62


def key_numbers(columns: list[Any], rows: int) -> tuple[Array, int]:
    """Return the number of each row's key, and how many keys there are. Null is a key like any other.

    >>> key_numbers([pa.array(["b", "a", "b"]), pa.array([1, 1, None])], 3)
    (array([0, 1, 2]), 3)
    """
    if not columns:
        return np.zeros(rows, np.int64), min(rows, 1)
    numbers, count = np.zeros(rows, np.int64), 1
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        size = max(1, len(encoded.dictionary))
        if count * size >= _MOST:
            _, numbers = np.unique(numbers, return_inverse=True)
            count = int(numbers.max()) + 1
        numbers = numbers * size + encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        count *= size
    return _in_order_of_appearance(numbers)


def _in_order_of_appearance(numbers: Array) -> tuple[Array, int]:
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    rank = np.empty(len(distinct), np.int64)
    rank[np.argsort(first)] = np.arange(len(distinct))
    return rank[inverse], len(distinct)
