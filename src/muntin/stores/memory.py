"""A store that is a dict."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from muntin.errors import LeaseError
from muntin.forks import Renewed
from muntin.stores.base import Lease, Store, numbered


class Memory(Store):
    """Values in a dict of this process: nothing survives it.

    >>> store = Memory()
    >>> store.put_many({b"a": b"1"})
    >>> store.get_many([b"a", b"b"])
    [b'1', None]
    """

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._held: set[bytes] = set()
        self._lock = Renewed(threading.Lock)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some keys. O(keys)."""
        with self._lock():
            return [self._values.get(key) for key in keys]

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Set the values of some keys. O(items)."""
        with self._lock():
            self._values.update(items)

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        """Set the values of some keys if one key has the expected value; return whether it had. O(items)."""
        with self._lock():
            if self._values.get(key) != expected:
                return False
            self._values.update(items)
            return True

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        """Delete a range of numbered keys. O(stop - start)."""
        with self._lock():
            found = [self._values.pop(numbered(prefix, n), None) for n in range(start, stop)]
        return sum(value is not None for value in found)

    def flush(self) -> None:
        """Do nothing: there is nowhere to write to."""

    def lease(self, name: bytes) -> Lease:
        """Take the lease of a name."""
        with self._lock():
            if name in self._held:
                raise LeaseError(f"the window {name.decode()!r} is open already")
            self._held.add(name)
        return _MemoryLease(self._held, name)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._values)


class _MemoryLease(Lease):
    def __init__(self, held: set[bytes], name: bytes) -> None:
        self._held, self._name = held, name

    def release(self) -> None:
        held, self._held = self._held, set()
        held.discard(self._name)

    def forked(self) -> None:
        self.release()  # of this process's copy of the store
