"""What the strategies that slicing is measured against have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from muntin.errors import UnsupportedOperationError
from muntin.slicing.strategy import Batch, Plan
from muntin.types import Array


class Rival(Protocol):
    """A strategy that can say what it cannot do."""

    @classmethod
    def can(cls, plan: Plan) -> str | None:
        """Return why it cannot answer a plan, or None where it can."""


def refuse(strategy: type[Rival], plan: Plan) -> None:
    """Refuse a plan that the strategy cannot answer."""
    reason = strategy.can(plan)
    if reason is not None:
        raise UnsupportedOperationError(reason)


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


def part_of(state: Mapping[str, Array], number: int) -> dict[str, Array]:
    """Return what one part of a strategy has saved, under the names that it gave."""
    mark = f"{number}."
    return {name[len(mark) :]: each for name, each in state.items() if name.startswith(mark)}


def summed(metrics: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return metrics added up by name."""
    total: Counter[str] = Counter()
    for each in metrics:
        total.update(each)
    return dict(total)
