"""A stream that another engine drives: it is told how far time has come, and never finds out by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams import snapshots
from muntin.streams.slices.generations import by_key, by_time
from muntin.streams.slices.partials import Partials
from muntin.streams.slices.slices import Slices
from muntin.streams.stream import Stream
from muntin.types import ColumnType


class ToldStream(Stream):
    """A stream in three steps: `tell` how far time has come, `take` rows, `emit` what is due.

    Whoever drives it throws it away when a step fails, so that none of them can be undone; that saves a copy of the
    state for each step.

    >>> from muntin import Query, agg, window
    >>> query = Query(window.tumbling(10), {"n": agg.count()}, time="t", watermark=2)
    >>> stream = ToldStream(query, pa.schema({"t": pa.int64()}))
    >>> stream.take(pa.table({"t": [1, 4, 50]}))
    >>> stream.emit().num_rows
    0
    >>> stream.tell(10)
    >>> stream.emit()["n"].to_pylist()
    [2]
    """

    def __init__(self, query: Query, schema: pa.Schema, now: int = 0) -> None:
        self.now = now  # the clock's time, in nanoseconds, which it is told too
        super().__init__(query, clock=self._read_clock)
        self._settle(schema.empty_table())

    def _read_clock(self) -> int:
        return self.now

    @property
    def schema(self) -> pa.Schema:
        """The columns of all answers."""
        return self._require_settled().tables.schema

    @property
    def time_type(self) -> ColumnType:
        """The type of the time column."""
        return self._require_settled().plan.time_type

    @property
    def column_types(self) -> Mapping[str, ColumnType]:
        """The types of the columns that aggregates and windows read."""
        return self._require_settled().plan.types

    def tell(self, watermark: int) -> None:
        """Say that the watermark, which is the greatest time of any row less its delay, is here. O(1)."""
        progress = self._require_settled().progress
        progress.reached(watermark + progress.delay)

    def take(self, data: pa.Table) -> None:
        """Take rows, judged by the watermark; those that no window takes are in `late`."""
        settled = self._require_settled()
        batch, _ = settled.batch(data, self._counts["rows"])
        watermark = settled.progress.watermark
        taken = np.zeros(data.num_rows, np.bool_)
        for each in settled.strategies:
            taken |= each.take(batch, watermark)
        self._count(data, batch.times < watermark, ~taken)

    @property
    def slices(self) -> list[Slices] | None:
        """What keeps the rows, where that is slices which can be made elsewhere; None otherwise."""
        kept = self._require_settled().strategies
        found = [each for each in kept if isinstance(each, Slices) and each.has_partials]
        return found if len(found) == len(kept) else None

    def take_slices(self, keys: list[pa.Array], partials: Partials) -> None:
        """Take slices that were made elsewhere, of rows with these keys; rows of no window are counted as dropped."""
        settled = self._require_settled()
        numbers = settled.number_keys(keys, len(partials.low))
        watermark = settled.progress.watermark
        taken = np.zeros(len(numbers), np.bool_)
        for each in self.slices or ():
            # Windows that were added later are kept apart, and have edges of their own.
            low, high = each.shapes.interval(partials.low)
            taken |= each.take_partials(replace(partials, keys=numbers, low=low, high=high), watermark)
        self._counts["rows"] += int(partials.count.sum())
        self._counts["late"] += int(partials.count[partials.high <= watermark].sum())
        self._counts["dropped"] += int(partials.count[~taken].sum())

    def emit(self, *, early: bool = False) -> pa.Table:
        """Return the windows that are due, or have changed since; `early` adds others that hold rows."""
        out = self._table(self._emit(early))
        self._release_keys()
        return out

    def is_early(self) -> bool:
        """Say whether early results are wanted now, and note that they are given."""
        settled = self._require_settled()
        return self.watermark is not None and settled.progress.is_early()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept of any row: a new stream would go on just as well."""
        return not any(len(each.held_keys()) for each in self._require_settled().strategies)

    def save(self) -> Snapshot:
        """Return the whole state, slices by time: what is new since the last time is then together."""
        snapshot = snapshots.state_of(self)
        return replace(snapshot, arrays=by_time(snapshot.arrays))

    @classmethod
    def load(cls, query: Query, schema: pa.Schema, snapshot: Snapshot, now: int = 0) -> ToldStream:
        """Return a stream that goes on from a state that `save` returned, or that has its slices by key."""
        stream = cls(query, schema, now)
        snapshots.load(stream, replace(snapshot, arrays=by_key(snapshot.arrays)))
        return stream
