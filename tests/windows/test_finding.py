"""The kernels that find windows, against a look at every row and window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.arrays.spans import _MANY, _facts_kernel, spans_of_rows
from muntin.windows.found import filled, finding
from muntin.windows.kernels import row_from

TIMES = st.lists(st.lists(st.integers(-60, 60), min_size=1, max_size=40).map(sorted), min_size=1, max_size=3)


def hopping(keys: list[list[Any]], length: Any, every: Any, offset: Any) -> list[tuple[int, int, Any]]:
    """Return (first, last, start) of the windows that hold a row: every multiple around the rows is tried."""
    found, begin = [], 0
    for times in keys:
        low = int((times[0] - offset - length) // every) - 1
        high = int((times[-1] - offset) // every) + 1
        for number in range(low, high + 1):
            start = number * every + offset
            inside = [begin + i for i, time in enumerate(times) if start <= time < start + length]
            if inside:
                found.append((inside[0], inside[-1] + 1, start))
        begin += len(times)
    return found


@given(TIMES, st.integers(1, 30), st.integers(1, 40), st.integers(-3, 3), st.sampled_from([np.int64, np.float64]))
def test_hopping_windows(keys: list[list[int]], every: int, longer: int, offset: int, kind: Any) -> None:
    ends = np.cumsum([len(times) for times in keys])
    shape = tuple(kind(number) for number in (every + longer - 1, every, offset))
    given = (np.concatenate(keys).astype(kind), ends, *shape)
    first, last, start = filled(finding().hopping_windows, given, 3, kind)
    assert list(zip(first, last, start, strict=True)) == hopping(keys, *shape)


@pytest.mark.compiled
def test_long_hops_compiled() -> None:
    random = np.random.default_rng(5)
    times = np.sort(random.integers(0, 10_000, 30_000))
    first, last, start = filled(finding().hopping_windows, (times, np.array([len(times)]), 900, 300, 7), 3)
    assert list(zip(first, last, start, strict=True)) == hopping([times.tolist()], 900, 300, 7)


@given(
    st.lists(st.integers(0, 20), max_size=30).map(sorted), st.integers(0, 30), st.integers(-5, 25), st.integers(0, 3)
)
def test_row_from(times: list[int], begin: int, bound: int, offset: int) -> None:
    begin = min(begin, len(times))
    expected = next((i for i in range(begin, len(times)) if times[i] - offset >= bound), len(times))
    assert row_from(np.array(times, np.int64), offset, begin, len(times), bound) == expected


SPANS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=1, max_size=30)


@given(SPANS)
def test_what_spans_are_like(steps: list[tuple[int, int]]) -> None:
    first = np.cumsum([step for step, _ in steps])
    last = np.maximum.accumulate(first + [length for _, length in steps])
    sizes = last - first
    shared = [sum(first[j] < last[i] for j in range(i, len(first))) for i in range(len(first))]
    expected = (min(sizes), max(sizes), max(shared))

    assert _facts_kernel().span_facts(first, last) == expected
    span = spans_of_rows(first, last, np.arange(100), None)
    assert (span.longest, span.overlap, span.gaps) == (*expected[1:], expected[0] == 0)


@pytest.mark.compiled
def test_many_spans_are_looked_at_by_a_kernel() -> None:
    first = np.arange(2 * _MANY)
    last = np.maximum.accumulate(first + np.random.default_rng(3).integers(0, 9, len(first)))
    span = spans_of_rows(first, last, first, None)
    overlap = (np.searchsorted(first, last) - first).max()
    assert (span.longest, span.overlap, span.gaps) == ((last - first).max(), overlap, bool((last == first).any()))
