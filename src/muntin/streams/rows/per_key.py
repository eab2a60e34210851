"""A number per key, with a default for the keys that have none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muntin.types import Array


class PerKey:
    """A number per key, with a default."""

    def __init__(self, default: int = 0) -> None:
        """Take the number of the keys that have none."""
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

    def raise_to(self, keys: Array, values: Array) -> None:
        """Raise the numbers of keys to these, if greater."""
        self._grow(keys)
        np.maximum.at(self.values, keys, values)

    def unset(self, keys: Array) -> None:
        """Forget the numbers of some keys."""
        self.values[keys[keys < len(self.values)]] = self.default

    def keys(self) -> Array:
        """Return the keys whose number is set."""
        return np.flatnonzero(self.values != self.default)

    @property
    def nbytes(self) -> int:
        """The bytes of all numbers."""
        return self.values.nbytes

    def save(self) -> dict[str, Array]:
        """Return the keys whose number is set, and the numbers."""
        keys = self.keys()
        return {"keys": keys, "numbers": self.values[keys]}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the numbers."""
        self.values = np.zeros(0, np.int64)
        self[state["keys"]] = state["numbers"]

    def _grow(self, keys: Array) -> None:
        size = int(keys.max(initial=-1)) + 1
        if size > len(self.values):
            more = np.full(max(size, 2 * len(self.values)) - len(self.values), self.default, np.int64)
            self.values = np.concatenate((self.values, more))
