"""The courier: writes chunks to a store, and deletes them, in the background; and waits, for a while, when it fails.

What is to be written stays in memory until the store has it, and can be read from there. When the store fails the
courier tries again, with pauses that double up to a second, for as long as it lives: nothing is lost. Whoever waits
for it waits for `patience` seconds, then gets a `StoreError`, and may come again. An error that is not the store's,
such as a state that cannot be written as bytes, would only come again: who waits gets it at once.

A lease that is lost closes the courier. Whoever asks it for anything after it was closed gets an error.
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
from muntin.stores.base import Lease, Store
from muntin.types import is_finite_number

T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
MOST_WAITING = 64
"""How many chunks may wait to be written before an insert waits for them."""
BATCH = 32


class Clock:
    """The time that a courier waits by: the machine's."""

    def now(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)

    def pause(self, changed: threading.Condition, until: Callable[[], bool], seconds: float) -> bool:
        """Wait for `seconds`, the lock of `changed` held; return early, with True, once `until` holds."""
        return changed.wait_for(until, seconds)


def require_patience(seconds: Any) -> float:
    """Return for how long the store is waited for; reject what is no number of seconds."""
    for_ever = isinstance(seconds, float) and seconds == math.inf
    if not (for_ever or (is_finite_number(seconds) and seconds >= 0)):
        raise InvalidArgumentError(f"patience is {seconds!r}; give a number of seconds")
    return float(seconds)


class Courier:
    """One thread that writes and deletes, one that reads ahead; both for one window."""

    def __init__(self, store: Store, lease: Lease, patience: float, clock: Clock | None = None) -> None:
        self.store, self.lease, self.patience = store, lease, patience
        self._clock = Clock() if clock is None else clock
        self._jobs: collections.deque[Callable[[], None] | bytes] = collections.deque()
        """Keys to be written, whose values are in `_waiting`, and other things to do, in their order."""
        self._waiting: dict[bytes, Callable[[], bytes]] = {}
        self._busy = False
        self._changed = threading.Condition()
        self._closed = False
        self._failure: Exception | None = None
        """Why the last attempt failed; None if it has not."""
        self._thread = threading.Thread(target=self._work, name="muntin-courier", daemon=True)
        self._thread.start()
        self._readers = ThreadPoolExecutor(1, "muntin-reader")

    # ------------------------------------------------------------ what the window calls

    def require_open(self) -> None:
        """Reject to go on once the window is closed, or another's."""
        if isinstance(self._failure, LeaseError):
            raise LeaseError(str(self._failure)) from self._failure
        if self._closed:
            raise StoreError("the window is closed; MonoidTree.open opens it again")

    def put_all(self, values: Mapping[bytes, Callable[[], bytes]]) -> None:
        """Write values soon; each is made when it is needed."""
        with self._changed:
            self._waiting.update(values)
            self._jobs.extend(values)
            self._changed.notify_all()

    def has_room(self, chunks: int) -> None:
        """Wait until `chunks` values can be put without waiting."""
        with self._changed:
            self._wait(lambda: len(self._waiting) + chunks <= MOST_WAITING)

    def withdraw(self, key: bytes) -> bool:
        """Do not write a value any more; False if it may have been written already."""
        with self._changed:
            return not self._busy and self._waiting.pop(key, None) is not None

    def later(self, job: Callable[[], None]) -> None:
        """Do something after all that was asked for before."""
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()

    def finish(self) -> None:
        """Return when everything that was asked for is done."""
        with self._changed:
            self._wait(lambda: not self._jobs and not self._busy)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values, from what waits to be written or from the store; try again for a while if that fails."""
        waiting = {key: self._waiting.get(key) for key in keys}
        stored = [key for key, value in waiting.items() if value is None]
        found = dict(zip(stored, self.insist(lambda: self.store.get_many(stored)), strict=True)) if stored else {}
        return [found.get(key) if value is None else value() for key, value in waiting.items()]

    def ahead(self, read: Callable[[], T]) -> Future[T]:
        """Read something in the background."""
        return self._readers.submit(read)

    def insist(self, action: Callable[[], T]) -> T:
        """Do something with the store; try again, with pauses, up to the limit."""
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
        """Stop, without waiting for what is not done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._readers.shutdown(wait=False, cancel_futures=True)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.lease.release()

    # ------------------------------------------------------------ the thread

    def _wait(self, holds: Callable[[], bool]) -> None:
        """Wait, with the lock held, for something that the thread will do."""
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
        """Take the next thing to do: many values in a row are written at once."""
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
        """Do something until it works; a lost lease, or closing, ends it."""
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
        """Do something, and say whether it is over; keep the error if not."""
        try:
            action()
        except LeaseError as error:
            with self._changed:
                self._failure, self._closed = error, True
                self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # whatever it is, the thread goes on, and whoever waits gets it
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            return False
        return True
