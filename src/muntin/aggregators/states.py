"""States outside the kernels: folded for `check()`, compared, converted, and counted."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregations.groups import Groups
from muntin.aggregators import drive
from muntin.errors import ColumnTypeError
from muntin.kernels import cache
from muntin.kernels.generate import Part, owners
from muntin.types import NULL, Array


class States:
    """Reads and folds the states of a binding in plain Python, independently of any structure's kernels."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self._module = binding.uncompiled.kernels(())

    def load(self, slots: Array, index: int) -> Any:
        """Return the state in a slot."""
        return self._module.load(slots, index)

    def combine(self, a: Any, b: Any) -> Any:
        """Return two states combined."""
        return self._module.combine(a, b)

    def fold(self, ring: Array, begin: int, end: int) -> Any:
        """Return the aggregate of the ring's positions [begin, end)."""
        last = len(ring) - 1
        state = self._module.load(ring, begin & last)
        for at in range(begin + 1, end):
            state = self._module.combine(state, self._module.load(ring, at & last))
        return state

    def counts(self, state: Any) -> bool:
        """Return whether any aggregation took a row."""
        return bool(self._module.counts(state))

    def prefers_newer(self, older: Any, newer: Any) -> bool:
        """Return whether combine returns the newer of two states of a selective aggregation."""
        return bool(self._module.prefers_newer(older, newer))

    def revived(self, array: Array) -> Array:
        """Return an array of states from a snapshot, with plain tuples converted back to records."""
        if array.dtype != object:
            return array
        for i, state in enumerate(array):
            if state is not None:
                states = [
                    self._record(k, part, value) for (k, part), value in zip(self.binding.states, state, strict=False)
                ]
                array[i] = self._module._S(*states, *state[len(states) :])
        return array

    def _record(self, k: int, part: Part, value: Any) -> Any:
        record = part.fields is not None and not part.scalar and value is not None
        return getattr(self._module, f"_p{k}_state")(value) if record else value

    def close(self, a: Any, b: Any) -> bool:
        """Return whether two states are the same, up to the rounding of floats."""
        return close(tuple(a), tuple(b))


def close(a: Any, b: Any, relative: float = 1e-9, absolute: float = 1e-9) -> bool:
    """Compare values, tuples and arrays; floats up to rounding, NaN equal to NaN."""
    if isinstance(a, Groups) and isinstance(b, Groups):
        a, b = a.owner.shown(a), b.owner.shown(b)
    if isinstance(a, np.void) and isinstance(b, np.void):
        a, b = a.item(), b.item()
    a, b = (each.tolist() if isinstance(each, np.ndarray) else each for each in (a, b))
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(close(x, y, relative, absolute) for x, y in zip(a, b, strict=True))
    if isinstance(a, float | np.floating) and isinstance(b, float | np.floating):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return bool(a == b) or math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
    return bool(a == b)


def converted(old: Binding, new: Binding, slots: Array) -> Array:
    """Return the states of one binding converted to another with wider types. O(n), in plain Python; rare."""
    before = old.uncompiled.kernels(())
    after = new.uncompiled.kernels(())
    held = owners(old.parts)
    changes = {k: _conversion(old, new, after, k) for k, _ in new.states}
    masks = [m - len(new.columns) for m in sorted({p.mask for p in new.parts if p.mask is not None})]
    result = new.slots(len(slots))
    for i in range(len(slots)):
        if slots.dtype == object and slots[i] is None:
            continue
        state = before.load(slots, i)
        parts = []
        for k, _ in new.states:
            mask = old.parts[k].mask
            empty = mask is not None and getattr(state, f"r{mask}") == 0
            parts.append(_nothing(after, new, k) if empty else changes[k](getattr(state, f"p{held[k]}")))
        rows = [getattr(state, f"r{len(old.columns) + m}") for m in masks]
        after.store(result, i, after._S(*parts, *rows))
    return result


def _nothing(module: ModuleType, binding: Binding, k: int) -> Any:
    word = "neutral" if binding.parts[k].has_neutral else "blank"
    return getattr(module, f"_p{k}_{word}")()


def _conversion(old: Binding, new: Binding, after: ModuleType, k: int) -> Any:
    a, b = old.parts[k], new.parts[k]
    if "groups" in b.constants:
        inner, wider = a.constants["groups"].binding, b.constants["groups"]
        return lambda s: wider.adopted(s, lambda states: converted(inner, wider.binding, states))
    if any(old.types[c] == NULL for c in a.columns):
        return lambda _: _nothing(after, new, k)  # only nulls so far: all states are empty
    if a.functions == b.functions or a.functions.get("combine") == b.functions.get("combine"):
        return (lambda s: s) if b.fields is None else getattr(after, f"_p{k}_state")
    widen = getattr(after, f"_p{k}_widen", None)
    if widen is None:
        kinds = ", ".join(str(kind) for kind in old.types)
        raise ColumnTypeError(
            f"{new.aggregations[k]} over {kinds} cannot go on with {', '.join(str(kind) for kind in new.types)}; "
            "build the aggregator with dtype= the wider type"
        )
    return widen


def counting(binding: Binding, structure: tuple[Any, ...], counter: list[int]) -> ModuleType:
    """Return the plain module of a structure that counts every combine and invert."""
    module = cache.load_fresh(binding.uncompiled.generate((*structure, *drive.COMMON)))
    for word in ("combine", "invert"):
        if hasattr(module, word):
            setattr(module, word, _counted(getattr(module, word), counter))
    return module


def _counted(function: Any, counter: list[int]) -> Any:
    def call(a: Any, b: Any) -> Any:
        counter[0] += 1
        return function(a, b)

    return call
