"""Rows that deletions may take back: the strategy for changelogs, of any window and any aggregation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import ClassVar

import numpy as np

from muntin.aggregations.failing import in_words
from muntin.aggregators.choose import Chosen
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.query.plan import Plan
from muntin.streams.changing.kinds import kind_for
from muntin.streams.changing.part import ChangingPart
from muntin.streams.decisions import ROWS
from muntin.streams.places import Places
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.rows.part import Moment
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array


class Changelog(Strategy):
    """Rows in the order of time, of which any may be taken back.

    A deletion finds its row in O(log n). A push copies the rows held, at the speed of memory, and finds the windows of
    the keys that it changes among all their rows: O(rows of these keys). What those windows held when they were emitted
    is known by a sum over the numbers of their rows.
    """

    takes_back = True
    keeps = ROWS
    how_found: ClassVar[str] = (
        "deletions may take back any row: a push finds the windows of the keys that it changes among all rows of these "
        "keys, and emits those that hold other rows than they did"
    )

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.parts = [ChangingPart(i, each, plan) for i, each in plan.windows.items()]
        self._watermark = BEFORE_TIME

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why nothing is taken back, or which windows have no rows that tell them."""
        if not plan.changes:
            return "no row is taken back: changes= is not given"
        other = [each for each in plan.windows.values() if kind_for(each) is None]
        return f"deletions from {other[0]!r} are not told" if other else None

    def merged_by(self) -> Iterator[Chosen]:
        """Yield what aggregates the rows of windows."""
        yield Chosen(tuple(self.plan.aggregates), "the aggregators of run", "any row may have gone")

    @property
    def row_bytes(self) -> int:
        """The bytes of a row, for each window: key, time, number, and what is read of it."""
        columns = sum(kind.physical.itemsize + 1 for kind in self.plan.types.values())
        return (24 + columns) * len(self.parts)

    @property
    def besides(self) -> str:
        """Emitted windows, if any may still change."""
        return "more for emitted windows that may still change" if any(part.remembers for part in self.parts) else ""

    def how(self, window_id: int) -> str:
        """Return how it finds the windows of a definition, and what a push costs."""
        return self.how_found

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, and take rows back; return which were of use to some window."""
        if self._watermark == BEFORE_TIME:
            self._watermark = watermark  # windows that were final before any row are not emitted
        masks = [part.take(batch, watermark) for part in self.parts]
        return reduce(np.logical_or, masks, np.zeros(len(batch.times), np.bool_))

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        moment = Moment(self._watermark, watermark, horizon, early)
        with self._in_words():
            found = [each for part in self.parts for each in part.emit(part.awake(watermark, early), moment)]
        self._watermark = watermark
        return found

    def _in_words(self) -> in_words:
        return in_words(self.plan.aggregates.values(), self.plan.types.values())

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points. O(rows of their keys)."""
        for part in self.parts:
            if part.window_id in complete_from:
                with self._in_words():
                    yield part.ask(points, complete_from[part.window_id])

    def held_keys(self) -> Array:
        """Return the keys of which anything is kept, ascending."""
        return reduce(np.union1d, (part.held_keys() for part in self.parts), np.zeros(0, np.int64))

    def kept_for_ever(self) -> Array:
        """Return the keys whose rows stay however long they are silent."""
        held = (part.held_keys() for part in self.parts if part.kind.for_ever or part.kind.emits_empty)
        return reduce(np.union1d, held, np.zeros(0, np.int64))

    def forget(self, keys: Array, horizon: int) -> list[Answers]:
        """Forget keys, which start over with their next row; return their remaining windows."""
        chosen = np.intersect1d(keys, self.kept_for_ever())
        moment = Moment(self._watermark, END_OF_TIME, horizon)
        return [each for part in self.parts for each in part.forget(chosen, moment)] if len(chosen) else []

    def remove(self, window_id: int, plan: Plan) -> None:
        """Stop answering a definition."""
        self.plan = plan
        self.parts = [part for part in self.parts if part.window_id != window_id]

    # ------------------------------------------------------------ state

    @property
    def places(self) -> tuple[Places, ...]:
        """Nothing: rows are kept by the names of their columns."""
        return ()

    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays by name; they are never written to. O(keys)."""
        state = {"watermark": np.array([self._watermark], np.int64)}
        for part in self.parts:
            state |= {f"{part.window_id}.{name}": array for name, array in part.save().items()}
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned."""
        self._watermark = int(state["watermark"][0])
        for part in self.parts:
            prefix = f"{part.window_id}."
            part.load({n.removeprefix(prefix): array for n, array in state.items() if n.startswith(prefix)})

    def metrics(self) -> dict[str, int]:
        """Return the number of rows held, and the bytes of state."""
        return {
            "kept": sum(len(part.rows) for part in self.parts),
            "bytes": sum(part.nbytes for part in self.parts),
        }

    def check(self) -> None:
        """Raise `InvariantError` if the rows are not in order."""
        for part in self.parts:
            part.rows.check()
