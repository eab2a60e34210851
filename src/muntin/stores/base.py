"""The interface of a store: five operations on bytes, a sixth that has a default, and a lease.

A store raises `StoreError` when it cannot do what it is asked now, and then has done all of a `put_many` or nothing
that anyone can mistake for it: what reads the values checks them. Any thread may call it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence


def numbered(prefix: bytes, number: int) -> bytes:
    """Return a key of a numbered series; keys of one series sort like their numbers.

    >>> numbered(b"a/", 10)
    b'a/000000000000000a'
    """
    return prefix + b"%016x" % number


class Lease(ABC):
    """The right to write one window, held until it is released or its holder is dead."""

    seconds: float | None = None
    """How often it must be renewed; None: never."""

    def renew(self) -> None:
        """Extend the lease; `LeaseError` if another holds it now."""

    @abstractmethod
    def release(self) -> None:
        """Release the lease. Idempotent."""

    def forked(self) -> None:
        """Let go, in a fork, of what only this process has of it: the parent goes on to hold the lease.

        `release` is called after it, and must not release the lease of the parent.
        """


class Store(ABC):
    """Keys and values, both bytes."""

    @abstractmethod
    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some keys, None for missing ones."""

    @abstractmethod
    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Set the values of some keys."""

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        """Set the values of some keys if one key has the expected value (None: has none); return whether it had.

        A store shared by several processes does both atomically, so that a stalled process cannot overwrite what
        another has written since. This default checks first, and then writes.
        """
        if self.get_many([key])[0] != expected:
            return False
        self.put_many(items)
        return True

    @abstractmethod
    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        """Delete the keys `numbered(prefix, n)` for n in [start, stop); return how many there were."""

    @abstractmethod
    def flush(self) -> None:
        """Return when everything put is as durable as this store can make it."""

    @abstractmethod
    def lease(self, name: bytes) -> Lease:
        """Take the lease of a name; `LeaseError` if a living holder has it."""

    def close(self) -> None:
        """Release what the store holds: connections, files."""
