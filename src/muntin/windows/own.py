"""A user's own windows: subclasses of these say where windows begin and end, and share slices with all the others."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from muntin.windows.base import Context, Measure, Window


class ContextFree(Window):
    """Windows by time whose edges are known without looking at a row.

    Times are integers in the unit of the time column. A window is [start, end).

    >>> from muntin import window
    >>> class Doubling(window.ContextFree):
    ...     '''[1, 2), [2, 4), [4, 8), ...'''
    ...     def next_edge(self, t):
    ...         return 1 << t.bit_length() if t > 0 else 1
    ...     def ended(self, previous, watermark):
    ...         end = max(2, self.next_edge(previous))
    ...         while end <= watermark:
    ...             yield end // 2, end
    ...             end *= 2
    >>> Doubling().next_edge(5), list(Doubling().ended(2, 8))
    (8, [(2, 4), (4, 8)])
    """

    context: ClassVar[Context] = Context.FREE
    measure: ClassVar[Measure] = Measure.TIME
    edges_known: ClassVar[bool] = True
    splits: ClassVar[bool] = False

    @abstractmethod
    def next_edge(self, t: int) -> int | None:
        """Return the first time after t at which a window begins or ends; None where there is none any more."""

    @abstractmethod
    def ended(self, previous: int, watermark: int) -> Iterable[tuple[int, int]]:
        """Return the windows (start, end) whose end is in (previous, watermark], by their ends.

        Of two windows the one that ends later does not begin earlier.
        """


class Edges:
    """The edges of one key's windows, in ascending order: what `ContextAware.on_tuple` adds to and removes from.

    >>> edges = Edges([10, 30])
    >>> edges.add(20)
    >>> edges.before(20), edges.after(20), list(edges)
    (20, 30, [10, 20, 30])
    """

    __slots__ = ("_times",)

    def __init__(self, times: Iterable[int] = ()) -> None:
        self._times = sorted(set(times))

    def add(self, t: int) -> None:
        """Put an edge at t, if there is none: a window ends there, and another begins. O(n)."""
        at = bisect_left(self._times, t)
        if at == len(self._times) or self._times[at] != t:
            self._times.insert(at, t)

    def remove(self, t: int) -> None:
        """Take away the edge at t, if there is one: the windows at its sides become one. O(n)."""
        at = bisect_left(self._times, t)
        if at < len(self._times) and self._times[at] == t:
            del self._times[at]

    def before(self, t: int) -> int | None:
        """Return the last edge at t or before, or None. O(log n)."""
        at = bisect_right(self._times, t)
        return self._times[at - 1] if at else None

    def after(self, t: int) -> int | None:
        """Return the first edge after t, or None. O(log n)."""
        at = bisect_right(self._times, t)
        return self._times[at] if at < len(self._times) else None

    def __contains__(self, t: int) -> bool:
        """Say whether there is an edge at t. O(log n)."""
        return self.before(t) == t

    def __iter__(self) -> Iterator[int]:
        """Yield the edges in ascending order."""
        return iter(self._times)

    def __len__(self) -> int:
        """Return how many edges there are."""
        return len(self._times)

    def __repr__(self) -> str:
        """Show the edges."""
        return f"Edges({self._times})"


class ContextAware(Window):
    """Windows by time whose edges depend on the rows.

    From each edge to the next is a window [edge, next edge), and of those only the ones that hold a row are results.
    All that `on_tuple` remembers is in the edges, which are kept for each key. Rows come in the order of arrival: an
    answer that shall not depend on that order needs edges that do not. `columns` names what `values` shall hold.

    >>> from muntin import window
    >>> class Trips(window.ContextAware):
    ...     '''A trip begins with each row that says so.'''
    ...     columns = ("departs",)
    ...     def on_tuple(self, t, values, edges):
    ...         if values["departs"]:
    ...             edges.add(t)
    >>> edges = window.Edges()
    >>> Trips().on_tuple(5, {"departs": True}, edges)
    >>> edges
    Edges([5])
    """

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the most that a planner must reckon with; a subclass may know
    measure: ClassVar[Measure] = Measure.TIME

    @abstractmethod
    def on_tuple(self, t: int, values: Mapping[str, Any], edges: Edges) -> None:
        """Add and remove edges, now that a row of this time and these values has come."""
