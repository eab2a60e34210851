"""Stores that fail, for the tests of whatever depends on one: `muntin.testing.faults.Faulty`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence

from muntin.errors import StoreError
from muntin.forks import Renewed
from muntin.stores.base import Lease, Store, numbered


class Faulty(Store):
    """A store that wraps another and, on demand, fails, is slow, tears values or loses what was not flushed.

    `failing` makes every operation fail until it is False again, `delay` adds that many seconds to each, `fail_next(n)`
    fails the next n operations, or those after some more, `tear_next()` makes the next `put_many` write half of its
    first value and fail. `crash()` simulates a power cut: of the writes and deletes since the last flush some are done,
    in any order, some are torn, some are lost; and all leases are gone.

    >>> from muntin import stores
    >>> store = Faulty(stores.Memory())
    >>> store.fail_next(1)
    >>> store.put_many({b"a": b"1"})
    Traceback (most recent call last):
        ...
    muntin.errors.StoreError: failed on demand
    >>> store.put_many({b"a": b"1"})
    >>> store.get_many([b"a"])
    [b'1']
    """

    def __init__(self, inner: Store, *, seed: int = 0) -> None:
        self.inner = inner
        self.failing = False
        self.delay = 0.0
        self.operations = 0
        """How many operations were asked for so far."""
        self._failures = self._spared = 0
        self._tears = False
        self._chance = random.Random(seed)
        self._lock = Renewed(threading.RLock)
        self._log: list[tuple[bytes, bytes | None]] = []
        """What was written (None: deleted) since the last flush, in order."""
        self._leases: list[Lease] = []

    def fail_next(self, count: int, *, after: int = 0) -> None:
        """Fail the next operations, or those that come after some more."""
        with self._lock():
            self._failures, self._spared = count, after

    def tear_next(self) -> None:
        """Tear the first value of the next write."""
        self._tears = True

    def crash(self) -> None:
        """Lose what was not flushed, all or in part, and all leases."""
        with self._lock():
            log, self._log = self._log, []
            self._chance.shuffle(log)
            for key, value in log:
                fate = self._chance.choice(("done", "done", "torn", "lost"))
                if fate == "done" and value is None:
                    self._delete(key)
                elif fate != "lost" and value is not None:
                    self.inner.put_many({key: value if fate == "done" else value[: len(value) // 2]})
            for lease in self._leases:
                lease.release()
            self._leases.clear()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some keys, as written last."""
        self._attempt()
        with self._lock():
            written = dict(self._log)
            found = self.inner.get_many(keys)
            return [written.get(key, value) for key, value in zip(keys, found, strict=True)]

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Set the values of some keys; unflushed, so that a crash may lose them."""
        self._attempt()
        with self._lock():
            if self._tears:
                self._tears = False
                key, value = next(iter(items.items()))
                self._log.append((key, value[: len(value) // 2]))
                raise StoreError("torn on demand")
            self._log += items.items()

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        """Set the values of some keys if one key has the expected value; unflushed, as in `put_many`."""
        with self._lock():
            if dict(self._log).get(key, self.inner.get_many([key])[0]) != expected:
                self._attempt()
                return False
            self.put_many(items)
            return True

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        """Delete a range of numbered keys; unflushed, so that a crash may bring them back."""
        self._attempt()
        keys = [numbered(prefix, n) for n in range(start, stop)]
        with self._lock():
            written = dict(self._log)
            found = self.inner.get_many(keys)
            there = [k for k, value in zip(keys, found, strict=True) if written.get(k, value) is not None]
            self._log += [(key, None) for key in there]
            return len(there)

    def flush(self) -> None:
        """Apply all pending operations."""
        self._attempt()
        with self._lock():
            log, self._log = self._log, []
            for key, value in log:
                if value is None:
                    self._delete(key)
                else:
                    self.inner.put_many({key: value})
            self.inner.flush()

    def lease(self, name: bytes) -> Lease:
        """Take the lease of a name."""
        self._attempt()
        lease = self.inner.lease(name)
        self._leases.append(lease)
        return lease

    def close(self) -> None:
        """Close the inner store."""
        self.inner.close()

    def _delete(self, key: bytes) -> None:
        number = int(key[-16:], 16)
        self.inner.delete_range(key[:-16], number, number + 1)

    def _attempt(self) -> None:
        time.sleep(self.delay)
        with self._lock():
            self.operations += 1
            if self._spared:
                self._spared -= 1
            elif self._failures:
                self._failures -= 1
                raise StoreError("failed on demand")
        if self.failing:
            raise StoreError("failing on demand")
