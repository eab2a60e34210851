"""Windows between edges that depend on rows, as a user's subclass defines them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.windows.base import Context, Measure, Window
from muntin.windows.edges import Edges
from muntin.windows.found import Found, SortedRows, between_times, python_values
from muntin.windows.shapes import EdgesFrom


class ContextAware(Window):
    """Windows by time whose edges depend on the rows.

    Each window runs from one edge to the next, [edge, next edge); only windows that hold a row are emitted. `on_tuple`
    may remember nothing but the edges, which are kept per key. Rows come in the order of arrival: for an answer
    independent of that order, edges must be too. `columns` names the columns in `values`.

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

    context: ClassVar[Context] = Context.FORWARD_AWARE  # the worst case for the planner; a subclass may narrow it
    measure: ClassVar[Measure] = Measure.TIME
    edges: ClassVar[EdgesFrom | None] = EdgesFrom.CODE
    arrival_matters: ClassVar[bool] = True

    @abstractmethod
    def on_tuple(self, t: int, values: Mapping[str, Any], edges: Edges) -> None:
        """Add and remove edges, now that a row of this time and these values has come."""

    # ------------------------------------------------------------ finite tables

    def find(self, rows: SortedRows) -> Found:
        """Return all windows that hold a row. One call of `on_tuple` per row, in order of arrival."""
        spans = []
        values = python_values(rows.columns, self.columns, len(rows.times))
        for key, (begin, end) in enumerate(zip(rows.begins, rows.ends, strict=True)):
            edges = Edges()
            for row in begin + np.argsort(np.asarray(rows.arrival[begin:end])):
                named = dict(zip(self.columns, values[row], strict=True))
                self.on_tuple(int(rows.times[row]), named, edges)
            oldest, youngest = int(rows.times[begin]), int(rows.times[end - 1])
            starts = [min(oldest, *edges) if len(edges) else oldest, *edges]
            ends = [*edges, max(youngest + 1, starts[-1] + 1)]
            spans += [(key, a, b) for a, b in zip(starts, ends, strict=True) if a < b]
        return between_times(spans, rows)

    # ------------------------------------------------------------ streams
