"""Counts of distinct values over arrays, by the previous occurrence of each value.

A row is the first of its value in a window [first, last) if the previous row with the same value comes before `first`.
So a row counts in the windows that hold it and begin after that row: as both bounds ascend, these are contiguous, and
two marks, at their start and end, represent all of them. The counts are the running sum of the marks.

    values    a  b  a  c        the second a counts in windows that begin after the first one
    before   -1 -1  0 -1

O(n log n) for n rows, whatever the lengths of the windows, all in NumPy.
"""

from __future__ import annotations

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.columns import Column
from muntin.kernels.runtime import as_token
from muntin.types import OBJECT, Array


def distinct_counts(column: Column, first: Array, last: Array) -> Array:
    """Return the number of distinct values in each window [first, last) of rows, both bounds ascending.

    NaN is one value, and so are 0.0 and -0.0. No value is null. O(n log n).

    >>> from muntin.columns import read_column
    >>> distinct_counts(read_column(["a", "b", "a", "c"], "v"), np.array([0, 0, 1]), np.array([2, 3, 4])).tolist()
    [2, 2, 3]
    """
    rows = np.arange(len(column.values))
    begin = np.maximum(np.searchsorted(last, rows, "right"), np.searchsorted(first, _before(column), "right"))
    end = np.searchsorted(first, rows, "right")
    counts = end > begin
    marks = [np.bincount(at[counts], minlength=len(first) + 1) for at in (begin, end)]
    return np.cumsum(marks[0] - marks[1])[: len(first)]


def _before(column: Column) -> Array:
    """Return for each row the previous one with the same value, or -1."""
    values = column.values
    if values.dtype == OBJECT:
        codes: dict[object, int] = {}
        values = np.array([codes.setdefault(as_token(value), len(codes)) for value in values], np.int64)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    same = (ordered[1:] == ordered[:-1]) | ((ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1]))
    before = np.full(len(values), -1, np.int64)
    before[order[1:][same]] = order[:-1][same]
    return before


def write_answers(binding: Binding, counts: Array, outputs: tuple[Array, ...]) -> None:
    """Write the answers of aggregations with state="distinct" for these counts. O(windows).

    `lower` is called once per distinct count: it only reads the length.
    """
    module = binding.uncompiled.kernels(())
    sizes, place = np.unique(counts, return_inverse=True)
    answers = binding.outputs(len(sizes))
    for i, size in enumerate(sizes.tolist()):
        if size:
            state = [range(size) if member.startswith("p") else size for member in module._S._fields]
            module.emit(answers, i, module._S(*state))
        else:
            module.emit_empty(answers, i)
    for output, answer in zip(outputs, answers, strict=True):
        if len(output):
            output[:] = answer[place]
