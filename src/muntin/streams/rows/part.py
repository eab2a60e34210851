"""One definition over rows in order: the interface of every kind of windows whose edges depend on rows.

A part says which rows it admits, which of its windows are due or hold other rows than when they were emitted, which
rows it no longer needs, and when to look at a key again. `rows` does the rest: it keeps the rows, aggregates them, and
evicts what no part needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from muntin.durations import END_OF_TIME
from muntin.streams.rows.finding import Fresh
from muntin.streams.rows.tree import NONE
from muntin.types import Array
from muntin.windows.base import Window

if TYPE_CHECKING:
    from muntin.aggregations.binding import Binding
    from muntin.query.plan import Plan
    from muntin.streams.change import Change
    from muntin.streams.points import AskedPoints
    from muntin.streams.rows.store import RowStore
    from muntin.streams.strategy import Batch

REFUSED, HELD, OWN = 0, 1, 2
"""The verdict on a row. A held row is in windows of others, but too late for one of its own."""


@dataclass(frozen=True)
class Moment:
    """The moment at which windows are emitted."""

    before: int
    """The watermark at which they were emitted last: what was final by then never changes."""
    watermark: int
    horizon: int
    """The greatest time known, from rows or from a watermark."""
    early: bool = False
    """Whether windows that are not due yet are emitted, too."""


@dataclass(frozen=True)
class Emission:
    """Windows of one definition to emit, or to retract."""

    keys: Array
    first: Array
    last: Array
    """The positions between which their rows are; NONE where they hold none. Nothing if they are retracted."""
    start: Array
    end: Array
    revisions: Array
    rows: tuple[Array, Array] | None = None
    values: tuple[Array, Array] | None = None
    at: Array | None = None
    is_retracted: bool = False
    places: Array | None = None
    """The places of their rows, if those of a window are not next to one another: `first` and `last` count these."""


@dataclass(frozen=True)
class Held:
    """What is known of the rows that a store holds."""

    store: RowStore
    kept_from: int
    """No row from this time on was evicted."""
    forgotten_at: int
    """The watermark at which keys were last forgotten."""


class Part(ABC):
    """One definition over rows in order."""

    for_ever: bool = False
    """Whether it keeps the last rows of a key however long it stays silent."""
    is_apart: ClassVar[bool] = False
    """Whether it holds its rows in a store of its own."""
    how: ClassVar[str]
    """How windows are found, and what a push of m rows costs where n are held, for `explain`."""
    remembers: bool = False
    """Whether it keeps a record of emitted windows besides the numbers of rows."""

    splits = 0
    """How often an edge came between rows that were there, and split what they were part of."""

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        self.window_id = window_id
        self.window = window
        self.lateness = plan.lateness
        self._settled = plan.settled

    @classmethod
    @abstractmethod
    def answers(cls, window: Window) -> bool:
        """Return whether it is for windows of this kind."""

    @property
    def may_fail(self) -> bool:
        """Whether taking rows or finding windows can raise an error."""
        return bool(self.bindings)  # what a policy asks may fail

    @property
    def beside(self) -> Mapping[str, type]:
        """The numbers that it keeps of each row, by name, with their types; they begin with `initial`."""
        return {}

    @property
    def bindings(self) -> tuple[Binding, ...]:
        """Its own aggregations, whose states the nodes hold besides those that are reported."""
        return ()

    def late_until(self, watermark: int) -> int:
        """Return the time up to which rows are too late for windows that are due with them."""
        return self._settled(watermark)

    # ------------------------------------------------------------ rows

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept besides rows and their numbers."""
        return 0

    @abstractmethod
    def admit(self, store: RowStore, rows: Batch, watermark: int) -> Array:
        """Return the verdict on each row, sorted by key and time. Late rows are judged one after the other."""

    def numbers(self, rows: Batch, verdicts: Array) -> Mapping[str, Array]:
        """Return the numbers beside admitted rows, by name."""
        return {}

    def took(self, store: RowStore, rows: Batch) -> None:
        """Note that admitted rows are in the store."""

    # ------------------------------------------------------------ windows

    @abstractmethod
    def emit(self, store: RowStore, fresh: Fresh, moment: Moment) -> Iterator[Emission]:
        """Yield the windows of some keys that are due, or have changed since they were emitted.

        `fresh` has the keys, and the times of the rows since windows were last emitted.
        """

    @abstractmethod
    def let_go(self, store: RowStore, keys: Array, watermark: int, needed: Array, wake: Array) -> None:
        """Lower `needed`, the number of a key's first rows that nobody needs, and `wake`, when to look at it again."""

    def evicted(self, store: RowStore, keys: Array, counts: Array) -> None:
        """Note how many of the first rows of keys were evicted."""

    def forget(self, keys: Array) -> None:
        """Forget what is kept of keys besides rows."""

    def held_keys(self) -> Array:
        """Return the keys of which anything is kept besides rows, ascending."""
        return np.zeros(0, np.int64)

    def begin(self, store: RowStore, watermark: int) -> None:
        """Begin with the rows held, after any other part: windows that are final by the watermark are not emitted."""

    # ------------------------------------------------------------ points

    def frames_at(
        self, held: Held, points: AskedPoints, complete_from: int | None
    ) -> tuple[Array, Array, Array | None]:
        """Return between which positions the rows of frames at points are, and where these end, if by time.

        Rejects a point whose frame may hold rows that were evicted. Frames only.
        """
        raise AssertionError(f"{self.window!r} is no frame")

    def begins_at(self, store: RowStore, points: AskedPoints, first: Array, last: Array) -> Array:
        """Return since when the frames at points hold rows: by rows, from their first one on. O(log n) each."""
        some = (first != NONE) & (first != last)
        begins = np.full(len(first), END_OF_TIME)
        begins[some] = store.times_at(first[some])
        return begins

    # ------------------------------------------------------------ state

    def save(self) -> dict[str, Array]:
        """Return the state besides the rows and their numbers."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""

    def adopt(self, store: RowStore, change: Change) -> None:
        """Note, once loaded, that the state is of a query with another lateness, or that emitted early or not."""

    def numbers_of(self, keys: Array) -> dict[str, Array]:
        """Return what of `save` has an entry for each key, for some keys."""
        return {}

    def check(self, store: RowStore) -> None:
        """Raise `InvariantError` if the state contradicts the rows."""
