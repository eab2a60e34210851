"""Holistic aggregations by slices: the sorted values of each slice, and answers selected across a window's slices.

A quantile has no fixed-size state, so a slice keeps its values: sorted once, each distinct one with its count. A window
is answered from the unmerged runs of its slices by the definition's own `lower`, which sees them as one sorted window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, Result, bind
from muntin.aggregators.distinct_counts import write_answers
from muntin.columns import Column, mask_of
from muntin.errors import UnsupportedOperationError
from muntin.streams.sorted_runs.arena import Arena
from muntin.streams.sorted_runs.order_keys import OrderKeys
from muntin.streams.sorted_runs.selection import RANDOM, SELECTION, View
from muntin.types import OBJECT, Array, ColumnType

_FEW = 64
"""Windows of up to this many entries are sorted rather than searched."""
RawResult = tuple[Array, Array | None]
"""The physical answers of one aggregation, and where they are not null (None: everywhere)."""


def keeps_runs(aggregation: Aggregation, types: Mapping[str, ColumnType]) -> bool:
    """Return whether an aggregation can be kept as runs: of sorted or distinct values, on plain numbers.

    >>> from muntin import agg
    >>> from muntin.types import FLOAT64
    >>> keeps_runs(agg.median("v"), {"v": FLOAT64}), keeps_runs(agg.sum("v"), {"v": FLOAT64})
    (True, False)
    """
    if len(aggregation.columns) != 1 or types[aggregation.columns[0]].physical == OBJECT:
        return False
    if aggregation.kind != "holistic":
        return False
    part = bind({"it": aggregation}, types, nullable=False).parts[0]
    return part.distinct or (part.sorted and "lift" not in part.functions)


class Values(NamedTuple):
    """Which values of a column aggregations read, and what of them."""

    column: str
    skip_nan: bool
    where: str | None
    distinct: bool
    """Whether only the number of distinct values is needed."""


def values_together(
    aggregations: Mapping[str, Aggregation], types: Mapping[str, ColumnType], *, plain: bool = False
) -> dict[Values, Binding]:
    """Return the aggregations fused by the values that they read. Nulls and skipped values must not reach them.

    So kernels see windows with gaps, but no nulls. Those whose answers are objects are not compiled.
    """
    grouped: dict[Values, dict[str, Aggregation]] = {}
    for name, each in aggregations.items():
        distinct = bind({name: each}, types, nullable=False).parts[0].distinct
        values = Values(each.columns[0], each.skip_nan, each.where, distinct)
        grouped.setdefault(values, {})[name] = each.unfiltered
    fused = {values: bind(each, types, nullable=False, gaps=True, plain=plain) for values, each in grouped.items()}
    if plain:
        return fused
    return {values: binding.uncompiled if _has_objects(binding) else binding for values, binding in fused.items()}


def _has_objects(binding: Binding) -> bool:
    return any(kind.physical == OBJECT for result in binding.results for kind in result.types)


@dataclass
class _Group:
    """The aggregations over the same values of one column, and these values."""

    values: Values
    binding: Binding
    order: OrderKeys
    arena: Arena

    def add(self, slots: Array, columns: Mapping[str, Column]) -> None:
        column = columns[self.values.column]
        values, skip_nan = column.values, self.values.skip_nan
        where = None if self.values.where is None else columns[self.values.where]
        if column.valid is not None or where is not None or (skip_nan and values.dtype.kind == "f"):
            kept = mask_of([column], skip_nan, len(values), where)
            slots, values = slots[kept], values[kept]
        if self.values.distinct and values.dtype.kind == "f":
            values = values + 0.0  # -0.0 is not a value of its own
        self.arena.add(slots, self.order.of(values))

    def answer(self, first: Array, last: Array, slots: Array) -> list[RawResult]:
        self.arena.merge_pending(slots)
        outputs = self.binding.outputs(len(first))
        if self.values.distinct:
            write_answers(self.binding, self._distinct_counts(first, last, slots), outputs)
            return self.binding.raw_results(outputs)
        most = int((last - first).max(initial=0))
        bounds, few = np.zeros((most, 5), np.int64), np.zeros((2, max(_FEW, most)), np.int64)
        memory = np.zeros(RANDOM + 1, np.int64)
        view = View(self.arena.keys, self.arena.ends, bounds, few, memory, self.order.turned, self.order.kind)
        module = self.binding.kernels(SELECTION, "answer_windows", sorted_store=True)
        module.answer_windows(slots, first, last, self.arena.starts, self.arena.lengths, view, outputs)
        return self.binding.raw_results(outputs)

    def _distinct_counts(self, first: Array, last: Array, slots: Array) -> Array:
        """Return the number of distinct values across the runs of each window. O(values log values) each."""
        self.arena.cover(slots)
        starts, lengths = self.arena.starts[slots], self.arena.lengths[slots]
        counts = np.zeros(len(first), np.int64)
        single = last - first == 1
        counts[single] = lengths[first[single]]
        for i in np.flatnonzero(~single).tolist():
            window = slice(int(first[i]), int(last[i]))
            runs = zip(starts[window].tolist(), lengths[window].tolist(), strict=True)
            values = [self.arena.keys[start : start + length] for start, length in runs if length]
            counts[i] = len(np.unique(np.concatenate(values))) if values else 0
        return counts


class Runs:
    """The values of slices, for states "sorted" (median, quantile, user-defined) and "distinct".

    Slices are named by slots, small integers that the caller assigns and reuses. Rows of a push go to any of them. A
    window is answered from several: O(slices * log(values)) per value that its `lower` reads, whatever the number of
    rows. Memory: two words per distinct value of each slice.

    >>> from muntin import agg
    >>> from muntin.columns import read_column
    >>> from muntin.types import FLOAT64
    >>> runs = Runs({"middle": agg.median("v")}, {"v": FLOAT64})
    >>> runs.add(np.array([0, 0, 1]), {"v": read_column(np.array([1.0, 9.0, 2.0]), "v")})
    >>> [(values, valid)] = runs.answer(np.array([0, 0]), np.array([1, 2]), np.array([0, 1]))
    >>> values.tolist()
    [5.0, 2.0]
    """

    def __init__(
        self, aggregations: Mapping[str, Aggregation], types: Mapping[str, ColumnType], *, plain: bool = False
    ) -> None:
        """Keep values for aggregations over columns of these types; `plain` runs everything as plain Python."""
        for each in aggregations.values():
            if not keeps_runs(each, types):
                kinds = ", ".join(str(types[column]) for column in each.columns)
                raise UnsupportedOperationError(
                    f"{each} over {kinds} is not kept as sorted runs: that takes "
                    'state="sorted" or "distinct", no lift, and numbers'
                )
        self._names = tuple(aggregations)
        self._groups = [
            _Group(values, binding, OrderKeys(types[values.column].physical), Arena(plain=plain))
            for values, binding in values_together(aggregations, types, plain=plain).items()
        ]
        results = {
            n: r for group in self._groups for n, r in zip(group.binding.names, group.binding.results, strict=True)
        }
        self.results: tuple[Result, ...] = tuple(results[name] for name in self._names)
        """The types of the answers, in the order of the aggregations."""

    def add(self, slots: Array, columns: Mapping[str, Column]) -> None:
        """Add the rows of a push, each to its slot (int64). O(1) per row; they are sorted when first read."""
        for group in self._groups:
            group.add(slots, columns)

    def merge(self, into: Array, from_: Array) -> None:
        """Move all rows of the slots `from_` to the slots `into`, pair by pair in order, emptying `from_`.

        O(distinct values of both) per pair.
        """
        for group in self._groups:
            group.arena.merge(into, from_)

    def free(self, slots: Array) -> None:
        """Empty slots for reuse. O(1) per slot that has been read."""
        for group in self._groups:
            group.arena.free(slots)

    def answer(self, first: Array, last: Array, slots: Array) -> list[RawResult]:
        """Return the answers of each aggregation for many windows: window i is slots[first[i]:last[i]] together.

        Empty slots are ignored. O(slices * log(values)) per value read, after the rows waiting in these slots are
        sorted.
        """
        raw: dict[str, RawResult] = {}
        for group in self._groups:
            raw |= zip(group.binding.names, group.answer(first, last, slots), strict=True)
        return [raw[name] for name in self._names]

    def save(self) -> dict[str, Array]:
        """Return the whole state as arrays by name, which never change afterwards. O(n)."""
        return {
            f"{number}.{name}": array
            for number, group in enumerate(self._groups)
            for name, array in group.arena.save().items()
        }

    @property
    def names_by_group(self) -> tuple[tuple[str, ...], ...]:
        """The aggregations that share values, in the order in which `save` numbers these."""
        return tuple(group.binding.names for group in self._groups)

    def load(self, state: Mapping[str, Array]) -> None:
        """Replace the state by one that `save` returned, for the same aggregations and types. O(n)."""
        for number, group in enumerate(self._groups):
            prefix = f"{number}."
            arrays = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            group.arena = Arena.loaded(arrays, plain=group.arena.plain)

    def cover(self, slots: int) -> None:
        """Have room for the first slots."""
        for group in self._groups:
            group.arena.cover(np.arange(slots))

    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent. O(n)."""
        for group in self._groups:
            group.arena.check()

    @property
    def bytes(self) -> int:
        """The memory that is held."""
        return sum(group.arena.bytes for group in self._groups)

    def __len__(self) -> int:
        """Return the number of values with counts; a row waiting to be sorted is one."""
        return sum(len(group.arena) for group in self._groups)
