"""Stretches of the order of windows, by key: where windows may have become due, or have changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from muntin.types import Array


class Spans(NamedTuple):
    """Stretches from `low` to `high`, both included; those of a key in order, and apart from one another."""

    keys: Array
    low: Array
    high: Array

    @classmethod
    def merged(cls, kernels: Any, *parts: tuple[Array, Array, Array]) -> Spans:
        """Return the union of stretches, each part its keys, low and high ends. O(m log m) for m of them."""
        keys, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((low, keys))
        keys, low, high = keys[order], low[order], high[order]
        count = kernels.merge_spans(keys, low, high)
        return cls(keys[:count], low[:count], high[:count])

    def nonempty(self) -> Spans:
        """Return those that hold anything."""
        held = self.low <= self.high
        return self if held.all() else Spans(self.keys[held], self.low[held], self.high[held])
