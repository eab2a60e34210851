"""What a fork of this process begins with: threads of its own, locks that are free, and nothing that its parent owns.

A fork has one thread, whichever called it. Locks that others held stay held for ever, queues that others served are
never served, and files and connections are shared with the parent. So whatever has a lock, a thread or a handle says
here how a fork gets another one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Owner = TypeVar("Owner")

_renewals: weakref.WeakKeyDictionary[Any, Callable[[Any], object]] = weakref.WeakKeyDictionary()
_is_fork = False


def in_child(owner: Owner, renew: Callable[[Owner], object]) -> None:
    """Call `renew(owner)` in each fork of this process, as long as the owner lives. O(1).

    >>> class Pool:
    ...     pass
    >>> in_child(Pool(), lambda pool: print("renewed"))
    """
    _renewals[owner] = renew


def is_fork() -> bool:
    """Return whether this process was forked from one that had loaded this module. O(1).

    >>> is_fork()
    False
    """
    return _is_fork


class Renewed(Generic[T]):
    """A value that each process makes for itself, such as a lock: called, it returns the one of this process. O(1).

    Take a lock as `with lock():`, which releases the one that it took, even if the block forks.

    >>> import threading
    >>> lock = Renewed(threading.Lock)
    >>> with lock():
    ...     lock().locked()
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value = make()
        in_child(self, Renewed._renew)

    def __call__(self) -> T:
        """Return the value."""
        return self._value

    def _renew(self) -> None:
        self._value = self._make()


class Lock(Protocol):
    """What `hold_while_forking` takes."""

    def acquire(self) -> object:
        """Take it."""

    def release(self) -> object:
        """Give it back."""


def hold_while_forking(lock: Lock) -> None:
    """Fork only while this thread holds the lock: for data that a fork could not do with half-changed. O(1)."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def before_fork(wait: Callable[[], object]) -> None:
    """Call `wait` before each fork of this process. O(1)."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=wait)


def _renew_all() -> None:
    global _is_fork  # noqa: PLW0603  # a fact about the process
    _is_fork = True
    for owner, renew in list(_renewals.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
