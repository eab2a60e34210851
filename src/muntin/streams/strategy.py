"""The interface of strategies: each takes rows, and answers the windows that are due.

A stream hands each strategy some of the query's windows. It numbers the keys, keeps the watermark and puts answers
into tables; a strategy keeps what its windows need of the rows, and knows nothing of tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muntin.aggregators.choose import Chosen
from muntin.columns import Column, extent
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import SnapshotError, UnsupportedOperationError
from muntin.query.plan import Plan
from muntin.restoring import RestorePoint
from muntin.streams.change import Change, Missing
from muntin.streams.places import Places
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.segments import Segment, Segmented
from muntin.tables.answers import Answers
from muntin.types import Array
from muntin.windows.base import Window


class Batch:
    """The rows of one push, in the order of arrival."""

    __slots__ = ("arrived", "columns", "keys", "latest", "least", "takes", "times")

    def __init__(
        self,
        keys: Array,
        times: Array,
        columns: Mapping[str, Column],
        arrived: int = 0,
        takes: Array | None = None,
    ) -> None:
        self.keys = keys
        """The number of each row's key: small, and stable as long as anything of the key is kept."""
        self.times = times
        self.columns = columns
        self.arrived = arrived
        """The number of earlier rows in this stream: row i is number arrived + i."""
        self.takes = takes
        """Which rows take another one back; None if none does."""
        came = times if takes is None else times[~takes]
        self.least, self.latest = extent(came) if len(came) else (END_OF_TIME, BEFORE_TIME)
        """The least and the greatest time of the rows that come."""

    def take(self, rows: Array) -> Batch:
        """Return some of the rows, by their places in the batch."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        takes = None if self.takes is None else self.takes[rows]
        return Batch(self.keys[rows], self.times[rows], columns, self.arrived, takes)


@dataclass(frozen=True)
class HeldBatch:
    """The rows that a strategy holds, by key and time, for another one to begin with."""

    rows: Batch
    watermark: int
    complete_from: int
    """Every row from this time on is among them."""
    kept_from: int
    """No row from this time on was evicted."""


@dataclass(frozen=True)
class KeyedState:
    """The state of some keys, numbered from 0 on: what answers points, without what is known of emitted windows."""

    fixed: Mapping[str, Array]
    """What stays as it is while windows do: which of them share rows."""
    marks: Mapping[str, Array]
    """How far the stream had come, the same for all keys. Of two states the greater numbers hold for both."""
    numbers: Mapping[str, Array]
    """One entry for each key."""
    tables: Mapping[str, Mapping[str, Array]]
    """Columns by table, an entry for each row; the first column is the key, ascending."""

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays by name, those of tables under the name of the table."""
        columns = {f"{name}.{column}": held for name, table in self.tables.items() for column, held in table.items()}
        return {**self.fixed, **self.marks, **self.numbers, **columns}


KEYED = ("fixed", "marks", "numbers", "tables")
"""The fields of a `KeyedState`."""


class Strategy(ABC):
    """A way to keep what windows need of the rows."""

    takes_back: ClassVar[bool] = False
    """Whether it understands deletions: see `Batch.takes`."""
    keeps: ClassVar[str | None] = None
    """What is kept of rows besides states, an answer of `decisions.KEPT`; None if each window decides."""

    def __init__(self, plan: Plan) -> None:
        reason = self.can(plan)
        if reason is not None:
            raise UnsupportedOperationError(reason)
        self.plan = plan

    @classmethod
    @abstractmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why this strategy cannot answer a plan, or None if it can."""

    def require_rows(self, batch: Batch) -> None:
        """Reject rows that it cannot take, before anything has changed. By default it takes all."""

    @abstractmethod
    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took."""

    @abstractmethod
    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted.

        Evicts what no window needs any more. `horizon` is the greatest time known, from rows or from a watermark:
        windows without rows are emitted up to it. With `early`, windows that are not due yet are emitted too.
        """

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of the requested frames at points; change nothing.

        `complete_from` maps their window_ids to the time before which they may lack rows, None if they have had all.
        Rejects a point whose frame may hold evicted rows.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot tell what frames hold at points")

    def rows_held(self) -> HeldBatch | None:
        """Return the rows that are kept; None if only states are. O(n)."""
        return None

    def begin(self, held: HeldBatch) -> int | None:
        """Begin with these rows, before any others; return the time from which they are complete. O(n).

        None if rows that are in the stream already are of no use: then it begins with the next row.
        """
        return None

    @abstractmethod
    def held_keys(self) -> Array:
        """Return the numbers of the keys of which anything is kept, ascending: the others may be reused."""

    def kept_for_ever(self) -> Array:
        """Return the numbers of keys that are kept however long they stay silent."""
        return np.zeros(0, np.int64)

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys that would be kept forever; return their remaining windows, as if closed.

        By default nothing is kept forever.
        """
        return []

    @abstractmethod
    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays by name, which never change afterwards."""

    def save_changes(self) -> tuple[dict[str, Array], Mapping[str, list[Segment]]]:
        """Return the state and, by the prefix of their arrays, rows in segments: those that changed have arrays.

        By default all is in the state.
        """
        return self.save(), {}

    def go_on_from(self, known: Mapping[str, Segmented]) -> None:
        """Note the segments that the state was loaded from, by the prefix of their arrays."""

    def require_loadable(self, state: Mapping[str, Array]) -> None:
        """Reject a state with other arrays or fields: another version may have fused aggregations otherwise."""
        for name, array in self.save().items():
            found = state.get(name)
            if found is None or (array.dtype.names is not None and found.dtype != array.dtype):
                raise SnapshotError(
                    f"the snapshot was written by a version of muntin that kept {name!r} otherwise; let that version "
                    "finish the stream, or push its rows again"
                )

    @abstractmethod
    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a strategy with the same plan."""

    def adopt(self, saved: Mapping[str, Array], change: Change) -> None:
        """Replace the state by one that a strategy of the same kind saved, of other windows or aggregates."""
        raise SnapshotError(f"{type(self).__name__} cannot go on with the state of another query")

    def complete(self, batch: Batch, missing: Missing) -> None:
        """Give aggregates that came later the rows of a history, by key and time: those that the others have had."""
        raise missing.refusal(f"{type(self).__name__} takes no history of rows that it has had")

    def save_keys(self, keys: Array) -> KeyedState:
        """Return what `ask` needs of some keys, ascending, which are renumbered in their order. O(state of the keys).

        `load_keys` of a strategy with the same plan takes it, and those of several streams joined.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot tell what it keeps of a single key")

    def load_keys(self, state: Mapping[str, Array], keys: int) -> None:
        """Replace the state by the arrays of a `KeyedState` of so many keys, by name, to answer points."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot tell what it keeps of a single key")

    @property
    def row_bytes(self) -> int | None:
        """The bytes of a row that is kept; None if that is not known."""
        return None

    @property
    def besides(self) -> str:
        """What is kept besides rows and states, in words; empty if nothing is."""
        return ""

    def how(self, window_id: int) -> str:
        """Return how it finds the windows of a definition, and what a push costs; empty if it does not tell."""
        return ""

    @property
    def places(self) -> tuple[Places, ...]:
        """Where the saved arrays have what belongs to which aggregate: another order of aggregates finds it there.

        Empty if nothing depends on that order. By default all does, and another order is refused.
        """
        return (Places("", tuple(self.plan.aggregates)),)

    @property
    def may_fail(self) -> bool:
        """Whether taking rows or answering windows can raise an error, as a user's own functions may."""
        return True

    def may_open_many(self, span: int, keys: int) -> bool:
        """Return whether moving the watermark by `span` may make more windows due than a call may find. O(1).

        Only called if `may_fail` is false.
        """
        return False

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""
        state = self.save()
        return lambda: self.load(state)

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Answer one more definition, from the current state; return the time from which its windows are complete.

        `plan` is the plan with the definition in it.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} cannot take {definition!r} on while rows come")

    def begin_at(self, since: int) -> None:
        """Note that rows before a time were never given: the strategy began in the midst of a stream."""

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition. `plan` is the plan without it."""
        raise UnsupportedOperationError(f"{type(self).__name__} cannot let window {window_id} go while rows come")

    @abstractmethod
    def merged_by(self) -> Iterator[Chosen]:
        """Yield what merges states or rows into windows, for all aggregates; `explain` shows it."""

    @abstractmethod
    def metrics(self) -> dict[str, int]:
        """Return counts such as slices, splits, merges, kept (rows), bytes (of state)."""

    @abstractmethod
    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
