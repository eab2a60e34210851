"""A user's own windows between edges that rows bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.buffer.buffer import Rows
from muntin.streams.buffer.kinds.base import Kind, Moment, Windows, zeros
from muntin.tables.finite import Found, python_values
from muntin.types import Array
from muntin.windows.own import Edges


class AwareKind(Kind):
    """Windows between edges that rows bring. The edges are kept for ever, and so are the windows that are settled."""

    def __init__(self, definition: Any, plan: Plan) -> None:
        super().__init__(definition, plan)
        self.slack = max(1, plan.lateness)
        self.edges: dict[int, Edges] = {}
        self.closed: dict[int, set[tuple[int, int]]] = {}

    def takes(self, new: Rows, held: Rows, watermark: int) -> Array:
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
            within = edges.before(stop - 1)  # a window is changed by an edge less at its sides, or one more inside
            if stop not in edges or (within is not None and within != start):
                return False
        return True

    def windows(self, rows: Rows, active: Array, moment: Moment) -> Windows:
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
        return Windows(found, key, due, self.settled(due, moment.before), (start, stop, zeros(len(key))))

    def settle(self, windows: Windows, settled: Array, watermark: int) -> None:
        now = settled & ~windows.settled
        found = windows.found
        for key, start, end in zip(windows.key[now], found.start[now], found.end[now], strict=True):
            self.closed.setdefault(int(key), set()).add((int(start), int(end)))

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
