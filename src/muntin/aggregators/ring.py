"""The base of in-order aggregators: states and times in a ring that doubles, positions that only grow."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding
from muntin.aggregators.base import Aggregator, kernels_of
from muntin.aggregators.states import States
from muntin.errors import InvalidArgumentError, OutOfOrderError
from muntin.kernels.vocabulary import Ints, Slots
from muntin.turns import changing
from muntin.types import Array

FRONT, END = 0, 1
Side: TypeAlias = Literal["left", "right"]
"""Before rows of an equal time, or after them."""
"""The marks of the position of the oldest row, and of the next one."""


def checked_capacity(capacity: Any) -> int:
    """Return the rows that there is room for from the start, 0 if none are given."""
    whole = isinstance(capacity, int | np.integer) and not isinstance(capacity, bool)
    if capacity is not None and (not whole or capacity < 1):
        raise InvalidArgumentError(f"capacity is {capacity!r}; it must be a positive integer, or None")
    return 0 if capacity is None else int(capacity)


class RingWindow(NamedTuple):
    """A plain ring. The layouts of other structures begin with the same three fields."""

    slots: Slots
    """The states: that of position p is in slot p mod capacity, a power of two."""
    times: Ints
    """The times of the rows, in the same places."""
    marks: Ints
    """At `FRONT` and `END` the positions of the oldest row and of the next one; others are the structure's own."""


class RingAggregator(Aggregator):
    """An aggregator whose rows come in time order."""

    layout: ClassVar[Any] = RingWindow
    """The named tuple of the arrays: slots, times, marks, and then those of `_extra_arrays`."""
    mark_count: ClassVar[int] = 2
    states_a_row: ClassVar[int] = 1
    """The number of states per place of the ring."""
    ring_fields: ClassVar[frozenset[str]] = frozenset({"slots", "times"})
    """The arrays with an entry per slot of the ring."""
    _least_room: int = 0
    """The rows that there is room for from the start."""

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        capacity: int | None = None,
        **options: Any,
    ) -> None:
        self._least_room = checked_capacity(capacity)
        super().__init__(aggregation, **options)

    def evict(self) -> None:
        """Remove the oldest row; `IndexError` if there is none. Amortised O(1) combines, or what the class says."""
        if not len(self):
            raise IndexError("evict from an empty window")
        self._guard_eviction(1, self._run, "evict_rows", self._window, 1)

    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t: O(log n) to find them, and what the structure needs to drop them."""
        if len(self):
            count = self._position(self._time(t), "right") - int(self._marks[FRONT])
            if count:
                self._guard_eviction(count, self._evict_many, count)

    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi: O(log n) to find them, then as the class says."""
        outputs = self._binding.outputs(1)
        begin, end = self._span(lo, hi) if len(self) else (0, 0)
        if begin < end:
            self._lower(self._answer_range, begin, end, outputs)
        return self._answer(outputs, empty=begin >= end)

    def __len__(self) -> int:
        """Return the number of rows. O(1)."""
        marks = self._window.marks
        return int(marks.item(END) - marks.item(FRONT))

    @property
    def oldest(self) -> Any:
        """The time of the oldest row, None if the window is empty. O(1)."""
        return self._logical_time(self._time_at(int(self._marks[FRONT]))) if len(self) else None

    @property
    def youngest(self) -> Any:
        """The time of the newest row, None if the window is empty. O(1)."""
        return self._logical_time(self._time_at(int(self._marks[END]) - 1)) if len(self) else None

    @classmethod
    def over(cls, binding: Binding, rows: int) -> tuple[Any, Any]:
        """Return the kernels of this structure and an empty window with room for `rows` rows."""
        window = cls.__new__(cls)
        window._binding = binding
        return kernels_of(binding, cls.structure, cls.entries), window._empty(1 << max(0, rows - 1).bit_length())

    # ------------------------------------------------------------ what a structure may override

    def _extra_arrays(self, capacity: int) -> tuple[Array, ...]:
        """Return the arrays of the layout after slots, times and marks, empty."""
        return ()

    def _append(self, columns: tuple[Array, ...], times: Array, start: int, stop: int) -> None:
        """Append rows for which there is room."""
        self._run("insert_rows", self._window, columns, times, start, stop)

    def _append_may_fail(self) -> bool:
        """Return whether `_append` can raise an error. Compiled code does only if an aggregation has a `raise`."""
        return self._binding.may_fail or not self._binding.compiled

    def _changed_by_insert(self) -> tuple[int, int]:
        """Return the positions of older rows whose slots the insertion of one row may write."""
        return 0, 0

    def _changed_by_evict(self, count: int) -> tuple[int, int]:
        """Return the positions whose slots the eviction of `count` rows may write."""
        return 0, 0

    def _evict_many(self, count: int) -> None:
        """Remove the `count` oldest rows: one by one, unless overridden."""
        self._run("evict_rows", self._window, count)

    def _span(self, lo: Any, hi: Any) -> tuple[int, int]:
        """Return the positions [begin, end) of the rows with lo <= time <= hi."""
        return self._position(self._time(lo), "left"), self._position(self._time(hi), "right")

    @abstractmethod
    def _answer_range(self, begin: int, end: int, outputs: Any) -> None:
        """Lower the aggregate of the positions [begin, end)."""

    def _check_structure(self, states: States, require: Any) -> None:
        """Require the structure's own invariants."""

    # ------------------------------------------------------------ the ring

    @property
    def _marks(self) -> Array:
        marks: Array = self._window.marks
        return marks

    @property
    def _room(self) -> int:
        """The most rows that the ring can hold."""
        return len(self._window.times)

    def _allocate(self) -> None:
        self._window = self._empty(self._room_for(0))

    def _room_for(self, rows: int) -> int:
        """Return the size of a new ring for some rows: a power of two."""
        return 1 << (max(16, rows, self._least_room) - 1).bit_length()

    def _options(self) -> dict[str, Any]:
        return {"capacity": self._least_room} if self._least_room else {}

    def _empty(self, capacity: int) -> Any:
        """Return an empty window with room for `capacity` rows."""
        slots = self._binding.slots(capacity)
        marks = np.zeros(self.mark_count, "i8")
        return self.layout(slots, np.zeros(capacity, "i8"), marks, *self._extra_arrays(capacity))

    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        self._reserve(len(self) + count)
        self._insert_rows(columns, times, 0, count)

    def _insert_rows(self, columns: tuple[Array, ...], times: Array, start: int, stop: int) -> None:
        """Append rows, or change nothing."""
        if not self._append_may_fail():
            self._append(columns, times, start, stop)
            return
        changed = (0, 0)
        if self._binding.may_fail:
            all_rows = (int(self._marks[FRONT]), int(self._marks[END]))
            changed = all_rows if stop - start > 1 else self._changed_by_insert()
        with self._guarded(*changed):
            self._append(columns, times, start, stop)

    def _guard_eviction(self, count: int, evict: Callable[..., None], *arguments: Any) -> None:
        """Evict `count` rows by calling `evict`, or change nothing."""
        with changing(self):
            if not self._binding.may_fail:
                evict(*arguments)
                return
            with self._guarded(*self._changed_by_evict(count)):
                evict(*arguments)

    @contextlib.contextmanager
    def _guarded(self, begin: int, end: int) -> Iterator[None]:
        """Restore everything if an error is raised; of the states only those at the positions [begin, end).

        Rows beyond the end are free; the arrays outside the ring are few and short.
        """
        at = np.arange(begin, end) & (len(self._window.times) - 1)
        arrays = [
            (array, at if self._in_ring(name) else slice(None)) for name, array in self._fields() if name != "times"
        ]
        before = [array[where].copy() for array, where in arrays]
        try:
            yield
        except BaseException:
            for (array, where), saved in zip(arrays, before, strict=True):
                array[where] = saved
            self._halfway = False
            self._stop_growing()  # what was written there was not saved
            raise

    def _stop_growing(self) -> None:
        """Drop a larger ring that is being filled (see growing)."""

    def _accept(self, times: Array) -> None:
        front, end = self._window.marks.item(FRONT), self._window.marks.item(END)
        if front < end and times.item(0) < self._time_at(end - 1):
            raise OutOfOrderError(
                f"the time {self._logical_time(times[0])!r} is before {self.youngest!r}, the youngest in the window; "
                "Fiba takes times in any order"
            )
        back = times[1:] < times[:-1]
        if np.count_nonzero(back):
            row = int(np.argmax(back)) + 1
            raise OutOfOrderError(
                f"the time of row {row}, {self._logical_time(times[row])!r}, is before that of row {row - 1}, "
                f"{self._logical_time(times[row - 1])!r}; Fiba takes times in any order"
            )

    def _reserve(self, rows: int) -> None:
        """Double the ring until it holds `rows` rows; each keeps its position."""
        capacity = len(self._window.slots)
        if rows <= capacity:
            return
        while capacity < rows:
            capacity *= 2
        grown = self._empty(capacity)
        positions = np.arange(self._marks[FRONT], self._marks[END])
        before = positions & (len(self._window.slots) - 1)
        for new, (name, old) in zip(grown, self._fields(), strict=False):
            if self._in_ring(name):
                new[positions & (capacity - 1)] = old[before]
            else:
                new[:] = old
        self._window = grown

    def _fields(self) -> Iterator[tuple[str, Array]]:
        """Return the arrays of the window, each with its name; without the ring that is being filled (see growing)."""
        named = zip(self._window._fields, self._window, strict=True)
        return ((name, array) for name, array in named if name != "ahead")

    def _in_ring(self, field: str) -> bool:
        """Return whether an array of the window has an entry per slot."""
        return field in self.ring_fields

    def _time_at(self, position: int) -> int:
        times = self._window.times
        return int(times.item(position & (len(times) - 1)))

    def _position(self, time: int, side: Side) -> int:
        """Return the first position whose time is at least (left) or above (right) the given one. O(log n)."""
        low, high = int(self._marks[FRONT]), int(self._marks[END])
        while low < high:
            middle = (low + high) // 2
            before = self._time_at(middle) < time or (side == "right" and self._time_at(middle) == time)
            low, high = (middle + 1, high) if before else (low, middle)
        return low

    # ------------------------------------------------------------ snapshots and checks

    def _arrays(self) -> dict[str, Array]:
        at = np.arange(self._marks[FRONT], self._marks[END]) & (len(self._window.slots) - 1)
        held = [array[at] if self._in_ring(name) else array for name, array in self._fields()]
        return dict(zip(self._snapshot_names(), held, strict=True))

    def _snapshot_names(self) -> list[str]:
        """Return the names of the arrays in a snapshot, which are independent of the layout."""
        return [*RingWindow._fields, *(f"extra{i}" for i in range(len(list(self._fields())) - len(RingWindow._fields)))]

    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        capacity = self._room_for(len(arrays["times"]))
        self._window = self._empty(capacity)
        self._marks[:] = arrays["marks"]
        at = np.arange(self._marks[FRONT], self._marks[END]) & (capacity - 1)
        for saved, (name, array) in zip(arrays.values(), self._fields(), strict=True):
            array[at if self._in_ring(name) else slice(None)] = saved

    def _check(self, states: States, require: Any) -> None:
        slots, times, marks = self._window.slots, self._window.times, self._marks
        require(len(times) & (len(times) - 1) == 0, f"the capacity {len(times)} is no power of two")
        require(len(slots) == self.states_a_row * len(times), f"{len(slots)} states for a ring of {len(times)} times")
        require(0 <= len(self) <= len(times), f"{len(self)} rows in a ring of {len(times)}")
        held = times[np.arange(marks[FRONT], marks[END]) & (len(times) - 1)]
        require(bool((held[1:] >= held[:-1]).all()), "the times in the ring descend")
        self._check_structure(states, require)
