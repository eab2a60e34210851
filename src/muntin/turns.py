"""One thread at a time, and whole calls: who may change an object, and what becomes of it where that is interrupted.

What is changed by calls refuses one that comes while another is at work. To wait would be no help: which of two threads
comes first decides what a window holds, so that whoever shares one must say so with a lock of their own. Refusing is a
look at a lock, less than half a microsecond a call.

Ctrl-C and want of memory come between any two lines. To copy all that a call may change, only to take it back then,
would cost more than most calls: so an object that was being changed then is marked, and refuses to go on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from muntin.errors import ConcurrentUseError, InterruptedCallError
from muntin.forks import is_fork

_HALF = (
    "; or, since this process is a fork, another thread was in that call when it was forked, so that this copy stays "
    "half-changed: go on from a snapshot"
)
P = ParamSpec("P")
T = TypeVar("T")


class Turn(Protocol):
    """A lock: `threading.Lock`, or `threading.RLock` where methods call each other."""

    def acquire(self, blocking: bool = ..., /) -> bool:
        """Take it; return whether it was free."""

    def release(self) -> None:
        """Give it back."""


def exclusive(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that is refused while another thread is in one of the same object, whose lock is `_turn`.

    It is refused as well where the object was left `_halfway` by an earlier call.
    """

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        turn: Turn = self._turn
        if not turn.acquire(False):
            raise ConcurrentUseError(
                f"another call is at work on this {type(self).__name__}, and {method.__name__}() came in between: "
                "use it from one thread at a time, or hold a lock of your own around each call"
                + (_HALF if is_fork() else "")
            )
        try:
            if self._halfway:
                raise InterruptedCallError(
                    f"an earlier call on this {type(self).__name__} was interrupted in the middle, so that it may hold "
                    "a part of what that call was to change: go on from a snapshot, or begin again"
                )
            return method(self, *arguments, **named)
        finally:
            turn.release()

    return call


class changing:  # noqa: N801  # reads as a statement: `with changing(window):`
    """The part of a call that changes an object. Where it is interrupted, the object stays `_halfway`.

    All other errors have taken back what was changed before they come here.
    """

    __slots__ = ("_changed",)

    def __init__(self, changed: Any) -> None:
        self._changed = changed

    def __enter__(self) -> None:
        """Begin."""
        self._changed._halfway = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> Literal[False]:
        """End: the object is whole, unless it was interrupted."""
        if kind is None or not is_interruption(kind):
            self._changed._halfway = False
        return False


def is_interruption(kind: type[BaseException]) -> bool:
    """Say whether an error comes from outside, between any two lines, rather than from what these do."""
    return not issubclass(kind, Exception) or issubclass(kind, MemoryError)
