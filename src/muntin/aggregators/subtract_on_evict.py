"""SubtractOnEvict: one running aggregate; `invert` removes a row that leaves.

Two combines per slide, and nothing is faster if `invert` exists and is exact. Floats round, and an infinity cannot be
removed at all; so the running aggregate is refolded from the rows whenever one of its floats is no longer finite, or
has fallen to a millionth of its largest size, where lost digits could show. So results never drift, at the cost of O(n)
for those evictions.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from muntin.aggregators.recalculate import answer_range, fold
from muntin.aggregators.ring import END, FRONT, RingAggregator
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    emit_empty,
    has_lost_digits,
    inlined,
    invert,
    kernel,
    lift,
    load,
    raise_peaks,
    store,
)
from muntin.types import Array


class RunningWindow(NamedTuple):
    """A ring, and the aggregate of all its rows."""

    slots: Slots
    times: Ints
    marks: Ints
    running: Slots
    """The running aggregate, in its only slot."""
    peaks: Any
    """The largest size of each float of the running aggregate so far."""


@inlined
def push(window: RunningWindow, time: int, state: State) -> None:
    """Append a state."""
    slots, times, marks, running, peaks = window.slots, window.times, window.marks, window.running, window.peaks
    at = marks[END] & (len(slots) - 1)
    store(slots, at, state)
    times[at] = time
    if marks[END] > marks[FRONT]:
        state = combine(load(running, 0), state)
    store(running, 0, state)
    raise_peaks(peaks, state)
    marks[END] += 1


@inlined
def pop(window: RunningWindow) -> None:
    """Remove the oldest state."""
    slots, marks, running, peaks = window.slots, window.marks, window.running, window.peaks
    oldest = marks[FRONT]
    marks[FRONT] = oldest + 1
    if marks[FRONT] == marks[END]:
        peaks[:] = 0.0
        return
    state = invert(load(running, 0), load(slots, oldest & (len(slots) - 1)))
    if has_lost_digits(peaks, state):
        state = fold(slots, marks[FRONT], marks[END])
        peaks[:] = 0.0
        raise_peaks(peaks, state)
    store(running, 0, state)


@inlined
def total(window: RunningWindow) -> State:
    """Return the running aggregate."""
    return load(window.running, 0)


@kernel
def refold(window: RunningWindow) -> None:
    """Fold the running aggregate from the rows."""
    slots, marks, running, peaks = window.slots, window.marks, window.running, window.peaks
    if marks[END] > marks[FRONT]:
        state = fold(slots, marks[FRONT], marks[END])
        store(running, 0, state)
        peaks[:] = 0.0
        raise_peaks(peaks, state)


@kernel
def slide_windows(
    slots: Slots, columns: Columns, times: Ints, first: Ints, last: Ints, start: int, stop: int, outputs: Outputs
) -> None:
    """Run the windows [first, last) of rows, both bounds ascending. For exact states only: never refolds."""
    begin = first[start]
    end = begin
    state = lift(columns, times, 0)
    for i in range(start, stop):
        if first[i] >= end:
            begin = first[i]
            end = begin
        for row in range(end, last[i]):
            if row == begin:
                state = lift(columns, times, row)
            else:
                state = combine(state, lift(columns, times, row))
        if last[i] > end:
            end = last[i]
        for row in range(begin, first[i]):
            state = invert(state, lift(columns, times, row))
        begin = first[i]
        if end > begin:
            emit(outputs, i, state)
        else:
            emit_empty(outputs, i)


@kernel
def slide_width(columns: Columns, times: Ints, width: int, start: int, stop: int, shift: int, outputs: Outputs) -> None:
    """Run the windows of `width` rows, fewer at the start, that end with the rows [start, stop). For exact states only.

    The window that ends with row i is row i - shift of the output.
    """
    begin = max(0, start - width + 1)
    state = lift(columns, times, begin)
    for row in range(begin + 1, start + 1):
        state = combine(state, lift(columns, times, row))
    emit(outputs, start - shift, state)
    for row in range(start + 1, stop):
        state = combine(state, lift(columns, times, row))
        if row >= width:
            state = invert(state, lift(columns, times, row - width))
        emit(outputs, row - shift, state)


class SubtractOnEvict(RingAggregator):
    """In order; invertible aggregations only; one combine per insert, one invert per eviction, none per query.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.SubtractOnEvict(agg.sum("v"))
    >>> window.bulk_insert([1, 2, 3], [10, 20, 30])
    >>> window.evict()
    >>> window.query()
    50
    """

    structure: ClassVar[tuple[Any, ...]] = (push, fold, pop, total, refold, answer_range)
    entries: ClassVar[tuple[str, ...]] = ("refold", "answer_range")
    layout: ClassVar[Any] = RunningWindow
    needs_invert: ClassVar[bool] = True

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        return (self._binding.slots(1), np.zeros(self._binding.float_fields))

    def _after_conversion(self) -> None:
        self._window = self._window._replace(peaks=np.zeros(self._binding.float_fields))
        self._module.refold(self._window)

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        self._module.answer_range(self._window, begin, end, outputs)

    def _check_structure(self, states: Any, require: Any) -> None:
        front, end = int(self._marks[FRONT]), int(self._marks[END])
        if front < end:
            running = states.load(self._window.running, 0)
            require(
                states.close(running, states.fold(self._window.slots, front, end)),
                "the running aggregate is not that of the rows in the window",
            )
