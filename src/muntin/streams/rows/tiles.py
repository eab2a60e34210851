"""Tiles: frames that begin at multiples of a hop, or with the first row, answered from states instead of rows.

A row is lifted when it arrives. Entries among which no future frame can begin or end melt into one, a tile: the finer
the hops of the frames that may still begin there, the shorter the tile. So all windows share tiles, and old ones are as
coarse as the longest window allows. Frames that begin with the first row need no more than one.

    time     ......|............|............|......|......|......|..|..|.....  now
    tiles    those of the longest window alone      those of two    each  rows

Frames find rows and tiles in one tree, and late rows are put between them. Aggregations must be commutative, since a
late row may belong amid those of a tile, unless rows are promised to come in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from muntin.durations import BEFORE_TIME, END_OF_TIME, less
from muntin.errors import UnsupportedOperationError
from muntin.query.plan import Plan
from muntin.streams.change import Change
from muntin.streams.decisions import NOTHING
from muntin.streams.rows.by_time import ByTime
from muntin.streams.rows.in_states import StatesInOrder
from muntin.streams.rows.part import Part
from muntin.streams.rows.rows import Group
from muntin.streams.rows.states import StateStore
from muntin.streams.rows.store import RowStore
from muntin.types import Array
from muntin.windows.base import Window

_FEW = 16
"""How many entries of a key to wait for before they melt."""
_SHARE = 8
"""One more for so many tiles: each row pays for copying as many of them."""


class TiledFrames(ByTime):
    """One definition of frames that begin at multiples of a hop, or with the first row."""

    how: ClassVar[str] = (
        "a frame is a range of tiles and rows; m rows take O(m log n) where n of these are held, and a late row "
        "revises the frames that hold it"
    )

    def __init__(self, window_id: int, window: Window, plan: Plan) -> None:
        super().__init__(window_id, window, plan)
        assert window.tiling is not None
        self.hop, self._back = window.tiling.hop, window.tiling.back
        self.waits = self.slack + window.tiling.delay
        """How old an entry must be to melt: no frame that may still change ends before it."""
        self.melted_at = BEFORE_TIME
        """The watermark at which entries melted last."""

    def begins_from(self, watermark: int) -> int:
        """Return a time up to which no frame that may still change begins."""
        return less(watermark, self.slack + self._back)

    def _first_answered(self, kept_from: int) -> int:
        """Return the least time whose frame begins and ends between tiles: an earlier one may hold part of a tile."""
        melted = BEFORE_TIME if self.melted_at == BEFORE_TIME else less(self.melted_at, self.slack - 1)
        return max(super()._first_answered(kept_from), melted)

    def save(self) -> dict[str, Array]:
        """Return the state besides the entries and their words."""
        return {**super().save(), "melted_at": np.array([self.melted_at], np.int64)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""
        super().load(state)
        self.melted_at = int(state["melted_at"][0])

    def adopt(self, store: RowStore, change: Change) -> None:
        """Note that what has melted was as old as it had to be for the query of the state."""
        if self.melted_at > BEFORE_TIME:
            self.melted_at += max(0, self.lateness - change.lateness)


@dataclass
class TileGroup(Group):
    """Definitions that admitted the same rows, and the states of these."""

    store: StateStore
    tiles: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    """How many entries of each key are left of those that have melted, 0 if that is not known."""

    def with_parts(self, parts: list[Part]) -> Group:
        """Return a group of its own for some of the definitions, with the same entries. O(entries)."""
        return replace(super().with_parts(parts), tiles=self.tiles.copy())  # type: ignore[call-arg]  # of its own class

    @property
    def _frames(self) -> Iterator[TiledFrames]:
        return (part for part in self.parts if isinstance(part, TiledFrames))

    def let_go(self, keys: Array, watermark: int) -> None:
        """Evict and melt the entries of some keys, and note when to look at the keys again."""
        super().let_go(keys, watermark)
        if len(keys) and BEFORE_TIME < watermark < END_OF_TIME:
            self._know_keys(int(keys[-1]) + 1)
            self._melt(keys, watermark)
            self._wake_to_melt(keys)
            self.store.shrink()

    @property
    def _waits(self) -> int:
        return max(part.waits for part in self._frames)

    def _room(self, keys: Array) -> Array:
        """Return how many entries of keys may be old before they melt."""
        tiles = self.tiles[keys]
        room: Array = tiles + np.maximum(_FEW, tiles // _SHARE)
        return room

    def _melt(self, keys: Array, watermark: int) -> None:
        """Melt the old entries of keys that have many of them. Amortised O(1) and a combine for a row that grows old.

        O(tiles) for a key whose turn it is, after an eighth as many rows.
        """
        old = self.store.up_to(keys, less(watermark, self._waits))
        self.tiles[keys] = np.minimum(self.tiles[keys], old)
        due = old >= self._room(keys)
        keys, old = keys[due], old[due]
        if not len(keys):
            return
        hopping = [part for part in self._frames if part.hop]
        hops = np.array([part.hop for part in hopping], np.int64)
        floors = np.array([part.begins_from(watermark) for part in hopping], np.int64)
        left = self.store.melt(keys, old, hops, floors)
        self.tiles[keys] = left
        if (left < old).any():
            for part in self._frames:
                part.melted_at = watermark

    def _wake_to_melt(self, keys: Array) -> None:
        """Look at keys again when enough of their entries are old. O(log n) each."""
        last = self._room(keys) - 1
        enough = last < self.store.held(keys)
        keys = keys[enough]
        if len(keys):
            when = self.store.time_at(keys, last[enough]) + self._waits
            self.wake[keys] = np.minimum(self.wake[keys], when)

    def _know_keys(self, count: int) -> None:
        if count > len(self.tiles):
            more = np.zeros(max(count, 2 * len(self.tiles)) - len(self.tiles), np.int64)
            self.tiles = np.concatenate((self.tiles, more))

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, of a group of the same definitions."""
        super().load(state)
        self.tiles = np.zeros(0, np.int64)


class Tiles(StatesInOrder):
    """Rows as states, which melt as they age. For trailing frames with a hop, and frames of all rows up to one.

    A key takes as many states as its windows have hops, those of the shorter ones counted once, plus one for each row
    within the lateness and the greatest delay, plus an eighth. A push of m rows takes O(m log n) for n states,
    amortised, and O(1) combines for each window that it answers.
    """

    keeps = NOTHING

    def _part(self, window_id: int, window: Window) -> Part:
        return TiledFrames(window_id, window, self.plan)

    def _group(self, parts: list[Part]) -> Group:
        return TileGroup(self._store(parts), parts)

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why tiles cannot answer a plan, or None if they can."""
        for each in plan.windows.values():
            if each.tiling is None:
                return f"{each!r} is neither a trailing frame with a hop nor a lifetime"
        for name, aggregation in plan.aggregates.items():
            if not (aggregation.commutative or plan.ordered) or aggregation.kind == "holistic":
                return f"{name!r} is {aggregation!r}, of which a tile has no state that takes rows in any order"
        if not plan.bind(plan.aggregates, gaps=True).fixed:
            return "a state has no fixed size"
        return None

    # ------------------------------------------------------------ definitions

    def add(self, window_id: int, definition: Window, plan: Plan) -> int:
        """Reject one more definition: it may begin or end within tiles.

        So it is answered separately, from the next row on, and shares tiles with others only after a restart.
        """
        raise UnsupportedOperationError(
            f"tiles cannot take {definition!r} on: rows that have melted cannot be told apart where it begins"
        )
