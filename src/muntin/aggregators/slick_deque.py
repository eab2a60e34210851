"""SlickDeque: two halves, each for the aggregations that suit it.

For selective ones, whose combine returns one of its arguments (max, min, first, last, arg_max): only the rows that can
still become the answer are kept, in a list from the best to the youngest. A new row drops those at the end of the list
that it beats, and the answer is the first. Each row is dropped once, so an insert takes fewer than two combines,
amortised; a query and an eviction take none. For invertible ones: a running aggregate, as in `SubtractOnEvict`.

Rejected: comparing a new row with the last four of the list at once, and counting those that it beats without a branch.
It took a tenth less time, for twice as many combines: a row waits for the end of the list, which the previous row has
just written, and for the entries there, and that takes longer than the mispredictions.

What bounds it on random values: every second comparison is mispredicted. A loop over an array that does nothing else,
with the ends of its list in registers, takes 2.2 times what `TwoStacks` takes row by row; 1.8 times with four
comparisons at once, and 2 with the last four entries in registers too. Row by row the ends are in memory, where each
row waits for the previous one's writes: 3 times.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.aggregators.states import States
from muntin.aggregators.subtract_on_evict import SubtractOnEvict
from muntin.errors import NotInvertibleError, UnsupportedOperationError
from muntin.kernels.vocabulary import (
    Ints,
    Outputs,
    Slots,
    State,
    counts,
    emit,
    inlined,
    kernel,
    load,
    prefers_newer,
    store,
)
from muntin.types import Array

FIRST, LAST = 2, 3


class SelectiveWindow(NamedTuple):
    """A ring of times, and in `slots` the list, from `FIRST` to `LAST`."""

    slots: Slots
    times: Ints
    marks: Ints
    rows: Ints
    """The position of each entry of the list."""
    nothing: Slots
    """The state of a null row, in its only slot."""


@inlined
def push(window: SelectiveWindow, time: int, state: State) -> None:
    """Append a row, and drop earlier ones that can never be the answer again."""
    slots, times, marks, rows, nothing = window.slots, window.times, window.marks, window.rows, window.nothing
    mask = len(slots) - 1
    times[marks[END] & mask] = time
    if counts(state):
        last = marks[LAST]
        while last > marks[FIRST] and prefers_newer(load(slots, (last - 1) & mask), state):
            last -= 1
        store(slots, last & mask, state)
        rows[last & mask] = marks[END]
        marks[LAST] = last + 1
    else:
        store(nothing, 0, state)
    marks[END] += 1


@inlined
def pop(window: SelectiveWindow) -> None:
    """Remove the oldest row; if it was the answer, the next in the list is."""
    marks, rows = window.marks, window.rows
    if marks[FIRST] < marks[LAST] and rows[marks[FIRST] & (len(rows) - 1)] == marks[FRONT]:
        marks[FIRST] += 1
    marks[FRONT] += 1


@inlined
def total(window: SelectiveWindow) -> State:
    """Return the first of the list; a null if the window holds only nulls."""
    slots, marks, nothing = window.slots, window.marks, window.nothing
    if marks[FIRST] < marks[LAST]:
        return load(slots, marks[FIRST] & (len(slots) - 1))
    return load(nothing, 0)


@kernel
def listed_from(window: SelectiveWindow, position: int) -> int:
    """Return the first entry of the list at or after a position."""
    marks, rows = window.marks, window.rows
    low, high = marks[FIRST], marks[LAST]
    while low < high:
        middle = (low + high) // 2
        if rows[middle & (len(rows) - 1)] < position:
            low = middle + 1
        else:
            high = middle
    at: int = low
    return at


@kernel
def answer_suffix(window: SelectiveWindow, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end: the first of the list at or after it."""
    slots, marks, nothing = window.slots, window.marks, window.nothing
    at = listed_from(window, position)
    if at < marks[LAST]:
        emit(outputs, 0, load(slots, at & (len(slots) - 1)))
    else:
        emit(outputs, 0, load(nothing, 0))


@kernel
def drop_before(window: SelectiveWindow, position: int) -> None:
    """Remove all rows before a position."""
    window.marks[FIRST] = listed_from(window, position)
    window.marks[FRONT] = position


class SlickDeque(RingAggregator):
    """In order; selective or invertible aggregations; fewer than 2 combines per slide amortised; one insert may take n.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.SlickDeque(agg.max("v"))
    >>> window.bulk_insert([1, 2, 3], [5, 3, 4])
    >>> window.evict()
    >>> window.query()
    4
    """

    title: ClassVar[str] = "SlickDeque"

    @classmethod
    def over(cls, binding: Binding, rows: int) -> tuple[Any, Any]:
        """Return the kernels of the half that suits, and an empty window with room for `rows` rows."""
        return _half_of(binding).over(binding, rows) if cls is SlickDeque else super().over(binding, rows)

    @classmethod
    def require_suited(cls, binding: Binding) -> None:
        """Raise `NotInvertibleError` for aggregations that suit neither half."""
        _half_of(binding)

    def __new__(cls, aggregation: Any = None, **_: Any) -> Self:
        """Choose the half that suits the aggregation."""
        half: Any = cls if cls is not SlickDeque else _half_for(aggregation)
        made: Self = object.__new__(half)
        return made


class _SelectiveDeque(SlickDeque):
    """The list is in the ring of states, beside the positions of its rows, from marks[FIRST] to marks[LAST]."""

    structure: ClassVar[tuple[Any, ...]] = (push, pop, total, listed_from, answer_suffix, drop_before)
    entries: ClassVar[tuple[str, ...]] = ("answer_suffix", "drop_before")
    layout: ClassVar[Any] = SelectiveWindow
    mark_count: ClassVar[int] = 4

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (np.zeros(capacity, np.int64), self._binding.slots(1))

    def _listed(self) -> Array:
        """Return the places of the list's entries."""
        return np.arange(self._marks[FIRST], self._marks[LAST]) & (len(self._window.slots) - 1)

    def _insert_rows(self, columns: tuple[Array, ...], times: Array, start: int, stop: int) -> None:
        # A single row is compared before anything is written; if there are several, the first may have displaced
        # entries.
        at = self._listed() if stop - start > 1 else np.zeros(0, np.int64)
        window = self._window
        before: list[Any] = [(array, slice(None), array.copy()) for array in (window.marks, window.nothing)]
        before += [(array, at, array[at]) for array in (window.slots, window.rows)]
        try:
            self._module.insert_rows(self._window, columns, times, start, stop)
        except BaseException:
            for array, where, saved in before:
                array[where] = saved
            raise

    def _evict_many(self, count: int) -> None:
        """O(log n)."""
        self._module.drop_before(self._window, int(self._marks[FRONT]) + count)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(log n) for a range that reaches the end."""
        if end != self._marks[END]:
            raise UnsupportedOperationError(
                "SlickDeque has forgotten the rows that cannot be the answer of the whole window any more; "
                "FlatFat and Fiba answer any range, Recalculate too"
            )
        self._module.answer_suffix(self._window, begin, outputs)

    def _reserve(self, rows: int) -> None:
        if rows > len(self._window.slots):
            self._move_in(self._arrays(), 1 << (rows - 1).bit_length())

    def _arrays(self) -> dict[str, Array]:
        window, listed = self._window, self._listed()
        held = np.arange(window.marks[FRONT], window.marks[END]) & (len(window.times) - 1)
        return {
            "slots": window.slots[listed],
            "times": window.times[held],
            "marks": window.marks,
            "rows": window.rows[listed],
            "nothing": window.nothing,
        }

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        self._move_in(arrays, max(16, 1 << (len(arrays["times"]) - 1).bit_length()))

    def _move_in(self, arrays: Mapping[str, Array], capacity: int) -> None:
        """Lay out the result of `_arrays` in new rings."""
        window = self._window = self._empty(capacity)
        window.marks[:], window.nothing[:] = arrays["marks"], arrays["nothing"]
        window.slots[self._listed()], window.rows[self._listed()] = arrays["slots"], arrays["rows"]
        window.times[np.arange(window.marks[FRONT], window.marks[END]) & (capacity - 1)] = arrays["times"]

    def _check_structure(self, states: States, require: Any) -> None:
        front, end, first, last = (int(mark) for mark in self._marks)
        require(0 <= last - first <= end - front, f"{last - first} entries in the list of a window of {end - front}")
        listed = self._window.rows[self._listed()]
        require(bool((listed[1:] > listed[:-1]).all()), "the list is not in the order of the rows")
        if len(listed):
            inside = front <= listed[0] and listed[-1] < end
            require(bool(inside), f"the list holds the positions {listed}, and the window is [{front}, {end})")
        entries = [states.load(self._window.slots, at) for at in self._listed()]
        beaten = any(states.prefers_newer(older, newer) for older, newer in pairwise(entries))
        require(not beaten, "an entry of the list is beaten by the next")


class _InvertibleDeque(SlickDeque, SubtractOnEvict):
    structure: ClassVar[tuple[Any, ...]] = SubtractOnEvict.structure
    entries: ClassVar[tuple[str, ...]] = SubtractOnEvict.entries


def _half_of(binding: Binding) -> type[SlickDeque]:
    return _half_for(dict(zip(binding.names, binding.aggregations, strict=True)))


def _half_for(aggregation: Aggregation | Mapping[str, Aggregation]) -> type[SlickDeque]:
    """Return the half that suits one or several aggregations; reject those that suit neither."""
    each = [aggregation] if not isinstance(aggregation, Mapping) else list(aggregation.values())
    if len(each) == 1 and getattr(each[0], "selective", False):
        return _SelectiveDeque
    if all(getattr(one, "invertible", True) for one in each):
        return _InvertibleDeque
    raise NotInvertibleError(
        f"SlickDeque takes one selective aggregation (max, first ...) or invertible ones, not {aggregation!r}; "
        "TwoStacks takes any"
    )
