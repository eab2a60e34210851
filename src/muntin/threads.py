"""Work that several threads share: results in order, in the caller's context, and the first error of all.

Compiled kernels, NumPy and Arrow let go of Python's lock while they work, so that threads run side by side; functions
of a user, and states that are Python objects, take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from muntin.errors import InvalidArgumentError
from muntin.forks import Renewed, before_fork

T = TypeVar("T")


def require_threads(threads: Any) -> int:
    """Return a number of threads; refuse what is none. O(1)."""
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InvalidArgumentError(f"threads is {threads!r}; it must be a positive integer")
    return threads


def in_threads(tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """Return what each task returns, in their order; at most `threads` of them run at a time.

    Each runs in a copy of the caller's context: kernels are plain or compiled there, and waited for, as they are here.
    Where tasks fail, the error of the first one is raised. Then, and when the caller is interrupted, tasks that have
    not begun never do, and those that have are waited for: nobody writes into an array that was given up.

    >>> in_threads([lambda: 1, lambda: 2, lambda: 3], 2)
    [1, 2, 3]
    """
    if threads == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    pool = ThreadPoolExecutor(min(threads, len(tasks)), thread_name_prefix="muntin")
    failed = threading.Event()

    def work(task: Callable[[], T]) -> T:
        if failed.is_set():  # tasks begin in order: the one that failed came before this one
            raise CancelledError
        try:
            return task()
        except BaseException:
            failed.set()
            raise

    try:
        futures = [pool.submit(copy_context().run, work, task) for task in tasks]
        return [future.result() for future in futures]
    finally:
        failed.set()
        pool.shutdown(wait=True, cancel_futures=True)


class Helper:
    """A thread that does one piece of work after the other. A fork waits until all is done, and begins with its own.

    >>> helper = Helper("helper")
    >>> helper.submit(max, 1, 2).result()
    2
    """

    def __init__(self, name: str) -> None:
        self._executor = Renewed(lambda: ThreadPoolExecutor(1, name))  # which begins its thread with the first work
        self._is_used = Renewed(threading.Event)
        before_fork(self._finish)

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Do `work(*arguments)` after all that was submitted before. O(1)."""
        self._is_used().set()
        return self._executor().submit(work, *arguments)

    def _finish(self) -> None:
        if self._is_used().is_set():
            self._executor().submit(int).result()


def shares(start: int, stop: int, count: int, unit: int = 1) -> list[tuple[int, int]]:
    """Return [start, stop) in at most `count` parts of about one size, each a whole number of units long but the last.

    >>> shares(0, 10, 3), shares(5, 25, 3, 8), shares(4, 4, 2)
    ([(0, 4), (4, 8), (8, 10)], [(5, 21), (21, 25)], [(4, 4)])
    """
    parts = max(1, min(count, (stop - start) // unit))
    size = -(-(stop - start) // parts)
    size = max(unit, -(-size // unit) * unit)
    return [(at, min(at + size, stop)) for at in range(start, stop, size)] or [(start, stop)]
