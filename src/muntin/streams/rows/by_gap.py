"""Sessions whose gap each row brings along, over rows in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.query.plan import Plan
from muntin.streams.rows.cut import Cuts, CutWindows, Kept
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.part import OWN, REFUSED, Moment
from muntin.streams.rows.spans import Spans
from muntin.streams.rows.store import RowStore
from muntin.streams.strategy import Batch
from muntin.types import Array
from muntin.windows.base import Window
from muntin.windows.found import filled, finding
from muntin.windows.shapes import EdgesFrom

Span = tuple[int, int]
"""The start and the end of a session, or the least and the greatest end of several."""


class Sessions:
    """The sessions of all keys that may change, and where the last one ended that never does.

        open    [3   9]      [12 15]           done 1     a row from 8 to 13 makes one session of both

    O(log n) for a row, and O(1) for each session that it touches.
    """

    def __init__(self) -> None:
        self.starts: dict[int, list[int]] = {}
        self.ends: dict[int, list[int]] = {}
        self.done: dict[int, int] = {}
        """The end of each key's last final session: no row up to it may come, since it would be in that session."""
        self.forgotten = BEFORE_TIME
        """The same for the keys that have none."""

    def add(self, key: int, time: int, gap: int, late_until: int | None) -> Span | None:
        """Add a row; return the least and the greatest end of the sessions that it changes, or None if it is late.

        `late_until` is the end by which a session is over, for a row behind the watermark.
        """
        starts, ends = self.starts.get(key, []), self.ends.get(key, [])
        first, after = bisect_left(ends, time), bisect_right(starts, time + gap)
        end = max(time + gap, ends[after - 1]) if first < after else time + gap
        if late_until is not None and (end <= late_until or time <= self.done.get(key, self.forgotten)):
            return None
        changed = min(end, ends[first]) if first < after else end, end
        starts[first:after] = [min(time, starts[first]) if first < after else time]
        ends[first:after] = [end]
        if len(starts) == 1:
            self.starts[key], self.ends[key] = starts, ends
        return changed

    def between(self, key: int, low: int, high: int) -> list[Span]:
        """Return the sessions that end in [low, high]."""
        starts, ends = self.starts.get(key, []), self.ends.get(key, [])
        chosen = slice(bisect_left(ends, low), bisect_right(ends, high))
        return list(zip(starts[chosen], ends[chosen], strict=True))

    def close(self, key: int, until: int) -> None:
        """Note that sessions which end by a time are final."""
        ends = self.ends.get(key, [])
        count = bisect_right(ends, until)
        if count:
            self.done[key] = ends[count - 1]
            del ends[:count], self.starts[key][:count]
            if not ends:
                del self.ends[key], self.starts[key]

    def next_end(self, key: int, after: int) -> int:
        """Return the first end after a time, END_OF_TIME if there is none."""
        ends = self.ends.get(key, [])
        at = bisect_right(ends, after)
        return ends[at] if at < len(ends) else END_OF_TIME

    def forget(self, key: int) -> None:
        """Forget a key."""
        for each in (self.starts, self.ends):
            each.pop(key, None)
        self.forgotten = max(self.forgotten, self.done.pop(key, BEFORE_TIME))

    def keys(self) -> Array:
        """Return the keys of which anything is known."""
        return np.array(sorted({*self.starts, *self.done}), np.int64)

    @property
    def nbytes(self) -> int:
        """The bytes of all times, about."""
        return 8 * (2 * sum(map(len, self.starts.values())) + len(self.done))

    def save(self) -> dict[str, Array]:
        """Return all sessions with their keys, then the ends of final ones: these start and end there."""
        rows = [(key, *span) for key in self.starts for span in self.between(key, BEFORE_TIME, END_OF_TIME)]
        rows += [(key, BEFORE_TIME, end) for key, end in self.done.items()]
        table = np.array(sorted(rows), np.int64).reshape(-1, 3)
        return {name: table[:, i].copy() for i, name in enumerate(("keys", "starts", "ends"))}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace everything but what is forgotten."""
        self.starts, self.ends, self.done = {}, {}, {}
        for key, start, end in zip(*(state[name].tolist() for name in ("keys", "starts", "ends")), strict=True):
            if start == BEFORE_TIME:
                self.done[key] = end
            else:
                self.starts.setdefault(key, []).append(start)
                self.ends.setdefault(key, []).append(end)


class ByGap(CutWindows):
    """One definition of sessions with a gap for each row; their order is that of their ends."""

    window: Any
    how: ClassVar[str] = (
        "a session is a range of rows; each row looks up those that it touches, in O(log n), and a late row revises "
        "its session, or makes one of several"
    )
    waits_at_end: ClassVar[int] = 1
    counts: ClassVar[tuple[str, ...]] = (*CutWindows.counts, "longest", "forgotten")

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        self._sessions = Sessions()
        self.longest = 0
        """The longest gap of all rows: how long a key may be silent before its final session is forgotten."""
        self._changed: list[tuple[int, int, int]] = []
        """Where sessions changed since windows were last emitted: the key, and the stretch of ends."""

    @property
    def forgotten(self) -> int:
        """The end of the last final session that is forgotten, of any key."""
        return self._sessions.forgotten

    @forgotten.setter
    def forgotten(self, end: int) -> None:
        self._sessions.forgotten = end

    @classmethod
    def answers(cls, window: Window) -> bool:
        """Return whether rows have gaps of their own."""
        return window.edges is EdgesFrom.GAPS

    # ------------------------------------------------------------ rows

    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return OWN for rows in a session that is not final, REFUSED for the rest, and for those without a gap."""
        verdicts = np.full(len(rows.times), REFUSED, np.int8)
        gaps = self.window.gaps(rows.columns)
        late = np.flatnonzero((gaps > 0) & (rows.times < watermark))
        if len(late):
            over = less(watermark, self.lateness)
            cells = (each[late].tolist() for each in (rows.keys, rows.times, gaps))
            for row, key, time, gap in zip(late.tolist(), *cells, strict=True):
                changed = self._sessions.add(key, time, gap, over)
                if changed is not None:
                    verdicts[row] = OWN
                    self._changed.append((key, *changed))
        punctual = np.flatnonzero((gaps > 0) & (rows.times >= watermark))
        verdicts[punctual] = OWN
        self._take(*(each[punctual] for each in (rows.keys, rows.times, gaps)))
        return verdicts

    def _take(self, keys: Array, times: Array, gaps: Array) -> None:
        """Take rows that are not late, those of a key together. O(1) each, and a look-up for each session of them."""
        ends = np.append(np.flatnonzero(np.diff(keys)) + 1, len(keys)).astype(np.int64)[: len(keys)]
        first, _, stop = filled(finding().spanned_windows, (np.ascontiguousarray(times), gaps, ends), 3)
        cells = (each.tolist() for each in (keys[first], times[first], stop - times[first]))
        for key, time, gap in zip(*cells, strict=True):
            changed = self._sessions.add(key, time, gap, None)
            assert changed is not None  # it is not late
            self._changed.append((key, *changed))

    def took(self, store: RowStore, rows: Batch) -> None:
        """Note the longest gap."""
        self.longest = max(self.longest, int(self.window.gaps(rows.columns).max(initial=0)))

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held, in the order of time."""
        super().begin(store, watermark)
        keys, places = store.rows()
        held = Batch(keys, store.tree.times[places], store.take(places))
        self._sessions = Sessions()
        self.admit(store, held, BEFORE_TIME)
        self.took(store, held)
        self._changed = []
        for key in store.present.tolist():
            self._sessions.close(key, self.settled(watermark))

    # ------------------------------------------------------------ windows

    def spans(self, store: RowStore, fresh: Fresh, moment: Moment) -> Spans:
        """Return the ends that were reached, and those of sessions with new rows."""
        changed, self._changed = np.array(self._changed, np.int64).reshape(-1, 3), []
        of_rows = changed[:, 0], changed[:, 1], changed[:, 2]
        return Spans.merged(store.kernels, self.due_now(fresh, moment), of_rows)

    def cut(self, store: RowStore, spans: Spans, moment: Moment) -> Cuts:
        """Return the sessions that end in some stretches. O(log n) each."""
        found = [
            (key, *span)
            for key, low, high in zip(*(each.tolist() for each in spans), strict=True)
            for span in self._sessions.between(key, low, high)
        ]
        table = np.array(found, np.int64).reshape(-1, 3)
        keys, start, end = (table[:, i].copy() for i in range(3))
        first, last, counts = store.within(keys, start, end)  # no gap is 0: all rows are before the end
        is_final = end <= self.settled(moment.before)
        return Cuts(keys, first, last, start, end, end, end, counts, is_final=is_final)

    def need(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Need the rows of sessions that are not final; look at a key at the next end, and until it is forgotten."""
        settled, sessions = self.settled(watermark), self._sessions
        oldest = np.full(len(keys), BEFORE_TIME)
        for i, key in enumerate(keys.tolist()):
            sessions.close(key, settled)
            done = sessions.done.get(key)
            if done is not None:
                oldest[i] = done + 1
                silent_until = done + self.longest
                if key not in sessions.ends and silent_until <= settled:
                    sessions.forget(key)
                else:
                    wake[i] = min(wake[i], silent_until + self.slack)
            due, final = sessions.next_end(key, watermark), sessions.next_end(key, settled)
            wake[i] = min(wake[i], due, min(final, END_OF_TIME - self.slack) + self.slack)
        np.minimum(needed, store.before(keys, oldest), out=needed)

    # ------------------------------------------------------------ keys

    def forget(self, keys: Array) -> None:
        """Forget the sessions of keys."""
        super().forget(keys)
        for key in keys.tolist():
            self._sessions.forget(key)

    def held_keys(self) -> Array:
        """Return the keys that have sessions, or had one lately."""
        return np.union1d(super().held_keys(), self._sessions.keys())

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The emitted windows, and the sessions."""
        return {**super().kept, "sessions": self._sessions}
