"""Boundary: chunks of rows, flipped when they are full. On one thread (SBA), or on two (PBA).

    positions   front .......... | chunk ...... | current ....... end
    a slot      the aggregate    | likewise     | the row's own
    holds       to its chunk's   |              | state
                end (lcs)                         and beside the ring: the aggregate of each chunk (ca), and that of
                                                  the current one so far (csa)

The window is the suffix of its oldest chunk, the chunks between, and the current one. A full chunk is flipped in place.
With `threads=2` a second thread does that while the first one goes on; the window does not begin in that chunk before
the previous chunk has left, and the length of a chunk is chosen so that it is ready by then.

A chunk is half as long as the window, so a window of constant length spans three chunks at most: an insert and a query
take three combines. A growing window has at most O(log n) chunks, because each is half as long as all before it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregators.base import kernels_of
from muntin.aggregators.growing import GrowingRing, put
from muntin.aggregators.recalculate import answer_range, fold
from muntin.aggregators.ring import END, FRONT
from muntin.aggregators.states import States, counting
from muntin.durations import in_unit_of
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.vocabulary import (
    Columns,
    Ints,
    Outputs,
    Slots,
    State,
    combine,
    emit,
    hold,
    inlined,
    kernel,
    lift,
    load,
    store,
)
from muntin.threads import Helper
from muntin.turns import changing
from muntin.types import Array, ColumnType, numpy_type

CURRENT, SIZE, OLDEST, CHUNKS, FIXED, ASIDE = 2, 3, 4, 5, 6, 7
"""Marks: the start of the current chunk, its final length, the numbers of the oldest chunk and of the current one, the
fixed length of chunks or 0, and whether a second thread flips them."""
MOST_CHUNKS = 128
"""Chunk number k is in place k modulo this. More than a window of 2^63 rows can have at a time."""
CHUNK_MASK = MOST_CHUNKS - 1


class BoundaryWindow(NamedTuple):
    """A ring, and the data of its chunks; chunk k is at k modulo `MOST_CHUNKS`."""

    slots: Slots
    times: Ints
    marks: Ints
    current: Slots
    """The aggregate of the current chunk, in its only slot."""
    begins: Ints
    """The position at which each chunk begins."""
    sums: Slots
    """The aggregate of each chunk."""
    ahead: Slots
    """The slots of the next ring, while it is filled (see growing)."""


@inlined
def turn(window: BoundaryWindow, begin: int, end: int) -> None:
    """Flip a chunk: make every slot the aggregate from there to its end."""
    slots = window.slots
    last = len(slots) - 1
    state = hold(load(slots, (end - 1) & last))
    for at in range(end - 2, begin - 1, -1):
        state = combine(load(slots, at & last), state)
        put(window, at, state)


@inlined
def close_chunk(window: BoundaryWindow) -> None:
    """Close the current chunk, and begin a new one: half as long as the window, unless its length is fixed."""
    marks, current, begins, sums = window.marks, window.current, window.begins, window.sums
    store(sums, marks[CHUNKS] & CHUNK_MASK, load(current, 0))
    marks[CHUNKS] += 1
    begins[marks[CHUNKS] & CHUNK_MASK] = marks[END]
    marks[CURRENT] = marks[END]
    marks[SIZE] = marks[FIXED]
    # A window longer than expected must not have many chunks either.
    if marks[FIXED] == 0 or marks[CHUNKS] - marks[OLDEST] > 3:
        marks[SIZE] = max(marks[FIXED], (marks[END] - marks[FRONT] + 2) // 2)


@inlined
def push(window: BoundaryWindow, time: int, state: State) -> None:
    """Append a state to the current chunk, or, if that is full, to a new one.

    A full chunk is closed only now: until the next slice begins, its last one may still get rows.
    """
    slots, times, marks, current = window.slots, window.times, window.marks, window.current
    if marks[END] - marks[CURRENT] >= marks[SIZE]:
        begin = marks[CURRENT]
        close_chunk(window)
        if marks[ASIDE] == 0:
            turn(window, begin, marks[END])
    put(window, marks[END], state)
    times[marks[END] & (len(slots) - 1)] = time
    if marks[END] > marks[CURRENT]:
        state = combine(load(current, 0), state)
    store(current, 0, state)
    marks[END] += 1


@kernel
def extend_last(window: BoundaryWindow, columns: Columns, times: Ints) -> None:
    """Append a row to the newest slice."""
    slots, marks, current, begins, sums = window.slots, window.marks, window.current, window.begins, window.sums
    last = len(slots) - 1
    newest = marks[END] - 1
    state = hold(lift(columns, times, 0))
    if marks[CURRENT] < marks[END]:
        put(window, newest, combine(load(slots, newest & last), state))
        store(current, 0, combine(load(current, 0), state))
        window.times[newest & last] = times[0]
        return
    # An eviction has closed the chunk that ends with it: all its suffixes do.
    chunk = (marks[CHUNKS] - 1) & CHUNK_MASK
    store(sums, chunk, combine(load(sums, chunk), state))
    for at in range(max(marks[FRONT], begins[chunk]), marks[END]):
        put(window, at, combine(load(slots, at & last), state))
    window.times[newest & last] = times[0]


@inlined
def pop(window: BoundaryWindow) -> None:
    """Remove the oldest state; if only the current chunk is left, it is closed first."""
    marks, begins = window.marks, window.begins
    if marks[FRONT] == marks[CURRENT]:
        close_chunk(window)
        turn(window, marks[FRONT], marks[END])
    marks[FRONT] += 1
    if marks[FRONT] == begins[(marks[OLDEST] + 1) & CHUNK_MASK]:
        marks[OLDEST] += 1


@kernel
def pop_until(window: BoundaryWindow, position: int) -> None:
    """Remove all states before a position; the rest of the current chunk is closed and flipped."""
    slots, marks, current, begins = window.slots, window.marks, window.current, window.begins
    while marks[OLDEST] < marks[CHUNKS] and begins[(marks[OLDEST] + 1) & CHUNK_MASK] <= position:
        marks[OLDEST] += 1
    marks[FRONT] = position
    if position > marks[CURRENT]:
        marks[CURRENT] = position
        begins[marks[CHUNKS] & CHUNK_MASK] = position
        if position < marks[END]:
            turn(window, position, marks[END])
            store(current, 0, load(slots, position & (len(slots) - 1)))
            close_chunk(window)


@inlined
def from_position(window: BoundaryWindow, position: int, chunk: int) -> State:
    """Return the aggregate from a position in a chunk to the end."""
    slots, marks, current, begins, sums = window.slots, window.marks, window.current, window.begins, window.sums
    if chunk == marks[CHUNKS]:
        return load(current, 0)
    state = load(slots, position & (len(slots) - 1))
    if position == begins[chunk & CHUNK_MASK]:
        state = load(sums, chunk & CHUNK_MASK)  # the whole chunk, which may not be flipped yet
    for between in range(chunk + 1, marks[CHUNKS]):
        state = combine(state, load(sums, between & CHUNK_MASK))
    if marks[CURRENT] < marks[END]:
        state = combine(state, load(current, 0))
    return state


@inlined
def total(window: BoundaryWindow) -> State:
    """Return the aggregate of the whole window."""
    return from_position(window, window.marks[FRONT], window.marks[OLDEST])


@kernel
def answer_suffix(window: BoundaryWindow, position: int, outputs: Outputs) -> None:
    """Lower the aggregate from a position to the end."""
    marks, begins = window.marks, window.begins
    if position > marks[CURRENT]:
        answer_range(window, position, marks[END], outputs)
    else:
        chunk = marks[OLDEST]
        while chunk < marks[CHUNKS] and begins[(chunk + 1) & CHUNK_MASK] <= position:
            chunk += 1
        emit(outputs, 0, from_position(window, position, chunk))


class Boundary(GrowingRing):
    """In order; any associative aggregation; 3 combines for an insert and a query, on the calling thread.

    That is for a window of constant length. `range` and `slide`, if known, fix the length of chunks: in rows by the
    paper's Theorem 1, as durations by its Theorem 2, with each inserted value a slice. Without them a chunk is half as
    long as the window when it begins. A full chunk is flipped at once, in as many combines as it has rows; with
    `threads=2` by a second thread, and no call takes more than 3 combines itself. A growing window has O(log n) chunks,
    and a query as many combines. An eviction takes none, unless it reaches the newest chunk. Space: at most n + 3
    states in use, in a ring that grows in steps; with `capacity=` there is room for as many rows from the start, which
    is no limit. The calling thread always flips states that are Python objects.

    >>> from muntin import agg, aggregators
    >>> window = aggregators.Boundary(agg.concat("v"), threads=2)
    >>> window.bulk_insert([1, 2, 3, 4], "abcd")
    >>> window.evict()
    >>> window.query()
    'bcd'
    """

    structure: ClassVar[tuple[Any, ...]] = (
        fold, answer_range, put, turn, close_chunk, push, extend_last, pop, pop_until, from_position, total,
        answer_suffix,
    )  # fmt: skip
    entries: ClassVar[tuple[str, ...]] = ("turn", "extend_last", "pop_until", "answer_suffix")
    layout: ClassVar[Any] = BoundaryWindow
    mark_count: ClassVar[int] = 8
    _threads: int = 1
    _range: Any = None
    _slide: Any = 1

    def __init__(
        self, aggregation: Any, *, threads: int = 1, range: Any = None, slide: Any = 1, **options: Any
    ) -> None:
        if not isinstance(threads, int | np.integer) or threads not in (1, 2):
            raise InvalidArgumentError(f"threads is {threads!r}; Boundary runs on 1 thread, or on 2")
        self._threads = threads
        self._range, self._slide = (int(x) if isinstance(x, np.integer) else x for x in (range, slide))
        if range is not None:
            self._fixed_chunk(1.0)  # rejects an invalid range
            if not isinstance(self._range, int):
                self._range, self._slide = (f"{ns} nanoseconds" for ns in durations_in_ns(range, slide))
        self._turning: dict[int, Future[None]] = {}
        self._counter_aside = [0]
        super().__init__(aggregation, **options)

    @property
    def combines_aside(self) -> int:
        """How often combine was called on the second thread; only with `count_combines=True`."""
        if self._counter is None:
            raise InvalidArgumentError("combines are counted only with count_combines=True")
        self._wait_for_all()
        return self._counter_aside[0]

    def extend(self, t: Any, v: Any = None) -> None:
        """Add a row to the newest slice, at the same time or later; `IndexError` if there is none.

        For windows whose range is no multiple of the slide: the first row of a slice is inserted, the others extend it,
        and a window may end after any of them. A slice leaves as a whole, and its time is that of its newest row. Two
        combines, unless an eviction has closed the newest chunk: then one for each of its slices.

        >>> from muntin import agg, aggregators
        >>> window = aggregators.Boundary(agg.concat("v"), range=5, slide=2)
        >>> for time, letter in enumerate("abcdefg"):
        ...     if time % 2 == 0:
        ...         window.insert(time, letter)
        ...     else:
        ...         window.extend(time, letter)
        ...     if time >= 4 and time % 2 == 0:  # the slices of two rows, and one row of the next
        ...         print(window.query())
        ...         window.evict()
        abcde
        cdefg
        """
        if not len(self):
            raise IndexError("there is no slice to extend; insert its first row")
        types, row, physical = self._read_value(v)
        time_type, time = self._read_time(t)
        self._accept(np.array([time], np.int64))
        with changing(self):
            self._take_types(time_type, types)
            self._fill(row, physical)
            self._time_cell[0] = time
            self._extend_newest()

    def _extend_newest(self) -> None:
        """Add the row in the cells to the newest slice, or change nothing."""
        end, current = int(self._marks[END]), int(self._marks[CURRENT])
        first = end - 1
        if current == end:
            self._wait_for_all()
            first = max(int(self._marks[FRONT]), int(self._window.begins[(self._marks[CHUNKS] - 1) % MOST_CHUNKS]))
        with self._guarded(first, end) if self._binding.may_fail else contextlib.nullcontext():
            self._run("extend_last", self._window, self._cell_views, self._time_view)
        self._copied = min(self._copied, end - 1)

    # ------------------------------------------------------------ the second thread

    def _load_kernels(self) -> Any:
        module = super()._load_kernels()
        counted = self._counter is not None
        self._module_aside = counting(self._binding, self.structure, self._counter_aside) if counted else module
        return module

    def _turn_aside(self) -> None:
        """Let the second thread flip the chunk that has just been filled."""
        marks, begins = self._marks, self._window.begins
        chunk = int(marks[CHUNKS]) - 1
        begin, end = int(begins[chunk % MOST_CHUNKS]), int(marks[CURRENT])
        self._turning[chunk] = _second_thread.submit(self._module_aside.turn, self._window, begin, end)

    def _wait_for_oldest(self) -> None:
        """Wait until the oldest chunk is flipped, if rows of it have left.

        Its suffixes are needed then, and new rows reuse the places of those that have left.
        """
        oldest = int(self._marks[OLDEST])
        for chunk in [chunk for chunk in self._turning if chunk < oldest]:
            self._turning.pop(chunk).result()
        if oldest in self._turning and self._marks[FRONT] > self._window.begins[oldest % MOST_CHUNKS]:
            self._turning.pop(oldest).result()

    def _wait_for_all(self) -> None:
        while self._turning:
            self._turning.popitem()[1].result()

    # ------------------------------------------------------------ overrides of the ring

    def evict(self) -> None:
        """Remove the oldest row; `IndexError` if there is none. O(1), unless the newest chunk is all there is."""
        super().evict()
        self._wait_for_oldest()

    def snapshot(self) -> bytes:
        """Return the window as bytes. O(n), a copy of memory."""
        self._wait_for_all()
        return super().snapshot()

    def check(self) -> None:
        """Verify every invariant of the structure. O(n) combines."""
        self._wait_for_all()
        super().check()

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        if not self._has_helper:
            super()._insert(columns, times, count)
            return
        self._reserve(len(self) + count)
        start = 0
        while start < count:
            chunks = int(self._marks[CHUNKS])
            rest = int(self._marks[SIZE] - (self._marks[END] - self._marks[CURRENT]))
            stop = min(count, start + max(1, rest))  # the row after a full chunk closes it
            self._insert_rows(columns, times, start, stop)
            if self._marks[CHUNKS] > chunks:
                self._turn_aside()
            start = stop

    def _settled_end(self, *, wait: bool) -> int:
        """Return where the first chunk begins that the second thread is flipping."""
        if wait:
            self._wait_for_all()
        pending = [chunk for chunk, turn in self._turning.items() if not turn.done()]
        return int(self._window.begins[min(pending) % MOST_CHUNKS] if pending else self._marks[END])

    def _take_types(self, time_type: ColumnType, types: dict[str, ColumnType]) -> None:
        if self._types != types:
            self._wait_for_all()
        super()._take_types(time_type, types)

    def _changed_by_insert(self) -> tuple[int, int]:
        marks = self._marks
        closes = marks[END] - marks[CURRENT] >= marks[SIZE]
        return (int(marks[CURRENT]), int(marks[END])) if closes else (0, 0)

    def _changed_by_evict(self, count: int) -> tuple[int, int]:
        marks = self._marks
        return (int(marks[CURRENT]), int(marks[END])) if marks[FRONT] + count > marks[CURRENT] else (0, 0)

    def _evict_many(self, count: int) -> None:
        self._module.pop_until(self._window, int(self._marks[FRONT]) + count)
        self._wait_for_oldest()

    def _empty(self, capacity: int) -> BoundaryWindow:
        window: BoundaryWindow = super()._empty(capacity)
        chunk, aside = self._settings()
        window.marks[[SIZE, FIXED, ASIDE]] = max(chunk, 1), chunk, aside
        return window

    def _settings(self) -> tuple[int, int]:
        """Return the fixed length of a chunk, 0 if there is none, and whether a second thread flips chunks."""
        chunk = self._fixed_chunk(self._combine_time()) if self._range is not None else 0
        return chunk, int(self._has_helper)

    @property
    def _has_helper(self) -> bool:
        """Whether the second thread is used: a combine that can fail must not do so in the background."""
        return self._threads == 2 and not self._binding.may_fail

    def _fixed_chunk(self, combine_time: float) -> int:
        """Return the length of a chunk for the range and the slide; a combine takes `combine_time` nanoseconds."""
        if not isinstance(self._range, int):
            if isinstance(self._slide, int):
                raise InvalidArgumentError(
                    f"the range is {self._range!r}, a duration; give the slide as a duration too"
                )
            return chunk_of_time(*durations_in_ns(self._range, self._slide), combine_time)
        for name, value in (("range", self._range), ("slide", self._slide)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 60:
                raise InvalidArgumentError(f"{name} is {value!r}; it must be a positive number of rows, or a duration")
        if self._slide > self._range:
            raise InvalidArgumentError(f"the slide, {self._slide}, is longer than the range, {self._range}")
        return chunk_of_rows(self._range, self._slide)

    def _combine_time(self) -> float:
        """Return the nanoseconds of a combine; measured once per aggregation and types."""
        return measured_combine(self._binding) if not isinstance(self._range, int) else 0.0

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        begins = np.zeros(MOST_CHUNKS, np.int64)
        return (self._binding.slots(1), begins, self._binding.slots(MOST_CHUNKS), self._binding.slots(1))

    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """O(chunks) for a range that reaches the end, O(rows) in the current chunk."""
        self._wait_for_all()
        if end == self._marks[END]:
            self._module.answer_suffix(self._window, begin, outputs)
        elif begin >= self._marks[CURRENT]:
            self._module.answer_range(self._window, begin, end, outputs)
        else:
            raise UnsupportedOperationError(
                "Boundary holds aggregates that reach further than this range; FlatFat and Fiba answer any range"
            )

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        super()._adopt(arrays)
        self._marks[[FIXED, ASIDE]] = self._settings()  # from the options, which may differ from the snapshot's

    def _after_conversion(self) -> None:
        self._marks[[FIXED, ASIDE]] = self._settings()  # sums of integers may fail, those of floats never do

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "threads": self._threads, "range": self._range, "slide": self._slide}

    def _check_structure(self, states: States, require: Any) -> None:
        slots, begins = self._window.slots, self._window.begins
        front, end, now, size, oldest, chunks = (int(mark) for mark in self._marks[:6])
        require(0 <= chunks - oldest < MOST_CHUNKS, f"{chunks - oldest} chunks in the window")
        require(front <= now <= end <= now + size, f"the current chunk is [{now}, {end}), of at most {size} rows")
        edges = [int(begins[chunk % MOST_CHUNKS]) for chunk in range(oldest, chunks + 1)]
        require(
            edges[-1] == now and edges == sorted(set(edges)), f"the chunks begin at {edges}, the current one at {now}"
        )
        require(edges[0] <= front and (len(edges) == 1 or front < edges[1]), f"the oldest row is not in chunk {oldest}")
        if now < end:
            whole = states.fold(slots, now, end)
            require(
                states.close(states.load(self._window.current, 0), whole),
                "the aggregate of the current chunk is not that of its rows",
            )
        for chunk, begin in zip(range(oldest, chunks), edges, strict=False):
            if begin >= front:
                suffix = states.load(slots, begin & (len(slots) - 1))
                whole = states.load(self._window.sums, chunk % MOST_CHUNKS)
                require(states.close(suffix, whole), f"chunk {chunk} and its longest suffix differ")


_second_thread = Helper("muntin-boundary")


def durations_in_ns(range: Any, slide: Any) -> tuple[int, int]:
    """Return a range and a slide that are durations, in nanoseconds."""
    length, step = (
        in_unit_of(value, numpy_type("M8[ns]"), name) for value, name in ((range, "range"), (slide, "slide"))
    )
    if not 0 < step <= length:
        raise InvalidArgumentError(f"the range is {range!r} and the slide {slide!r}; 0 < slide <= range is needed")
    return length, step


_measured: dict[tuple[str, Any], float] = {}


def measured_combine(binding: Binding, states: int = 1024, clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """Return the nanoseconds of a combine, over empty states. For Python objects 1000 is assumed."""
    if not binding.compiled:
        return 1000.0
    key = (binding.fingerprint, binding.types)
    if key not in _measured:
        module = kernels_of(binding, Boundary.structure, Boundary.entries)
        window = Boundary.over(binding, states)[1]
        module.turn(window, 0, states)  # compile, and warm the caches
        started = clock()
        module.turn(window, 0, states)
        _measured[key] = (clock() - started) / (states - 1)
    return _measured[key]


def chunk_of_rows(range: int, slide: int) -> int:
    """Return the slices per chunk, for windows that count rows: Theorem 1 of the paper.

    >>> chunk_of_rows(1000, 1), chunk_of_rows(10, 2), chunk_of_rows(100, 7)
    (501, 4, 13)
    """
    slices, rest = divmod(range, slide)
    if slices <= slide + rest + 1:
        return slices
    return (slide * (slices + 1) + rest + 1) // (slide + 1)


def chunk_of_time(range: int, slide: int, combine_time: float) -> int:
    """Return the slices per chunk, for windows by time: Theorem 2; a combine takes `combine_time` of its unit.

    >>> chunk_of_time(60_000_000_000, 1_000_000_000, 50.0), chunk_of_time(100_000, 100, 50.0)
    (60, 751)
    """
    slices, rest = divmod(range, slide)
    more = slide * rest + combine_time if rest else 0.0
    if slices * combine_time <= slide + 2 * combine_time + more:
        return slices
    return int((slices * (slide + combine_time) + slide + 2 * combine_time + more) / (slide + 2 * combine_time))
