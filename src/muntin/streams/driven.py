"""A stream that another engine drives: that engine moves the watermark, the stream never does so by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.kernels.tiers import working_on
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams import snapshots
from muntin.streams.late_rows import LateRows
from muntin.streams.plan import Forced
from muntin.streams.slices.generations import by_key, by_time
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.slices import Slices
from muntin.streams.state import StreamState
from muntin.streams.strategy import Strategy
from muntin.windows.base import Window


class DrivenStream:
    """A stream in three steps: `set_watermark`, `take` rows, `emit` what is due.

    Whoever drives it throws it away when a step fails, so that no step need be taken back; that saves a restore point
    for each of them.

    >>> from muntin import Query, agg, window
    >>> query = Query(window.tumbling(10), {"n": agg.count()}, time="t", watermark=2)
    >>> stream = DrivenStream(query, pa.schema({"t": pa.int64()}))
    >>> stream.take(pa.table({"t": [1, 4, 50]}))
    >>> stream.emit().num_rows
    0
    >>> stream.set_watermark(10)
    >>> stream.emit()["n"].to_pylist()
    [2]
    """

    def __init__(self, query: Query, schema: pa.Schema, now: int = 0) -> None:
        self.now = now
        """The clock's time in nanoseconds, which the driver sets too."""
        self._state = StreamState(query, Forced(), lambda: self.now, dict(enumerate(query.windows)))
        self._core = self._state.resolve(schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of all answers."""
        return self._core.tables.schema

    @property
    def watermark(self) -> int | None:
        """The watermark, in the unit of the time column; None before it was first set."""
        return self._state.watermark

    def set_watermark(self, watermark: int) -> None:
        """Move the watermark, which is the greatest time of any row less its delay. O(1)."""
        progress = self._core.progress
        progress.look_at_clock()
        progress.reach(watermark + progress.delay)

    def note_rows(self) -> None:
        """Note that rows came, of this stream or of others that share its watermark: it is not idle. O(1)."""
        self._core.progress.look_at_clock()
        self._core.progress.note_rows()

    def follow_clock(self) -> None:
        """Move the watermark with the clock, where no rows have come for the query's `idle_timeout`. O(1)."""
        self._core.progress.look_at_clock()
        self._core.progress.follow_clock()

    @property
    def idle_at(self) -> int | None:
        """When the stream is idle, by the clock in nanoseconds; None for a query without `idle_timeout`."""
        return self._core.progress.idle_at

    # ------------------------------------------------------------ rows in, windows out

    def take(self, data: pa.Table) -> None:
        """Take rows, judged by the watermark; those that no window takes are kept for `take_late`."""
        with working_on(data.num_rows):
            self._state.take(data)

    @property
    def slices(self) -> list[Slices] | None:
        """What keeps the rows, where that is slices which can be made elsewhere; None otherwise."""
        return mergeable_slices(self._core.strategies)

    def take_slices(self, keys: list[pa.Array], partials: Partials) -> None:
        """Take slices that were made elsewhere, of rows with these keys; rows of no window are counted as dropped."""
        numbers = self._core.keys.numbers(keys, len(partials.low))
        watermark = self._core.progress.watermark
        taken = np.zeros(len(numbers), np.bool_)
        for each in self.slices or ():
            # Windows that were added later are kept apart, and have edges of their own.
            low, high = each.shapes.interval(partials.low)
            taken |= each.take_partials(replace(partials, keys=numbers, low=low, high=high), watermark)
        rows = partials.count
        self._state.count(int(rows.sum()), int(rows[partials.high <= watermark].sum()), int(rows[~taken].sum()))

    def take_late(self) -> pa.Table:
        """Return the rows that no window took, and forget them."""
        late = self._state.late
        self._state.late = LateRows(schema=late.schema)
        return late.table()

    def emit(self, *, early: bool = False) -> pa.Table:
        """Return the windows that are due, or have changed since; `early` adds others that hold rows."""
        out = self._core.table(self._core.emit(early=early))
        self._core.release_keys()
        return out

    def begin_early(self) -> bool:
        """Return whether early results are due, and begin the wait for the next ones if they are."""
        self._core.progress.look_at_clock()
        return self.watermark is not None and self._core.progress.begin_early()

    # ------------------------------------------------------------ state

    def add(self, window: Window) -> int:
        """Answer one more window from now on; return its window_id."""
        return self._state.add(window)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept of any row: a new stream would go on just as well."""
        return not any(len(each.held_keys()) for each in self._core.strategies)

    def metrics(self) -> dict[str, int | None]:
        """Return counts of rows and of state; see `Stream.metrics`."""
        return self._state.metrics()

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        for each in self._core.strategies:
            each.check()

    def save(self) -> Snapshot:
        """Return the whole state, slices by time: what is new since the last time is then together."""
        snapshot = snapshots.save(self._state)
        return replace(snapshot, arrays=by_time(snapshot.arrays))

    @classmethod
    def load(cls, query: Query, schema: pa.Schema, snapshot: Snapshot, now: int = 0) -> DrivenStream:
        """Return a stream that goes on from a state that `save` returned, or that has its slices by key."""
        stream = cls(query, schema, now)
        snapshots.load(stream._state, replace(snapshot, arrays=by_key(snapshot.arrays)))
        stream._core = stream._state.resolved
        return stream


def mergeable_slices(strategies: Sequence[Strategy]) -> list[Slices] | None:
    """Return strategies as slices that can be made elsewhere and merged here; None where one of them is none."""
    found = [each for each in strategies if isinstance(each, Slices) and each.has_partials]
    return found if len(found) == len(strategies) else None
