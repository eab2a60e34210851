"""Taking back a failed call: the one mechanism for streams, their strategies, tables of keys and aggregators.

Whatever a call changes has `restore_point()`, which returns a callback that restores the current state. Whoever makes
the call does so within `all_or_nothing`: if it raises, everything is as it was before.

A restore point is cheap, since one is made for each call. Small state is copied. A table of keys only remembers how
many there were. A state that is too large to be copied for each push is copied once in a while, and restored by
replaying the pushes since then: see `muntin.streams.journal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

RestorePoint: TypeAlias = Callable[[], None]
"""Restores the state that was current when it was made."""


class Restorable(Protocol):
    """What a failed call must not have changed."""

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""


@contextmanager
def all_or_nothing(*changed: Restorable) -> Iterator[None]:
    """Restore what is changed here if an error comes, whatever it is, and raise that.

    >>> class Counter:
    ...     def __init__(self):
    ...         self.count = 0
    ...     def restore_point(self):
    ...         count = self.count
    ...         return lambda: setattr(self, "count", count)
    >>> counter = Counter()
    >>> with all_or_nothing(counter):
    ...     counter.count += 1
    >>> try:
    ...     with all_or_nothing(counter):
    ...         counter.count += 1
    ...         raise ValueError
    ... except ValueError:
    ...     print(counter.count)
    1
    """
    points = [each.restore_point() for each in changed]
    try:
        yield
    except BaseException:
        for restore in reversed(points):
            restore()
        raise
