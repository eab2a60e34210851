"""A stream driven by another engine, which moves the watermark; the stream never does so itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.kernels.tiers import working_on
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams import snapshots
from muntin.streams.adopting import go_on
from muntin.streams.late_rows import LateRows
from muntin.streams.plan import Forced
from muntin.streams.segments import Segment, Segmented
from muntin.streams.slices.generations import by_key, by_time
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.slices import Slices
from muntin.streams.state import StreamState
from muntin.streams.strategy import Strategy
from muntin.types import Array
from muntin.windows.base import Window


class DrivenStream:
    """A stream in three steps: `set_watermark`, `take` rows, `emit` what is due.

    The driver discards the stream when a step fails, so no step is rolled back; that saves a restore point per step.

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
        """The clock's time in nanoseconds; also set by the driver."""
        self._state = StreamState(query, Forced(), lambda: self.now, dict(enumerate(query.windows)))
        self._core = self._state.resolve(schema)
        self.notes_changes = False
        """Whether `take_changes` returns anything; also set by the driver."""
        self._changed: list[Array] = []
        self._gone: list[list[pa.Array]] = []

    @property
    def schema(self) -> pa.Schema:
        """The columns of all answers."""
        return self._core.tables.schema

    @property
    def watermark(self) -> int | None:
        """The watermark, in the unit of the time column; None before it is first set."""
        return self._state.watermark

    def set_watermark(self, watermark: int) -> None:
        """Set the watermark: the greatest time of any row less the delay. O(1)."""
        progress = self._core.progress
        progress.look_at_clock()
        progress.reach(watermark + progress.delay)

    def note_rows(self) -> None:
        """Record that rows came, to this stream or to another that shares its watermark: it is not idle. O(1)."""
        self._core.progress.look_at_clock()
        self._core.progress.note_rows()

    def follow_clock(self) -> None:
        """Move the watermark with the clock, if no rows have come for the query's `idle_timeout`. O(1)."""
        self._core.progress.look_at_clock()
        self._core.progress.follow_clock()

    @property
    def idle_at(self) -> int | None:
        """When the stream becomes idle, by the clock in nanoseconds; None without `idle_timeout`."""
        return self._core.progress.idle_at

    @property
    def query(self) -> Query:
        """The query, with the windows added since."""
        return self._state.query

    # ------------------------------------------------------------ rows in, windows out

    def take(self, data: pa.Table) -> None:
        """Take rows, late ones judged by the watermark; those that no window takes are kept for `take_late`."""
        with working_on(data.num_rows):
            batch = self._state.take(data)
        if self.notes_changes:
            self._changed.append(batch.keys)

    @property
    def slices(self) -> list[Slices] | None:
        """The strategies, if all are slices that can be built elsewhere; None otherwise."""
        return mergeable_slices(self._core.strategies)

    def take_slices(self, keys: list[pa.Array], partials: Partials) -> None:
        """Merge slices that were built elsewhere, of these keys; rows of no window are counted as dropped."""
        numbers = self._core.keys.numbers(keys, len(partials.low))
        watermark = self._core.progress.watermark
        taken = np.zeros(len(numbers), np.bool_)
        for each in self.slices or ():
            # Windows added later are kept separately, with their own edges.
            low, high = each.shapes.interval(partials.low)
            taken |= each.take_partials(replace(partials, keys=numbers, low=low, high=high), watermark)
        self._core.latest = max(self._core.latest, int(partials.high.max(initial=BEFORE_TIME)) - 1)
        rows = partials.count
        self._state.count(int(rows.sum()), int(rows[partials.high <= watermark].sum()), int(rows[~taken].sum()))

    def take_late(self) -> pa.Table:
        """Return the rows that no window took, and clear them."""
        late = self._state.late
        self._state.late = LateRows(schema=late.schema)
        return late.table()

    def emit(self, *, early: bool = False) -> pa.Table:
        """Return the windows that are due or have changed; `early` adds others that hold rows."""
        out = self._core.table(self._core.emit(early=early))
        self._core.release_keys(self._note_gone if self.notes_changes else None)
        return out

    def set_expressions(self, facts: Mapping[str, str]) -> None:
        """Set the facts of the expressions by which the driver computes rows, for what is published of the query."""
        self._state.expressed_elsewhere = facts

    def _note_gone(self, idle: Array) -> None:
        """Note keys whose numbers are given to others."""
        self._gone.append(self._core.keys.take(idle))
        self._changed = [each[~np.isin(each, idle)] for each in self._changed]

    def take_changes(self) -> tuple[Array, list[list[pa.Array]]]:
        """Return the numbers of the keys that had rows since the last call, and the keys of which nothing is left.

        All keys, if nothing is left of any: whoever drives the stream forgets it then.
        """
        changed, gone, self._changed, self._gone = self._changed, self._gone, [], []
        if self.is_empty:
            return self._core.keys.in_use(), gone
        return np.unique(np.concatenate([np.zeros(0, np.int64), *changed])), gone

    @property
    def state(self) -> StreamState:
        """The state, to be read."""
        return self._state

    def begin_early(self) -> bool:
        """Return whether early results are due; if so, start the wait for the next ones."""
        self._core.progress.look_at_clock()
        return self.watermark is not None and self._core.progress.begin_early()

    # ------------------------------------------------------------ state

    def add(self, window: Window) -> int:
        """Answer one more window from now on, which answers may need more fields for; return its window_id."""
        return self._state.add(window, may_widen=True)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept of any row: a new stream would do as well."""
        return not any(len(each.held_keys()) for each in self._core.strategies)

    def metrics(self) -> dict[str, int | None]:
        """Return counts of rows and of state; see `Stream.metrics`."""
        return self._state.metrics()

    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
        for each in self._core.strategies:
            each.check()

    def save(self) -> Snapshot:
        """Return the whole state, slices in time order, so that what is new since the last save is contiguous."""
        snapshot = snapshots.save(self._state)
        return replace(snapshot, arrays=by_time(snapshot.arrays))

    def save_changes(self) -> tuple[Snapshot, dict[str, list[Segment]]]:
        """Return the state, and many rows in segments, by the prefix of their arrays.

        Segments that changed since the last such save have arrays, to be written; the others were written.
        """
        segments: dict[str, list[Segment]] = {}
        snapshot = snapshots.save(self._state, segments)
        return replace(snapshot, arrays=by_time(snapshot.arrays)), segments

    @classmethod
    def load(
        cls,
        query: Query,
        schema: pa.Schema,
        snapshot: Snapshot,
        now: int = 0,
        known: Mapping[str, Segmented] | None = None,
        order: Sequence[str] | None = None,
        *,
        adopt: bool = False,
    ) -> DrivenStream:
        """Return a stream that resumes from a state of `save`, or from one with its slices by key.

        `known` are the segments that its rows were in, which need not be written again; `order` is that of the
        aggregates in a state of version 2, which does not record it. With `adopt` the state may be of another query.
        """
        stream = cls(query, schema, now)
        snapshot = replace(snapshot, arrays=by_key(snapshot.arrays))
        if adopt:
            go_on(stream._state, snapshot, schema)
        else:
            snapshots.load(stream._state, snapshot, known, order)
        stream._core = stream._state.resolved
        return stream


def mergeable_slices(strategies: Sequence[Strategy]) -> list[Slices] | None:
    """Return the strategies, if all are slices that can be built elsewhere and merged here; else None."""
    found = [each for each in strategies if isinstance(each, Slices) and each.has_partials]
    return found if len(found) == len(strategies) else None
