"""What the strategies that slicing is measured against have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from muntin.query.plan import Plan
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers
from muntin.types import Array


def early_without_rows(plan: Plan) -> str | None:
    """Return why a plan is refused that wants results before they are due, and windows without rows."""
    if plan.early and plan.emit_empty:
        return "early results are of windows that hold rows, and emit_empty asks for others; take the strategy 'tuples'"
    return None


def event_order(batch: Batch) -> Array | slice:
    """Return the rows of a batch by key and time, those of equal time as they came; a slice where they are so."""
    keys, times = batch.keys, batch.times
    if len(times) and (keys == keys[0]).all() and (times[1:] >= times[:-1]).all():
        return slice(None)
    return np.lexsort((times, keys))


class Part(Protocol):
    """Some of the windows of a strategy, kept together."""

    def take(self, batch: Batch, order: Array | slice, watermark: int) -> Array:
        """Take rows, by key and time in this order; return which of them some window took, in the same order."""

    def emit(self, watermark: int, horizon: int, *, early: bool) -> list[Answers]:
        """Return the windows that are due or have changed."""

    def held_keys(self) -> Array:
        """Return the numbers of the keys of which anything is kept."""

    def save(self) -> dict[str, Array]:
        """Return the state as arrays by name."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state."""

    def metrics(self) -> dict[str, int]:
        """Return counts."""

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""


class Parted(Strategy):
    """A strategy of parts that know nothing of each other: it asks each, and puts their answers together."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._parts = self._make_parts(plan)

    @abstractmethod
    def _make_parts(self, plan: Plan) -> list[Part]:
        """Return the parts, which together answer all windows."""

    def take(self, batch: Batch, watermark: int) -> Array:
        """Take rows, judged by the watermark before them; return which of them some window took."""
        order = event_order(batch)
        taken = np.zeros(len(batch.times), np.bool_)
        for part in self._parts:
            taken[order] |= part.take(batch, order, watermark)
        return taken

    def emit(self, watermark: int, horizon: int, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at this watermark, or have changed since they were emitted."""
        return [each for part in self._parts for each in part.emit(watermark, horizon, early=early)]

    def held_keys(self) -> Array:
        """Return the numbers of the keys of which anything is kept, ascending."""
        return np.unique(np.concatenate([part.held_keys() for part in self._parts]))

    def save(self) -> dict[str, Array]:
        """Return the whole state, as arrays by name. O(state)."""
        return {f"{i}.{name}": each for i, part in enumerate(self._parts) for name, each in part.save().items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state. O(state)."""
        for i, part in enumerate(self._parts):
            mark = f"{i}."
            part.load({name.removeprefix(mark): each for name, each in state.items() if name.startswith(mark)})

    def metrics(self) -> dict[str, int]:
        """Return the counts of all parts, added up by name."""
        total: Counter[str] = Counter()
        for part in self._parts:
            total.update(part.metrics())
        return dict(total)

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself. O(state)."""
        for part in self._parts:
            part.check()
