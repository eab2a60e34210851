"""Taking back a failed call: the one mechanism for streams, their strategies, tables of keys and aggregators.

Whatever a call changes has `restore_point()`, which returns a callback that restores the current state. Whoever makes
the call does so within `all_or_nothing`: if it raises, everything is as it was before.

A restore point is cheap, since one is made for each call. Small state is copied. A table of keys only remembers how
many there were. A state that is too large to be copied for each push is copied once in a while, and restored by
replaying the pushes since then: see `muntin.streams.journal`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

RestorePoint: TypeAlias = Callable[[], bool | None]
"""Restores the state that was current when it was made; returns False where it could not restore all of it."""


class Restorable(Protocol):
    """What a failed call must not have changed."""

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""


class Owner(Protocol):
    """What refuses calls once it was left halfway."""

    _halfway: bool


class all_or_nothing:  # noqa: N801  # reads as a statement; a generator would take three times as long to enter
    """Restore what is changed here if an error comes, whatever it is, and raise that.

    Where not all can be restored, or somebody interrupts that, `owner` is left `_halfway`: see `muntin.turns`.

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

    __slots__ = ("_owner", "_restore")

    def __init__(self, changed: Restorable, owner: Owner | None = None) -> None:
        self._restore = changed.restore_point()
        self._owner = owner

    def __enter__(self) -> None:
        """Begin; the restore point was made before."""
        if self._owner is not None:
            self._owner._halfway = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> Literal[False]:
        """Restore the state if there was an error."""
        whole = kind is None or self._restore() is not False
        if self._owner is not None and whole:
            self._owner._halfway = False
        return False
