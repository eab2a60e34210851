"""Windows between edges that depend on rows, as a user's subclass defines them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.types import Array
from muntin.windows.base import Context, Measure, Window
from muntin.windows.buffered import BufferedWindows, Moment, Terms, Windows, zeros
from muntin.windows.edges import Edges
from muntin.windows.found import Found, SortedRows, between_times, python_values
from muntin.windows.held_rows import HeldRows
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

    def buffered(self, terms: Terms) -> BufferedWindows:
        """Return what answers it from kept rows."""
        return BufferedContextAware(self, terms)


class BufferedContextAware(BufferedWindows):
    """Windows between edges that depend on rows. The edges and the final windows are kept forever."""

    definition: ContextAware

    def __init__(self, definition: ContextAware, terms: Terms) -> None:
        super().__init__(definition, terms)
        self.slack = max(1, terms.lateness)
        self.edges: dict[int, Edges] = {}
        self.closed: dict[int, set[tuple[int, int]]] = {}

    def takes(self, new: HeldRows, held: HeldRows, watermark: int) -> Array:
        taken = np.ones(len(new), np.bool_)
        names = tuple(self.definition.columns)
        values = [dict(zip(names, row, strict=True)) for row in python_values(new.columns, names, len(new))]
        for row in range(len(new)):
            key, t = int(new.keys[row]), int(new.times[row])
            before = self.edges.get(key, Edges())
            after = Edges(before)
            self.definition.on_tuple(t, values[row], after)
            if t >= watermark or self._accepts(key, t, after, watermark):
                self.edges[key] = after
            else:
                taken[row] = False
        return taken

    def _accepts(self, key: int, t: int, edges: Edges, watermark: int) -> bool:
        end = edges.after(t)
        if end is not None and end + self.lateness <= watermark:
            return False
        for start, stop in self.closed.get(key, ()):
            within = edges.before(stop - 1)  # a window changes if it loses an edge at its sides, or gains one inside
            if stop not in edges or (within is not None and within != start):
                return False
        return True

    def windows(self, rows: HeldRows, active: Array, moment: Moment) -> Windows:
        parts = []
        begin = 0
        for key, end in zip(rows.present.tolist(), rows.ends.tolist(), strict=True):
            edges = np.array(list(self.edges.get(key, Edges())), np.int64)
            times = rows.times[begin:end]
            segment = np.searchsorted(edges, times, "right")
            first = np.flatnonzero(np.diff(segment, prepend=-1))
            last = np.append(first[1:], len(times))
            segment = segment[first]
            open_ended = segment == len(edges)
            padded = np.append(edges, 0)
            start = np.where(segment == 0, times[first], padded[segment - 1])
            stop = np.where(open_ended, times[last - 1] + 1, padded[segment])
            due = np.where(open_ended, END_OF_TIME, stop)
            parts.append((np.full(len(first), key), begin + first, begin + last, start, stop, due))
            begin = end
        columns = zip(*parts, strict=True) if parts else [(zeros(0),)] * 6
        key, first, last, start, stop, due = (np.concatenate(each).astype(np.int64) for each in columns)
        found = Found(first, last, start, stop)
        return Windows(found, key, due, self.final(due, moment.before), (start, stop, zeros(len(key))))

    def finalize(self, windows: Windows, final: Array, watermark: int) -> None:
        now = final & ~windows.final
        found = windows.found
        for key, start, end in zip(windows.key[now], found.start[now], found.end[now], strict=True):
            self.closed.setdefault(int(key), set()).add((int(start), int(end)))

    def forget_keys(self, keys: Array) -> None:
        for key in keys.tolist():
            self.edges.pop(key, None)
            self.closed.pop(key, None)

    def held_keys(self) -> Array:
        return np.array(sorted(self.edges), np.int64)

    def save(self) -> dict[str, Array]:
        edges = [(key, t) for key, times in self.edges.items() for t in times]
        closed = [(key, *span) for key, spans in self.closed.items() for span in sorted(spans)]
        return {
            "known": np.array(list(self.edges), np.int64),
            "edges": np.array(edges, np.int64).reshape(-1),
            "closed": np.array(closed, np.int64).reshape(-1),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        edges, closed = state["edges"].reshape(-1, 2), state["closed"].reshape(-1, 3)
        self.edges = {int(key): Edges(edges[edges[:, 0] == key, 1].tolist()) for key in state["known"]}
        self.closed = {}
        for key, start, end in closed.tolist():
            self.closed.setdefault(key, set()).add((start, end))
