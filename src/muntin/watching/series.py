"""The rows of one key, in any order of arrival, and their frames at any zoom.

Rows in order are appended to one run. Late rows form their own runs, and two runs are merged as soon as the later one
has an eighth of the rows of the previous one: a row is merged O(log n) times, and there are O(log n) runs to query.
"""

from __future__ import annotations

import numpy as np

from muntin.types import Array
from muntin.watching.m4 import Frame, pixel_edges
from muntin.watching.runs import Run

_RATIO = 8
"""The least ratio of a run's length to the next one's."""


class Series:
    """Rows of one key: a time (an integer) and a number each.

    >>> series = Series()
    >>> series.add(np.array([3, 1, 2]), np.array([5.0, 7.0, 4.0]))
    >>> frame = series.frame(0, 4, width=2)
    >>> frame.columns.tolist(), frame.low.tolist(), frame.high.tolist(), frame.first.tolist(), frame.last.tolist()
    ([0, 1], [7.0, 4.0], [7.0, 5.0], [7.0, 4.0], [7.0, 5.0])
    """

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._waiting: list[tuple[Array, Array]] = []
        self._rows = 0

    def __len__(self) -> int:
        """Return the number of rows. O(1)."""
        return self._rows

    def add(self, times: Array, values: Array) -> None:
        """Take rows in any order. They are sorted when read: a series that is never read costs only an append."""
        if len(times):
            self._waiting.append((times, values))
            self._rows += len(times)

    def frame(self, lo: int, hi: int, width: int) -> Frame:
        """Return the frame of the times [lo, hi) for `width` pixels. O(width (log n + 256)) per run."""
        self._sort_appended()
        edges = pixel_edges(lo, hi, width)
        frame = Frame.empty(lo, hi, width)
        for run in self._runs:
            frame = frame.merged(_frame_of(run, edges, frame))
        return frame

    def rows(self, lo: int, hi: int) -> tuple[Array, Array]:
        """Return the rows with times in [lo, hi), by time, ties by arrival. O(rows)."""
        self._sort_appended()
        spans = [(run, *np.searchsorted(run.times, [lo, hi]).tolist()) for run in self._runs]
        times = np.concatenate([run.times[a:b] for run, a, b in spans] or [np.empty(0, np.int64)])
        values = np.concatenate([run.values[a:b] for run, a, b in spans] or [np.empty(0)])
        order = np.argsort(times, kind="stable")
        return times[order], values[order]

    # ------------------------------------------------------------ rows into runs

    def _sort_appended(self) -> None:
        """Sort new rows into the runs."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        times, values = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
        if not (times[1:] >= times[:-1]).all():
            order = np.argsort(times, kind="stable")
            times, values = times[order], values[order]
        late = int(np.searchsorted(times, self._runs[0].times[-1])) if self._runs else 0
        if not self._runs:
            self._runs.append(Run(times, values))
        else:
            self._runs[0].append(times[late:], values[late:])
        if late:
            self._runs.append(Run(times[:late], values[:late]))
        while len(self._runs) > 1 and len(self._runs[-2]) < _RATIO * len(self._runs[-1]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]


def _merged(older: Run, newer: Run) -> Run:
    """Return two runs merged; rows of the older one precede those of equal time."""
    places = np.searchsorted(older.times, newer.times, "right")
    return Run(np.insert(older.times, places, newer.times), np.insert(older.values, places, newer.values))


def _frame_of(run: Run, edges: Array, like: Frame) -> Frame:
    """Return the frame of the rows of one run."""
    places = np.searchsorted(run.times, edges)
    columns = np.flatnonzero(places[:-1] < places[1:])
    begins, ends = places[columns], places[columns + 1]
    low, high = run.extremes(begins, ends)
    before, after = int(places[0]) - 1, int(places[-1])
    return Frame(
        like.lo,
        like.hi,
        like.width,
        columns=columns,
        counts=ends - begins,
        first_time=run.times[begins],
        first=run.values[begins],
        last_time=run.times[ends - 1],
        last=run.values[ends - 1],
        low=low,
        high=high,
        before=(int(run.times[before]), float(run.values[before])) if before >= 0 else None,
        after=(int(run.times[after]), float(run.values[after])) if after < len(run) else None,
    )
