"""Room for large results, handed out again soon after the last result in it has gone.

The system clears every page that it gives to a process: 0.8 ns a float64, as much as the rest of a sliding max. A loop
that drops each result before it computes the next pays that only once. What nobody has asked for again within
`PATIENCE` seconds goes back to the system, and never more than `MOST_BYTES` are held.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any

import numpy as np

from muntin.forks import in_child
from muntin.types import Array

LARGE = 2**20
MOST_BYTES = 2**29
PATIENCE = 1.0


class Pool:
    """Blocks of memory that are not in use, by size."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._blocks: list[Array] = []
        self._timer: threading.Timer | None = None
        in_child(self, Pool.__init__)  # no timer runs there, and the blocks are the parent's pages

    @property
    def held(self) -> int:
        """How many bytes wait to be used again."""
        return sum(block.nbytes for block in self._blocks)

    def take(self, size: int) -> Array:
        """Return a block of exactly `size` bytes, used before or new."""
        with self._lock:
            for i, block in enumerate(self._blocks):
                if block.nbytes == size:
                    return self._blocks.pop(i)
        return np.empty(size, np.uint8)

    def give(self, block: Array) -> None:
        """Take a block back, unless too much is held already."""
        with self._lock:
            if self.held + block.nbytes > MOST_BYTES:
                return
            self._blocks.append(block)
            if self._timer is None:
                self._timer = threading.Timer(PATIENCE, self.release)
                self._timer.daemon = True
                self._timer.start()

    def release(self) -> None:
        """Give everything back to the system."""
        with self._lock:
            self._blocks.clear()
            self._timer = None


_pool = Pool()


def room(rows: int, dtype: np.dtype[Any]) -> Array:
    """Return an array of this length and type to be filled; what is in it means nothing.

    >>> room(3, np.dtype("f8")).shape
    (3,)
    """
    size = rows * dtype.itemsize
    if size < LARGE or dtype.hasobject:
        return np.empty(rows, dtype)
    block = _pool.take(size)
    # Every view of the array keeps this owner alive, however it was made; when it dies no one can see the block.
    owner = (ctypes.c_char * size).from_buffer(block.data)
    weakref.finalize(owner, _pool.give, block)
    flat: Array = np.frombuffer(memoryview(owner), dtype.base)
    return flat.reshape(rows, *dtype.shape)
