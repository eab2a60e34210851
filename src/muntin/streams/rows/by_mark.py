"""Windows that end with marked rows, over rows in order, with the marks in a tree of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept, owners
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.rows.tree import NONE
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.shapes import EdgesFrom

_NTH, _BORN = "nth", "born"


class ByMark(CutWindows):
    """One definition of windows that end with marked rows; their order is that of their ends.

    A mark is kept with its time, and how many rows of that time are before it: these never change, since a row goes
    after all others of its time. So a row between two marks changes one window, and a late mark splits one.
    """

    window: Any
    counts = (*CutWindows.counts, "round")
    how: ClassVar[str] = (
        "marks are in a tree of their own, and a window is the range of rows between two, found in O(log n); a late "
        "mark divides one"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._marks = _no_marks()
        self.round = 0
        """How often windows were emitted: marks of this round are new."""

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether marked rows end its windows."""
        return window.edges is EdgesFrom.MARKS

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a window that may change, REFUSED for the rest."""
        marks = self.window.marks(rows)  # rejects another column, whatever the times
        verdicts = np.full(len(rows.times), OWN, np.int8)
        settled = self.late_until(watermark)
        if rows.least >= watermark or rows.least > settled:
            return verdicts
        late = np.flatnonzero((rows.times < watermark) & (rows.times <= settled))
        _, after = self._marks.around(rows.keys[late], rows.times[late])
        verdicts[late[marks[late] | (after <= settled)]] = REFUSED
        return verdicts

    def took(self, store: RowStore, rows: Batch) -> None:
        """Keep the marks."""
        self._keep_marks(store, rows.keys, rows.times, self.window.marks(rows))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the marks among the rows held."""
        super().begin(store, watermark)
        self._marks = _no_marks()
        keys, places = store.rows()
        held = Batch(keys, store.tree.times[places], store.take(places))
        self._keep_marks(store, keys, held.times, self.window.marks(held))

    def _keep_marks(self, store: RowStore, keys: Array, times: Array, is_mark: Array) -> None:
        marks = np.flatnonzero(is_mark)
        if len(marks):
            self.splits += int((times[marks] < store.latest(keys[marks])).sum())
            nth = np.empty(len(marks), np.int64)
            store.kernels.count_ties(store.tree, keys, times, marks, nth)
            beside = {_NTH: nth, _BORN: np.full(len(marks), self.round)}
            self._marks.insert(keys[marks], times[marks], {}, beside)

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the ends that were reached, and those from the mark before each new row to the one behind it."""
        keys = owners(fresh)
        before, _ = self._marks.around(keys, fresh.times - 1)
        _, after = self._marks.around(keys, fresh.times)
        if not (self.remembers or moment.early):
            after = np.minimum(after, moment.watermark)
        due, low, high = self.due_now(fresh, moment)
        if self.has_tails(
            moment
        ):  # the rows after the last mark may have been emitted: their window ends where they do
            low, high = np.minimum(low, self._marks.latest(due)), np.full(len(due), END_OF_TIME)
        return Spans.merged(store.kernels, (due, low, high), (keys, before, after))

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the windows that end in some stretches. O(log n) each."""
        marks = self._marks
        state = store.tree, marks.beside[_NTH], spans, int(self.has_tails(moment))
        keys, first, last, mark = marks.grown_to_fit(4, marks.kernels.find_marked, *state)
        counts, last_rank = last - first, last - 1
        store.kernels.at_ranks(store.tree, keys, first, last)
        start, end = store.times_at(first), store.times_at(last - 1)
        # Of rows of equal time a late mark may move some to a window that another one had: what tells is the last row.
        content = (counts << 32) + last_rank - store.before(keys, end)
        is_open = mark == NONE
        due = np.where(is_open, END_OF_TIME, end)
        is_new = np.zeros(len(keys), np.bool_)
        is_new[~is_open] = marks.beside[_BORN][mark[~is_open]] == self.round
        is_final = (due <= self.settled(moment.before)) & (~is_new | (end < moment.before))
        self.round += 1
        name = start, end, _which(keys, start, end)
        return Cuts(keys, first, last, start, end, due, end, content, name, is_final=is_final)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows from the last final mark on, and those before it: what they are part of must be known.

        All rows of one time stay together, so that marks can be found among them.
        """
        settled = self.settled(watermark)
        final, unsettled = self._marks.around(keys, np.full(len(keys), min(settled, END_OF_TIME - 1)))
        before, _ = store.around(keys, np.maximum(final, BEFORE_TIME + 1) - 1)
        oldest = np.where(before > BEFORE_TIME, before, final)
        np.minimum(needed, store.before(keys, oldest), out=needed)
        self._marks.evict(keys, self._marks.before(keys, oldest))
        if watermark < END_OF_TIME:
            _, due = self._marks.around(keys, np.full(len(keys), watermark))
            np.minimum(wake, np.minimum(due, np.minimum(unsettled, END_OF_TIME - self.slack) + self.slack), out=wake)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the marks and the emitted windows of keys."""
        super().forget(keys)
        self._marks.evict(keys, np.full(len(keys), END_OF_TIME))

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and the marks."""
        return {**super().kept, "marks": self._marks}


def _no_marks() -> RowStore:
    store = RowStore({}, ())
    store.beside = {_NTH: np.zeros(0, np.int64), _BORN: np.zeros(0, np.int64)}
    return store


def _which(keys: Array, start: Array, end: Array) -> Array:
    """Return how many windows before each have its start and its end.

    >>> _which(np.array([0, 0, 0, 1]), np.array([1, 5, 5, 5]), np.array([5, 5, 5, 5])).tolist()
    [0, 0, 1, 0]
    """
    number = np.arange(len(keys))
    again = np.zeros(len(keys), np.bool_)
    again[1:] = (np.diff(keys) == 0) & (np.diff(start) == 0) & (np.diff(end) == 0)
    which: Array = number - np.maximum.accumulate(np.where(again, 0, number)) if len(keys) else number
    return which
