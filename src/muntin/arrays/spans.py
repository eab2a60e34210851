"""The windows of an array as spans of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from muntin.columns import NAT, Column
from muntin.durations import END_OF_TIME, in_unit_of, parse_duration
from muntin.errors import InvalidArgumentError, OutOfOrderError, TooManyWindowsError
from muntin.kernels import cache as kernel_cache
from muntin.kernels.generate import standalone
from muntin.types import Array, ColumnType, is_whole, logical_array
from muntin.windows import limits
from muntin.windows.kernels import count_disorder, framed_windows, span_facts

_LEAST = -(2**63)
_MANY = 1 << 15
"""From this many windows on a kernel scans their bounds, in a tenth of NumPy's time once compiled."""


@dataclass(frozen=True)
class Span:
    """All windows of one call: their number, length and overlap; and, on demand, the rows of each."""

    count: int
    longest: int
    """The rows of the longest window."""
    overlap: float
    """The number of windows that a row may fall into."""
    trailing: bool
    """Whether there is one window per row, ending with it."""
    gaps: bool = False
    """Whether a window may hold no row."""
    width: int | None = None
    """The rows of every full window, if there is one per row."""
    duration: int | None = None
    """The length in time of every window, if there is one per row."""
    floor: int = _LEAST
    """The least time from which that length can be subtracted."""
    ties: bool = False
    """Whether rows of equal time share a window."""
    time_type: ColumnType | None = None
    own_ends: Array | None = None
    """The ends of windows in time, if not the time of their last row."""
    _rows: Callable[[], tuple[Array, Array]] = field(default=lambda: (np.zeros(0, "i8"), np.zeros(0, "i8")))
    _times: Array | None = None
    _bounds: Callable[[], tuple[Any, Any]] | None = None

    def rows(self) -> tuple[Array, Array]:
        """Return each window's first row, and the row after its last."""
        return self._rows()

    def times(self, rows: int) -> Array:
        """Return the time of each row: its number, if windows count rows."""
        return np.arange(rows, dtype=np.int64) if self._times is None else self._times

    def ends(self, rows: int) -> Array:
        """Return the ends of windows in time: for those that end with a row, whatever it holds, its time."""
        if self.own_ends is not None or not rows:
            return np.zeros(0, np.int64) if self.own_ends is None else self.own_ends
        _, last = self.rows()
        ends: Array = self.times(rows)[np.maximum(last - 1, 0)]
        return ends

    def bounds(self) -> tuple[Any, Any]:
        """Return each window's bounds: row numbers, or times."""
        return self.rows() if self._bounds is None else self._bounds()


def spans_by_rows(rows: int, width: Any, slide: Any, partial: bool) -> Span:
    """Return the windows of `width` rows, one every `slide` rows.

    The full ones are [0, width), [slide, slide + width), ...; the partial ones before them end one slide earlier each.

    >>> [w.tolist() for w in spans_by_rows(10, 4, 3, True).rows()]
    [[0, 0, 3, 6], [1, 4, 7, 10]]
    """
    width = positive_count(width, "range")
    slide = 1 if slide is None else positive_count(slide, "slide")
    first_end = width if not partial else (width - 1) % slide + 1
    width = min(width, rows + 1)  # a longer one holds no more rows, and may overflow the kernels' integers
    slide = min(slide, rows + 1)
    each = slide == 1

    @cache
    def bounds() -> tuple[Array, Array]:
        ends = np.arange(min(first_end, rows + 1), rows + 1, slide, dtype=np.int64)
        return np.maximum(ends - width, 0), ends

    return Span(
        count=max(0, (rows - first_end) // slide + 1),
        longest=min(width, rows),
        overlap=width / slide,
        trailing=each and partial,
        width=width if each else None,
        _rows=bounds,
    )


def spans_by_time(times: Column, width: Any, slide: Any, offset: Any, partial: bool) -> Span:
    """Return the windows of a duration: trailing each row, or one every `slide`."""
    stamps, ties = _sorted_times(times)
    length = positive_count(in_unit_of(width, times.type, "range"), "range", width)
    if slide is None:
        return _trailing(stamps, length, times.type, partial, ties)
    step = positive_count(in_unit_of(slide, times.type, "slide"), "slide", slide)
    return _hopping(stamps, length, step, in_unit_of(offset, times.type, "offset"), times.type, partial)


def _trailing(stamps: Array, wanted: int, kind: ColumnType, partial: bool, ties: bool) -> Span:
    lifetime = int(stamps[-1]) - int(stamps[0]) if len(stamps) else 0
    length = min(wanted, lifetime + 1)  # no row is older than that
    if length >= 2**63:
        raise InvalidArgumentError(f"the times span {lifetime}, and the range as much: more than int64 can hold")
    floor = _LEAST + length
    skipped = 0
    if not partial and len(stamps):
        full = int(stamps[0]) + wanted - 1
        skipped = int(np.searchsorted(stamps, full, "left")) if full < 2**63 else len(stamps)
    ends = stamps[skipped:]

    @cache
    def rows() -> tuple[Array, Array]:
        first, last = np.empty(len(stamps), np.int64), np.empty(len(stamps), np.int64)
        end = np.array([len(stamps)])
        bounds = (1 - length, 1, 0, floor, END_OF_TIME - 1)
        _bounds_kernels().framed_windows(stamps, end, stamps, end, *bounds, first, last)
        return first[skipped:], last[skipped:]

    return Span(
        count=len(ends),
        longest=len(stamps),
        overlap=len(stamps),  # dense stretches may lie between long gaps: an average would be meaningless
        trailing=partial,
        duration=length,
        floor=floor,
        ties=ties,
        time_type=kind,
        _rows=rows,
        _times=stamps,
        _bounds=lambda: (_logical(ends - _fitting(wanted, ends), kind), _logical(ends, kind)),
    )


def _hopping(stamps: Array, length: int, step: int, offset: int, kind: ColumnType, partial: bool) -> Span:
    if not len(stamps):
        return Span(0, 0, 0.0, trailing=False, time_type=kind, _times=stamps)
    oldest, youngest = int(stamps[0]), int(stamps[-1])
    low = (oldest - offset - length) // step + 1
    high = (youngest - offset) // step
    if not partial:
        low, high = -((offset - oldest) // step), (youngest + 1 - length - offset) // step
    count = max(0, high - low + 1)
    if limits.may_be_many(count - len(stamps)):
        raise TooManyWindowsError(
            f"{count:,} windows lie between the first and the last time, {oldest} and {youngest}, and at most "
            f"{limits.MOST_WINDOWS:,} are allowed; choose a longer slide, or leave out the row that is so far off"
        )
    if low * step + offset < _LEAST or high * step + offset + length >= 2**63:
        raise InvalidArgumentError("a window reaches beyond the times that int64 can hold")
    starts = np.arange(count, dtype=np.int64) * step + (low * step + offset)
    first = np.searchsorted(stamps, starts, "left")
    last = np.searchsorted(stamps, starts + length, "left")
    sizes = last - first
    return Span(
        count=count,
        longest=int(sizes.max()) if count else 0,
        overlap=length / step,
        trailing=False,
        gaps=bool((sizes == 0).any()),
        time_type=kind,
        own_ends=starts + length,
        _rows=lambda: (first, last),
        _times=stamps,
        _bounds=lambda: (_logical(starts, kind), _logical(starts + length, kind)),
    )


def _fitting(width: int, ends: Array) -> int:
    """Return a width that can be subtracted from every end; clips one that would underflow."""
    return min(width, int(ends[0]) - _LEAST, 2**63 - 1) if len(ends) else 0


def spans_of_rows(
    first: Array,
    last: Array,
    times: Array,
    time_type: ColumnType | None,
    *,
    trailing: bool = False,
    ends: Array | None = None,
) -> Span:
    """Return the windows [first, last) of rows, both bounds ascending; `ends` are their ends in time."""
    shortest, longest, overlap = _span_facts(first, last)
    return Span(
        count=len(first),
        longest=longest,
        overlap=overlap,
        trailing=trailing,
        gaps=bool(len(first)) and shortest == 0,
        time_type=time_type,
        own_ends=ends,
        _rows=lambda: (first, last),
        _times=times,
    )


def _span_facts(first: Array, last: Array) -> tuple[int, int, int]:
    """Return the result of `span_facts`; for few windows by NumPy, which needs no compiled kernel."""
    if not len(first):
        return 0, 0, 0
    if len(first) >= _MANY:
        shortest, longest, overlap = _facts_kernel().span_facts(first, last)
        return int(shortest), int(longest), int(overlap)
    sizes = last - first
    overlap = (np.searchsorted(first, last) - np.arange(len(first))).max(initial=0)
    return int(sizes.min()), int(sizes.max()), int(overlap)


@cache
def _facts_kernel() -> Any:
    return kernel_cache.load(standalone(span_facts, counted=False), compiled=True)


def _sorted_times(times: Column) -> tuple[Array, bool]:
    """Return the times, and whether some are equal; reject them if they descend."""
    stamps = _stamps(times)
    if not len(stamps):
        return stamps, False
    descents, ties = _bounds_kernels().count_disorder(stamps)
    if stamps[0] == NAT or descents:  # the least of sorted times is the first
        _require_times(stamps, times.type)
    if descents:
        row = int(np.argmax(stamps[1:] < stamps[:-1])) + 1
        here, above = _logical(stamps[row - 1 : row + 1], times.type)[::-1]
        raise OutOfOrderError(f"times must be sorted: row {row} has {here}, after {above} in row {row - 1}")
    return stamps, bool(ties)


def any_times(times: Column) -> Array:
    """Return times in any order as integers; reject nulls and values that are not times. O(n)."""
    stamps = _stamps(times)
    if len(stamps):
        _require_times(stamps, times.type)
    return stamps


def _stamps(times: Column) -> Array:
    if not len(times.values):
        return np.zeros(0, np.int64)
    if times.type.family not in ("integer", "temporal"):
        raise InvalidArgumentError(f"times are {times.type}; they must be integers, dates or timestamps")
    if times.valid is not None:
        raise InvalidArgumentError(f"the time of row {int(np.argmin(times.valid))} is null; every row needs a time")
    if times.values.dtype == np.uint64 and len(times.values) and times.values.max() >= 2**63:
        raise InvalidArgumentError(f"the time {times.values.max()} does not fit int64")
    return np.ascontiguousarray(times.values.astype(np.int64, copy=False))


def _require_times(stamps: Array, kind: ColumnType) -> None:
    if kind.family == "temporal" and stamps.min() == NAT:
        raise InvalidArgumentError(f"the time of row {int(np.argmin(stamps))} is null; every row needs a time")


@cache
def _bounds_kernels() -> Any:
    return kernel_cache.load(standalone(count_disorder, framed_windows), compiled=True)


def _logical(stamps: Array, kind: ColumnType) -> Any:
    if kind.family != "temporal":
        return stamps
    return logical_array(stamps, None, kind).to_numpy(zero_copy_only=False)


def positive_count(value: Any, name: str, shown: Any = None) -> int:
    """Return a positive number of rows or ticks; reject anything else."""
    shown = value if shown is None else shown
    if isinstance(value, str):
        parse_duration(value)  # which explains a misspelt one
        raise InvalidArgumentError(f"{name} is {value!r}, a duration; give times= too, or a number of rows")
    if not is_whole(value):
        raise InvalidArgumentError(f"{name} is {shown!r}; it must be a positive integer")
    if value <= 0:
        raise InvalidArgumentError(f"{name} is {shown!r}; it must be positive")
    return int(value)
