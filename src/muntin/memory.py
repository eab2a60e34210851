"""Room for large results, and for arrays that grow.

Room for results is handed out again soon after the last result in it has gone.

The system clears every page that it gives to a process: 0.8 ns a float64, as much as the rest of a sliding max. A loop
that drops each result before it computes the next pays that only once. What nobody has asked for again within
`PATIENCE` seconds goes back to the system, and never more than `MOST_BYTES` are held.

A large array that grows has pages of its own. Linux moves these to other addresses without a look at what is in them,
in microseconds whatever their number; other systems copy them.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
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


# ---------------------------------------------------------------- arrays that grow

_LINE = 64
"""The bytes of a cache line."""
_MOVES_PAGES = sys.platform == "linux"


def zeros_to_extend(length: int, dtype: np.dtype[Any]) -> Array:
    """Return zeros that `extended` makes longer without a copy if they are many.

    >>> zeros_to_extend(3, np.dtype("i8")).tolist()
    [0, 0, 0]
    """
    size = length * dtype.itemsize
    if size < LARGE or not _MOVES_PAGES or dtype.hasobject:
        return _aligned_zeros(length, dtype)
    return _seen(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), length, dtype)


def extended(held: list[Array], length: int) -> Array:
    """Return a longer array that begins with the only one in a list, and has zeros after it.

    That one is taken out of the list, and no longer valid. Its pages are moved if nobody else holds it, or a view of
    it; else they are copied.

    >>> extended([np.ones(2)], 3).tolist()
    [1.0, 1.0, 0.0]
    """
    dtype, pages = held[0].dtype, _pages_of(held[0])
    if pages is not None:
        held.clear()
        try:
            pages.resize(length * dtype.itemsize)
        except (BufferError, OSError):  # somebody holds it, or its limit of memory is reached
            held.append(_seen(pages, len(pages) // dtype.itemsize, dtype))
        else:
            return _seen(pages, length, dtype)
    longer = zeros_to_extend(length, dtype)
    _copy(held[0], longer)
    held.clear()
    return longer


def shorten(held: list[Array], length: int) -> None:
    """Give back the end of the only array in a list, or all of it if its pages cannot be cut: the list is empty then.

    >>> held = [np.ones(3)]
    >>> shorten(held, 2)
    >>> held
    []
    """
    dtype, pages = held[0].dtype, _pages_of(held[0])
    held.clear()
    if pages is None or length < 1:
        return
    try:
        pages.resize(length * dtype.itemsize)
    except (BufferError, OSError):  # somebody holds it, and will give it back
        return
    held.append(_seen(pages, length, dtype))


def _pages_of(array: Array) -> mmap.mmap | None:
    pages = array.base.obj if isinstance(array.base, memoryview) else None
    return pages if isinstance(pages, mmap.mmap) else None


def _copy(array: Array, longer: Array) -> None:
    longer[: len(array)] = array


def _seen(pages: mmap.mmap, length: int, dtype: np.dtype[Any]) -> Array:
    return np.frombuffer(pages, dtype, length)


def _aligned_zeros(length: int, dtype: np.dtype[Any]) -> Array:
    """Return zeros aligned to a cache line, so that records span as few lines as possible."""
    if dtype.hasobject:
        return np.full(length, None, dtype)
    size = length * dtype.itemsize
    room = np.zeros(size + _LINE, np.uint8)
    begin = -int(room.__array_interface__["data"][0]) % _LINE
    return room[begin : begin + size].view(dtype)
