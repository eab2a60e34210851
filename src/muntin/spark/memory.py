"""Streams that a worker process still has from the previous batch, so that their state need not be read again."""

from __future__ import annotations

from collections import OrderedDict

from muntin.streams.driven import DrivenStream

_BYTES = 512 << 20


class Memory:
    """An LRU cache of the streams of buckets, by the stamp of their state.

    A stream is used only if Spark's state has the same stamp, which it has not after a task failed or ran elsewhere.
    O(1).
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self.limit = limit
        self._streams: OrderedDict[str, tuple[DrivenStream, int]] = OrderedDict()
        self._used = 0

    def take(self, stamp: str) -> DrivenStream | None:
        """Return the stream with this stamp, if cached, and remove it: its state will change."""
        stream, size = self._streams.pop(stamp, (None, 0))
        self._used -= size
        return stream

    def keep(self, stamp: str, stream: DrivenStream, size: int) -> None:
        """Cache a stream; evict the least recently used ones if there are too many."""
        self._streams[stamp] = stream, size
        self._used += size
        while self._used > self.limit:
            _, (_, gone) = self._streams.popitem(last=False)
            self._used -= gone


MEMORY = Memory()
"""The cache of this process."""
