"""Streams that a worker process still has from the batch before, so that their state need not be read again."""

from __future__ import annotations

from collections import OrderedDict

from muntin.streams.driven import DrivenStream

_BYTES = 256 << 20


class Memory:
    """The streams of buckets that were called last, by the stamp of the state that they are in.

    A stream is only used where Spark's state has the same stamp: after a task has failed, or has run elsewhere, it has
    not. O(1).
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self.limit = limit
        self._streams: OrderedDict[str, tuple[DrivenStream, int]] = OrderedDict()
        self._used = 0

    def take(self, stamp: str) -> DrivenStream | None:
        """Return the stream in a state, if it is at hand, and forget it: it will be in another one soon."""
        stream, size = self._streams.pop(stamp, (None, 0))
        self._used -= size
        return stream

    def keep(self, stamp: str, stream: DrivenStream, size: int) -> None:
        """Keep a stream; those that were not used for longest go, where there are too many."""
        self._streams[stamp] = stream, size
        self._used += size
        while self._used > self.limit:
            _, (_, gone) = self._streams.popitem(last=False)
            self._used -= gone


MEMORY = Memory()
"""This process's."""
