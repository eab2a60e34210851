"""The whole state of a stream: `Stream` and `DrivenStream` work on it, and snapshots save it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.query.computing import expressions_of
from muntin.query.plan import Types
from muntin.query.query import Query
from muntin.restoring import RestorePoint
from muntin.streams.core import StreamCore
from muntin.streams.late_rows import LateRows
from muntin.streams.plan import Forced
from muntin.streams.reading import in_types
from muntin.streams.row_reading import Row
from muntin.streams.strategy import Batch
from muntin.windows.base import Window

if TYPE_CHECKING:
    from muntin.expressions.rows import RowExpressions

FIRST_COUNTS = ("rows", "late", "dropped")
"""The counts in every snapshot; others are saved only if there is something to count."""


@dataclass
class StreamState:
    """A query over arriving rows, from before the first row on."""

    query: Query
    forced: Forced
    clock: Callable[[], int]
    windows: dict[int, Window]
    """The windows to answer, as the user wrote them, by window_id."""
    expressions: RowExpressions | None = None
    """What the query computes, once types of columns are known; None if it computes nothing."""
    expressed_elsewhere: Mapping[str, str] = field(default_factory=dict)
    """The facts of expressions that another engine evaluates, which the query has no more."""
    core: StreamCore | None = None
    """None before the first row, which resolves the types of the columns."""
    first_watermark: int | None = None
    """A watermark set before the first row."""
    closed: bool = False
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys((*FIRST_COUNTS, "late_let_go", "forgotten", "unmatched"), 0)
    )
    late: LateRows = field(default_factory=LateRows)
    complete_from: dict[int, int | None] = field(default_factory=dict)
    most_late: int | None = None
    """How many late rows are kept for `take_late`; None for all."""

    @property
    def resolved(self) -> StreamCore:
        """The core, which must be resolved."""
        assert self.core is not None
        return self.core

    def resolve(self, schema: pa.Schema) -> StreamCore:
        """Resolve the types of the columns; return the core."""
        types = Types.of(self.query, schema)
        self.core = StreamCore(self.query, self.windows, types, self.forced, self.clock)
        if self.first_watermark is not None:
            self.core.progress.set_watermark(self.first_watermark, self.first_watermark)
        return self.core

    # ------------------------------------------------------------ rows

    def computed(self, data: pa.Table | Row) -> tuple[pa.Table | Row, RowExpressions | None]:
        """Return the rows that the query's condition holds for, with its columns, and how they were computed. O(rows).

        The types of the columns that expressions read are those of the first rows, as those of all others are.
        """
        if not self.query.computes:
            return data, None
        table = data.table() if isinstance(data, Row) else data
        known = self.expressions or expressions_of(self.query, table.schema)
        assert known is not None
        return known.over(in_types(table, known.inputs)), known

    def take(self, data: pa.Table | Row) -> Batch:
        """Take rows, judged by the watermark; count and keep the late ones. Returns the rows as read."""
        core = self.resolved
        batch = core.read(data, self.counts["rows"])
        watermark = core.progress.watermark
        taken = core.take(batch)
        came = batch.times if batch.takes is None else batch.times[~batch.takes]
        behind = int(np.count_nonzero(came < watermark)) if batch.least < watermark else 0
        dropped = len(taken) - int(np.count_nonzero(taken))
        unmatched = 0 if batch.takes is None else int(np.count_nonzero(~taken & batch.takes))
        self.count(data.num_rows, behind, dropped - unmatched)
        self.counts["unmatched"] += unmatched
        if dropped or self.late.schema is None:
            late = self.late.with_rows(data.table() if isinstance(data, Row) else data, ~taken)
            self.late, let_go = late.newest(self.most_late)
            self.counts["late_let_go"] += let_go
        return batch

    def count(self, rows: int, late: int, dropped: int) -> None:
        """Count rows: all, those behind the watermark, those that no window took."""
        self.counts["rows"] += rows
        self.counts["late"] += late
        self.counts["dropped"] += dropped

    # ------------------------------------------------------------ adding and removing windows

    def add(self, window: Window, *, may_widen: bool = False) -> int:
        """Answer one more window from now on; return its window_id.

        With `may_widen` answers get the fields that its bounds need.
        """
        window_id = len(self.query.windows)
        query = replace(self.query, windows={**self.query.windows.by_name, f"w{window_id}": window})
        if self.core is not None:
            self.complete_from[window_id] = self.core.add(query, window_id, window, may_widen=may_widen)
        self.query = query
        self.windows[window_id] = window
        return window_id

    def remove(self, window_id: int) -> None:
        """Stop answering a window."""
        if self.core is not None:
            self.core.remove(window_id)
        del self.windows[window_id]

    # ------------------------------------------------------------ inspection

    @property
    def watermark(self) -> int | None:
        """The watermark; None if there is none yet."""
        if self.core is None:
            return self.first_watermark
        reached = self.core.progress.watermark
        return None if reached == BEFORE_TIME else reached

    def metrics(self) -> dict[str, int | None]:
        """Return the counts of rows and of state."""
        totals = dict.fromkeys(("slices", "splits", "merges", "kept", "keys", "bytes"), 0)
        if self.core is not None:
            for each in self.core.strategies:
                for name, count in each.metrics().items():
                    totals[name] = totals.get(name, 0) + count
            totals["keys"] = len(self.core.keys)
            totals["bytes"] += self.core.keys.nbytes
        return {**self.all_counts(), **totals, "watermark": self.watermark}

    def all_counts(self) -> dict[str, int]:
        """Return the counts of rows and of forgotten keys."""
        forgotten = 0 if self.core is None else self.core.forgotten
        return {**self.counts, "forgotten": self.counts["forgotten"] + forgotten}

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""
        mine = vars(self).copy()
        mine["windows"], mine["counts"] = self.windows.copy(), self.counts.copy()
        mine["complete_from"] = self.complete_from.copy()
        restore_core = None if self.core is None else self.core.restore_point()

        def restore() -> bool:
            vars(self).update(mine)
            return restore_core is None or restore_core() is not False

        return restore
