"""Streams that a worker process still has from the previous batch, so that their state need not be read again."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.streams.driven import DrivenStream

_BYTES = 512 << 20
_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, pa.Schema, pa.DataType)
"""What streams of one query share, with each other or with the whole process."""
_ENTERED = ("muntin.", "muntin_plain", "builtins", "collections", "functools")
"""The modules whose objects are searched for others: a stream's own, and containers."""


class Place(NamedTuple):
    """A bucket of a query, whichever worker gets it."""

    query: str
    bucket: int


class _Kept(NamedTuple):
    stamp: str
    stream: DrivenStream
    size: int


class Memory:
    """An LRU cache of the streams of buckets, at most one for each.

    A stream is used only if Spark's state has the same stamp, which it has not after a task failed or ran elsewhere. It
    is then of no use to anyone: whoever asks for the bucket has it evicted. O(1), besides counting what a stream holds.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self.limit = limit
        self._streams: OrderedDict[Place, _Kept] = OrderedDict()
        self._used = 0

    def take(self, place: Place, stamp: str | None) -> DrivenStream | None:
        """Return the stream of a bucket, if it has this stamp, and remove it: its state will change."""
        kept = self._streams.pop(place, None)
        if kept is None:
            return None
        self._used -= kept.size
        return kept.stream if kept.stamp == stamp else None

    def keep(self, place: Place, stamp: str, stream: DrivenStream) -> None:
        """Cache a stream; evict the least recently used ones if there are too many. O(objects of the stream)."""
        self.take(place, None)
        size = held_bytes(stream)
        self._streams[place] = _Kept(stamp, stream, size)
        self._used += size
        while self._used > self.limit:
            _, gone = self._streams.popitem(last=False)
            self._used -= gone.size


def held_bytes(thing: Any) -> int:
    """Return the bytes that an object holds, with all that it refers to and shares with no other. O(objects).

    A stream's own metrics count slices and keys; the room that it has for more, and its other objects, may be a hundred
    times that.

    >>> held_bytes({"a": np.zeros(1000), "b": np}) // 1000
    8
    """
    seen, found, total = set(), [thing], 0
    while found:
        each = found.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        of = type(each).__module__
        if isinstance(each, np.ndarray):
            total += sys.getsizeof(each)  # with its values, if they are its own
            if each.base is not None:
                found.append(each.base)
            if each.dtype.hasobject:
                found += each.ravel().tolist()
        elif of.startswith("pyarrow"):
            total += int(getattr(each, "nbytes", 0))
        else:
            total += sys.getsizeof(each)
            if of.startswith(_ENTERED) and not of.startswith("muntin.kernels"):
                found += gc.get_referents(each)
    return total


MEMORY = Memory()
"""The cache of this process."""
