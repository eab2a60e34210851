"""Numbers as integers of the same order, so that one set of kernels handles values of every type.

An integer is its own key. The bits of a non-negative float ascend with it; those of a negative one descend, and are
flipped. All NaN share one key, greater than any number, as in Spark SQL; -0.0 comes just before 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.kernels.vocabulary import Ints, kernel
from muntin.types import Array

TOP_BIT = -(2**63)


@kernel
def value_of(key: int, turned: Ints, kind: Any) -> Any:
    """Return the number of a key, in the type of the array `kind`. Its bytes are the first ones of the word."""
    word = np.empty(1, np.int64)
    word[0] = key ^ ((key >> 63) & turned[0]) ^ turned[1]
    return word.view(kind.dtype)[0]


@dataclass(frozen=True)
class OrderKeys:
    """Converts numbers of one type to keys and back.

    >>> keys = OrderKeys(np.dtype("f8"))
    >>> order = keys.of(np.array([np.nan, -2.0, np.inf, -0.0, 1.0])).argsort()
    >>> order.tolist()
    [1, 3, 4, 2, 0]
    """

    dtype: np.dtype[Any]

    @property
    def kind(self) -> Array:
        """An empty array of the type in which kernels get the numbers: a boolean is 0 or 1 there."""
        return np.zeros(0, np.uint8 if self.dtype.kind == "b" else self.dtype)

    @property
    def turned(self) -> Array:
        """The bits flipped in negative keys, and those flipped in all."""
        negative = 2 ** (8 * self.dtype.itemsize - 1) - 1 if self.dtype.kind == "f" else 0
        return np.array([negative, TOP_BIT if self.dtype == np.uint64 else 0], np.int64)

    def of(self, values: Array) -> Array:
        """Return the keys of values as a new array. O(n)."""
        if self.dtype.kind != "f":
            keys = values.view(np.int64) ^ TOP_BIT if self.dtype == np.uint64 else values.astype(np.int64)
            return np.asarray(keys, np.int64)
        negative = int(self.turned[0])
        bits = values.view(f"i{self.dtype.itemsize}").astype(np.int64)
        keys = bits >> 63
        keys &= negative
        keys ^= bits
        nan = np.isnan(values)
        if nan.any():
            keys[nan] = np.array(np.nan, self.dtype).view(f"i{self.dtype.itemsize}")
        return keys
