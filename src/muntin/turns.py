"""One thread at a time: what is changed by calls refuses one that comes while another is at work.

To wait would be no help: which of two threads comes first decides what a window holds, so that whoever shares one must
say so with a lock of their own. Refusing is a look at a lock, less than half a microsecond a call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from muntin.errors import ConcurrentUseError

P = ParamSpec("P")
T = TypeVar("T")


class Turn(Protocol):
    """A lock: `threading.Lock`, or `threading.RLock` where methods call each other."""

    def acquire(self, blocking: bool = ..., /) -> bool:
        """Take it; return whether it was free."""

    def release(self) -> None:
        """Give it back."""


def exclusive(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that is refused while another thread is in one of the same object, whose lock is `_turn`."""

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **named: P.kwargs) -> T:
        turn: Turn = self._turn
        if not turn.acquire(False):
            raise ConcurrentUseError(
                f"another call is at work on this {type(self).__name__}, and {method.__name__}() came in between: "
                "use it from one thread at a time, or hold a lock of your own around each call"
            )
        try:
            return method(self, *arguments, **named)
        finally:
            turn.release()

    return call
