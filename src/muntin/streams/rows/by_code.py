"""Windows between edges that a user's code adds and removes with each row, over rows in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept, owners
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.edges import Change, Edges
from muntin.windows.found import python_values
from muntin.windows.shapes import EdgesFrom

Span = tuple[int, int]
"""The start and the end of a window."""


class Sides:
    """The edges of all keys, and the windows that are final: neither is ever forgotten."""

    def __init__(self) -> None:
        self.edges: dict[int, Edges] = {}
        self.closed: dict[int, list[Span]] = {}
        """The final windows of each key, as (end, start), in order."""
        self.closed_to: dict[int, int] = {}
        """The end up to which windows of each key are final."""

    def of(self, key: int) -> Edges:
        """Return the edges of a key."""
        return self.edges.setdefault(key, Edges())

    def breaks_final(self, key: int, changes: list[Change]) -> bool:
        """Return whether a window that is final has lost an edge at its sides, or gained one inside. O(log n) each."""
        closed, edges = self.closed.get(key, []), self.of(key)
        for edge, _ in changes:
            at = bisect_left(closed, (edge, BEFORE_TIME))
            for end, start in closed[at : at + 2]:  # the one that ends at the edge, and the next one
                within = edges.before(end - 1)
                if end not in edges or (within is not None and within != start):
                    return True
        return False

    def close(self, key: int, spans: list[Span]) -> None:
        """Note windows that are final."""
        known = self.closed.setdefault(key, [])
        for start, end in spans:
            insort(known, (end, start))

    def forget(self, keys: Array) -> None:
        """Forget the edges of keys."""
        for key in keys.tolist():
            for each in (self.edges, self.closed, self.closed_to):
                each.pop(key, None)

    def keys(self) -> Array:
        """Return the keys with edges or final windows."""
        held = {key for each in (self.edges, self.closed) for key, times in each.items() if len(times)}
        return np.array(sorted(held), np.int64)

    @property
    def nbytes(self) -> int:
        """The bytes of all edges, about."""
        return 8 * sum(len(times) for each in (self.edges, self.closed) for times in each.values())

    def save(self) -> dict[str, Array]:
        """Return the edges and the ends of final windows, each with its key, and what it is."""
        rows = [(key, 0, edge, 0) for key, edges in self.edges.items() for edge in edges]
        rows += [(key, 1, *span) for key, spans in self.closed.items() for span in spans]
        rows += [(key, 2, to, 0) for key, to in self.closed_to.items()]
        table = np.array(sorted(rows), np.int64).reshape(-1, 4)
        return {name: table[:, i].copy() for i, name in enumerate(("keys", "what", "at", "start"))}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace everything."""
        Sides.__init__(self)
        keys, what, at, start = (state[name] for name in ("keys", "what", "at", "start"))
        for key in np.unique(keys).tolist():
            edges, closed, closed_to = ((keys == key) & (what == kind) for kind in range(3))
            self.edges[key] = Edges(at[edges].tolist())
            self.closed[key] = list(zip(at[closed].tolist(), start[closed].tolist(), strict=True))
            self.closed_to[key] = int(at[closed_to].max(initial=BEFORE_TIME))


class ByCode(CutWindows):
    """One definition of windows whose edges a user's code tells; their order is that of their ends."""

    window: Any
    how: ClassVar[str] = (
        "its on_tuple runs once for each row, in Python, and a window is the range of rows between two edges, found in "
        "O(log n); edges are kept for ever"
    )
    waits_at_end: ClassVar[int] = 1

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._sides = Sides()
        self._changed: list[tuple[int, int, int]] = []
        """Where edges changed since windows were last emitted: the key, and the stretch of ends."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether a user's code tells its edges."""
        return window.edges is EdgesFrom.CODE

    @property
    def may_fail(self) -> bool:
        """The code may raise anything."""
        return True

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows whose edges change no window that is final, REFUSED for the rest."""
        verdicts = np.full(len(rows.times), OWN, np.int8)
        latest = store.latest(rows.keys).tolist()
        for row, (key, t, values) in enumerate(self._named(rows)):
            edges = self._sides.of(key)
            self.window.on_tuple(t, values, edges)
            changes = edges.changes()
            if t < watermark and self._is_too_late(key, t, edges, changes, watermark):
                edges.undo(changes)
                verdicts[row] = REFUSED
            elif changes:
                self._note(key, t, edges, changes)
                self.splits += sum(was_added and edge <= latest[row] for edge, was_added in changes)
        return verdicts

    def _named(self, rows: Batch) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield the key, the time and the named values of each row."""
        names = tuple(self.window.columns)
        values = python_values(rows.columns, names, len(rows.times))
        for key, t, each in zip(rows.keys.tolist(), rows.times.tolist(), values, strict=True):
            yield key, t, dict(zip(names, each, strict=True))

    def _is_too_late(self, key: int, t: int, edges: Edges, changes: list[Change], watermark: int) -> bool:
        end = edges.after(t)
        is_over = end is not None and end <= self.late_until(watermark)
        return is_over or self._sides.breaks_final(key, changes)

    def _note(self, key: int, t: int, edges: Edges, changes: list[Change]) -> None:
        """Note between which edges windows have changed."""
        changed = [t, *(edge for edge, _ in changes)]
        self._changed.append((key, *_around(edges, min(changed), max(changed))))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held, in the order of time."""
        super().begin(store, watermark)
        keys, places = store.rows()
        for key, t, values in self._named(Batch(keys, store.tree.times[places], store.take(places))):
            self.window.on_tuple(t, values, self._sides.of(key))
            self._sides.of(key).changes()
        for key in store.present.tolist():
            self._close(store, key, self.settled(watermark))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the ends that were reached, and those around new rows and edges."""
        due, low, high = self.due_now(fresh, moment)
        if self.has_tails(
            moment
        ):  # the rows after the last edge may have been emitted: their window ends where they do
            last = [self._sides.of(key).before(END_OF_TIME) for key in due.tolist()]
            low = np.minimum(low, np.array([BEFORE_TIME if each is None else each for each in last], np.int64))
            high = np.full(len(due), END_OF_TIME)
        changed, self._changed = self._changed, []
        pairs = zip(owners(fresh).tolist(), fresh.times.tolist(), strict=True)
        changed += [(key, *_around(self._sides.of(key), t, t)) for key, t in pairs]
        of_rows = np.array(changed, np.int64).reshape(-1, 3)
        return Spans.merged(store.kernels, (due, low, high), (of_rows[:, 0], of_rows[:, 1], of_rows[:, 2]))

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end in some stretches. O(log n) each."""
        has_tails = self.has_tails(moment)
        found = [
            (key, *span)
            for key, low, high in zip(*(each.tolist() for each in spans), strict=True)
            for span in _windows(self._sides.of(key), low, high, has_tail=has_tails and high == END_OF_TIME)
        ]
        table = np.array(found, np.int64).reshape(-1, 3)
        keys, start, stop = (table[:, i].copy() for i in range(3))
        first, last, counts = store.within(keys, start, stop)
        held = counts > 0
        keys, start, stop, first, last = (each[held] for each in (keys, start, stop, first, last))
        start = np.where(start == BEFORE_TIME, store.times_at(first), start)
        end = np.where(stop == END_OF_TIME, store.times_at(last - 1) + 1, stop)
        is_final = stop <= self.settled(moment.before)
        return Cuts(keys, first, last, start, end, stop, end, counts[held], is_final=is_final)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows after the last edge of final windows; look at a key at the next edge."""
        settled = self.settled(watermark)
        oldest = np.full(len(keys), BEFORE_TIME)
        for i, key in enumerate(keys.tolist()):
            edges = self._sides.of(key)
            self._close(store, key, settled)
            oldest[i] = _or(edges.before(settled), BEFORE_TIME)
            due, final = _or(edges.after(watermark), END_OF_TIME), _or(edges.after(settled), END_OF_TIME)
            wake[i] = min(wake[i], due, min(final, END_OF_TIME - self.slack) + self.slack)
        np.minimum(needed, store.before(keys, oldest), out=needed)

    def _close(self, store: RowStore, key: int, settled: int) -> None:
        """Note the windows that are final now: rows that would change them are refused."""
        known = self._sides.closed_to.get(key, BEFORE_TIME)
        if settled <= known:
            return
        self._sides.closed_to[key] = settled
        spans = _windows(self._sides.of(key), known + 1, settled, has_tail=False)
        if spans:
            start, stop = (np.array(each, np.int64) for each in zip(*spans, strict=True))
            first, _, counts = store.within(np.full(len(start), key), start, stop)
            held = counts > 0
            begins = np.where(start[held] == BEFORE_TIME, store.times_at(first[held]), start[held])
            self._sides.close(key, list(zip(begins.tolist(), stop[held].tolist(), strict=True)))

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the edges and the emitted windows of keys."""
        super().forget(keys)
        self._sides.forget(keys)

    def held_keys(self) -> Array:
        """Return the keys that have edges."""
        return np.union1d(super().held_keys(), self._sides.keys())

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and the edges."""
        return {**super().kept, "edges": self._sides}


def _around(edges: Edges, first: int, last: int) -> Span:
    """Return the edges around some times: windows that end between them may have changed."""
    return _or(edges.before(first - 1), BEFORE_TIME), _or(edges.after(last), END_OF_TIME)


def _windows(edges: Edges, low: int, high: int, *, has_tail: bool) -> list[Span]:
    """Return the windows that end in [low, high], with the one after the last edge if wanted.

    >>> _windows(Edges([10, 20, 30]), 15, 30, has_tail=False)
    [(10, 20), (20, 30)]
    """
    ends = edges.between(low, high)
    before = _or(edges.before(low - 1), BEFORE_TIME) if low > BEFORE_TIME else BEFORE_TIME
    spans = list(pairwise([before, *ends]))
    return [*spans, (_or(edges.before(END_OF_TIME), BEFORE_TIME), END_OF_TIME)] if has_tail else spans


def _or(time: int | None, other: int) -> int:
    return other if time is None else time
