"""Windows whose edges are known without looking at a row: built-in ones and users' subclasses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from muntin.windows.base import Context, Measure, Window
from muntin.windows.found import Found, SortedRows, between_times
from muntin.windows.shapes import Density, KnownEdges, TimeShape


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
    ties_matter: ClassVar[bool] = False

    @abstractmethod
    def next_edge(self, t: int) -> int | None:
        """Return the first time after t at which a window begins or ends; None where there is none any more."""

    @abstractmethod
    def ended(self, previous: int, watermark: int) -> Iterable[tuple[int, int]]:
        """Return the windows (start, end) whose end is in (previous, watermark], by their ends.

        Of two windows the one that ends later does not begin earlier.
        """

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows that hold a row. A few calls of `next_edge` and `ended` per edge of each key."""
        spans = []
        for key, (begin, end) in enumerate(zip(rows.begins, rows.ends, strict=True)):
            spans += [(key, *span) for span in self._spans(int(rows.times[begin]), int(rows.times[end - 1]))]
        return between_times(spans, rows)

    def _spans(self, oldest: int, youngest: int) -> list[tuple[int, int]]:
        """Return the windows that end after the oldest row and begin by the youngest."""
        spans: list[tuple[int, int]] = []
        previous, edge = oldest, self.next_edge(oldest)
        while edge is not None:
            ended = list(self.ended(previous, edge))
            if any(start > youngest for start, _ in ended):
                break
            spans += ended
            previous, edge = edge, self.next_edge(edge)
        return spans

    # ------------------------------------------------------------ streams

    @property
    def time_shape(self) -> TimeShape:
        """Its edges, looked up on demand."""
        return KnownEdges(self)

    def density(self, many: int) -> Density:
        """Return the expected density of its windows for `many` rows."""
        return Density(many, 2.0)
