"""The courier: writes and deletes chunks of a store in the background, and retries when that fails.

Pending values stay in memory until the store has them, and can be read from there. When the store fails the courier
retries, with pauses that double up to a second, as long as it lives: nothing is lost. A caller waits for `patience`
seconds, then gets a `StoreError`, and may retry. An error that is not the store's, such as a state that cannot be
serialised, would only recur: the caller gets it at once.

A lost lease closes the courier. Any call after it is closed raises an error.
"""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from muntin.errors import DamagedChunkError, InvalidArgumentError, LeaseError, StoreError
from muntin.forks import in_child
from muntin.stores.base import Lease, Store
from muntin.types import is_finite_number

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
MOMENT = 1.0
"""Seconds to wait for the thread of a window that was collected as garbage."""
MOST_WAITING = 64
"""The most chunks that may wait to be written before an insert blocks."""
BATCH = 32
KEPT = 1 << 22
"""Bytes of a block that is freed once per window. The C library of Linux then keeps twice as much freed memory for the
next values, as after any large block of a program. By default it gives freed values of 64 KiB back to the system, which
clears their pages again: 40 bytes written and read took 53 ns in LMDB instead of 19, 135 in Redis instead of 85."""


class Clock:
    """The clock of a courier: the machine's."""

    def now(self) -> float:
        """Return seconds since a fixed moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)

    def pause(self, changed: threading.Condition, until: Callable[[], bool], seconds: float) -> bool:
        """Wait for `seconds`, holding the lock of `changed`; return early, with True, once `until` holds."""
        return changed.wait_for(until, seconds)


def require_patience(seconds: Any) -> float:
    """Return the seconds to wait for the store; reject what is not a number."""
    for_ever = isinstance(seconds, float) and seconds == math.inf
    if not (for_ever or (is_finite_number(seconds) and seconds >= 0)):
        raise InvalidArgumentError(f"patience is {seconds!r}; give a number of seconds")
    return float(seconds)


class Courier:
    """A thread that writes and deletes, and one that reads ahead, for one window."""

    def __init__(self, store: Store, lease: Lease, patience: float, clock: Clock | None = None) -> None:
        self.store, self.lease, self.patience = store, lease, patience
        bytes(KEPT)
        self._clock = Clock() if clock is None else clock
        self._jobs: collections.deque[Callable[[], None] | bytes] = collections.deque()
        """Keys to write, whose values are in `_waiting`, and other jobs, in order."""
        self._waiting: dict[bytes, Callable[[], bytes]] = {}
        self._busy = False
        self._changed = threading.Condition()
        self._closed = False
        self._failure: Exception | None = None
        """The error of the last attempt; None if it succeeded."""
        self._thread = threading.Thread(target=self._work, name="muntin-courier", daemon=True)
        self._thread.start()
        self._readers = ThreadPoolExecutor(1, "muntin-reader")
        in_child(self, Courier._forked)

    def _forked(self) -> None:
        """Close the window's copy in a fork, which has neither the threads nor the lease."""
        self._changed = threading.Condition()
        self._closed = True
        self._failure = LeaseError(
            "the window is open in the process that this one was forked from, which goes on with it: open it after the "
            "fork, or in one of the two alone"
        )
        self.lease.forked()

    # ------------------------------------------------------------ called by the window

    def require_open(self) -> None:
        """Raise an error if the window is closed, or taken over by another process."""
        if isinstance(self._failure, LeaseError):
            raise LeaseError(str(self._failure)) from self._failure
        if self._closed:
            raise StoreError("the window is closed; MonoidTree.open opens it again")

    def put_all(self, values: Mapping[bytes, Callable[[], bytes]]) -> None:
        """Schedule values to be written; each is created when needed."""
        with self._changed:
            self._waiting.update(values)
            self._jobs.extend(values)
            self._changed.notify_all()

    def has_room(self, chunks: int) -> None:
        """Wait until there is room for `chunks` values."""
        with self._changed:
            self._wait(lambda: len(self._waiting) + chunks <= MOST_WAITING)

    def withdraw(self, key: bytes) -> bool:
        """Cancel the writing of a value; False if it may already be written."""
        with self._changed:
            return not self._busy and self._waiting.pop(key, None) is not None

    def later(self, job: Callable[[], None]) -> None:
        """Run a job after all earlier ones."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until all jobs are done."""
        with self._changed:
            self._wait(lambda: not self._jobs and not self._busy)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values, from pending writes or from the store; retry for a while if that fails."""
        waiting = {key: self._waiting.get(key) for key in keys}
        stored = [key for key, value in waiting.items() if value is None]
        found = dict(zip(stored, self.insist(lambda: self.store.get_many(stored)), strict=True)) if stored else {}
        return [found.get(key) if value is None else value() for key, value in waiting.items()]

    def ahead(self, read: Callable[[], T]) -> Future[T]:
        """Run a read in the background."""
        return self._readers.submit(read)

    def insist(self, action: Callable[[], T]) -> T:
        """Run an action on the store; retry, with pauses, up to the limit."""
        self.require_open()
        deadline = self._clock.now() + self.patience
        pause = FIRST_PAUSE
        while True:
            try:
                return action()
            except (DamagedChunkError, LeaseError):
                raise
            except StoreError as error:
                if self._clock.now() + pause > deadline:
                    raise StoreError(f"the store has failed for {self.patience} s; the window is unchanged") from error
            self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def close(self) -> None:
        """Stop, without waiting for pending jobs; the lease is released then."""
        self._stop(None)

    def abandon(self) -> None:
        """Stop after a window that nobody refers to any more.

        Its garbage may be collected anywhere, also where this thread is inside the store and holds what the other one
        waits for: so it is waited for only a moment, and releases the lease whenever it ends.
        """
        self._stop(MOMENT)

    def _stop(self, patience: float | None) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._readers.shutdown(wait=False, cancel_futures=True)
        if threading.current_thread() is not self._thread:
            self._thread.join(patience)

    # ------------------------------------------------------------ the thread

    def _wait(self, holds: Callable[[], bool]) -> None:
        """Wait, holding the lock, for the thread to make a condition hold."""
        self.require_open()
        deadline = self._clock.now() + self.patience
        while not holds():
            self.require_open()
            if self._failure is not None and not isinstance(self._failure, StoreError):
                raise StoreError(
                    f"cannot write to the store: {self._failure!r}; what it has not taken is kept in memory"
                ) from self._failure
            left = deadline - self._clock.now()
            if left <= 0:
                raise StoreError(
                    f"the store has not kept up for {self.patience} s; what it has not taken is kept in memory"
                ) from self._failure
            self._changed.wait(min(left, 0.5))

    def _work(self) -> None:
        try:
            self._deliver()
        finally:
            self.lease.release()

    def _deliver(self) -> None:
        """Do what is asked for, and renew the lease, until the courier is closed."""
        due = self._clock.now()
        while True:
            with self._changed:
                while not self._jobs and not self._closed:
                    self._changed.wait(self.lease.seconds)
                    if self.lease.seconds is not None and self._clock.now() >= due:
                        break
                if self._closed:
                    return
                job = self._next()
            if self.lease.seconds is not None and self._clock.now() >= due:
                self._retry(self.lease.renew)
                due = self._clock.now() + self.lease.seconds
            if job is not None and not self._closed:
                self._retry(job)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        """Take the next job: consecutive values are written at once."""
        batch: dict[bytes, Callable[[], bytes]] = {}
        while self._jobs and len(batch) < BATCH:
            job = self._jobs[0]
            if not isinstance(job, bytes):
                if batch:
                    break
                self._busy = True
                self._jobs.popleft()
                return job
            self._jobs.popleft()
            if job in self._waiting:
                batch[job] = self._waiting[job]
        self._busy = bool(batch)
        return (lambda: self._write(batch)) if batch else None

    def _write(self, batch: dict[bytes, Callable[[], bytes]]) -> None:
        self.store.put_many({key: value() for key, value in batch.items()})
        with self._changed:
            for key in batch:
                self._waiting.pop(key, None)

    def _retry(self, action: Callable[[], Any]) -> None:
        """Run an action until it succeeds; a lost lease, or closing, ends it."""
        pause = FIRST_PAUSE
        while not self._attempt(action):
            with self._changed:
                if self._clock.pause(self._changed, lambda: self._closed, pause):
                    return
            if self.lease.seconds is not None and action != self.lease.renew:
                self._attempt(self.lease.renew)
            pause = min(2 * pause, LONGEST_PAUSE)
        if not self._closed:
            self._failure = None

    def _attempt(self, action: Callable[[], Any]) -> bool:
        """Run an action; return whether it is done, and keep the error if not."""
        try:
            action()
        except LeaseError as error:
            with self._changed:
                self._failure, self._closed = error, True
                self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread goes on, and the waiting caller gets it
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            return False
        return True
