"""Aggregators side by side: every row goes through eviction, insert and query, by the same compiled loop for all.

The windows are full before the clock starts, and wrap around: after all values they hold what they started with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from harness import Entrant
from numba import njit
from numba.core.caching import NullCache

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.types import numpy_type


def bound(aggregation: Aggregation, dtype: str = "f8") -> Binding:
    """Return an aggregation over one column without nulls."""
    types = {name: numpy_type(dtype) for name in aggregation.columns}
    return bind({"x": aggregation}, types, nullable=False, gaps=False, has_nan=False)


def linkable(module: Any) -> Any:
    """Return kernels that our own loop can call: cached machine code can be run, but not linked."""
    for each in vars(module).values():
        dispatcher = getattr(each, "_compiled", None)  # also for kernels called from Python
        if hasattr(dispatcher, "overloads"):
            dispatcher._cache = NullCache()
            dispatcher.overloads.clear()
    return module


def loop_over(module: Any, counted: bool) -> Any:
    """Compile the loop for the kernels of a structure."""
    linkable(module)
    lift, push, pop, total, emit = module.lift, module.push, module.pop, module.total, module.emit

    @njit(nogil=True, error_model="numpy", _nrt=counted)
    def loop(window: Any, columns: Any, times: Any, step: int, outputs: Any) -> None:
        row = 0
        for i in range(len(times) // step):
            for _ in range(step):
                pop(window)
            for _ in range(step):
                push(window, times[row], lift(columns, times, row))
                row += 1
            emit(outputs, i, total(window))

    return loop


class Driven:
    """A full window of `length` rows through which all values go, `step` per answer."""

    def __init__(self, kind: Any, binding: Binding, values: Any, length: int, step: int = 1) -> None:
        self.columns = tuple(values for _ in binding.columns)
        self.times = np.zeros(len(values), np.int64)
        self.step = step
        self.outputs = binding.outputs(len(values) // step)
        module, self.window = kind.over(binding, length)
        self.loop = loop_over(module, any(part.allocates for part in binding.parts))
        module.insert_rows(self.window, self.columns, self.times, len(values) - length, len(values))

    def __call__(self) -> Any:
        """Send all values through the window; return the answers."""
        self.loop(self.window, self.columns, self.times, self.step, self.outputs)
        return self.outputs[0]


def entrant(name: str, kind: Any, binding: Binding, values: Any, length: int, step: int = 1) -> Entrant:
    """Return an aggregator as an entrant of a race."""
    return Entrant(name, Driven(kind, binding, values, length, step), len(values))


def same_answers(entrants: list[Entrant]) -> None:
    """Reject structures that disagree."""
    expected = entrants[0].run().copy()
    for each in entrants[1:]:
        if not np.allclose(each.run().astype(float), expected.astype(float), rtol=1e-9, equal_nan=True):
            raise SystemExit(f"{each.name} and {entrants[0].name} disagree")
