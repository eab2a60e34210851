"""The edges of one key's windows, as a user's code adds and removes them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Change = tuple[int, bool]
"""An edge, and whether it was added: else it was removed."""


class Edges:
    """The edges of one key's windows, in ascending order, which `ContextAware.on_tuple` adds and removes.

    >>> edges = Edges([10, 30])
    >>> edges.add(20)
    >>> edges.before(20), edges.after(20), list(edges)
    (20, 30, [10, 20, 30])
    """

    __slots__ = ("_changes", "_times")

    def __init__(self, times: Iterable[int] = ()) -> None:
        self._times = sorted(set(times))
        self._changes: list[Change] = []

    def add(self, t: int) -> None:
        """Add an edge at t, if there is none: a window ends there, and another begins. O(n)."""
        at = bisect_left(self._times, t)
        if at == len(self._times) or self._times[at] != t:
            self._times.insert(at, t)
            self._changes.append((t, True))

    def remove(self, t: int) -> None:
        """Remove the edge at t, if there is one: the windows on both sides merge. O(n)."""
        at = bisect_left(self._times, t)
        if at < len(self._times) and self._times[at] == t:
            del self._times[at]
            self._changes.append((t, False))

    def before(self, t: int) -> int | None:
        """Return the last edge at t or before, or None. O(log n)."""
        at = bisect_right(self._times, t)
        return self._times[at - 1] if at else None

    def after(self, t: int) -> int | None:
        """Return the first edge after t, or None. O(log n)."""
        at = bisect_right(self._times, t)
        return self._times[at] if at < len(self._times) else None

    def between(self, low: int, high: int) -> list[int]:
        """Return the edges in [low, high]. O(log n), and O(1) each."""
        return self._times[bisect_left(self._times, low) : bisect_right(self._times, high)]

    def changes(self) -> list[Change]:
        """Return the changes since the last call, in order."""
        changes, self._changes = self._changes, []
        return changes

    def undo(self, changes: list[Change]) -> None:
        """Undo changes, which were the last ones. O(n) each."""
        for t, was_added in reversed(changes):
            (self.remove if was_added else self.add)(t)
        self._changes = []

    def __contains__(self, t: int) -> bool:
        """Return whether there is an edge at t. O(log n)."""
        return self.before(t) == t

    def __iter__(self) -> Iterator[int]:
        """Yield the edges in ascending order."""
        return iter(self._times)

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self._times)

    def __repr__(self) -> str:
        """Show the edges."""
        return f"Edges({self._times})"
